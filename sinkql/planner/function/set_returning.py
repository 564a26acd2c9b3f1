"""Plan set-returning functions as arrays whose elements are the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sinkql.errors import SinkqlError, Span
from sinkql.logical import Interval, Type
from sinkql.logical.nested import leaf, levels
from sinkql.logical.type import Field, record_type
from sinkql.planner import types
from sinkql.planner.expression.typed_expression import Typed, call, constant, exact
from sinkql.planner.function.argument import Handler, arity, typed


def elements(name: str, arguments: Sequence[Typed], span: Span) -> Typed:
    """Return the array whose elements a function returns as rows; raise SQ2211 for wrong arguments."""
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
    return call("$flat(any)", (exact(value),), span, type_=types.array_of(leaf(value.type)))


def _series(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 3)
    argument_types = [argument.type for argument in arguments]
    if types.INTERVAL in argument_types[2:] or any(map(types.is_instant, argument_types)):
        return _time_series(name, arguments, span)
    type_ = (
        types.INTEGER
        if all(types.is_implicit(argument_type, types.INTEGER) for argument_type in argument_types)
        else types.BIGINT
    )
    values = [typed(name, argument, type_) for argument in arguments]
    if len(values) == 2:
        values.append(constant(1, type_, span))
    if values[2].constant == 0:
        raise SinkqlError("SQ2214", "the step of generate_series() must not be 0", values[2].span)
    return call(f"$series({type_},{type_},{type_})", values, span, type_=types.array_of(type_))


def _time_series(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 3, 3)
    zoned = any(argument.type in (types.TIMESTAMPTZ, types.DATE) for argument in arguments[:2])
    type_ = types.TIMESTAMPTZ if zoned else types.TIMESTAMP
    first, last = (typed(name, argument, type_) for argument in arguments[:2])
    step = typed(name, arguments[2], types.INTERVAL)
    constant_ = step.constant
    if not isinstance(constant_, Interval) or constant_.months or not _has_one_sign(constant_):
        message = "the step of generate_series() must be a constant of days and time"
        raise SinkqlError("SQ2214", message, step.span, hint="Write INTERVAL '1 day'.")
    return call(f"$series({type_},{type_},interval)", (first, last, step), span, type_=types.array_of(type_))


def _has_one_sign(step: Interval) -> bool:
    """Return whether days and time have the same sign, and are not both zero."""
    parts = (step.days, step.micros)
    return any(parts) and (min(parts) >= 0 or max(parts) <= 0)


def _json_rows(element: Type) -> Handler:
    """Plan a function of one jsonb whose rows are the elements of an array."""

    def plan(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
        arity(name, arguments, span, 1, 1)
        value = arguments[0]
        if value.type == types.TEXT:
            message = f"{name}() takes jsonb, found text"
            raise SinkqlError("SQ2211", message, value.span, hint="Cast it, as in value::jsonb.")
        return call(f"${name}(jsonb)", (typed(name, value, types.JSONB),), span, type_=types.array_of(element))

    return plan


def _entry(value: Type, *, nullable: bool) -> Type:
    return record_type((Field("key", types.TEXT, nullable=False), Field("value", value, nullable)))


ENTRIES = {
    "jsonb_each": _entry(types.JSONB, nullable=False),
    "jsonb_each_text": _entry(types.TEXT, nullable=True),
}
"""Functions whose rows have several columns, with the record type of their rows."""
HANDLERS: Mapping[str, Handler] = {
    "unnest": _unnest,
    "generate_series": _series,
    "jsonb_array_elements": _json_rows(types.JSONB),
    "jsonb_array_elements_text": _json_rows(types.TEXT),
    "jsonb_object_keys": _json_rows(types.TEXT),
    **{name: _json_rows(record) for name, record in ENTRIES.items()},
}
"""The handlers by function name."""
NAMED = {"jsonb_array_elements": "value", "jsonb_array_elements_text": "value"}
"""The column name of functions whose column is not named after the relation."""
