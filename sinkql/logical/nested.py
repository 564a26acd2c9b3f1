"""The texts of nested values: maps as in Materialize, `{a=>1,"b c"=>NULL}`; records, `(1,"b c",)`, and arrays and
lists, `{1,2,NULL,"a b"}`, as in Postgres.

Parts are text too, read by the type at their place. Maps have one entry per key, ordered by key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from sinkql.logical.expression import Call, Expression, constant_value
from sinkql.logical.type import Type
from sinkql.regex_repeat import RepeatedPattern

_Held = TypeVar("_Held")
_BLANK = " \t\n\v\f\r"
_BRACED = ("array", "list", "map")
_KEY = RepeatedPattern(r'[^"\\{}=, \t\n\v\f\r]+|\\.|=(?!>)')
_VALUE = RepeatedPattern(r'[^"\\{},=]+|\\.|=(?!>)')
_IN_FIELD = re.compile(r'\\(.)|[",)]', re.DOTALL)
_NEEDS_QUOTES = re.compile(r'.*[\s"\\{},].*|.*=>.*|null|', re.IGNORECASE | re.DOTALL)
_NEEDS_QUOTES_IN_RECORD = re.compile(r'.*[\s"\\(),].*|', re.DOTALL)


def taken(call: Call) -> Expression | None:
    """Return the value of a field of a literal ROW(…), so that no other field is computed."""
    row = call.arguments[0] if call.function == ".(any,text)" else None
    if not isinstance(row, Call) or row.function != "ROW(any…)":
        return None
    name = constant_value(call.arguments[1], str)
    found = dict(zip((field.name for field in row.type.fields), row.arguments, strict=True))[name]
    return found if found.type == call.type else None


def entries(pairs: Iterable[tuple[str, _Held]]) -> tuple[tuple[str, _Held], ...]:
    """Return a map's entries, ordered by key; the last of entries with equal keys."""
    return tuple(sorted(dict(pairs).items(), key=lambda entry: entry[0]))


def map_levels(type_: Type) -> int | None:
    """Return the number of braces around the maps in an array or a list; None if it contains no maps."""
    count = 0
    while type_.name in ("array", "list"):
        count, type_ = count + 1, type_.item
    return count if type_.name == "map" else None


def read_map(text: str) -> list[tuple[str, str | None]]:
    """Return keys and the texts of their values, None for NULL, as written; raises ValueError."""
    text = text.strip(_BLANK)
    if not text.startswith("{") or braces_end(text, 0) != len(text):
        raise ValueError
    found: list[tuple[str, str | None]] = []
    at = _past_blanks(text, 1)
    while at < len(text) - 1:
        if found:
            at = _past(",", text, at)
        key, at = _part_of_map(_KEY, text, at)
        if key is None:
            raise ValueError
        at = _past("=>", text, _past_blanks(text, at))
        value, at = _map_value(text, at)
        found.append((key, value))
        at = _past_blanks(text, at)
    return found


def _map_value(text: str, at: int) -> tuple[str | None, int]:
    if text.startswith("{", at):
        end = braces_end(text, at)
        return text[at:end], end
    return _part_of_map(_VALUE, text, at)


def _part_of_map(unquoted: RepeatedPattern[str], text: str, at: int) -> tuple[str | None, int]:
    """Return a key or a value, None for NULL, and its end."""
    quoted = in_quotes(text, at)
    if quoted is not None:
        return unescaped(quoted), at + len(quoted) + 2
    end = unquoted.end(text, at)
    plain = text[at:end].strip(_BLANK)
    if not plain:
        raise ValueError
    return None if plain.lower() == "null" else unescaped(plain), end


def _past(sign: str, text: str, at: int) -> int:
    if not text.startswith(sign, at):
        raise ValueError
    return _past_blanks(text, at + len(sign))


def _past_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in tuple(_BLANK):
        at += 1
    return at


def read_record(text: str, count: int) -> list[str | None]:
    """Return the texts of a record's fields, None for NULL; raises ValueError if their number is not `count`."""
    text = text.strip(_BLANK)
    if not text.startswith("("):
        raise ValueError
    found: list[str | None] = []
    at, sign = 1, ","
    while sign == ",":
        field, at = _read_field(text, at)
        found.append(field)
        sign = text[at - 1]
    if at != len(text) or len(found) != count:
        raise ValueError
    return found


def _read_field(text: str, begin: int) -> tuple[str | None, int]:
    """Return a field, None for NULL, and the place after its comma or bracket; raises ValueError."""
    parts: list[str] = []
    at, quoted = begin, False
    while (match := _IN_FIELD.search(text, at)) is not None:
        parts.append(text[at : match.start()])
        at, sign = match.end(), match[0]
        if match[1] is not None:
            parts.append(match[1])
        elif sign == '"':
            if quoted and text.startswith('"', at):
                parts.append(sign)
                at += 1
            else:
                quoted = not quoted
        elif quoted:
            parts.append(sign)
        else:
            return "".join(parts) if match.start() > begin else None, at
    raise ValueError


