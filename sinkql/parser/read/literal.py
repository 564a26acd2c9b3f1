"""Source text of names and strings → their values."""

from __future__ import annotations

import re

from sinkql.errors import SinkqlError, Span

_MAX_BYTES = 255
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|''", re.DOTALL)
_SIMPLE = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def folded(text: str, span: Span) -> str:
    """Return an unquoted name's value. Raises SQ1017 for one that is too long."""
    return _checked(text.lower(), span)


def quoted(value: str, span: Span) -> str:
    """Return a quoted name's value. Raises SQ1017 for one that is too long, SQ1018 for one that is not allowed."""
    if value in ("", ".", ".."):
        raise SinkqlError("SQ1018", f'"{value}" is not allowed as a name', span, hint="Choose another name.")
    return _checked(value, span)


def _checked(value: str, span: Span) -> str:
    size = len(value.encode("utf-8", "surrogatepass"))
    if size > _MAX_BYTES:
        raise SinkqlError("SQ1017", f"name has {size} bytes, more than the {_MAX_BYTES} allowed", span)
    return value


def unescaped(text: str, start: int, end: int) -> str:
    """Return the value of an E'…' string's inside, text[start:end]. Raises SQ1015 for an unknown escape."""
    pieces = []
    at = start
    for found in _ESCAPE.finditer(text, start, end):
        pieces += [text[at : found.start()], _replaced(found)]
        at = found.end()
    return "".join([*pieces, text[at:end]])


def _replaced(found: re.Match[str]) -> str:
    if found[0] == "''":
        return "'"
    escape, span = found[1], Span(*found.span())
    if len(escape) > 1:
        return _character(int(escape[1:], 16), span)
    if escape in "uUxX01234567":
        raise _bad(found[0], span)
    return _SIMPLE.get(escape, escape)


def _character(number: int, span: Span) -> str:
    if number == 0 or 0xD800 <= number <= 0xDFFF or number > 0x10FFFF:
        raise SinkqlError("SQ1015", f"invalid character U+{number:04X}", span)
    return chr(number)


def _bad(escape: str, span: Span) -> SinkqlError:
    return SinkqlError(
        "SQ1015",
        f"invalid escape sequence {escape}",
        span,
        hint=r"Write \uXXXX or \UXXXXXXXX with hexadecimal digits, or \\ for a backslash.",
    )
