"""Convert one text to the value that Postgres's input of the type gives; raise ValueError for other texts.

Some texts that Postgres accepts are refused, but never read differently. These are rare forms of dates and times, more
than six digits of a second's fraction, digits that do not fit a numeric, NaN in a numeric, and a timestamptz without a
zone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from sinkql.connector_api.types import arrow_type
from sinkql.logical import Type, time
from sinkql.logical.jsonb import jsonb
from sinkql.logical.nested import Items, entries, map_levels, read_array, read_map, read_record, squared
from sinkql.logical.numeric_type import RANGES
from sinkql.logical.range import SUBTYPES, read_range
from sinkql.logical.time import read_interval, show_interval
from sinkql.regex_repeat import RepeatedPattern

_WANTED = {
    "boolean": "a boolean", "smallint": "a smallint", "integer": "an integer", "bigint": "a bigint",
    "uint2": "a uint2", "uint4": "a uint4", "uint8": "a uint8",
    "real": "a real", "double precision": "a double precision", "numeric": "a numeric that fits", "date": "a date",
    "time": "a time", "interval": "an interval, as in 1 day 02:30:00",
    "timestamp": "a timestamp", "timestamptz": "a timestamp with its zone", "uuid": "a uuid",
    "jsonb": "JSON", "bytea": "a bytea, as in \\x00ff", "text": "a text",
    **{name: f"{'an' if name[0] == 'i' else 'a'} {name}" for name in SUBTYPES},
}  # fmt: skip
BLANK = " \t\n\v\f\r"
"""The characters that Postgres accepts as white space around a value."""


def wanted(type_: Type, text: str, *, quoted: bool = True) -> str:
    """Return the message for a text that does not fit a type."""
    shown = json.dumps(text, ensure_ascii=False) if quoted else text
    short = shown if len(shown) <= 60 else shown[:57] + "..."
    return f"{short} is not {f'a value of type {type_}' if type_.nested else _WANTED[type_.name]}"


def value_of(text: str, type_: Type) -> Any:
    """Return the value; raise ValueError without a message, or with the reason."""
    if type_.name == "map":
        return entries((key, _part(item, type_.value)) for key, item in read_map(text))
    if type_.name == "record":
        return record_of([_part(item, type_.fields[index].type) for index, item in _fields(text, type_)], type_)
    if type_.element is not None:
        return _items(read_array(text, map_levels(type_)), type_, type_.element)
    if type_.name in SUBTYPES:
        subtype = SUBTYPES[type_.name]
        return read_range(text, type_.name, lambda bound: value_of(bound, subtype))
    return _READERS[type_.name](text, arrow_type(type_))


def record_of(values: Sequence[Any], type_: Type) -> tuple[Any, ...]:
    """Return a record of the values of its fields; raise ValueError for NULL in a field that is NOT NULL."""
    for value, field in zip(values, type_.fields, strict=True):
        if value is None and not field.nullable:
            raise ValueError(f'null value in field "{field.name}", which is NOT NULL')
    return tuple(values)


def _fields(text: str, type_: Type) -> Iterable[tuple[int, str | None]]:
    return enumerate(read_record(text, len(type_.fields)))


def _part(text: str | None, type_: Type) -> Any:
    return None if text is None else value_of(text, type_)


def _items(items: Items, type_: Type, element: Type) -> list[Any]:
    """Return the values of the texts in an array or a list."""
    if type_.name == element.name == "array" and any(isinstance(item, str) for item in items):
        raise ValueError
    return squared([None if item is None else _item(item, element) for item in items], type_)


def _item(item: str | Items, element: Type) -> Any:
    if element.element is not None and not isinstance(item, str):
        return _items(item, element, element.element)
    if not isinstance(item, str):
        raise ValueError("it has an array in an array")
    return value_of(item, element)


_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_WHOLE = re.compile(
    rf"[+-]?(?:{_DIGITS}|0[xX]_?[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*|0[oO]_?[0-7]+(?:_[0-7]+)*|0[bB]_?[01]+(?:_[01]+)*)"
)  # as in Postgres 16 and later
_NUMBER = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NO_NUMBER = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_NOT_ZERO = re.compile(r"[^eE]*[1-9]")
_LONG = 1000


def _integer_in(values: range) -> Callable[[str, pa.DataType], int]:
    def read(text: str, _type: pa.DataType) -> int:
        value = _integer(text)
        if value not in values:
            raise ValueError
        return value

    return read


def _integer(text: str) -> int:
    signed = text.strip(BLANK).replace("_", "") if _WHOLE.fullmatch(text.strip(BLANK)) else ""
    digits = signed.lstrip("+-")
    if not digits or len(digits) > _LONG:
        raise ValueError
    base = {"x": 16, "o": 8, "b": 2}.get(digits[1:2].lower(), 10)
    return int(digits if base == 10 else digits[2:], base) * (-1 if signed[0] == "-" else 1)


def _float(text: str, type_: pa.DataType) -> float:
    plain = text.strip(BLANK)
    if _NO_NUMBER.fullmatch(plain):
        return float(plain)
    if not _FLOAT.fullmatch(plain):
        raise ValueError
    value = float(pa.scalar(plain).cast(type_).as_py())  # rounds once: float(plain) would round a real twice
    if value in (float("inf"), float("-inf")) or (value == 0 and _NOT_ZERO.match(plain)):
        raise ValueError
    return value


def _numeric(text: str, type_: pa.DataType) -> Decimal:
    plain = text.strip(BLANK)
    try:
        value = Decimal(plain.replace("_", "")) if _NUMBER.fullmatch(plain) else Decimal(_integer(plain))
        if value.adjusted() >= type_.precision - type_.scale and value:
            raise ValueError
        if not -_MOST_PLACES <= int(value.as_tuple().exponent) <= _MOST_EXPONENT:
            raise ValueError  # a zero, which Postgres refuses too
        rounded = _CONTEXT.quantize(value, Decimal(1).scaleb(-type_.scale))
    except InvalidOperation:
        raise ValueError from None
    if rounded != value:
        raise ValueError
    return rounded


_MOST_PLACES, _MOST_EXPONENT = 16_383, 2**30
_CONTEXT = Context(prec=60)


def _boolean(text: str, _type: pa.DataType) -> bool:
    word = text.strip(BLANK).lower()
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise ValueError


TRUE = ("true", "t", "1", "yes", "y", "on", "tr", "tru", "ye")
FALSE = ("false", "f", "0", "no", "n", "off", "of", "fa", "fal", "fals")

_UUID = re.compile(r"(\{)?(?:[0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}(?(1)\})")
_NO_DIGITS = str.maketrans("", "", "{}-")


def _uuid(text: str, _type: pa.DataType) -> str:
    if not _UUID.fullmatch(text):
        raise ValueError
    digits = text.translate(_NO_DIGITS).lower()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


_NO_HEX = re.compile(r"[^0-9a-fA-F \t\n\r]")
_ESCAPES = RepeatedPattern(r"[^\\]+|\\\\|\\[0-3][0-7]{2}")
_ESCAPE = re.compile(rb"\\(\\|[0-7]{3})")


def _bytea(text: str, _type: pa.DataType) -> bytes:
    if text.startswith("\\x"):
        if _NO_HEX.search(text, 2):
            raise ValueError
        return bytes.fromhex(text[2:])
    if _ESCAPES.end(text) < len(text):
        raise ValueError
    return _ESCAPE.sub(lambda match: b"\\" if match[1] == b"\\" else bytes([int(match[1], 8)]), text.encode())


def _text(text: str, _type: pa.DataType) -> str:
    if "\0" in text:
        raise ValueError
    return text


_READERS: dict[str, Callable[[str, pa.DataType], Any]] = {
    **{name: _integer_in(values) for name, values in RANGES.items()}, "boolean": _boolean, "real": _float,
    "double precision": _float, "numeric": _numeric, "uuid": _uuid, "bytea": _bytea, "text": _text,
    "date": lambda text, _type: time.read_date(text),
    "time": lambda text, _type: time.read_time(text),
    "timestamp": lambda text, _type: time.read_timestamp(text),
    "timestamptz": lambda text, _type: time.read_timestamptz(text, zoned=True),
    "interval": lambda text, _type: show_interval(read_interval(text)),
    "jsonb": lambda text, _type: jsonb(text),
}  # fmt: skip
