"""SQL types → which one two of them have in common, and what a type name written in SQL means."""

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
"""What unsigned integers are converted to unasked, as upstream has it."""
_TIMES = ("date", "timestamp", "timestamptz")
# more fraction digits than this do not survive arithmetic, whose results have this many
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


def number(type_: Type) -> bool:
    """Tell whether the type is one of the numeric ones."""
    return type_.name in _NUMBERS or type_.name in _UNSIGNED


def whole(type_: Type) -> bool:
    """Tell whether the type is smallint, integer or bigint."""
    return type_.name in SIGNED


def unsigned(type_: Type) -> bool:
    """Tell whether the type is uint2, uint4 or uint8."""
    return type_.name in _UNSIGNED


def floating(type_: Type) -> bool:
    """Tell whether the type is real or double precision."""
    return type_.name in ("real", "double precision")


def instant(type_: Type) -> bool:
    """Tell whether the type is date, timestamp or timestamptz."""
    return type_.name in _TIMES


def comparable(type_: Type) -> bool:
    """Tell whether equal values of a type are the same, and others are not equal."""
    return type_ not in (JSONB, INTERVAL) and not type_.nested


def compared(type_: Type) -> bool:
    """Tell whether values of a type have = and <: those of arrays have, where their elements do."""
    return comparable(type_) or (type_.name == "array" and comparable(leaf(type_)) and not ranged(leaf(type_)))


def ordered(type_: Type) -> bool:
    """Tell whether rows can be ordered by values of a type in a view, as they are in Postgres."""
    return compared(type_) and not ranged(type_)


def grouped(type_: Type) -> bool:
    """Tell whether rows can be grouped by values of a type: the same ones are equal, and no others."""
    return comparable(type_) or (compared(type_) and not floating(leaf(type_)))


def ranged(type_: Type) -> bool:
    """Tell whether the type is one of ranges."""
    return type_.name in SUBTYPES


def implicit(source: Type, target: Type) -> bool:
    """Tell whether Postgres converts `source` to `target` unasked."""
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
    """Return the type that all convert to (CASE, COALESCE, UNION, …); None if there is none."""
    known = [type_ for type_ in types if type_ != UNKNOWN]
    if not known:
        return TEXT
    found = known[0]
    for type_ in known[1:]:
        if type_ == found:
            continue
        if type_.name == found.name and not found.nested:
            found = NUMERIC
        elif implicit(found, type_):
            found = type_
        elif not implicit(type_, found):
            wider = _above(found, type_)
            if wider is None:
                return None
            found = wider
    if found.name == "numeric" and any(type_ != found for type_ in known):
        return NUMERIC
    return found


def _above(one: Type, other: Type) -> Type | None:
    """Return the least type that a signed and an unsigned integer both convert to."""
    return next((each for each in (INTEGER, BIGINT, NUMERIC) if implicit(one, each) and implicit(other, each)), None)


def operand(left: Type, right: Type) -> Type | None:
    """Return the type in which an operator computes or compares; None if there is none."""
    if left == right:
        return left
    if number(left) and number(right) and (floating(left) or floating(right)):
        return DOUBLE
    return common((left, right))


def parse_type_name(text: str) -> tuple[Type, int | None] | None:
    """Return the type that a written name means and, for varchar(n), its length; None if it is not known.

    Raises ValueError with the reason where the name is known and its modifier is wrong.
    """
    array = re.fullmatch(r"(.*?)\s*\[\s*\d*\s*\]", text, re.DOTALL)
    if array is not None:
        element = parse_type_name(array[1])
        found = nested_type("array", element[0]) if element is not None else None
        return None if found is None else (found, None)
    lists = re.fullmatch(r"(.*\S)\s+list", text, re.DOTALL | re.IGNORECASE)
    if lists is not None:
        element = parse_type_name(lists[1])
        found = nested_type("list", element[0]) if element is not None else None
        return None if found is None else (found, None)
    composed = composed_type(text, _part)
    if composed is not None:
        return composed, None
    match = re.fullmatch(
        r"([a-z0-9_ ]+?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?( with(?:out)? time zone)?", _flat(text)
    )
    type_ = TYPE_NAMES.get(match[1] + (match[4] or "")) if match else None
    if match is None or type_ is None:
        return None
    if match[2] is None:
        return type_, None
    if type_ == NUMERIC:
        return _numeric(
            *(int(each or 0) if len(each or "") <= _DIGITS else _MOST_CHARACTERS for each in match.group(2, 3))
        ), None
    if match[1] in ("varchar", "character varying") and match[3] is None:
        if len(match[2]) <= _DIGITS and 1 <= int(match[2]) <= _MOST_CHARACTERS:
            return type_, int(match[2])
        raise ValueError(f"the length of varchar must be from 1 to {_MOST_CHARACTERS}")
    raise ValueError(f'type modifier is not allowed for type "{match[1]}"')


def _part(text: str) -> Type | None:
    found = parse_type_name(text)
    return None if found is None else found[0]


def known(text: str) -> bool:
    """Tell whether a text names a type."""
    try:
        return parse_type_name(text) is not None
    except ValueError:
        return False


def _flat(text: str) -> str:
    return " ".join(text.lower().split())


def _numeric(precision: int, scale: int) -> Type:
    if not 1 <= precision <= 38 or scale > precision:
        raise ValueError("the precision of numeric must be from 1 to 38, and its scale at most that")
    return Type("numeric", precision, scale)


def describe(column: logical.Column) -> str:
    """Return a column's name and type, for messages."""
    return f"{column.name} {column.type}"
