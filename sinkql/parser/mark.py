"""Text, right or wrong → what each part of it is, for highlighting: keywords as they stand in context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sinkql import words
from sinkql.errors import SinkqlError, Span
from sinkql.parser import grammar, lexical, reader
from sinkql.parser.automaton import END, Ahead
from sinkql.parser.lexical import Lexeme

MarkKind = Literal["keyword", "option", "name", "string", "number", "comment", "error"]
_KINDS: dict[str, MarkKind] = {"STRING": "string", "HEX": "string", "NUMBER": "number", "QUOTED": "name"}


@dataclass(frozen=True, slots=True)
class Mark:
    """Hold what stands at a place of the text."""

    span: Span
    kind: MarkKind


def marks(text: str) -> Iterator[Mark]:
    """Yield the marks of a text in order; what is neither is whitespace, a symbol or an operator."""
    statement: list[Lexeme] = []
    comments: list[Mark] = []
    at = 0
    try:
        for lexeme in lexical.scan(text):
            comments.extend(_comments(text, at, lexeme.start))
            at = lexeme.end
            statement.append(lexeme)
            if lexeme.kind in (";", "END"):
                yield from _in_order(statement, comments)
                statement, comments = [], []
        yield from _comments(text, at, len(text))
    except SinkqlError as error:
        wrong = error.span.start if error.span is not None else at
        comments.extend(_comments(text, at, wrong))
        yield from _in_order([*statement, Lexeme("END", "", at, at)], comments)
        unclosed: dict[str, MarkKind] = {"SQ1011": "string", "SQ1012": "comment", "SQ1013": "name", "SQ1014": "string"}
        yield Mark(Span(wrong, len(text)), unclosed.get(error.code, "error"))


def _in_order(statement: Sequence[Lexeme], comments: Sequence[Mark]) -> list[Mark]:
    return sorted([*_statement(statement), *comments], key=lambda mark: mark.span.start)


def _comments(text: str, start: int, end: int) -> Iterator[Mark]:
    """Yield the comment between two lexemes, if there is one."""
    gap = text[start:end]
    if gap.strip():
        before = len(gap) - len(gap.lstrip())
        yield Mark(Span(start + before, start + len(gap.rstrip())), "comment")


def _statement(lexemes: Sequence[Lexeme]) -> Iterator[Mark]:
    keywords = _keywords(lexemes)
    for place, lexeme in enumerate(lexemes):
        kind = _KINDS.get(lexeme.kind)
        if lexeme.kind == "WORD":
            kind = keywords.get(place, "name")
        if kind is not None:
            yield Mark(lexeme.span, kind)


def _keywords(lexemes: Sequence[Lexeme]) -> dict[int, MarkKind]:
    """Return which words are keywords or options, by what the parser takes them for."""
    found: dict[int, MarkKind] = {}
    parser: Ahead = grammar.start()
    place = 0
    while place < len(lexemes):
        terminal, count = reader.next_terminal(parser, lexemes, place)
        if terminal == END:
            return found
        run = range(place, place + count)
        if terminal in ("LABEL", "OPTION_NAME"):
            found.update((each, "option") for each in run)
        elif terminal in grammar.keywords() or terminal == "KIND" or terminal in words.RUNS:
            found.update((each, "keyword") for each in run)
        elif count > 1:
            found.update((each, "keyword") for each in run if lexemes[each].keyword in words.QUERY)
        behind = parser.after(terminal)
        if behind is None:
            rest = range(place, len(lexemes))
            known = grammar.keywords() & words.QUERY | words.RESERVED
            found.update((each, "keyword") for each in rest if lexemes[each].keyword in known)
            return found
        parser = behind
        place += count
    return found
