"""Maps and records: how they are made, and what is taken of them."""

from __future__ import annotations

from collections.abc import Sequence

from sinkql.errors import SinkqlError, Span
from sinkql.logical.type import Field, map_type, record_type
from sinkql.planner import types
from sinkql.planner.expression.interval import held
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.operator import settled
from sinkql.planner.expression.typed_expression import Typed, call, exact, null_of
from sinkql.planner.function.argument import Handler, arity
from sinkql.planner.types import TEXT


def record(values: Sequence[Typed], span: Span) -> Typed:
    """Plan ROW(values): a record of fields f1, f2 and so on."""
    if not values:
        raise SinkqlError("SQ2214", "a record without fields is not supported", span)
    parts = [_settled(each) for each in values]
    type_ = record_type(Field(f"f{number}", each.type) for number, each in enumerate(parts, 1))
    return call("ROW(any…)", parts, span, type_=type_)


def _settled(value: Typed) -> Typed:
    if value.type == types.INTERVAL:
        return held(value)
    return exact(coerced(value, TEXT) if value.type == types.UNKNOWN else value)


def mapped(pairs: Sequence[tuple[Typed, Typed]], span: Span) -> Typed:
    """Plan MAP[key=>value, …]: of values with one key the last one."""
    if not pairs:
        hint = "Write its type, as in '{}'::map[text=>integer]."
        raise SinkqlError("SQ2213", "cannot tell the type of an empty map", span, hint=hint)
    type_, values = settled([value for _, value in pairs], span, "MAP")
    parts: list[Typed] = []
    for (key, _), value in zip(pairs, values, strict=True):
        parts += [_key(key), value]
    return call("MAP(any…)", parts, span, type_=map_type(type_))


def _key(key: Typed) -> Typed:
    if key.type not in (TEXT, types.UNKNOWN):
        raise SinkqlError("SQ2211", f"a key of a map is a text, found {key.type.called}", key.span)
    if key.null:
        raise SinkqlError("SQ2212", "a key of a map cannot be NULL", key.span)
    return coerced(key, TEXT)


def value_at(value: Typed, key: Typed, span: Span) -> Typed:
    """Plan `map -> key`: NULL where there is no such key."""
    return call("->(any,text)", (exact(value), _looked_up(key)), span, type_=value.type.value)


def has_key(value: Typed, key: Typed, span: Span) -> Typed:
    """Plan `map ? key`."""
    return call("?(any,text)", (exact(value), _looked_up(key)), span)


def _looked_up(key: Typed) -> Typed:
    return null_of(TEXT, key.span) if key.null else _key(key)


def _length(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 1)
    (value,) = arguments
    if value.type.name != "map":
        raise SinkqlError("SQ2211", f"{name}() takes maps, found {value.type.called}", value.span)
    return call("cardinality(any)", (exact(value),), span)


ALIASES = {"map_length": "cardinality"}
HANDLERS: dict[str, Handler] = {"map_length": _length}
