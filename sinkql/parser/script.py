"""Parse the statements of a script, each separately."""

from __future__ import annotations

from collections.abc import Iterator

from sinkql import ast
from sinkql.errors import SinkqlError
from sinkql.keywords import LANGUAGE, Keywords
from sinkql.parser.read import lexer, reader
from sinkql.parser.read.lexer import Lexeme
from sinkql.parser.read.reader import StuckError
from sinkql.parser.read.tree import only
from sinkql.parser.transform import statement as build


def parse(text: str, words: Keywords = LANGUAGE) -> tuple[ast.Statement, ...]:
    """Return the statements of a script; see `sinkql.parser.parse`."""
    lexer.check_characters(text)
    try:
        return tuple(_statement(lexemes, text, words) for lexemes in _split(text))
    except SinkqlError as error:
        raise _blamed(error, text) from None


def parse_each(text: str, words: Keywords = LANGUAGE) -> Iterator[ast.Statement | SinkqlError]:
    """Yield each statement of a script, or its error; see `sinkql.parser.parse_each`."""
    try:
        lexer.check_characters(text)
        for lexemes in _split(text):
            try:
                yield _statement(lexemes, text, words)
            except SinkqlError as error:
                yield _blamed(error, text)
    except SinkqlError as error:
        yield _blamed(error, text)


def _split(text: str) -> Iterator[list[Lexeme]]:
    """Yield the lexemes of each statement, with its semicolon or the text's end; empty statements are left out."""
    lexemes: list[Lexeme] = []
    for lexeme in lexer.scan(text):
        lexemes.append(lexeme)
        if lexeme.kind in (";", "END"):
            if len(lexemes) > 1:
                yield lexemes
            lexemes = []


def _statement(lexemes: list[Lexeme], text: str, words: Keywords) -> ast.Statement:
    try:
        tree = reader.read(lexemes, text, words)
    except StuckError as stuck:
        from sinkql.parser.hint.syntax_error import syntax_error  # loads only for a mistake

        raise syntax_error(stuck) from None
    return build.statement(only(tree))


def _blamed(error: SinkqlError, text: str) -> SinkqlError:
    from sinkql.parser.hint import syntax_error  # loads only for a mistake

    return syntax_error.at_unclosed_string(error, text)