def write_nested(value: Any, type_: Type, scalar: Callable[[Any, Type], str]) -> str:
    """Return the text of an array, a list, a map or a record; `scalar` returns the text of any other value."""
    if type_.name == "record":
        fields = zip(value, type_.fields, strict=True)
        return f"({','.join(_field(each, field.type, scalar) for each, field in fields)})"
    if type_.name == "map":
        held = (f"{_quoted(key)}=>{_part(each, type_.value, scalar)}" for key, each in value)
        return f"{{{','.join(held)}}}"
    return f"{{{','.join(_part(each, type_.item, scalar) for each in value)}}}"


def _part(value: Any, type_: Type, scalar: Callable[[Any, Type], str]) -> str:
    if value is None:
        return "NULL"
    if type_.name in _BRACED:
        return write_nested(value, type_, scalar)
    return _quoted(write_nested(value, type_, scalar) if type_.nested else scalar(value, type_))


def _field(value: Any, type_: Type, scalar: Callable[[Any, Type], str]) -> str:
    if value is None:
        return ""
    text = write_nested(value, type_, scalar) if type_.nested else scalar(value, type_)
    return '"' + re.sub(r'(["\\])', r"\1\1", text) + '"' if _NEEDS_QUOTES_IN_RECORD.fullmatch(text) else text


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"' if _NEEDS_QUOTES.fullmatch(text) else text


Items = list["str | Items | None"]
"""The contents of braces: texts, NULLs, and nested arrays."""

_ARRAY_BLANK = r"[ \t\n\v\f\r]*"
_OPEN = re.compile(rf"{_ARRAY_BLANK}\{{{_ARRAY_BLANK}")
_CLOSE = re.compile(rf"{_ARRAY_BLANK}\}}")
_COMMA = re.compile(rf"{_ARRAY_BLANK},{_ARRAY_BLANK}")
_QUOTED = RepeatedPattern(r'[^"\\]+|\\.')
_PLAIN = RepeatedPattern(r'[^"\\{}, \t\n\v\f\r]+|\\.|[ \t\n\v\f\r]+(?=[^"{}, \t\n\v\f\r])')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MOST_LEVELS = 64
_WITHIN_BRACES = re.compile(r'\\.|["{}]', re.DOTALL)


def read_array(text: str, most: int | None = None) -> Items:
    """Return the items of a text; raises ValueError for another form, and for a text with explicit bounds.

    Inner braces are arrays too; below `most` levels they are texts.
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
    """Return the text between the double quotes at a place, as written; None without two quotes."""
    if not text.startswith('"', at):
        return None
    end = _QUOTED.end(text, at + 1)
    return text[at + 1 : end] if text.startswith('"', end) else None


def unescaped(text: str) -> str:
    """Return a text without its escaping backslashes."""
    return _ESCAPE.sub(r"\1", text) if "\\" in text else text


UNEVEN = "the arrays in it are not of one length"
NO_STEP = "step size cannot equal zero"
UNMATCHED = "multidimensional arrays must have array expressions with matching dimensions"


class UnevenError(ValueError):
    """Arrays inside an array differ in length, or one of them is NULL."""


def squared(items: list[Any], type_: Type) -> list[Any]:
    """Return the elements of an array or a list of a type; raises UnevenError.

    The inner arrays of an array have equal lengths; if a dimension is empty, the whole array is.
    """
    element = type_.element
    if type_.name != "array" or element is None or element.name != "array":
        return items
    lengths = {_lengths(item, element) for item in items}
    if len(lengths) > 1 or None in lengths:
        raise UnevenError
    return [] if any(0 in length for length in lengths if length) else items


def _lengths(value: Any, type_: Type) -> tuple[int, ...] | None:
    """Return the number of elements in each dimension of an array."""
    if not isinstance(value, list | tuple):
        return None
    within = _lengths(value[0], type_.item) if value and type_.item.name == "array" else ()
    return None if within is None else (len(value), *within)


def levels(type_: Type) -> int:
    """Return the number of dimensions of an array type, 0 for another type."""
    return 1 + levels(type_.element) if type_.name == "array" and type_.element is not None else 0


def leaf(type_: Type) -> Type:
    """Return the element type of an array type with all its dimensions."""
    return leaf(type_.element) if type_.name == "array" and type_.element is not None else type_


def braces_end(text: str, start: int) -> int:
    """Return the end of the braces that begin at `start`; raises ValueError if they are not closed."""
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
