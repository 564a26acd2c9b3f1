"""Text → ast.

* `read`: text to lexemes, and the lexemes of one statement to Lark's tree; here a word becomes a keyword or a name.
* `build`: the tree to a statement.
* `mistake`: a token that cannot stand where it does to an error with its fix.
* `assist`: text that is being typed to what helps with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sinkql import ast
from sinkql.errors import SinkqlError
from sinkql.parser.build import statement as build
from sinkql.parser.mistake import unclosed
from sinkql.parser.mistake.complaint import complaint
from sinkql.parser.read import lexical, reader
from sinkql.parser.read.lexical import Lexeme
from sinkql.parser.read.reader import StuckError
from sinkql.parser.read.tree import only
from sinkql.vocabulary import LANGUAGE, Vocabulary


def parse(text: str, words: Vocabulary = LANGUAGE) -> tuple[ast.Statement, ...]:
    """Return the statements of a script; spans are offsets into `text`.

    `words` are those of the installed connectors; what was printed from a statement is read without them.

    Raises SinkqlError: SQ10xx for what is not a statement, SQ29xx for one that this version does not support.
    """
    lexical.check_characters(text)
    try:
        return tuple(_statement(lexemes, text, words) for lexemes in _split(text))
    except SinkqlError as error:
        raise unclosed.blamed(error, text) from None


def parse_each(text: str, words: Vocabulary = LANGUAGE) -> Iterator[ast.Statement | SinkqlError]:
    """Yield each statement of a script, or what is wrong with it; after a mistake it goes on behind the semicolon."""
    try:
        lexical.check_characters(text)
        for lexemes in _split(text):
            try:
                yield _statement(lexemes, text, words)
            except SinkqlError as error:
                yield unclosed.blamed(error, text)
    except SinkqlError as error:
        yield unclosed.blamed(error, text)


def _split(text: str) -> Iterator[list[Lexeme]]:
    """Yield the lexemes of each statement, its semicolon or the text's end included; empty statements are left out."""
    lexemes: list[Lexeme] = []
    for lexeme in lexical.scan(text):
        lexemes.append(lexeme)
        if lexeme.kind in (";", "END"):
            if len(lexemes) > 1:
                yield lexemes
            lexemes = []


def _statement(lexemes: list[Lexeme], text: str, words: Vocabulary) -> ast.Statement:
    try:
        tree = reader.read(lexemes, text, words)
    except StuckError as stuck:
        raise complaint(stuck) from None
    return build.statement(only(tree))
