"""sqlglot's tokens of a query → the same with every string as Postgres reads it: one plain string with its value."""

from __future__ import annotations

import re
from typing import Any

from sqlglot.tokens import TokenType

from sinkql.parser.read.lexical import scan

_PLAIN = re.compile(r"'((?:[^']|'')*)'(?!\s*')")
"""A string without a letter in front that does not go on in another line."""
_STRINGS = (TokenType.STRING, TokenType.BYTE_STRING, TokenType.HEREDOC_STRING, TokenType.RAW_STRING)


def string_value(written: str) -> str | None:
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
