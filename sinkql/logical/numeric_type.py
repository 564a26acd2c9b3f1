"""Numeric types: the range of a type, and whether it holds all values of another type.

Functions take the name of a type, for example "bigint", and a `Type` only if precision and scale matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sinkql.logical.type import MOST_DIGITS, Type

SIGNED = ("smallint", "integer", "bigint")
UNSIGNED = ("uint2", "uint4", "uint8")
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = ("real", "double precision")

RANGES: Mapping[str, range] = MappingProxyType(
    {
        "smallint": range(-(2**15), 2**15), "integer": range(-(2**31), 2**31), "bigint": range(-(2**63), 2**63),
        "uint2": range(2**16), "uint4": range(2**32), "uint8": range(2**64),
    }
)  # fmt: skip
"""The values of the integer types."""
INTEGER_DIGITS: Mapping[str, int] = MappingProxyType({name: len(str(values[-1])) for name, values in RANGES.items()})
"""The maximum number of digits of an integer type's values."""


def widens(source: str, target: str) -> bool:
    """Return whether an integer or floating-point type holds all values of another type of its kind."""
    if source in RANGES and target in RANGES:
        values, room = RANGES[source], RANGES[target]
        return room.start <= values.start and values.stop <= room.stop
    return source in FLOATS and target in FLOATS and FLOATS.index(source) <= FLOATS.index(target)


def sum_fits(left: Type, right: Type) -> bool:
    """Return whether a numeric can hold all sums of two numerics: it needs one digit more than the larger."""
    scales = (left.scale or 0, right.scale or 0)
    whole_digits = ((left.precision or 0) - scales[0], (right.precision or 0) - scales[1])
    return max(whole_digits) + max(scales) + 1 <= MOST_DIGITS
