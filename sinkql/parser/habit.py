"""A form of another system's SQL → one coded sentence that says how it is written here.

It is asked only where the grammar has no way on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sinkql.errors import SinkqlError, Span
from sinkql.parser.habit_relation import RELATION_HABITS
from sinkql.parser.habit_table import HABITS
from sinkql.parser.lexical import Lexeme

_LOOKAHEAD = 4
_LONGEST = 400


def habit(lexemes: Sequence[Lexeme], place: int) -> SinkqlError | None:
    """Return the error for the foreign form that the lexeme at `place` begins, None for any other mistake."""
    if place > _LONGEST:
        return None
    before = " ".join(_word(lexeme) for lexeme in lexemes[:place])
    ahead = " ".join(_word(lexeme) for lexeme in lexemes[place : place + _LOOKAHEAD])
    if lexemes[place].kind == ":" and lexemes[place].end == lexemes[place + 1].start:
        ahead = ahead.replace(":", ":~", 1)  # a variable: nothing between the colon and its name
    for each in (*HABITS, *RELATION_HABITS):
        found = re.match(rf"(?:{each.found})(?= |$)", ahead)
        if found is None or re.fullmatch(each.before, before) is None:
            continue
        if each.back:
            span = Span(lexemes[place - each.back].start, lexemes[place - 1].end)
        else:
            span = Span(lexemes[place].start, lexemes[place + found[0].count(" ")].end)
        return SinkqlError("SQ1006", each.message.format(found[0]), span, hint=each.hint.format(found[0]))
    return None


def _word(lexeme: Lexeme) -> str:
    """Return a lexeme as the patterns see it: a word in upper case, a mark for what has a text of its own."""
    match lexeme.kind:
        case "WORD":
            return lexeme.text.upper()
        case "STRING":
            return "'"
        case "QUOTED":
            return '"'
        case _:
            return lexeme.text
