"""An SQL type ↔ its canonical text, and its Arrow type.

Arrow columns → values as rows hold them.

A type that a column cannot have → the sentence with one that it can have, and whether the dialect has it.
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
        return pa.struct([(each.name, arrow_type(each.type)) for each in type_.fields])
    found: dict[str, pa.DataType] = {
        "boolean": pa.bool_(), "smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64(),
        "uint2": pa.int32(), "uint4": pa.int64(), "uint8": pa.decimal128(20, 0),
        "real": pa.float32(), "double precision": pa.float64(), "date": pa.date32(), "time": pa.time64("us"),
        "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
        "text": pa.string(), "uuid": pa.string(), "jsonb": pa.string(), "interval": pa.string(),
        "bytea": pa.binary(), **dict.fromkeys(SUBTYPES, pa.string()),
    }  # fmt: skip
    return found[type_.name]


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
    """Return the type of arrays or lists of elements.

    Arrays of several dimensions hold no other arrays, and are not in other ones: their dimensions would be mixed up.
    """
    if element is None:
        return None
    found = logical.Type(name, element=element)
    apart, most = _dimensions(found)
    return None if most > MOST_DIMENSIONS or (len(apart) > 1 and most > 1) else found


MOST_DIMENSIONS = 6
"""How many dimensions an array can have, as in Postgres."""


def _dimensions(type_: logical.Type) -> tuple[tuple[int, ...], int]:
    """Return the dimensions of the arrays in a type that are not within each other at once, and the most of them."""
    found: list[int] = []
    inside: logical.Type | None = type_
    while inside is not None:
        if levels(inside):
            found.append(levels(inside))
            inside = leaf(inside)
        inside = inside.element
    return tuple(found), max(found, default=0)


def composed_type(text: str, part: Callable[[str], logical.Type | None]) -> logical.Type | None:
    """Return the type of maps or records that a text names, whose own types `part` tells; None for any other."""
    value = map_value(text)
    if value is not None:
        found = part(value)
        return None if found is None else map_type(found)
    fields = record_fields(text)
    if fields is None:
        return None
    types = [part(type_) for _, type_, _ in fields]
    known = [each for each in types if each is not None]
    if len(known) < len(types):
        return None
    return record_type(
        Field(name, type_, nullable=not not_null) for (name, _, not_null), type_ in zip(fields, known, strict=True)
    )


MOST_CHARACTERS = 10_485_760
"""The greatest length of a varchar or char, as in Postgres."""


def length_fits(digits: str) -> bool:
    """Tell whether a text of digits is a length that varchar and char can have."""
    return len(digits) <= len(str(MOST_CHARACTERS)) and 1 <= int(digits) <= MOST_CHARACTERS


def kept_type(type_: logical.Type) -> str:
    """Return what tells a type from others in a sink's table, which of a numeric only keeps the scale."""
    return re.sub(r"numeric\(\d+", "numeric(38", str(type_))


def length_hint(text: str) -> str | None:
    """Return what to write in the place of a type whose length does not fit; None for any other."""
    found = re.search(r"char\w*( varying)? ?\( ?(\d+) ?\)", text.lower())
    if found is None or length_fits(found[2]):
        return None
    return f"Write a length from 1 to {MOST_CHARACTERS}, or text."


def column_type(text: str) -> logical.Type | None:
    """Return the type that a column's declaration names, in lower case with single spaces; None if there is none."""
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
    """Return a column's values in Python: lists and records are tuples, equal and hashed by what they hold."""
    import pyarrow as pa

    found: list[Any] = column.to_pylist()
    return list(map(_tuple, found)) if pa.types.is_nested(column.type) else found


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
    (r'"?record"?|record ?\(.*', "Use record(a integer, b text), with names and types of your own."),
    (r'"?map"?|map ?\[.*\]', "Use map[text => integer], or another type of values."),
    (r".*\]|.* list|list ?\[.*", "Use jsonb."),
    (r"interval [a-z]+( to [a-z]+)?|interval ?\(.*", "Use interval."),
    ("(int4|int8|num|ts|tstz|date)multirange", "Use two columns, one for each end."),
    (r"timetz( ?\(.*\))?|time( ?\(.*\))? with time zone", "Use time, or a timestamptz."),
    (r"time ?\(.*\)( without time zone)?", "Use time."),
    (r"timestamptz ?\(.*\)|timestamp ?\(.*\) with time zone", "Use timestamptz."),
    (r"timestamp ?\(.*\)( without time zone)?", "Use timestamp."),
    ("regclass|regproc|regtype|mz_aclitem|aclitem|int2vector", "Use text."),
)
"""Types of the dialect that columns cannot have yet, and what to use instead."""


def later_type(text: str) -> str | None:
    """Return what to use instead of a type of the dialect that is not supported yet; None for any other text."""
    flat = " ".join(text.lower().split())
    return next((hint for pattern, hint in _LATER if re.fullmatch(pattern, flat)), None)


def type_hint(text: str, known: Callable[[str], bool], others: str) -> str:
    """Return what to write instead of a type's text; `known` tells types, `others` is the sentence if nothing fits."""
    words = re.findall(r"\w+(?:\s*\([^)]*\))?|\S", text.lower())[:_WORDS]
    for count in range(len(words) - 1, 0, -1):
        before, after = " ".join(words[:count]), words[count:]
        if known(before) and not any(known(" ".join(after[start:])) for start in range(1, len(after))):
            return f"Leave out {' '.join(after)}."
        if known(before):
            return f'Write "," after {before}: {after[0]} is the next column.'
    first = re.match(r"\w+", words[0]) if words else None
    name = first[0] if first else ""
    if name.endswith("serial"):
        return "Write bigint, and give the values yourself."
    from sinkql.parser.hint.other_dialects import habits  # the file of habits is read only where there is a mistake

    instead = habits().type.get(name)
    if instead is not None:
        return f"Write {_with_digits(instead, words[0])}."
    near = nearest(name, _TYPE_HINT_NAMES)
    return f"Did you mean {near}?" if near else others


def _with_digits(instead: str, written: str) -> str:
    """Return a type with the digits or the length that are written behind the other's name."""
    digits = re.search(r"\((\d+)(?:\s*,\s*(\d+))?\)", written)
    if digits is None:
        return instead
    if instead == "text" and digits[2] is None:
        return f"varchar({digits[1]})"
    return f"numeric({digits[1]}, {digits[2] or 0})" if instead.startswith("numeric") else instead
