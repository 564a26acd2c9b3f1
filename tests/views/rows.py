"""Compare the rows of two engines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]
Rows = Counter[Row]
_SHOWN = 6
_NEAR = 1e-6
"""Numeric quotients have ten decimal digits in SinkQL, and are floats in DuckDB."""


def plain(row: Sequence[Any]) -> Row:
    """Return a row in which values that are equal in SQL are equal: one NaN, one zero."""
    return tuple(map(_plain, row))


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list | tuple):
        return plain(value)
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def different(got: Rows, expected: Rows) -> str:
    """Return lines with the missing (-) and extra (+) rows; empty if the rows are the same."""
    missing, extra = list((expected - got).elements()), list((got - expected).elements())
    for row in list(missing):
        match = next((each for each in extra if _near(row, each)), None)
        if match is not None:
            missing.remove(row)
            extra.remove(match)
    lines = [f"- {row}" for row in missing[:_SHOWN]] + [f"+ {row}" for row in extra[:_SHOWN]]
    if lines:
        lines.append(f"{len(missing)} missing, {len(extra)} too many of {sum(expected.values())}")
    return "\n".join(lines)


def _near(row: Row, other: Row) -> bool:
    return len(row) == len(other) and all(map(_alike, row, other))


def _alike(value: Any, other: Any) -> bool:
    numbers = (int, float, Decimal)
    if isinstance(value, tuple) and isinstance(other, tuple):
        return _near(value, other)
    if isinstance(value, numbers) and isinstance(other, numbers) and not isinstance(value, bool):
        return math.isclose(value, other, rel_tol=_NEAR, abs_tol=_NEAR)
    return bool(value == other)
