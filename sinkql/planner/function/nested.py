"""Plan functions and operators of arrays and lists: elements, lengths and membership.

Also plans the construction of maps and records, and access to their values.
"""

from __future__ import annotations

from collections.abc import Sequence

from sinkql.connector_api.types import nested_type
from sinkql.errors import SinkqlError, Span
from sinkql.logical import Type
from sinkql.logical.nested import leaf, levels
from sinkql.logical.type import Field, map_type, record_type
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced, held
from sinkql.planner.expression.operator import no_operator, part_of, settled
from sinkql.planner.expression.typed_expression import Typed, call, constant, exact, null_of
from sinkql.planner.function.argument import Handler, arity, typed
from sinkql.planner.types import INTEGER, TEXT


def element(value: Typed, index: Typed, span: Span, *, last: bool) -> Typed:
    """Plan `value[index]`: NULL if the element does not exist; the `last` subscript must reach the elements."""
    element_type = value.type.element
    if element_type is None or value.type.name == "map":
        is_key = index.type == types.UNKNOWN and not index.null
        hints = {
            "jsonb": "Write value ->> 'key'." if is_key else "Write value -> index.",
            "map": "Write value -> 'key'.",
        }
        hint = hints.get(value.type.name) or part_of(value.type)
        message = f"cannot subscript type {value.type.called}: it is not an array or a list"
        raise SinkqlError("SQ2211", message, span, hint=hint)
    if last and value.type.name == element_type.name == "array":
        hint = f"Write one subscript after another, as in x{'[1]' * levels(value.type)}."
        raise SinkqlError(
            "SQ2214", f"a value of type {value.type} needs a subscript for each dimension", span, hint=hint
        )
    if not types.is_signed_integer(index.type) and index.type != types.UNKNOWN:
        raise SinkqlError("SQ2211", f"a subscript must be an integer, found {index.type.called}", index.span)
    if index.type == types.BIGINT:
        raise SinkqlError(
            "SQ2211", "a subscript must be an integer, found bigint", index.span, hint="Write (index)::int."
        )
    return call("[](any,integer)", (exact(value), coerced(index, INTEGER)), span, type_=element_type)


def construct(values: Sequence[Typed], span: Span) -> Typed:
    """Plan ARRAY[values]."""
    if not values:
        hint = "Write its type, as in '{}'::integer[]."
        raise SinkqlError("SQ2213", "cannot tell the type of an empty array", span, hint=hint)
    type_, items = settled(values, span, "ARRAY")
    array_type = nested_type("array", type_)
    if array_type is None:
        raise SinkqlError("SQ2214", f"arrays of {type_} are not supported yet", span)
    return call("ARRAY(any…)", items, span, type_=array_type)


def part(value: Typed, first: Typed | None, last: Typed | None, span: Span) -> Typed:
    """Plan `value[first:last]`: the existing elements between two positions."""
    if value.type.name not in ("array", "list"):
        message = f"cannot take a slice of type {value.type.called}: it is not an array or a list"
        raise SinkqlError("SQ2211", message, span, hint=part_of(value.type))
    ends = []
    for end, default in ((first, 1), (last, _LAST)):
        if end is not None and not types.is_implicit(end.type, INTEGER) and end.type != types.UNKNOWN:
            message = f"the ends of a slice must be integers, found {end.type.called}"
            raise SinkqlError("SQ2211", message, end.span, hint="Write (end)::int.")
        ends.append(constant(default, INTEGER, span) if end is None else coerced(end, INTEGER))
    return call("[:](any,integer,integer)", (exact(value), *ends), span, type_=value.type)


def among(operator: str, subject: Typed, value: Typed, span: Span, *, every: bool) -> Typed | None:
    """Plan `subject operator ANY(value)` or ALL(value), None if the value is neither an array nor a list."""
    subject_array = nested_type("array", types.TEXT if subject.type == types.UNKNOWN else subject.type)
    if value.type == types.UNKNOWN and subject_array is not None:  # as in Postgres, an untyped constant is an array
        value = coerced(value, subject_array)
    element_type = _element_type(value)
    if element_type is None:
        return None
    word = f"{operator} {'ALL' if every else 'ANY'}"
    if types.operand(subject.type, element_type) != element_type or not _fits(subject.raw, element_type):
        error = no_operator(word, (subject, value), span)
        if types.is_number(subject.type) and types.is_number(element_type):
            error.hint = f"Cast the value to the type of the elements, as in x::{element_type}."
        raise error
    if not types.is_comparable(element_type) or (
        operator not in ("=", "<>") and (element_type.nested or types.is_range(element_type))
    ):
        raise SinkqlError("SQ2214", f"values of type {element_type} cannot be compared exactly", span)
    sign = _NEGATED[operator] if every else operator
    any_ = call(f"{sign} ANY(any,any)", (coerced(subject, element_type), exact(value)), span)
    return call("NOT(boolean)", (any_,), span) if every else any_


