"""Bytes of a server's character set → text, character by character what the server itself makes of them."""

from __future__ import annotations

import codecs
from collections.abc import Callable

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
"""Where the servers' tables differ from those of Python."""

UTF8 = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})
"""Character sets whose bytes are those of UTF-8."""

ASCII_TOO = UTF8 | _SINGLE.keys() | {"gbk", "gb2312", "euckr", "cp932"}
"""Character sets in which bytes below 128 are those of ASCII."""

SINGLE = tuple(_SINGLE)
"""Character sets in which every byte is a character."""


WIDEST = {
    "utf8mb4": 4, "utf8mb3": 3, "utf8": 3, "ucs2": 2, "utf16": 4, "utf16le": 4, "utf32": 4, "gbk": 2, "gb2312": 2,
    "euckr": 2, "cp932": 2,
}  # fmt: skip
"""How many bytes a character may have, where that is more than one."""


def decoder(charset: str) -> Decode | None:
    """Return what decodes a character set's bytes, raising ValueError; None for one that is not known."""
    if charset in _SAME:
        name = _SAME[charset]
        return lambda data: data.decode(name)
    if charset not in _SINGLE:
        return None
    table = "".join(_character(charset, byte) for byte in range(256))
    return lambda data: codecs.charmap_decode(data, "strict", table)[0]


def _character(charset: str, byte: int) -> str:
    found = _OTHERWISE.get(charset, {}).get(byte)
    if found is not None:
        return found
    try:
        return bytes((byte,)).decode(_SINGLE[charset])
    except ValueError:
        return "\ufffe"  # which says that there is none
