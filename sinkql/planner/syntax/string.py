"""A query's text as sqlglot is to read it, and its tokens: words in one case, no comments, plain strings.

sqlglot keeps words as they were typed, and takes two words with a comment between them for others than it would take
them for without. So it gets a text that says the same, in which each word has the place that it has in the query's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sqlglot.tokens import TokenType

from sinkql.parser.read.lexer import Lexeme, scan

_PLAIN = re.compile(r"'((?:[^']|'')*)'(?!\s*')")
"""A string without a letter in front that does not go on in another line."""
_BETWEEN = re.compile(r"[^\r\n]")
"""What becomes a blank between words; line ends stay."""
_STRINGS = (TokenType.STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING, TokenType.RAW_STRING)


def spelled(text: str, lexemes: Iterable[Lexeme]) -> str:
    """Return a text of the same length, with its keywords and unquoted names in capitals and blanks for its comments.

    Letters that are not of ASCII stay: they are in no keyword, and may have no capitals of one character.
    """
    pieces, at = [], 0
    for lexeme in lexemes:
        pieces.append(_BETWEEN.sub(" ", text[at : lexeme.start]))
        word = text[lexeme.start : lexeme.end]
        pieces.append(_capitals(word) if lexeme.kind == "WORD" else word)
        at = lexeme.end
    return "".join([*pieces, _BETWEEN.sub(" ", text[at:])])


def _capitals(word: str) -> str:
    return word.upper() if word.isascii() else "".join(each.upper() if each.isascii() else each for each in word)


def literal_value(written: str) -> str | None:
    """Return the value of a string literal as it was written, '…' or E'…'; None for any other text."""
    found = _string_at(written, 0)
    return found[0] if found is not None and found[1] == len(written) else None


def plain_strings(tokens: list[Any], text: str) -> list[Any]:
    """Return the tokens; a string that goes on in another line is one, and E'…' and $$…$$ are strings like any."""
    found: list[Any] = []
    end = 0
    for token in tokens:
        if token.start < end:
            continue  # the string before goes on here
        string = _string_at(text, token.start) if token.token_type in _STRINGS else None
        if token.token_type == TokenType.RLIKE and token.text.isalpha():  # a name as any: ~ is the operator
            found.append(type(token)(TokenType.VAR, token.text, token.line, token.col, token.start, token.end))
            continue
        if string is None:
            found.append(token)
            continue
        value, end = string
        place = token.line, token.col, token.start, end - 1
        found.append(type(token)(TokenType.STRING, value, *place, token.comments))
    return found


def _string_at(text: str, start: int) -> tuple[str, int] | None:
    """Return the value of the string that begins at `start`, and its end; None for what is no string."""
    plain = _PLAIN.match(text, start)
    if plain is not None:
        return plain[1].replace("''", "'"), plain.end()
    lexeme = next(scan(text, start))
    return (lexeme.value, lexeme.end) if lexeme.kind == "STRING" else None
