"""An error behind a string that lacks its end → the error at that string.

A quote that is missing turns what follows inside out: strings begin where they should end, up to the end of the text.
"""

from __future__ import annotations

import re

from sinkql.errors import SinkqlError, Span, UnclosedError, UnexpectedWordError
from sinkql.parser.read import lexer
from sinkql.parser.read.lexer import Lexeme

_SWALLOWED = re.compile(r"\n[ \t]*\w|;[ \t]*\n")
_WORD_BEFORE = re.compile(r"[\w./:-]+\Z")
_BEGINNING = re.compile(r"[^\s,;)]+")


def at_unclosed_string(error: SinkqlError, text: str) -> SinkqlError:
    """Return the error at the string without an end if there is one before `error`, else `error`."""
    if not _may_stand_behind(error) or error.span is None:
        return error
    never_closed = isinstance(error, UnclosedError)
    for lexeme in _before(error, text):
        word = _WORD_BEFORE.search(text, max(0, lexeme.start - 80), lexeme.start)
        if word is not None and lexeme.text[0] == "'":
            return _never_begun(word)
        if _inside_out(lexeme, text, alone=never_closed):
            beginning = _BEGINNING.match(text, lexeme.start)
            assert beginning is not None
            return lexer.unclosed(lexeme.text[0], Span(lexeme.start, min(beginning.end(), lexeme.end)))
    if isinstance(error, UnclosedError) and error.mark == "'":
        word = _WORD_BEFORE.search(text, max(0, error.span.start - 80), error.span.start)
        if word is not None and text[error.span.start] == "'":
            return _never_begun(word)
    return error


def _may_stand_behind(error: SinkqlError) -> bool:
    """Say whether a missing quote further up may have caused the error."""
    match error:
        case UnexpectedWordError():
            return True
        case UnclosedError():
            return error.mark in ("'", '"')
        case _:
            return False


def _never_begun(word: re.Match[str]) -> SinkqlError:
    return SinkqlError(
        "SQ1007",
        f'a quote is missing before "{word[0]}"',
        Span(*word.span()),
        hint=f"Write '{word[0]}': a string has a quote on both sides.",
    )


def _before(error: SinkqlError, text: str) -> list[Lexeme]:
    """Return the strings and quoted names of the error's statement, up to its place."""
    found: list[Lexeme] = []
    assert error.span is not None
    try:
        for lexeme in lexer.scan(text):
            if lexeme.start > error.span.start:
                break
            if lexeme.kind == ";" and lexeme.end <= error.span.start:
                found.clear()
            if lexeme.kind in ("STRING", "QUOTED") and lexeme.text[0] in ("'", '"'):
                found.append(lexeme)
    except SinkqlError:
        pass
    return found


def _inside_out(lexeme: Lexeme, text: str, *, alone: bool) -> bool:
    """Say whether a string reaches into what should stand behind it."""
    after = text[lexeme.end : lexeme.end + 1]
    if after.isalnum() or after == "_":
        return True
    inside = lexeme.text[1:-1].rstrip()
    ends_open = len(inside) > 1 and inside.endswith(("=", "(", ",", ";"))
    return alone and (ends_open or _SWALLOWED.search(inside) is not None)
