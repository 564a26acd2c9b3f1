"""A character that no SQL has outside of strings → the error that says what to write for it."""

from __future__ import annotations

import re
import unicodedata

from sinkql import words
from sinkql.errors import SinkqlError, Span

_HINTS = {
    "‘’‚‛′´": "Write a straight quote: '.",
    "“”„‟″«»": "Write straight quotes: ' around strings, \" around names.",
    "–—−‐‑‒": "Write - (and -- for a comment).",
    "，；（）＝": "Write the character of ASCII that looks like it.",
    "$": "Write the value, or :name and sinkql exec -v name=value.",
    "\\": "Commands with a backslash are for the shell: run sinkql shell, or use SHOW, as in SHOW SOURCES.",
}
_ODD = re.compile(f"[{words.ODD_CHARACTERS}]")


def check(word: str, start: int) -> None:
    """Refuse a word that holds a typesetter's quote, dash or space. Raises SQ1016."""
    if word.isascii():
        return
    found = _ODD.search(word)
    if found is not None:
        raise unexpected(word, found.start(), shift=start)


def unexpected(text: str, at: int, *, shift: int = 0) -> SinkqlError:
    """Return the error for the character `text[at]`."""
    character, span = text[at], Span(shift + at, shift + at + 1)
    hint = next((hint for characters, hint in _HINTS.items() if character in characters), None)
    if unicodedata.category(character) in ("Zs", "Zl", "Zp", "Cf", "Cc"):
        name = unicodedata.name(character, "control character").lower()
        message = f"unexpected character U+{ord(character):04X} ({name})"
        return SinkqlError("SQ1016", message, span, hint="Write an ordinary space.")
    return SinkqlError("SQ1016", f'unexpected character "{character}"', span, hint=hint)
