"""Decode single values of the log for `column`: binary JSON, texts of a character set, and decimals.

The layout of binary JSON is that of the server's json_binary.h: a type, then a tree of objects and arrays whose entries
point to keys and values by offsets of two or four bytes.

Texts are decoded character by character as the server does. A decimal has groups of nine digits in four bytes; the
remaining digits have fewer bytes.
"""

from __future__ import annotations

import base64
import codecs
import json
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from sinkql.connectors.mysql.table_map import DECIMAL_BYTES

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = 0, 1, 2, 3, 4
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING, _OPAQUE = 5, 6, 7, 8, 9, 10, 11, 12, 15
_NUMBERS = {_INT16: "<h", _UINT16: "<H", _INT32: "<i", _UINT32: "<I", _INT64: "<q", _UINT64: "<Q", _DOUBLE: "<d"}
_LITERALS = {0: "null", 1: "true", 2: "false"}
_DECIMAL, _DATE, _TIME, _DATETIME, _TIMESTAMP = 246, 10, 11, 12, 7
_DEEPEST = 100
"""The deepest nesting of documents that the server allows."""


class BinaryJsonError(ValueError):
    """A document that violates the server's layout."""


def json_text(data: bytes) -> str:
    """Return a document as text; raise BinaryJsonError."""
    if not data:
        return "null"  # the server reads a column without a value so
    try:
        return _value_text(data[0], data, 1, _DEEPEST)
    except (IndexError, struct.error, UnicodeDecodeError, KeyError) as error:
        raise BinaryJsonError(f"the document is damaged: {error}") from error


def _value_text(kind: int, data: bytes, at: int, levels: int) -> str:
    if kind <= _LARGE_ARRAY:
        if not levels:
            raise BinaryJsonError(f"the document has more than {_DEEPEST} levels")
        return _container_text(kind, data[at:], levels - 1)
    if kind == _LITERAL:
        return _LITERALS[data[at]]
    if kind in _NUMBERS:
        number = struct.unpack_from(_NUMBERS[kind], data, at)[0]
        return repr(number) if kind == _DOUBLE else str(number)
    if kind == _STRING:
        size, at = _read_length(data, at)
        return _quote(data[at : at + size].decode())
    if kind == _OPAQUE:
        size, start = _read_length(data, at + 1)
        return _opaque_text(data[at], data[start : start + size])
    raise BinaryJsonError(f"the document has a value of the unknown type {kind}")


def _container_text(kind: int, data: bytes, levels: int) -> str:
    """Return an object or array; its offsets count from its first byte."""
    width = 4 if kind in (_LARGE_OBJECT, _LARGE_ARRAY) else 2
    form = "<I" if width == 4 else "<H"
    count, size = _read_number(form, data, 0), _read_number(form, data, width)
    if size > len(data):
        raise BinaryJsonError("the document is truncated")
    at, keys = 2 * width, []
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT):
        for _ in range(count):
            start, length = _read_number(form, data, at), _read_number("<H", data, at + width)
            keys.append(_quote(data[start : start + length].decode()))
            at += width + 2
    values = []
    for number in range(count):
        place = at + number * (1 + width)
        values.append(_entry_text(data[place], data, place + 1, form, levels))
    if kind in (_SMALL_ARRAY, _LARGE_ARRAY):
        return f"[{', '.join(values)}]"
    return f"{{{', '.join(f'{key}: {value}' for key, value in zip(keys, values, strict=True))}}}"


def _entry_text(kind: int, data: bytes, at: int, form: str, levels: int) -> str:
    """Return the value of an entry: a short value is inline, another one is referenced."""
    inline = kind in (_LITERAL, _INT16, _UINT16) or (form == "<I" and kind in (_INT32, _UINT32))
    return _value_text(kind, data, at if inline else _read_number(form, data, at), levels)


def _read_number(form: str, data: bytes, at: int) -> int:
    number: Any = struct.unpack_from(form, data, at)[0]
    return int(number)


def _read_length(data: bytes, at: int) -> tuple[int, int]:
    """Return a length of seven bits per byte, the lowest first, and its end."""
    length = shift = 0
    while True:
        byte = data[at]
        length, at = length | (byte & 0x7F) << shift, at + 1
        if not byte & 0x80:
            return length, at
        shift += 7


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _opaque_text(kind: int, data: bytes) -> str:
    """Return a value of an SQL type as the server prints it."""
    if kind == _DECIMAL:
        return f"{decimal_of(data[2:], data[0], data[1]):f}"
    if kind in (_DATE, _TIME, _DATETIME, _TIMESTAMP):
        return _quote(_temporal_text(kind, int.from_bytes(data[:8], "little", signed=True)))
    return _quote(f"base64:type{kind}:{base64.b64encode(data).decode()}")


