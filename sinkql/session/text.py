"""A value of a result → its text, as Postgres prints it."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any


def text(value: Any) -> str:
    """Return a value's text: NULL is empty, times have no T and zones are short."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return _number(value)
        case bytes():
            return f"\\x{value.hex()}"
        case datetime():
            return _moment(value)
        case _:
            return str(value)


def _number(value: float) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if math.isnan(value):
        return "NaN"
    shown = repr(value)
    if "e" in shown:
        digits, _, exponent = shown.partition("e")
        return f"{digits}e{int(exponent):+03d}"
    return shown.removesuffix(".0")


def _moment(value: datetime) -> str:
    shown = value.replace(tzinfo=None).isoformat(" ")
    if value.microsecond:
        shown = shown.rstrip("0")
    return shown if value.tzinfo is None else f"{shown}+00"
