"""Classify the parts of a text for highlighting, correct or not; keywords depend on their context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sinkql import keywords
from sinkql.errors import SinkqlError, Span, UnclosedError
from sinkql.keywords import Keywords
from sinkql.parser.read import automaton, lexer, reader
from sinkql.parser.read.automaton import END, Ahead
from sinkql.parser.read.lexer import Lexeme

HighlightKind = Literal["keyword", "option", "name", "string", "number", "comment", "error"]
_KINDS: dict[str, HighlightKind] = {"STRING": "string", "HEX": "string", "NUMBER": "number", "QUOTED": "name"}
_UNCLOSED: dict[str, HighlightKind] = {"'": "string", "$": "string", '"': "name", "*": "comment"}
"""The kind of an unclosed construct by its opening mark."""


@dataclass(frozen=True, slots=True)
class Highlight:
    """A span of the text, and its kind."""

    span: Span
    kind: HighlightKind


def highlights(text: str, words: Keywords) -> Iterator[Highlight]:
    """Yield the highlights of a text in order; the rest is whitespace, symbols and operators."""
    statement: list[Lexeme] = []
    comments: list[Highlight] = []
    at = 0
    try:
        for lexeme in lexer.scan(text):
            comments.extend(_comments(text, at, lexeme.start))
            at = lexeme.end
            statement.append(lexeme)
            if lexeme.kind in (";", "END"):
                yield from _in_order(statement, comments, words)
                statement, comments = [], []
        yield from _comments(text, at, len(text))
    except SinkqlError as error:
        wrong = error.span.start if error.span is not None else at
        comments.extend(_comments(text, at, wrong))
        yield from _in_order([*statement, Lexeme("END", "", at, at)], comments, words)
        kind = _UNCLOSED[error.mark] if isinstance(error, UnclosedError) else "error"
        yield Highlight(Span(wrong, len(text)), kind)


def _in_order(statement: Sequence[Lexeme], comments: Sequence[Highlight], words: Keywords) -> list[Highlight]:
    return sorted([*_statement(statement, words), *comments], key=lambda part: part.span.start)


def _comments(text: str, start: int, end: int) -> Iterator[Highlight]:
    """Yield the comment between two lexemes, if any."""
    gap = text[start:end]
    if gap.strip():
        before = len(gap) - len(gap.lstrip())
        yield Highlight(Span(start + before, start + len(gap.rstrip())), "comment")


def _statement(lexemes: Sequence[Lexeme], words: Keywords) -> Iterator[Highlight]:
    keywords = _keywords(lexemes, words)
    for place, lexeme in enumerate(lexemes):
        kind = _KINDS.get(lexeme.kind)
        if lexeme.kind == "WORD":
            kind = keywords.get(place, "name")
        if kind is not None:
            yield Highlight(lexeme.span, kind)


def _keywords(lexemes: Sequence[Lexeme], words: Keywords) -> dict[int, HighlightKind]:
    """Return the words that the parser reads as keywords or options."""
    found: dict[int, HighlightKind] = {}
    parser: Ahead = automaton.start(words)
    place = 0
    while place < len(lexemes):
        terminal, count = reader.next_terminal(parser, lexemes, place)
        if terminal == END:
            return found
        run = range(place, place + count)
        if terminal in ("LABEL", "OPTION_NAME"):
            found.update((each, "option") for each in run)
        elif terminal in automaton.keywords() or terminal in ("KIND", "FORMAT_NAME") or terminal in keywords.RUNS:
            found.update((each, "keyword") for each in run)
        elif count > 1:
            found.update((each, "keyword") for each in run if lexemes[each].keyword in keywords.QUERY)
        behind = parser.after(terminal)
        if behind is None:
            rest = range(place, len(lexemes))
            known = automaton.keywords() & keywords.QUERY | keywords.RESERVED
            found.update((each, "keyword") for each in rest if lexemes[each].keyword in known)
            return found
        parser = behind
        place += count
    return found