def _fits(raw: Type, element: Type) -> bool:
    """Return whether all values of a type fit the type of numeric elements."""
    if element.name != "numeric" or raw == types.UNKNOWN:
        return True
    if raw.name == "numeric":
        return (raw.scale or 0) <= (element.scale or 0) and raw.whole_digits <= element.whole_digits
    return types.is_signed_integer(raw) and element.whole_digits > _BIGINT_DIGITS


def _element_type(value: Typed) -> Type | None:
    """Return the type of an array's innermost elements, or of a list's elements, None for other values."""
    if value.type.name == "array":
        return leaf(value.type)
    return value.type.element if value.type.name == "list" else None


def compared(operator: str, left: Typed, right: Typed, span: Span) -> Typed:
    """Plan `left @> right`, `left <@ right` or `left && right` of arrays or lists."""
    type_ = left.type if right.type == types.UNKNOWN else right.type
    left, right = (coerced(side, type_) if side.type == types.UNKNOWN else side for side in (left, right))
    element_type = _element_type(left)
    if element_type is None or left.type != right.type:
        raise no_operator(operator, (left, right), span)
    if not types.is_comparable(element_type) or element_type.nested or types.is_range(element_type):
        raise SinkqlError("SQ2214", f"values of type {element_type} cannot be compared exactly", span)
    values = (exact(right), exact(left)) if operator == "<@" else (exact(left), exact(right))
    return call("&&(array,array)" if operator == "&&" else "@>(array,array)", values, span)


