"""Arrays and lists: their elements, how many there are, and what is among them."""

from __future__ import annotations

from collections.abc import Sequence

from sinkql.errors import SinkqlError, Span
from sinkql.extension.types import nested_type
from sinkql.logical.array import leaf, levels
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.operator import no_operator, part_of, settled
from sinkql.planner.expression.typed import Typed, call, exact
from sinkql.planner.function.argument import Handler, arity, typed
from sinkql.planner.types import INTEGER


def element(value: Typed, index: Typed, span: Span, *, last: bool) -> Typed:
    """Plan `value[index]`: NULL where there is no such element; after the `last` subscript no dimension is left."""
    found = value.type.element
    if found is None or value.type.name == "map":
        named = index.type == types.UNKNOWN and not index.null
        hints = {
            "jsonb": "Write value ->> 'key'." if named else "Write value -> index.",
            "map": "Write value -> 'key'.",
        }
        hint = hints.get(value.type.name) or part_of(value.type)
        message = f"cannot subscript type {value.type.called}: it is not an array or a list"
        raise SinkqlError("SQ2211", message, span, hint=hint)
    if last and value.type.name == found.name == "array":
        hint = f"Write them one after the other, as in x{'[1]' * levels(value.type)}."
        raise SinkqlError(
            "SQ2214", f"a value of type {value.type} needs a subscript for each dimension", span, hint=hint
        )
    if not types.whole(index.type) and index.type != types.UNKNOWN:
        raise SinkqlError("SQ2211", f"a subscript is an integer, found {index.type.called}", index.span)
    if index.type == types.BIGINT:
        raise SinkqlError("SQ2211", "a subscript is an integer, found bigint", index.span, hint="Write (index)::int.")
    return call("[](any,integer)", (exact(value), coerced(index, INTEGER)), span, type_=found)


def construct(values: Sequence[Typed], span: Span) -> Typed:
    """Plan ARRAY[values]."""
    if not values:
        hint = "Write its type, as in '{}'::integer[]."
        raise SinkqlError("SQ2213", "cannot tell the type of an empty array", span, hint=hint)
    type_, items = settled(values, span, "ARRAY")
    found = nested_type("array", type_)
    if found is None:
        raise SinkqlError("SQ2214", f"arrays of {type_} are not supported yet", span)
    return call("ARRAY(any…)", items, span, type_=found)


def among(operator: str, subject: Typed, value: Typed, span: Span) -> Typed | None:
    """Plan `subject = ANY(value)`; None where value is neither array nor list."""
    if value.type.element is None or value.type.name == "map":
        return None
    found = leaf(value.type) if value.type.name == "array" else value.type.element
    if types.operand(subject.type, found) != found or (found.name == "numeric" and subject.raw != found):
        raise no_operator(f"{operator} ANY", (subject, value), span)
    if not types.comparable(found):
        raise SinkqlError("SQ2214", f"values of type {found} cannot be compared exactly", span)
    return call("= ANY(any,any)", (coerced(subject, found), exact(value)), span)


def _length(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    most = max(1, levels(arguments[0].type))
    if arguments[1].constant not in range(1, most + 1):
        wanted = f"from 1 to {most}" if most > 1 else "1"
        raise SinkqlError("SQ2214", f"the dimension of {name}() must be {wanted}", arguments[1].span)
    return call("array_length(any,integer)", (_held(name, arguments[0]), typed(name, arguments[1], INTEGER)), span)


def _count(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 1)
    return call("cardinality(any)", (_held(name, arguments[0]),), span)


def _held(name: str, value: Typed) -> Typed:
    kind = "list" if name == "list_length" else "array"
    if value.type.name != kind:
        hint = {"array": "Use cardinality().", "list": "Use list_length()."}.get(value.type.name)
        raise SinkqlError("SQ2211", f"{name}() takes {kind}s, found {value.type.called}", value.span, hint=hint)
    return exact(value)


ALIASES = {"array_upper": "array_length", "list_length": "cardinality"}
HANDLERS: dict[str, Handler] = {
    "array_length": _length, "array_upper": _length, "cardinality": _count, "list_length": _count,
}  # fmt: skip
