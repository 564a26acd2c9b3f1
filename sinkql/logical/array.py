"""Texts of arrays and lists, as Postgres reads them: `{1,2,NULL,"a b"}`."""

from __future__ import annotations

import re
from typing import Any

from sinkql.logical.type import Type
from sinkql.regex_repeat import RepeatedPattern

Items = list["str | Items | None"]
"""What stands between the braces: texts, NULLs, and the same of arrays within."""

_BLANK = r"[ \t\n\v\f\r]*"
_OPEN = re.compile(rf"{_BLANK}\{{{_BLANK}")
_CLOSE = re.compile(rf"{_BLANK}\}}")
_COMMA = re.compile(rf"{_BLANK},{_BLANK}")
_QUOTED = RepeatedPattern(r'[^"\\]+|\\.')
_PLAIN = RepeatedPattern(r'[^"\\{}, \t\n\v\f\r]+|\\.|[ \t\n\v\f\r]+(?=[^"{}, \t\n\v\f\r])')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MOST_LEVELS = 64
_WITHIN_BRACES = re.compile(r'\\.|["{}]', re.DOTALL)


def read_array(text: str, most: int | None = None) -> Items:
    """Return the items of a text; raises ValueError for one of another form, and for one that gives its bounds.

    What stands in braces within is an array too; in more than `most` braces it is a text.
    """
    found, end = _items(text, 0, 1, most)
    if text[end:].strip(" \t\n\v\f\r"):
        raise ValueError
    return found


def _items(text: str, start: int, level: int, most: int | None) -> tuple[Items, int]:
    opened = _OPEN.match(text, start)
    if opened is None or level > _MOST_LEVELS:
        raise ValueError
    at, found = opened.end(), Items()
    closed = _CLOSE.match(text, at)
    while closed is None:
        item, at = _item(text, at, level, most)
        found.append(item)
        closed = _CLOSE.match(text, at)
        if closed is None:
            comma = _COMMA.match(text, at)
            if comma is None:
                raise ValueError
            at = comma.end()
    return found, closed.end()


def _item(text: str, at: int, level: int, most: int | None) -> tuple[str | Items | None, int]:
    if text.startswith("{", at):
        if level == most:
            end = braces_end(text, at)
            return text[at:end], end
        return _items(text, at, level + 1, most)
    quoted = in_quotes(text, at)
    if quoted is not None:
        return unescaped(quoted), at + len(quoted) + 2
    end = _PLAIN.end(text, at)
    plain = text[at:end]
    if not plain:
        raise ValueError
    return None if plain.lower() == "null" else unescaped(plain), end


def in_quotes(text: str, at: int) -> str | None:
    """Return what stands between the double quotes that begin at a place, as written; None without two quotes."""
    if not text.startswith('"', at):
        return None
    end = _QUOTED.end(text, at + 1)
    return text[at + 1 : end] if text.startswith('"', end) else None


def unescaped(text: str) -> str:
    """Return a text without the backslashes that have a character stand for itself."""
    return _ESCAPE.sub(r"\1", text) if "\\" in text else text


UNEVEN = "the arrays in it are not of one length"
NO_STEP = "step size cannot equal zero"
UNMATCHED = "multidimensional arrays must have array expressions with matching dimensions"


class UnevenError(ValueError):
    """Arrays within an array are not of one length, or one of them is NULL."""


def squared(items: list[Any], type_: Type) -> list[Any]:
    """Return the elements of an array or a list of a type; raises UnevenError.

    An array of several dimensions has arrays of one length within, and no elements where a dimension has none.
    """
    element = type_.element
    if type_.name != "array" or element is None or element.name != "array":
        return items
    lengths = {_lengths(each, element) for each in items}
    if len(lengths) > 1 or None in lengths:
        raise UnevenError
    return [] if any(0 in each for each in lengths if each) else items


def _lengths(value: Any, type_: Type) -> tuple[int, ...] | None:
    """Return how many elements an array has in each of its dimensions."""
    if not isinstance(value, list | tuple):
        return None
    assert type_.element is not None
    within = _lengths(value[0], type_.element) if value and type_.element.name == "array" else ()
    return None if within is None else (len(value), *within)


def levels(type_: Type) -> int:
    """Return how many dimensions the arrays of a type have, 0 of another type."""
    return 1 + levels(type_.element) if type_.name == "array" and type_.element is not None else 0


def leaf(type_: Type) -> Type:
    """Return what the arrays of a type have in all their dimensions."""
    return leaf(type_.element) if type_.name == "array" and type_.element is not None else type_


def braces_end(text: str, start: int) -> int:
    """Return where what begins with a brace at `start` ends; raises ValueError where it does not."""
    depth, quoted = 0, False
    for match in _WITHIN_BRACES.finditer(text, start):
        sign = match[0]
        if sign == '"':
            quoted = not quoted
        elif not quoted and sign in "{}":
            depth += 1 if sign == "{" else -1
            if depth == 0:
                return match.end()
    raise ValueError
