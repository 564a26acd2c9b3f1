"""Texts of values in vectors ↔ the values that rows hold."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Context, Decimal
from typing import Any

from sinkql.logical.expression import single
from sinkql.logical.type import Type

_WIDE = Context(prec=60)
_READ: dict[str, Callable[[str], Any]] = {
    "boolean": lambda text: text in ("t", "true"),
    "smallint": int,
    "integer": int,
    "bigint": int,
    "uint2": int,
    "uint4": int,
    "uint8": int,
    "real": lambda text: single(float(text)),
    "double precision": float,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamptz": lambda text: datetime.fromisoformat(f"{text}:00" if text[-3] in "+-" else text),
    "bytea": lambda text: bytes.fromhex(text[2:]),
}


def value(text: Any, type_: Type) -> Any:
    """Return the value of a text; raise ValueError for times outside Python's range."""
    if text is None:
        return None
    if type_.element is not None:
        return tuple(value(each, type_.element) for each in text)
    if type_.name == "numeric":
        return Decimal(text).quantize(Decimal(1).scaleb(-(type_.scale or 0)), context=_WIDE)
    return _READ.get(type_.name, str)(text)


def shown(value: Any) -> Any:
    """Return a value as the vectors' texts show it; times are printed."""
    if isinstance(value, datetime):
        text = value.isoformat(" ").removesuffix("+00:00")
        return text.rstrip("0") if value.microsecond else text
    if isinstance(value, time):
        return value.isoformat().rstrip("0") if value.microsecond else value.isoformat()
    return value.isoformat() if isinstance(value, date) else value
