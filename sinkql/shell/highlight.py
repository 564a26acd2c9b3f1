"""Typed text → styled text, by what the parser takes each word for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.lexers import Lexer

from sinkql.errors import Span
from sinkql.parser.mark import marks
from sinkql.shell.piece import Command, pieces

_LONGEST = 20_000
"""A text longer than this is not highlighted: typing stays quick."""


class SqlLexer(Lexer):
    """Style statements and backslash commands."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        lines = _lines(document.text)
        return lambda number: lines[number] if number < len(lines) else []


@lru_cache(maxsize=8)
def _lines(text: str) -> list[StyleAndTextTuples]:
    lines: list[StyleAndTextTuples] = [[]]
    for style, part in _parts(text):
        for number, piece in enumerate(part.split("\n")):
            if number:
                lines.append([])
            if piece:
                lines[-1].append((style, piece))
    return lines


def _parts(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    for span, style in _styles(text) if len(text) <= _LONGEST else ():
        yield "", text[at : span.start]
        yield style, text[span.start : span.end]
        at = span.end
    yield "", text[at:]


def _styles(text: str) -> Iterator[tuple[Span, str]]:
    at = 0
    for piece in pieces(text):
        if isinstance(piece, Command):
            yield from _sql(text, at, piece.span.start)
            yield piece.span, "class:sql.command"
            at = piece.span.end
    yield from _sql(text, at, len(text))


def _sql(text: str, start: int, end: int) -> Iterator[tuple[Span, str]]:
    for mark in marks(text[start:end]):
        yield mark.span.shifted(start), f"class:sql.{mark.kind}"