def _temporal_text(kind: int, packed: int) -> str:
    """Return a time of day, a date or both, packed as in rows, with microseconds in 24 bits."""
    size = abs(packed)
    micros, whole = size & 0xFFFFFF, size >> 24
    clock = f"{whole >> 12 & (0x3FF if kind == _TIME else 31):02}:{whole >> 6 & 63:02}:{whole & 63:02}.{micros:06}"
    if kind == _TIME:
        return f"{'-' if packed < 0 else ''}{clock}"
    months, day = whole >> 22 & 0x1FFFF, whole >> 17 & 31
    text = f"{months // 13:04}-{months % 13:02}-{day:02}"
    return text if kind == _DATE else f"{text} {clock}"


Decode = Callable[[bytes], str]

_SAME = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "ascii": "ascii",
    "ucs2": "utf-16-be", "utf16": "utf-16-be", "utf16le": "utf-16-le", "utf32": "utf-32-be",
    "gbk": "gbk", "gb2312": "gb2312", "euckr": "cp949", "cp932": "cp932",
}  # fmt: skip
_SINGLE = {
    "latin1": "cp1252", "latin2": "iso8859-2", "latin5": "iso8859-9", "latin7": "iso8859-13", "greek": "iso8859-7",
    "hebrew": "iso8859-8", "cp1250": "cp1250", "cp1251": "cp1251", "cp1256": "cp1256", "cp1257": "cp1257",
    "cp850": "cp850", "cp852": "cp852", "cp866": "cp866", "koi8r": "koi8-r", "koi8u": "koi8-u",
    "macroman": "mac-roman", "macce": "mac-latin2", "tis620": "tis-620",
}  # fmt: skip
_OTHERWISE = {
    "hebrew": {0xAF: "‾"},
    "greek": {0xA1: "ʽ", 0xA2: "ʼ"},
    "cp866": {0xFC: "ⁿ", 0xFD: "²"},
    "koi8u": {0x95: "•"},
    "latin1": {byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)},
}
"""Characters for which the server's tables differ from Python's."""

UTF8 = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})
"""Character sets whose bytes are UTF-8."""

ASCII_TOO = UTF8 | _SINGLE.keys() | {"gbk", "gb2312", "euckr", "cp932"}
"""Character sets in which bytes below 128 are ASCII."""

SINGLE = tuple(_SINGLE)
"""Character sets with one byte per character."""


WIDEST = {
    "utf8mb4": 4, "utf8mb3": 3, "utf8": 3, "ucs2": 2, "utf16": 4, "utf16le": 4, "utf32": 4, "gbk": 2, "gb2312": 2,
    "euckr": 2, "cp932": 2,
}  # fmt: skip
"""The most bytes of a character, for character sets with more than one."""


def decoder(charset: str) -> Decode | None:
    """Return the decoder of a character set, which raises ValueError; None for an unknown character set."""
    if charset in _SAME:
        name = _SAME[charset]
        return lambda data: data.decode(name)
    if charset not in _SINGLE:
        return None
    table = "".join(_decode_character(charset, byte) for byte in range(256))
    return lambda data: codecs.charmap_decode(data, "strict", table)[0]


def _decode_character(charset: str, byte: int) -> str:
    character = _OTHERWISE.get(charset, {}).get(byte)
    if character is not None:
        return character
    try:
        return bytes((byte,)).decode(_SINGLE[charset])
    except ValueError:
        return "\ufffe"  # charmap_decode treats it as undefined


def text_decoder(charset: str) -> Decode:
    """Return the decoder of a known character set; raise LookupError for any other one."""
    decode = decoder(charset)
    if decode is None:
        raise LookupError(f"unknown character set {charset}")
    return decode


def groups(precision: int, scale: int) -> list[int]:
    """Return the number of digits in each group of bytes."""
    whole, part = divmod(precision - scale, 9), divmod(scale, 9)
    return [*filter(None, [whole[1]]), *[9] * (whole[0] + part[0]), *filter(None, [part[1]])]


def decimal_of(data: bytes, precision: int, scale: int) -> Decimal:
    """Return the value of a decimal: the first bit is the sign, and negative values have all bits inverted."""
    turned = bytearray(data)
    negative = turned[0] < 0x80
    turned[0] ^= 0x80
    value, at = 0, 0
    for digits in groups(precision, scale):
        size = DECIMAL_BYTES[digits]
        group = int.from_bytes(turned[at : at + size], "big")
        value = value * 10**digits + (group ^ ((1 << 8 * size) - 1) if negative else group)
        at += size
    return Decimal((int(negative), tuple(map(int, str(value))), -scale))
