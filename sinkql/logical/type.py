"""SQL types: what a value may be, and the canonical text of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_NESTED = {"array": "[]", "list": " list"}
_NAMES = re.compile(r"numeric\((\d+),(\d+)\)")


class Type:
    """An SQL type by its canonical name; equal types are equal, and JSON has their texts.

    Names: boolean, smallint, integer, bigint, uint2, uint4, uint8, real, double precision, numeric, date, time,
    timestamp, timestamptz, interval, text, bytea, uuid, jsonb, the ranges of `logical.range`, unknown (an untyped NULL
    or string). Numeric always has precision and scale.
    An array (`integer[]`) and a list (`integer list`) have the type of their elements.
    """

    __slots__ = ("element", "name", "precision", "scale")

    def __init__(
        self, name: str, precision: int | None = None, scale: int | None = None, element: Type | None = None
    ) -> None:
        self.name = name
        self.precision = precision
        self.scale = scale
        self.element = element

    def __str__(self) -> str:
        if self.element is not None:
            return f"{self.element}[]" if self.name == "array" else f"{self.element} list"
        return f"{self.name}({self.precision},{self.scale})" if self.name == "numeric" else self.name

    @property
    def called(self) -> str:
        """What messages call it: a numeric's digits are left out."""
        return self.name if self.element is None else str(self)

    def __repr__(self) -> str:
        return f"Type({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Type):
            return NotImplemented
        mine, its = (self.name, self.precision, self.scale), (other.name, other.precision, other.scale)
        return mine == its and self.element == other.element

    def __hash__(self) -> int:
        return hash((self.name, self.precision, self.scale, self.element))


def parse_type(text: str) -> Type:
    """Return the type of a canonical text, such as `numeric(38,10)`."""
    for name, suffix in _NESTED.items():
        if text.endswith(suffix):
            return Type(name, element=parse_type(text.removesuffix(suffix)))
    match = _NAMES.fullmatch(text)
    return Type("numeric", int(match[1]), int(match[2])) if match else Type(text)


def encoded(value: Any) -> Any:
    """Return the JSON of what msgspec knows no JSON for: a type's text."""
    if isinstance(value, Type):
        return str(value)
    raise NotImplementedError(type(value).__name__)


def decoded(wanted: type, value: Any) -> Any:
    """Read what `encoded` gave."""
    if wanted is Type:
        return parse_type(value)
    raise NotImplementedError(wanted.__name__)


BOOLEAN, SMALLINT, INTEGER, BIGINT = Type("boolean"), Type("smallint"), Type("integer"), Type("bigint")
UINT2, UINT4, UINT8 = Type("uint2"), Type("uint4"), Type("uint8")
REAL, DOUBLE, TEXT, BYTEA = Type("real"), Type("double precision"), Type("text"), Type("bytea")
DATE, TIME, TIMESTAMP, TIMESTAMPTZ = Type("date"), Type("time"), Type("timestamp"), Type("timestamptz")
INTERVAL, UUID, JSONB, UNKNOWN = Type("interval"), Type("uuid"), Type("jsonb"), Type("unknown")
NUMERIC = Type("numeric", 38, 10)
"""What `numeric` without precision and scale is, and what arithmetic gives."""

RANGES: Mapping[str, range] = MappingProxyType(
    {
        "smallint": range(-(2**15), 2**15), "integer": range(-(2**31), 2**31), "bigint": range(-(2**63), 2**63),
        "uint2": range(2**16), "uint4": range(2**32), "uint8": range(2**64),
    }
)  # fmt: skip
"""The values of whole numbers, by their types."""

SECOND = 1_000_000
DAY = 86_400 * SECOND
"""Intervals count microseconds."""
