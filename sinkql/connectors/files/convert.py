"""Text or Python values of one column → an Arrow array of the declared type; values that do not fit, by row."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connector.jsonb import jsonb as jsonb
from sinkql.connector.types import arrow_type, parse_type

Failures = dict[int, str]
"""Row number in the batch → why the row does not decode."""

_WANTED = {
    "boolean": "a boolean", "smallint": "a smallint", "integer": "an integer", "bigint": "a bigint",
    "real": "a number", "double precision": "a number", "numeric": "a numeric that fits", "date": "a date",
    "time": "a time", "timestamp": "a timestamp", "timestamptz": "a timestamp with its zone", "uuid": "a uuid",
    "jsonb": "JSON", "bytea": "bytea in hex, as in \\x00ff", "text": "a string",
}  # fmt: skip


def wanted(type_text: str, value: object) -> str:
    """Return the message for a value that does not fit a type."""
    shown = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
    short = shown if len(shown) <= 60 else shown[:57] + "..."
    return f"{short} is not {_WANTED[parse_type(type_text).name]}"


def from_text(texts: pa.Array, type_text: str, failures: Failures) -> pa.Array:
    """Return an array of the declared type from an array of strings; a text that does not fit is NULL and noted."""
    name = parse_type(type_text).name
    if name == "text":
        return texts
    scalar = _BY_VALUE.get(name)
    if scalar is not None:
        return _each(texts, type_text, failures, lambda text: pa.scalar(scalar(text), arrow_type(type_text)))
    try:
        return _cast(texts, type_text)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ArithmeticError):
        one: Callable[[str], Any] = lambda text: _cast(pa.array([text], pa.string()), type_text)[0]  # noqa: E731  # local
        return _each(texts, type_text, failures, one)


def from_values(values: Sequence[Any], type_text: str, failures: Failures) -> pa.Array:
    """Return an array of the declared type from JSON's values, NULL as None; what does not fit is NULL and noted."""
    type_ = arrow_type(type_text)
    if parse_type(type_text).name in _FROM_STRING:
        return from_text(pa.array(values, pa.string()), type_text, failures)
    try:
        return pa.array(values, type_)
    except (pa.ArrowInvalid, OverflowError):
        return _each(values, type_text, failures, lambda value: pa.scalar(value, type_))


_FROM_STRING = {"date", "time", "timestamp", "timestamptz", "uuid", "bytea"}


def _cast(texts: pa.Array, type_text: str) -> pa.Array:
    name, type_ = parse_type(type_text).name, arrow_type(type_text)
    if name == "timestamptz":
        if pc.all(pc.match_substring_regex(texts, _ZONE)).as_py() is False:
            raise pa.ArrowInvalid("no zone")
        return texts.cast(type_)
    if name in ("real", "double precision"):
        if pc.any(pc.match_substring_regex(texts, r"[xX_]")).as_py():
            raise pa.ArrowInvalid("not a decimal number")
        return texts.cast(pa.float64()).cast(type_)
    if name == "numeric":
        return _exact(texts, type_)
    return texts.cast(type_)


_ZONE = r"(Z|[+-]\d\d(:?\d\d)?)$"


def _exact(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    return pa.array([None if text is None else Decimal(text.strip()) for text in texts.to_pylist()], type_)


def _each(
    values: pa.Array | Sequence[Any], type_text: str, failures: Failures, convert: Callable[[Any], Any]
) -> pa.Array:
    found: list[Any] = []
    for row, value in enumerate(values.to_pylist() if isinstance(values, pa.Array) else values):
        if value is None:
            found.append(None)
            continue
        try:
            found.append(convert(value))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError, ArithmeticError):
            found.append(None)
            failures.setdefault(row, wanted(type_text, value))
    return pa.array([None if value is None else value.as_py() for value in found], arrow_type(type_text))


def _uuid(text: str) -> str:
    return str(uuid.UUID(text))


def _bytea(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError(text)
    return bytes.fromhex(text[2:])


def _boolean(text: str) -> bool:
    return _BOOLEANS[text.strip().lower()] if text.strip().lower() in _BOOLEANS else _fail(text)


def _fail(text: str) -> bool:
    raise ValueError(text)


_BOOLEANS = {"t": True, "true": True, "1": True, "yes": True, "y": True, "on": True,
             "f": False, "false": False, "0": False, "no": False, "n": False, "off": False}  # fmt: skip


_BY_VALUE: dict[str, Callable[[str], Any]] = {"uuid": _uuid, "bytea": _bytea, "jsonb": jsonb, "boolean": _boolean}
