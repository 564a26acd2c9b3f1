"""Convert SQL types: canonical text ↔ type, type → Arrow type, Arrow column → Python values.

For a type that a column cannot have, suggest a supported one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sinkql import logical
from sinkql.errors import nearest
from sinkql.logical.nested import leaf, levels
from sinkql.logical.range import SUBTYPES
from sinkql.logical.type import Field, map_type, map_value, record_fields, record_type
from sinkql.logical.type import parse_type as parse_type

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_type(type_: logical.Type) -> pa.DataType:
    """Return the Arrow type of a type."""
    return _arrow_type(type_)


@lru_cache(maxsize=1024)
def _arrow_type(type_: logical.Type) -> pa.DataType:
    import pyarrow as pa

    if type_.name == "numeric":
        return pa.decimal128(type_.precision, type_.scale)
    if type_.element is not None:
        return pa.list_(arrow_type(type_.element))
    if type_.name == "record":
        return pa.struct([(field.name, arrow_type(field.type)) for field in type_.fields])
    arrow_types: dict[str, pa.DataType] = {
        "boolean": pa.bool_(), "smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64(),
        "uint2": pa.int32(), "uint4": pa.int64(), "uint8": pa.decimal128(20, 0),
        "real": pa.float32(), "double precision": pa.float64(), "date": pa.date32(), "time": pa.time64("us"),
        "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
        "text": pa.string(), "uuid": pa.string(), "jsonb": pa.string(), "interval": pa.string(),
        "bytea": pa.binary(), **dict.fromkeys(SUBTYPES, pa.string()),
    }  # fmt: skip
    return arrow_types[type_.name]


_NAMES = {
    "bool": "boolean", "boolean": "boolean", "smallint": "smallint", "int2": "smallint",
    "integer": "integer", "int": "integer", "int4": "integer", "bigint": "bigint", "int8": "bigint",
    "uint2": "uint2", "uint4": "uint4", "uint8": "uint8", "oid": "uint4", "mz_timestamp": "uint8",
    "real": "real", "float4": "real", "double precision": "double precision", "double": "double precision",
    "float": "double precision", "float8": "double precision", "date": "date", "time": "time",
    "time without time zone": "time",
    "timestamp": "timestamp", "timestamp without time zone": "timestamp",
    "timestamptz": "timestamptz", "timestamp with time zone": "timestamptz",
    "text": "text", "string": "text", "varchar": "text", "character varying": "text", "char": "text",
    "character": "text", "bytea": "bytea", "uuid": "uuid", "jsonb": "jsonb", "json": "jsonb", "interval": "interval",
    **{name: name for name in SUBTYPES},
}  # fmt: skip


def nested_type(name: str, element: logical.Type | None) -> logical.Type | None:
    """Return the type of arrays or lists of elements; None if it is not valid.

    An array with several dimensions neither contains arrays inside other types nor is inside one: their dimensions
    could not be told apart.
    """
    if element is None:
        return None
    nested = logical.Type(name, element=element)
    dimensions, most = _dimensions(nested)
    return None if most > MOST_DIMENSIONS or (len(dimensions) > 1 and most > 1) else nested


MOST_DIMENSIONS = 6
"""The most dimensions of an array, as in Postgres."""


def _dimensions(type_: logical.Type) -> tuple[tuple[int, ...], int]:
    """Return the numbers of dimensions of the separate arrays in a type, and the greatest of them."""
    dimensions: list[int] = []
    inside: logical.Type | None = type_
    while inside is not None:
        if levels(inside):
            dimensions.append(levels(inside))
            inside = leaf(inside)
        inside = inside.element
    return tuple(dimensions), max(dimensions, default=0)


def composed_type(text: str, part: Callable[[str], logical.Type | None]) -> logical.Type | None:
    """Return the type of the text of a map or record; `part` parses the types in it. None for any other text."""
    value = map_value(text)
    if value is not None:
        value_type = part(value)
        return None if value_type is None else map_type(value_type)
    fields = record_fields(text)
    if fields is None:
        return None
    types = [part(type_) for _, type_, _ in fields]
    field_types = [type_ for type_ in types if type_ is not None]
    if len(field_types) < len(types):
        return None
    return record_type(
        Field(name, type_, nullable=not not_null)
        for (name, _, not_null), type_ in zip(fields, field_types, strict=True)
    )


MOST_CHARACTERS = 10_485_760
"""The greatest length of a varchar or char, as in Postgres."""


def length_fits(digits: str) -> bool:
    """Return whether a text of digits is a valid length for varchar and char."""
    return len(digits) <= len(str(MOST_CHARACTERS)) and 1 <= int(digits) <= MOST_CHARACTERS


def kept_type(type_: logical.Type) -> str:
    """Return a text that is equal for types that a sink's table stores alike: only the scale of a numeric counts."""
    return re.sub(r"numeric\(\d+", "numeric(38", str(type_))


