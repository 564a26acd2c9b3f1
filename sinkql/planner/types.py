"""Find the common type of SQL types, and parse type names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sinkql import logical
from sinkql.connector_api.types import composed_type, nested_type
from sinkql.logical.nested import leaf
from sinkql.logical.numeric_type import FLOATS, SIGNED
from sinkql.logical.numeric_type import INTEGER_DIGITS as INTEGER_DIGITS
from sinkql.logical.range import SUBTYPES
from sinkql.logical.type import BIGINT as BIGINT
from sinkql.logical.type import BOOLEAN as BOOLEAN
from sinkql.logical.type import BYTEA as BYTEA
from sinkql.logical.type import DATE as DATE
from sinkql.logical.type import DOUBLE as DOUBLE
from sinkql.logical.type import INTEGER as INTEGER
from sinkql.logical.type import INTERVAL as INTERVAL
from sinkql.logical.type import JSONB as JSONB
from sinkql.logical.type import NUMERIC as NUMERIC
from sinkql.logical.type import REAL as REAL
from sinkql.logical.type import SMALLINT as SMALLINT
from sinkql.logical.type import TEXT as TEXT
from sinkql.logical.type import TIME as TIME
from sinkql.logical.type import TIMESTAMP as TIMESTAMP
from sinkql.logical.type import TIMESTAMPTZ as TIMESTAMPTZ
from sinkql.logical.type import UINT2 as UINT2
from sinkql.logical.type import UINT4 as UINT4
from sinkql.logical.type import UINT8 as UINT8
from sinkql.logical.type import UNKNOWN as UNKNOWN
from sinkql.logical.type import UUID as UUID
from sinkql.logical.type import Type as Type

_MOST_CHARACTERS = 10_485_760
_DIGITS = 8
_NUMBERS = (*SIGNED, "numeric", *FLOATS)
_UNSIGNED = {
    "uint2": ("uint4", "uint8", *_NUMBERS[1:]), "uint4": ("uint8", *_NUMBERS[2:]), "uint8": _NUMBERS[3:],
}  # fmt: skip
"""The types that an unsigned integer converts to implicitly, as in Materialize."""
_TIMES = ("date", "timestamp", "timestamptz")
# results of arithmetic have this many fraction digits; more are rounded
MAX_SCALE = 10

TYPE_NAMES = {
    "boolean": BOOLEAN, "bool": BOOLEAN, "smallint": SMALLINT, "int2": SMALLINT, "integer": INTEGER, "int": INTEGER,
    "int4": INTEGER, "bigint": BIGINT, "int8": BIGINT, "uint2": UINT2, "uint4": UINT4, "uint8": UINT8,
    "oid": UINT4, "mz_timestamp": UINT8,
    "real": REAL, "float4": REAL, "double precision": DOUBLE,
    "float8": DOUBLE, "float": DOUBLE, "numeric": NUMERIC, "decimal": NUMERIC, "dec": NUMERIC, "text": TEXT,
    "varchar": TEXT, "character varying": TEXT, "string": TEXT, "bytea": BYTEA, "bytes": BYTEA, "date": DATE,
    "time": TIME, "time without time zone": TIME,
    "timestamp": TIMESTAMP, "timestamp without time zone": TIMESTAMP, "timestamptz": TIMESTAMPTZ,
    "timestamp with time zone": TIMESTAMPTZ, "interval": INTERVAL, "uuid": UUID, "jsonb": JSONB,
    **{name: Type(name) for name in SUBTYPES},
}  # fmt: skip


def array_of(type_: Type) -> Type:
    """Return the type of arrays of these elements; raise TypeError if it does not exist."""
    array_type = nested_type("array", type_)
    if array_type is None:
        raise TypeError(str(type_))
    return array_type


def is_number(type_: Type) -> bool:
    """Return whether the type is numeric."""
    return type_.name in _NUMBERS or type_.name in _UNSIGNED


def is_signed_integer(type_: Type) -> bool:
    """Return whether the type is smallint, integer or bigint."""
    return type_.name in SIGNED


def is_unsigned(type_: Type) -> bool:
    """Return whether the type is uint2, uint4 or uint8."""
    return type_.name in _UNSIGNED


def is_floating(type_: Type) -> bool:
    """Return whether the type is real or double precision."""
    return type_.name in ("real", "double precision")


def is_instant(type_: Type) -> bool:
    """Return whether the type is date, timestamp or timestamptz."""
    return type_.name in _TIMES


def is_comparable(type_: Type) -> bool:
    """Return whether equal values of a type are always identical."""
    return type_ not in (JSONB, INTERVAL) and not type_.nested


def compared(type_: Type) -> bool:
    """Return whether values of a type support = and <; arrays do if their elements do."""
    return is_comparable(type_) or (type_.name == "array" and is_comparable(leaf(type_)) and not is_range(leaf(type_)))


def is_ordered(type_: Type) -> bool:
    """Return whether a view can order rows by values of a type, with the same order as Postgres."""
    return compared(type_) and not is_range(type_)


def is_groupable(type_: Type) -> bool:
    """Return whether rows can be grouped by values of a type: equal values are identical."""
    return is_comparable(type_) or (compared(type_) and not is_floating(leaf(type_)))


def is_range(type_: Type) -> bool:
    """Return whether the type is a range type."""
    return type_.name in SUBTYPES


def is_implicit(source: Type, target: Type) -> bool:
    """Return whether Postgres converts `source` to `target` implicitly."""
    if source.name == "unknown" or source == target:
        return True
    if source.nested or target.nested:
        return False
    if source.name == target.name:
        return True
    if source.name in _UNSIGNED:
        return target.name in _UNSIGNED[source.name]
    for ladder in (_NUMBERS, _TIMES):
        if source.name in ladder and target.name in ladder:
            return ladder.index(source.name) < ladder.index(target.name)
    return False


def common(types: Sequence[Type]) -> Type | None:
    """Return the type that all types convert to (CASE, COALESCE, UNION, …), None without a common type."""
    typed = [type_ for type_ in types if type_ != UNKNOWN]
    if not typed:
        return TEXT
    result = typed[0]
    for type_ in typed[1:]:
        if type_ == result:
            continue
        if type_.name == result.name and not result.nested:
            result = NUMERIC
        elif is_implicit(result, type_):
            result = type_
        elif not is_implicit(type_, result):
            wider = _wider_integer(result, type_)
            if wider is None:
                return None
            result = wider
    if result.name == "numeric" and any(type_ != result for type_ in typed):
        return NUMERIC
    return result


def _wider_integer(one: Type, other: Type) -> Type | None:
    """Return the smallest type that a signed and an unsigned integer both convert to."""
    return next(
        (wider for wider in (INTEGER, BIGINT, NUMERIC) if is_implicit(one, wider) and is_implicit(other, wider)), None
    )


def operand(left: Type, right: Type) -> Type | None:
    """Return the type in which an operator computes or compares, None without a common type."""
    if left == right:
        return left
    if is_number(left) and is_number(right) and (is_floating(left) or is_floating(right)):
        return DOUBLE
    return common((left, right))


def parse_type_name(text: str) -> tuple[Type, int | None] | None:
    """Return the type of a type name and, for varchar(n), its length; None for an unknown name.

    Raises ValueError with the reason if the type is known and its modifier is invalid.
    """
    array = re.fullmatch(r"(.*?)\s*\[\s*\d*\s*\]", text, re.DOTALL)
    if array is not None:
        element = parse_type_name(array[1])
        nested = nested_type("array", element[0]) if element is not None else None
        return None if nested is None else (nested, None)
    lists = re.fullmatch(r"(.*\S)\s+list", text, re.DOTALL | re.IGNORECASE)
    if lists is not None:
        element = parse_type_name(lists[1])
        nested = nested_type("list", element[0]) if element is not None else None
        return None if nested is None else (nested, None)
    composed = composed_type(text, _parse_part)
    if composed is not None:
        return composed, None
    match = re.fullmatch(
        r"([a-z0-9_ ]+?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?( with(?:out)? time zone)?", _normalize(text)
    )
    type_ = TYPE_NAMES.get(match[1] + (match[4] or "")) if match else None
    if match is None or type_ is None:
        return None
    if match[2] is None:
        return type_, None
    if type_ == NUMERIC:
        return _numeric(
            *(int(digits or 0) if len(digits or "") <= _DIGITS else _MOST_CHARACTERS for digits in match.group(2, 3))
        ), None
    if match[1] in ("varchar", "character varying") and match[3] is None:
        if len(match[2]) <= _DIGITS and 1 <= int(match[2]) <= _MOST_CHARACTERS:
            return type_, int(match[2])
        raise ValueError(f"the length of varchar must be from 1 to {_MOST_CHARACTERS}")
    raise ValueError(f'type modifier is not allowed for type "{match[1]}"')


def _parse_part(text: str) -> Type | None:
    parsed = parse_type_name(text)
    return None if parsed is None else parsed[0]


def is_type_name(text: str) -> bool:
    """Return whether a text is a type name."""
    try:
        return parse_type_name(text) is not None
    except ValueError:
        return False


def _normalize(text: str) -> str:
    return " ".join(text.lower().split())


def _numeric(precision: int, scale: int) -> Type:
    if not 1 <= precision <= 38 or scale > precision:
        raise ValueError("the precision of numeric must be from 1 to 38, and its scale must not exceed the precision")
    return Type("numeric", precision, scale)


def describe(column: logical.Column) -> str:
    """Return a column's name and type, for messages."""
    return f"{column.name} {column.type}"
