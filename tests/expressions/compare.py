"""Compare a value from Spark with the text that Postgres printed, under a vector's rule."""

from __future__ import annotations

import json
import math
import struct
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from sinkql.logical.nested import read_array


def equal(got: Any, expected: str | None, type_: str, rule: str | None) -> bool:
    """Return whether a value equals the expected text; `type_` names its SQL type, `rule` is the vector's `compare`."""
    if got is None or expected is None:
        return got is None and expected is None
    match type_:
        case "boolean":
            return bool(got) == (expected == "t")
        case "smallint" | "integer" | "bigint" | "uint2" | "uint4" | "uint8":
            return int(got) == int(expected)
        case "numeric":
            return _numeric(got, Decimal(expected), rule)
        case "real":
            return _floating(_single(got), _single(float(expected)), rule)
        case "double precision":
            return _floating(got, float(expected), rule)
        case "array" | "list":
            return [None if each is None else str(each) for each in got] == read_array(expected)
        case "bytea":
            return bytes(got).hex() == expected.removeprefix("\\x")
        case "jsonb":
            return bool(json.loads(got) == json.loads(expected))
        case "timestamp" | "timestamptz" | "date":
            return str(got).removeprefix("+") == _as_year_zero(expected).removesuffix("+00")
        case _:
            return bool(json.loads(got) == json.loads(expected)) if rule == "json" else bool(got == expected)


def _numeric(got: Decimal, expected: Decimal, rule: str | None) -> bool:
    if rule == "numeric10":
        return got == _rounded(expected, 10)
    if rule == "digits":
        digits = min(10, max(0, -int(expected.as_tuple().exponent)))
        return _rounded(got, digits) == _rounded(expected, digits)
    return got == expected


def _rounded(value: Decimal, digits: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)


def _floating(got: float, expected: float, rule: str | None) -> bool:
    if math.isnan(got) or math.isnan(expected):
        return math.isnan(got) and math.isnan(expected)
    if rule == "ulp" and math.isfinite(expected):
        return abs(got - expected) <= 4 * math.ulp(expected)
    return got == expected


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _as_year_zero(text: str) -> str:
    """Write the year 1 BC as the year 0, as Spark does."""
    return text.removesuffix(" BC").replace("0001-", "0000-", 1) if text.endswith(" BC") else text
