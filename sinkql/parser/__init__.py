"""Text → ast.

* `lexical` (with `literal`, `odd`): text to lexemes; strings, comments and names are whole and valid after it.
* `grammar`: the files of the grammar to Lark's tables.
* `reader` (with `automaton`, `lookahead`): one statement's lexemes to Lark's tree; here a word becomes
  a keyword or a name.
* `complaint` (with `habit`, `refusal`, `repair`, `clause`, `shape`): a token that cannot stand there to an error and
  its fix.
* `unclosed`: an error behind a string without an end to one at that string.
* `build` (with `build_secret`, `build_table`, `build_source`, `build_sink`, `value`, `tree`): the tree to a statement.
* `secret`: text, right or wrong, to where it holds secrets.
"""

from __future__ import annotations

from collections.abc import Iterator

from sinkql import ast
from sinkql.errors import SinkqlError
from sinkql.parser import build, lexical, reader, unclosed
from sinkql.parser.lexical import Lexeme
from sinkql.parser.tree import only


def parse(text: str) -> tuple[ast.Statement, ...]:
    """Return the statements of a script; spans are offsets into `text`.

    Raises SinkqlError: SQ10xx for what is no statement, SQ29xx for a statement that this version has not.
    """
    lexical.check_characters(text)
    try:
        return tuple(_statement(lexemes, text) for lexemes in _split(text))
    except SinkqlError as error:
        raise unclosed.blamed(error, text) from None


def parse_each(text: str) -> Iterator[ast.Statement | SinkqlError]:
    """Yield each statement of a script, or what is wrong with it; after a mistake it goes on behind the semicolon."""
    try:
        lexical.check_characters(text)
        for lexemes in _split(text):
            try:
                yield _statement(lexemes, text)
            except SinkqlError as error:
                yield unclosed.blamed(error, text)
    except SinkqlError as error:
        yield unclosed.blamed(error, text)


def complete(text: str) -> bool:
    """Say whether an interactive input is finished: its last token is a semicolon, and nothing is left open."""
    last = None
    try:
        for lexeme in lexical.scan(text):
            if lexeme.kind != "END":
                last = lexeme
    except SinkqlError:
        return False
    return last is not None and last.kind == ";"


def _split(text: str) -> Iterator[list[Lexeme]]:
    """Yield the lexemes of each statement, its semicolon or the text's end included; empty statements are left out."""
    lexemes: list[Lexeme] = []
    for lexeme in lexical.scan(text):
        lexemes.append(lexeme)
        if lexeme.kind in (";", "END"):
            if len(lexemes) > 1:
                yield lexemes
            lexemes = []


def _statement(lexemes: list[Lexeme], text: str) -> ast.Statement:
    return build.statement(only(reader.read(lexemes, text)))
