"""Replace the variables `:name`, `:'name'` and `:"name"` in a text, and map its positions back to the original.

`:name` inserts the value unchanged, `:'name'` as a string, `:"name"` as a quoted name. Strings, quoted
names, comments and casts (`::`) are left alone. A program that only rewrites a text, such as the formatter, uses
`stand_ins` instead of values.
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


_PRIVATE = range(0xE000, 0xF8FF)
"""Characters without a meaning, which a text may only contain in strings, names and comments."""
_FILLER = chr(0xF8FF)
_STAND_IN = re.compile(rf"(['\"]?)([{chr(_PRIVATE[0])}-{chr(_PRIVATE[-1])}]){_FILLER}+\1")


@dataclass(frozen=True, slots=True)
class _Use:
    """A use of a variable: its span in the text, its name, and the quote around the name, which may be empty."""

    span: Span
    name: str
    quote: str

    def value(self, values: Mapping[str, str]) -> str:
        """Return the text that replaces the use; raises SQ4033 for an undefined variable."""
        value = _value(self.name, self.span, values)
        match self.quote:
            case "'":
                return "'" + value.replace("'", "''") + "'"
            case '"':
                return keywords.quoted(value)
            case _:
                return value


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
        index = bisect_right(self._moved, reached, key=lambda move: move[0]) - 1
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
    for use in _uses(text):
        between, value = text[end : use.span.start], use.value(values)
        length += len(between)
        moved.append((length, use.span, len(value)))
        parts += [between, value]
        length += len(value)
        end = use.span.end
    return Substituted("".join([*parts, text[end:]]), tuple(moved))


@dataclass(frozen=True, slots=True)
class StandIns:
    """A text with a name or a string of the same length for each use of a variable, so that all spans stay."""

    text: str
    _uses: tuple[str, ...]
    """The uses as the text writes them, by the number in their stand-in."""

    def restore(self, text: str) -> str:
        """Return a text with the uses in place of their stand-ins."""
        return _STAND_IN.sub(lambda match: self._uses[ord(match[2]) - _PRIVATE[0]], text) if self._uses else text


def stand_ins(text: str) -> StandIns:
    """Return a text that parses without the values of its variables, if names or strings may stand there.

    The stand-ins are characters for private use. A text that contains such characters stays unchanged.
    """
    if any(ord(character) in _PRIVATE or character == _FILLER for character in text):
        return StandIns(text, ())
    parts, numbers = [], dict[str, int]()
    end = 0
    for use in _uses(text):
        number = numbers.setdefault(text[use.span.start : use.span.end], len(numbers))
        if number >= len(_PRIVATE):
            return StandIns(text, ())
        stand_in = chr(_PRIVATE[number]) + _FILLER * len(use.name)
        parts += [text[end : use.span.start], use.quote, stand_in, use.quote]
        end = use.span.end
    return StandIns("".join([*parts, text[end:]]), tuple(numbers))


def _uses(text: str) -> Iterator[_Use]:
    if ":" not in text:
        return
    colon: lexer.Lexeme | None = None
    for lexeme in _lexemes(text):
        if colon is not None and colon.end == lexeme.start:
            use = _use(colon, lexeme)
            if use is not None:
                yield use
        colon = lexeme if lexeme.kind == ":" else None


def _lexemes(text: str) -> Iterator[lexer.Lexeme]:
    """Yield the lexemes before the first lexical error, which the parser will report."""
    try:
        yield from lexer.scan(text)
    except SinkqlError:
        return


def _use(colon: lexer.Lexeme, lexeme: lexer.Lexeme) -> _Use | None:
    span = Span(colon.start, lexeme.end)
    name = lexeme.text[1:-1]
    match lexeme.kind:
        case "WORD" if _NAME.match(lexeme.text):
            return _Use(span, lexeme.text, "")
        case "STRING" if lexeme.text[0] == "'" and _NAME.match(name):
            return _Use(span, name, "'")
        case "QUOTED" if _NAME.match(name):
            return _Use(span, name, '"')
        case _:
            return None


def _value(name: str, span: Span, values: Mapping[str, str]) -> str:
    if name in values:
        return values[name]
    near = nearest(name, tuple(values))
    hint = f"Did you mean :{near}?" if near else f"In the shell run \\set {name} value; elsewhere add -v {name}=value."
    raise SinkqlError("SQ4033", f'variable "{name}" is not set', span, hint=hint)