def length_hint(text: str) -> str | None:
    """Return the hint for a type with an invalid length; None for any other text."""
    match = re.search(r"char\w*( varying)? ?\( ?(\d+) ?\)", text.lower())
    if match is None or length_fits(match[2]):
        return None
    return f"Write a length from 1 to {MOST_CHARACTERS}, or text."


def column_type(text: str) -> logical.Type | None:
    """Return the type of a declaration in lower case with single spaces; None if it is not supported."""
    nested = re.fullmatch(r"(.+?) ?\[ ?\d* ?\]|(.+) list", text)
    if nested is not None:
        return nested_type("list" if nested[1] is None else "array", column_type(nested[1] or nested[2]))
    composed = composed_type(text, column_type)
    if composed is not None:
        return composed
    match = re.fullmatch(r"(?:numeric|decimal|dec)(?: ?\( ?(\d+)(?: ?, ?(\d+))? ?\))?", text)
    if match:
        if match[1] is None:
            return logical.NUMERIC
        precision, scale = int(match[1]), int(match[2] or 0)
        return logical.Type("numeric", precision, scale) if 1 <= precision <= 38 and scale <= precision else None
    plain, length = re.sub(r" ?\( ?\d+ ?\)", "", text), re.search(r"\d+(?= ?\)$)", text)
    if length is not None and not length_fits(length[0]):
        return None
    if plain != text and plain not in ("varchar", "character varying", "char", "character"):
        return None
    name = _NAMES.get(plain)
    return logical.Type(name) if name else None


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return a column's values in Python: lists and records as tuples, which can be hashed."""
    import pyarrow as pa

    values: list[Any] = column.to_pylist()
    return list(map(_tuple, values)) if pa.types.is_nested(column.type) else values


def _tuple(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_tuple, value))
    return tuple(map(_tuple, value.values())) if isinstance(value, dict) else value


_WORDS = 20
_TYPE_HINT_NAMES = (
    "boolean", "smallint", "integer", "int", "bigint", "uint2", "uint4", "uint8", "real", "double precision",
    "numeric", "decimal", "date", "time", "timestamp", "timestamptz", "text", "varchar", "bytea", "uuid", "jsonb",
    "interval", *SUBTYPES,
)  # fmt: skip

_LATER = (
    (r'"?record"?|record ?\(.*', "Use record(a integer, b text) with your names and types."),
    (r'"?map"?|map ?\[.*\]', "Use map[text => integer] or a map to another type."),
    (r".*\]|.* list|list ?\[.*", "Use jsonb."),
    (r"interval [a-z]+( to [a-z]+)?|interval ?\(.*", "Use interval."),
    ("(int4|int8|num|ts|tstz|date)multirange", "Use two columns, one for each end."),
    (r"timetz( ?\(.*\))?|time( ?\(.*\))? with time zone", "Use time, or a timestamptz."),
    (r"time ?\(.*\)( without time zone)?", "Use time."),
    (r"timestamptz ?\(.*\)|timestamp ?\(.*\) with time zone", "Use timestamptz."),
    (r"timestamp ?\(.*\)( without time zone)?", "Use timestamp."),
    ("regclass|regproc|regtype|mz_aclitem|aclitem|int2vector", "Use text."),
)
"""The types of the dialect that are not supported yet, and the hint for each."""


def later_type(text: str) -> str | None:
    """Return the hint for a type of the dialect that is not supported yet; None for any other text."""
    flat = " ".join(text.lower().split())
    return next((hint for pattern, hint in _LATER if re.fullmatch(pattern, flat)), None)


def type_hint(text: str, is_type: Callable[[str], bool], fallback: str) -> str:
    """Return the hint for the text of an unknown type; `fallback` is the hint if nothing fits."""
    words = re.findall(r"\w+(?:\s*\([^)]*\))?|\S", text.lower())[:_WORDS]
    for count in range(len(words) - 1, 0, -1):
        before, after = " ".join(words[:count]), words[count:]
        if is_type(before) and not any(is_type(" ".join(after[start:])) for start in range(1, len(after))):
            return f"Leave out {' '.join(after)}."
        if is_type(before):
            return f'Write "," after {before}: {after[0]} is the next column.'
    first = re.match(r"\w+", words[0]) if words else None
    name = first[0] if first else ""
    if name.endswith("serial"):
        return "Write bigint, and insert the values yourself."
    from sinkql.parser.hint.other_dialects import habits  # loads tomllib, which only mistakes need

    instead = habits().type.get(name)
    if instead is not None:
        return f"Write {_with_digits(instead, words[0])}."
    near = nearest(name, _TYPE_HINT_NAMES)
    return f"Did you mean {near}?" if near else fallback


def _with_digits(instead: str, written: str) -> str:
    """Return a type with the digits or the length that were written after the name of the unknown type."""
    digits = re.search(r"\((\d+)(?:\s*,\s*(\d+))?\)", written)
    if digits is None:
        return instead
    if instead == "text" and digits[2] is None:
        return f"varchar({digits[1]})"
    return f"numeric({digits[1]}, {digits[2] or 0})" if instead.startswith("numeric") else instead
