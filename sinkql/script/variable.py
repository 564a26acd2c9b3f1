"""Replace the variables `:name`, `:'name'` and `:"name"` in a text, and map its positions back to the original.

`:name` inserts the value unchanged, `:'name'` as a string, `:"name"` as a quoted name. Strings, quoted
names, comments and casts (`::`) are left alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sinkql import keywords
from sinkql.errors import SinkqlError, Span, nearest
from sinkql.parser.read import lexer

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class _Use:
    """A use of a variable: its span in the original, and the text that replaces it."""

    span: Span
    value: str


@dataclass(frozen=True, slots=True)
class Substituted:
    """A text with the values of its variables; `original` maps its spans back to the text before."""

    text: str
    _moved: tuple[tuple[int, Span, int], ...] = ()
    """For each use: the start of its value in the new text, its span in the old text, the value's length."""

    def original(self, span: Span) -> Span:
        """Return the span of the old text; any part of a value maps to the whole use of its variable."""
        return Span(self._place(span.start, at_end=False), self._place(span.end, at_end=True))

    def _place(self, place: int, *, at_end: bool) -> int:
        reached = place - 1 if at_end and place > 0 else place
        index = bisect_right(self._moved, reached, key=lambda each: each[0]) - 1
        if index < 0:
            return place
        start, span, length = self._moved[index]
        if reached < start + length:
            return span.end if at_end else span.start
        return span.end + place - start - length


def substitute(text: str, values: Mapping[str, str]) -> Substituted:
    """Insert the variables' values into a text; raises SQ4033 for an undefined variable."""
    parts, moved = [], []
    end = length = 0
    for use in _uses(text, values):
        kept = text[end : use.span.start]
        length += len(kept)
        moved.append((length, use.span, len(use.value)))
        parts += [kept, use.value]
        length += len(use.value)
        end = use.span.end
    return Substituted("".join([*parts, text[end:]]), tuple(moved))


def _uses(text: str, values: Mapping[str, str]) -> Iterator[_Use]:
    if ":" not in text:
        return
    colon: lexer.Lexeme | None = None
    for lexeme in _lexemes(text):
        if colon is not None and colon.end == lexeme.start:
            use = _use(colon, lexeme, values)
            if use is not None:
                yield use
        colon = lexeme if lexeme.kind == ":" else None


def _lexemes(text: str) -> Iterator[lexer.Lexeme]:
    """Yield the lexemes before the first lexical error, which the parser will report."""
    try:
        yield from lexer.scan(text)
    except SinkqlError:
        return


def _use(colon: lexer.Lexeme, lexeme: lexer.Lexeme, values: Mapping[str, str]) -> _Use | None:
    span = Span(colon.start, lexeme.end)
    quoted = lexeme.text[1:-1]
    match lexeme.kind:
        case "WORD" if _NAME.match(lexeme.text):
            return _Use(span, _value(lexeme.text, span, values))
        case "STRING" if lexeme.text[0] == "'" and _NAME.match(quoted):
            return _Use(span, "'" + _value(quoted, span, values).replace("'", "''") + "'")
        case "QUOTED" if _NAME.match(quoted):
            return _Use(span, keywords.quoted(_value(quoted, span, values)))
        case _:
            return None


def _value(name: str, span: Span, values: Mapping[str, str]) -> str:
    if name in values:
        return values[name]
    near = nearest(name, tuple(values))
    hint = f"Did you mean :{near}?" if near else f"In the shell run \\set {name} value; elsewhere add -v {name}=value."
    raise SinkqlError("SQ4033", f'variable "{name}" is not set', span, hint=hint)
