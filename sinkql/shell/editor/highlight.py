"""Style the typed text by the parser's meaning of each word."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer

from sinkql.errors import Span
from sinkql.keywords import Keywords
from sinkql.parser.assist.highlight import highlights
from sinkql.script.split import Command, split

_LONGEST = 20_000
"""A longer text is not highlighted, so that typing stays fast."""


class SqlLexer(Lexer):
    """Styles statements and backslash commands."""

    def __init__(self, words: Keywords) -> None:
        self._words = words

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = _lines(document.text, self._words)
        return lambda number: lines[number] if number < len(lines) else []


@lru_cache(maxsize=8)
def _lines(text: str, words: Keywords) -> list[StyleAndTextTuples]:
    lines: list[StyleAndTextTuples] = [[]]
    for style, part in _parts(text, words):
        for number, line in enumerate(part.split("\n")):
            if number:
                lines.append([])
            if line:
                lines[-1].append((style, line))
    return lines


def _parts(text: str, words: Keywords) -> Iterator[tuple[str, str]]:
    at = 0
    for span, style in _styles(text, words) if len(text) <= _LONGEST else ():
        yield "", text[at : span.start]
        yield style, text[span.start : span.end]
        at = span.end
    yield "", text[at:]


def _styles(text: str, words: Keywords) -> Iterator[tuple[Span, str]]:
    at = 0
    for command in split(text):
        if isinstance(command, Command):
            yield from _sql(text[at : command.span.start], at, words)
            yield command.span, "class:sql.command"
            at = command.span.end
    yield from _sql(text[at:], at, words)


def _sql(text: str, start: int, words: Keywords) -> Iterator[tuple[Span, str]]:
    for part in highlights(text, words):
        yield part.span.shifted(start), f"class:sql.{part.kind}"
