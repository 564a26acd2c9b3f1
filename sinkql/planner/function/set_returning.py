"""Functions that return sets of rows → an array, of which each element is a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sinkql.connector_api.types import nested_type
from sinkql.errors import SinkqlError, Span
from sinkql.logical import Interval, Type
from sinkql.logical.nested import leaf, levels
from sinkql.logical.type import Field, record_type
from sinkql.planner import types
from sinkql.planner.expression.typed_expression import Typed, call, constant, exact
from sinkql.planner.function.argument import Handler, arity, typed


def elements(name: str, arguments: Sequence[Typed], span: Span) -> Typed:
    """Return the array whose elements a function returns as rows; SQ2211 for arguments that it does not take."""
    return HANDLERS[name](name, tuple(arguments), span)


def _unnest(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 1)
    value = arguments[0]
    if value.type.name not in ("array", "list"):
        hint = "Write its type, as in NULL::integer[]." if value.type == types.UNKNOWN else None
        raise SinkqlError(
            "SQ2211", f"{name}() takes arrays and lists, found {value.type.called}", value.span, hint=hint
        )
    if leaf(value.type).name == "record":
        raise SinkqlError("SQ2214", f"{name}() of records is not supported", span)
    if levels(value.type) < 2:
        return exact(value)
    return call("$flat(any)", (exact(value),), span, type_=_array_of(leaf(value.type)))


def _series(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 3)
    given = [each.type for each in arguments]
    if types.INTERVAL in given[2:] or any(map(types.instant, given)):
        return _instants(name, arguments, span)
    type_ = types.INTEGER if all(types.implicit(each, types.INTEGER) for each in given) else types.BIGINT
    values = [typed(name, each, type_) for each in arguments]
    if len(values) == 2:
        values.append(constant(1, type_, span))
    if values[2].constant == 0:
        raise SinkqlError("SQ2214", "the step of generate_series() must not be 0", values[2].span)
    return call(f"$series({type_},{type_},{type_})", values, span, type_=_array_of(type_))


def _instants(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 3, 3)
    zoned = any(each.type in (types.TIMESTAMPTZ, types.DATE) for each in arguments[:2])
    type_ = types.TIMESTAMPTZ if zoned else types.TIMESTAMP
    first, last = (typed(name, each, type_) for each in arguments[:2])
    step = typed(name, arguments[2], types.INTERVAL)
    known = step.constant
    if not isinstance(known, Interval) or known.months or not _one_sign(known):
        message = "the step of generate_series() must be a constant of days and time"
        raise SinkqlError("SQ2214", message, step.span, hint="Write INTERVAL '1 day'.")
    return call(f"$series({type_},{type_},interval)", (first, last, step), span, type_=_array_of(type_))


def _one_sign(step: Interval) -> bool:
    """Tell whether days and time go the same way, and are not nothing."""
    parts = (step.days, step.micros)
    return any(parts) and (min(parts) >= 0 or max(parts) <= 0)


def _array_of(type_: Type) -> Type:
    found = nested_type("array", type_)
    assert found is not None
    return found


def _of_json(element: Type) -> Handler:
    """Plan a function of one jsonb, whose rows are the elements of an array."""

    def plan(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
        arity(name, arguments, span, 1, 1)
        value = arguments[0]
        if value.type == types.TEXT:
            message = f"{name}() takes jsonb, found text"
            raise SinkqlError("SQ2211", message, value.span, hint="Cast it, as in value::jsonb.")
        return call(f"${name}(jsonb)", (typed(name, value, types.JSONB),), span, type_=_array_of(element))

    return plan


def _entry(value: Type, *, nullable: bool) -> Type:
    return record_type((Field("key", types.TEXT, nullable=False), Field("value", value, nullable)))


ENTRIES = {
    "jsonb_each": _entry(types.JSONB, nullable=False),
    "jsonb_each_text": _entry(types.TEXT, nullable=True),
}
"""Functions whose rows have several columns, with the record of these."""
HANDLERS: Mapping[str, Handler] = {
    "unnest": _unnest,
    "generate_series": _series,
    "jsonb_array_elements": _of_json(types.JSONB),
    "jsonb_array_elements_text": _of_json(types.TEXT),
    "jsonb_object_keys": _of_json(types.TEXT),
    **{name: _of_json(record) for name, record in ENTRIES.items()},
}
"""By name."""
NAMED = {"jsonb_array_elements": "value", "jsonb_array_elements_text": "value"}
"""What the column of a function is called that has a name of its own, whatever the relation is called."""