def _length(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    dimensions = max(1, levels(arguments[0].type))
    if arguments[1].constant not in range(1, dimensions + 1):
        wanted = f"from 1 to {dimensions}" if dimensions > 1 else "1"
        raise SinkqlError("SQ2214", f"the dimension of {name}() must be {wanted}", arguments[1].span)
    return call("array_length(any,integer)", (_checked(name, arguments[0]), typed(name, arguments[1], INTEGER)), span)


def _count(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 1)
    return call("cardinality(any)", (_checked(name, arguments[0]),), span)


def _checked(name: str, value: Typed) -> Typed:
    kind = "list" if name == "list_length" else "array"
    if value.type.name != kind:
        hint = {"array": "Use cardinality().", "list": "Use list_length()."}.get(value.type.name)
        raise SinkqlError("SQ2211", f"{name}() takes {kind}s, found {value.type.called}", value.span, hint=hint)
    return exact(value)


def joined(left: Typed, right: Typed, span: Span) -> Typed:
    """Plan `left || right` with an array on at least one side: two arrays, or an array and an element."""
    if left.type.name == "array" and right.type in (left.type, types.UNKNOWN):
        return _cat("||", (left, right), span)
    if right.type.name == "array" and left.type == types.UNKNOWN:
        return _cat("||", (left, right), span)
    if left.type.name == "array" and left.type.element is not None and types.is_implicit(right.type, left.type.element):
        return _append("||", (left, right), span)
    if (
        right.type.name == "array"
        and right.type.element is not None
        and types.is_implicit(left.type, right.type.element)
    ):
        return _prepend("||", (left, right), span)
    raise no_operator("||", (left, right), span)


def _append(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    value, element = _flat_array(name, arguments[0])
    return call("array_append(any,any)", (value, typed(name, arguments[1], element)), span, type_=value.type)


def _prepend(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    value, element = _flat_array(name, arguments[1])
    return call("array_prepend(any,any)", (typed(name, arguments[0], element), value), span, type_=value.type)


def _cat(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    array_type = next((argument.type for argument in arguments if argument.type.name == "array"), None)
    first, second = (
        coerced(argument, array_type) if array_type and argument.type == types.UNKNOWN else argument
        for argument in arguments
    )
    (left, _), (right, _) = _flat_array(name, first), _flat_array(name, second)
    if left.type != right.type:
        raise no_operator("||", (left, right), span)
    return call("array_cat(any,any)", (left, right), span, type_=left.type)


def _position(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    return call("array_position(any,any)", _comparable_arguments(name, arguments), span)


def _remove(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    return call("array_remove(any,any)", _comparable_arguments(name, arguments), span, type_=arguments[0].type)


def _replace(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 3, 3)
    return call("array_replace(any,any,any)", _comparable_arguments(name, arguments), span, type_=arguments[0].type)


def _comparable_arguments(name: str, arguments: tuple[Typed, ...]) -> tuple[Typed, ...]:
    """Return an array and values of its comparable element type."""
    value, element = _flat_array(name, arguments[0])
    if not types.is_comparable(element) or element.nested:
        raise SinkqlError("SQ2214", f"values of type {element} cannot be compared exactly", value.span)
    return (value, *(typed(name, argument, element) for argument in arguments[1:]))


def _flat_array(name: str, value: Typed) -> tuple[Typed, Type]:
    """Return an array of one dimension, and the type of its elements."""
    array, element = _checked(name, value), value.type.item
    if element.name == "array":
        shown = name if name == "||" else f"{name}()"
        raise SinkqlError("SQ2214", f"{shown} of arrays of several dimensions is not supported", value.span)
    return array, element


def _to_string(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 3)
    value, element = _flat_array(name, arguments[0])
    if element != types.TEXT and not types.is_signed_integer(element):
        raise SinkqlError("SQ2214", f"{name}() takes arrays of text and of integers", value.span)
    texts = (typed(name, argument, types.TEXT) for argument in arguments[1:])
    return call(f"array_to_string(any{',text' * (len(arguments) - 1)})", (value, *texts), span)


def _from_string(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 3)
    type_ = nested_type("array", types.TEXT)
    texts = [typed(name, argument, types.TEXT) for argument in arguments]
    return call(f"string_to_array(text,text{',text' * (len(texts) - 2)})", texts, span, type_=type_)


_BIGINT_DIGITS = 18
"""One less than the maximum number of digits of a bigint."""
_LAST = 2**31 - 1
"""The maximum position in an array."""
_NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The negation of each comparison, for comparable values."""


def record(values: Sequence[Typed], span: Span) -> Typed:
    """Plan ROW(values): a record with fields f1, f2 and so on."""
    if not values:
        raise SinkqlError("SQ2214", "a record without fields is not supported", span)
    parts = [_field_value(value) for value in values]
    type_ = record_type(Field(f"f{number}", part_.type) for number, part_ in enumerate(parts, 1))
    return call("ROW(any…)", parts, span, type_=type_)


def _field_value(value: Typed) -> Typed:
    if value.type == types.INTERVAL:
        return held(value)
    return exact(coerced(value, TEXT) if value.type == types.UNKNOWN else value)


def mapped(pairs: Sequence[tuple[Typed, Typed]], span: Span) -> Typed:
    """Plan MAP[key=>value, …]; for duplicate keys the last value counts."""
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
        raise SinkqlError("SQ2211", f"a key of a map must be text, found {key.type.called}", key.span)
    if key.null:
        raise SinkqlError("SQ2212", "a key of a map cannot be NULL", key.span)
    return coerced(key, TEXT)


def value_at(value: Typed, key: Typed, span: Span) -> Typed:
    """Plan `map -> key`: NULL if the map lacks the key."""
    return call("->(any,text)", (exact(value), _lookup_key(key)), span, type_=value.type.value)


def has_key(value: Typed, key: Typed, span: Span) -> Typed:
    """Plan `map ? key`."""
    return call("?(any,text)", (exact(value), _lookup_key(key)), span)


def _lookup_key(key: Typed) -> Typed:
    return null_of(TEXT, key.span) if key.null else _key(key)


def _composite_length(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 1, 1)
    (value,) = arguments
    if value.type.name != "map":
        raise SinkqlError("SQ2211", f"{name}() takes maps, found {value.type.called}", value.span)
    return call("cardinality(any)", (exact(value),), span)


ALIASES = {"array_upper": "array_length", "list_length": "cardinality", "map_length": "cardinality"}
HANDLERS: dict[str, Handler] = {
    "array_length": _length,
    "array_upper": _length,
    "cardinality": _count,
    "list_length": _count,
    "array_append": _append,
    "array_prepend": _prepend,
    "array_cat": _cat,
    "array_position": _position,
    "array_remove": _remove,
    "array_replace": _replace,
    "array_to_string": _to_string,
    "string_to_array": _from_string,
    "map_length": _composite_length,
}
