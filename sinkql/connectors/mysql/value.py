"""MySQL's binary JSON → text.

The layout is that of the server's json_binary.h: a type, then a tree of objects and arrays whose entries point to keys
and values by offsets of two or four bytes.
"""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

from sinkql.connectors.mysql.decimals import decimal_of

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = 0, 1, 2, 3, 4
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING, _OPAQUE = 5, 6, 7, 8, 9, 10, 11, 12, 15
_NUMBERS = {_INT16: "<h", _UINT16: "<H", _INT32: "<i", _UINT32: "<I", _INT64: "<q", _UINT64: "<Q", _DOUBLE: "<d"}
_LITERALS = {0: "null", 1: "true", 2: "false"}
_DECIMAL, _DATE, _TIME, _DATETIME, _TIMESTAMP = 246, 10, 11, 12, 7
_DEEPEST = 100
"""How deeply the server lets documents be nested."""


class BinaryJsonError(ValueError):
    """A document that is not as the server writes it."""


def json_text(data: bytes) -> str:
    """Return a document as text; raises BinaryJsonError."""
    if not data:
        return "null"  # what the server makes of a column that got no value
    try:
        return _value(data[0], data, 1, _DEEPEST)
    except (IndexError, struct.error, UnicodeDecodeError, KeyError) as error:
        raise BinaryJsonError(f"the document is damaged: {error}") from error


def _value(kind: int, data: bytes, at: int, levels: int) -> str:
    if kind <= _LARGE_ARRAY:
        if not levels:
            raise BinaryJsonError(f"the document has more than {_DEEPEST} levels")
        return _container(kind, data[at:], levels - 1)
    if kind == _LITERAL:
        return _LITERALS[data[at]]
    if kind in _NUMBERS:
        number = struct.unpack_from(_NUMBERS[kind], data, at)[0]
        return repr(number) if kind == _DOUBLE else str(number)
    if kind == _STRING:
        size, at = _length(data, at)
        return _quoted(data[at : at + size].decode())
    if kind == _OPAQUE:
        size, start = _length(data, at + 1)
        return _opaque(data[at], data[start : start + size])
    raise BinaryJsonError(f"the document has a value of the type {kind}, which is unknown")


def _container(kind: int, data: bytes, levels: int) -> str:
    """Return an object or array; offsets count from its own first byte."""
    width = 4 if kind in (_LARGE_OBJECT, _LARGE_ARRAY) else 2
    form = "<I" if width == 4 else "<H"
    count, size = _number(form, data, 0), _number(form, data, width)
    if size > len(data):
        raise BinaryJsonError("the document is cut")
    at, keys = 2 * width, []
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT):
        for _ in range(count):
            start, length = _number(form, data, at), _number("<H", data, at + width)
            keys.append(_quoted(data[start : start + length].decode()))
            at += width + 2
    values = []
    for number in range(count):
        place = at + number * (1 + width)
        values.append(_entry(data[place], data, place + 1, form, levels))
    if kind in (_SMALL_ARRAY, _LARGE_ARRAY):
        return f"[{', '.join(values)}]"
    return f"{{{', '.join(f'{key}: {value}' for key, value in zip(keys, values, strict=True))}}}"


def _entry(kind: int, data: bytes, at: int, form: str, levels: int) -> str:
    """Return a value whose entry is there: a short one stands in it, another is pointed to."""
    inline = kind in (_LITERAL, _INT16, _UINT16) or (form == "<I" and kind in (_INT32, _UINT32))
    return _value(kind, data, at if inline else _number(form, data, at), levels)


def _number(form: str, data: bytes, at: int) -> int:
    found: Any = struct.unpack_from(form, data, at)[0]
    return int(found)


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Return a length of seven bits a byte, the lowest first, and where it ends."""
    found = shift = 0
    while True:
        byte = data[at]
        found, at = found | (byte & 0x7F) << shift, at + 1
        if not byte & 0x80:
            return found, at
        shift += 7


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _opaque(kind: int, data: bytes) -> str:
    """Return a value of an SQL type, as the server prints it."""
    if kind == _DECIMAL:
        return f"{decimal_of(data[2:], data[0], data[1]):f}"
    if kind in (_DATE, _TIME, _DATETIME, _TIMESTAMP):
        return _quoted(_moment(kind, int.from_bytes(data[:8], "little", signed=True)))
    return _quoted(f"base64:type{kind}:{base64.b64encode(data).decode()}")


def _moment(kind: int, packed: int) -> str:
    """Return a time of day, a date or both, which are packed as in rows, with microseconds in 24 bits."""
    size = abs(packed)
    micros, whole = size & 0xFFFFFF, size >> 24
    clock = f"{whole >> 12 & (0x3FF if kind == _TIME else 31):02}:{whole >> 6 & 63:02}:{whole & 63:02}.{micros:06}"
    if kind == _TIME:
        return f"{'-' if packed < 0 else ''}{clock}"
    months, day = whole >> 22 & 0x1FFFF, whole >> 17 & 31
    text = f"{months // 13:04}-{months % 13:02}-{day:02}"
    return text if kind == _DATE else f"{text} {clock}"
