"""Spark SQL text that is a literal → its value in Python, so that plain values need no engine to be known.

A closed set: what `expressions_literal` and a sign write. Anything else is no constant here, whatever it is in SQL.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from sinkql.connector.jsonb import jsonb
from sinkql.errors import SinkqlError
from sinkql.logical import Type
from sinkql.planner import types
from sinkql.planner.expressions_literal import literal
from sinkql.planner.expressions_typed import Typed

_STRING = r"'((?:[^'\\]|\\.)*)'"
_ESCAPE = re.compile(r"\\(?:u([0-9A-F]{4})|(.))", re.DOTALL)


def _text(match: re.Match[str]) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], match[1])


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Any]], ...] = tuple(
    (re.compile(pattern, re.DOTALL), read)
    for pattern, read in (
        (r"CAST\(NULL AS [A-Z_]+(?:\(\d+,\d+\))?\)|NULL", lambda match: None),
        (r"true|false", lambda match: match[0] == "true"),
        (r"\(?(-?\d+)[SL]?\)?", lambda match: int(match[1])),
        (r"\(?(-?\d+(?:\.\d+)?)BD\)?", lambda match: Decimal(match[1])),
        (r"\(?(-?[\d.]+(?:[eE][+-]?\d+)?)D\)?", lambda match: float(match[1])),
        (r"CAST\('([^'\\]+)' AS DOUBLE\)", lambda match: float(match[1])),
        (r"CAST\('([^'\\]+)' AS FLOAT\)", lambda match: struct.unpack("f", struct.pack("f", float(match[1])))[0]),
        (r"CAST\('([^'\\]+)' AS DECIMAL\(\d+,\d+\)\)", lambda match: Decimal(match[1])),
        (r"DATE'(\d{4}-\d\d-\d\d)'", lambda match: date.fromisoformat(match[1])),
        (r"TIMESTAMP_NTZ'([^']+)'", lambda match: _moment(match[1])),
        (r"TIMESTAMP'([^']+)'", lambda match: _moment(match[1]).astimezone(UTC)),
        (r"X'([0-9a-fA-F]*)'", lambda match: bytes.fromhex(match[1])),
        (rf"encode\({_STRING}, 'UTF-8'\)", lambda match: _text(match).encode()),
        (_STRING, _text),
    )
)


def constant(value: Typed) -> tuple[Any] | None:
    """Return a literal's value alone in a tuple, of the type that `value.raw` says; None for what is no literal."""
    for pattern, read in _FORMS:
        match = pattern.fullmatch(value.sql)
        if match is not None:
            return (read(match),)
    return None


def read_literal(value: Typed, target: Type) -> Any:
    """Return an untyped string or NULL as a value of a type; raises SinkqlError (SQ2212) where it is not one."""
    if value.null:
        return None
    text = str(value.constant)
    if target == types.JSONB:
        try:
            return jsonb(text)
        except (ValueError, RecursionError):
            raise SinkqlError("SQ2212", f"'{text}' is not a value of type jsonb", value.span) from None
    found = constant(literal(text, target, value.span))
    assert found is not None, target
    return found[0]
