"""Texts of arrays and lists, as Postgres reads and writes them: `{1,2,NULL,"a b"}`."""

from __future__ import annotations

import re
from collections.abc import Sequence

Items = list["str | Items | None"]
"""What stands between the braces: texts, NULLs, and the same of arrays within."""

_BLANK = r"[ \t\n\v\f\r]*"
_OPEN = re.compile(rf"{_BLANK}\{{{_BLANK}")
_CLOSE = re.compile(rf"{_BLANK}\}}")
_COMMA = re.compile(rf"{_BLANK},{_BLANK}")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_PLAIN = re.compile(r'(?:[^"\\{}, \t\n\v\f\r]|\\.|[ \t\n\v\f\r]+(?=[^"{}, \t\n\v\f\r]))++', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MOST_LEVELS = 64
_NEEDS_QUOTES = re.compile(r'.*[\s"\\{},].*|null|', re.IGNORECASE | re.DOTALL)


def read_array(text: str) -> Items:
    """Return the items of a text; raises ValueError for one of another form, and for one that gives its bounds."""
    found, end = _items(text, 0, 1)
    if text[end:].strip(" \t\n\v\f\r"):
        raise ValueError
    return found


def _items(text: str, start: int, level: int) -> tuple[Items, int]:
    opened = _OPEN.match(text, start)
    if opened is None or level > _MOST_LEVELS:
        raise ValueError
    at, found = opened.end(), Items()
    closed = _CLOSE.match(text, at)
    while closed is None:
        item, at = _item(text, at, level)
        found.append(item)
        closed = _CLOSE.match(text, at)
        if closed is None:
            comma = _COMMA.match(text, at)
            if comma is None:
                raise ValueError
            at = comma.end()
    return found, closed.end()


def _item(text: str, at: int, level: int) -> tuple[str | Items | None, int]:
    if text.startswith("{", at):
        return _items(text, at, level + 1)
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        return _ESCAPE.sub(r"\1", quoted[1]), quoted.end()
    plain = _PLAIN.match(text, at)
    if plain is None:
        raise ValueError
    if plain[0].lower() == "null":
        return None, plain.end()
    return _ESCAPE.sub(r"\1", plain[0]), plain.end()


def write_array(items: Sequence[str | Sequence[object] | None]) -> str:
    """Return the text of items."""
    return "{" + ",".join(map(_written, items)) + "}"


def _written(item: object) -> str:
    if item is None:
        return "NULL"
    if not isinstance(item, str):
        assert isinstance(item, Sequence)
        return write_array(item)
    return '"' + re.sub(r'(["\\])', r"\\\1", item) + '"' if _NEEDS_QUOTES.fullmatch(item) else item
