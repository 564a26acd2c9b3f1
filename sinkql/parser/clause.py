"""A clause that cannot stand where it stands → where it should stand, or that it is there already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sinkql.parser import grammar
from sinkql.parser.lexical import Lexeme
from sinkql.parser.repair import Reading

_CLAUSES = 12
_LONGEST = 40
_DEPTH = {"(": 1, "[": 1, ")": -1, "]": -1}


def misplaced(lexemes: Sequence[Lexeme], place: int, reading: Reading) -> str | None:
    """Return before which clause the one at `place` should stand, if the statement can be read so, or that it is there
    twice."""
    found = lexemes[place].keyword
    if found not in grammar.keywords():
        return None
    clauses = [each for each in reading.token_places()[2:] if lexemes[each].keyword in grammar.keywords()]
    readable = [each for each in clauses[-_CLAUSES:] if found in reading.expected(each)]
    for at in reversed(readable):
        if found != lexemes[at].keyword and _moves(lexemes, place, at, reading):
            return f"{found} … stands before {lexemes[at].keyword} …, not after it."
    outside = set(_outside(lexemes[:place]))
    if lexemes[place - 1].keyword != found and any(lexemes[at].keyword == found and at in outside for at in readable):
        return f"{found} … is there already: keep one of them."
    return None


def stands_later(lexemes: Sequence[Lexeme], place: int, keyword: str) -> bool:
    """Say whether a clause that is missed at `place` follows in the statement, outside of brackets."""
    return any(lexemes[place + each].keyword == keyword for each in _outside(lexemes[place:]))


def empty_brackets(lexemes: Sequence[Lexeme], place: int, reading: Reading) -> str | None:
    """Return that brackets without anything, and the word before them, are to be left out, if that can be read."""
    if lexemes[place].kind != ")" or lexemes[place - 1].kind != "(":
        return None
    places = (place - 2,) if lexemes[place - 2].keyword == "WITH" else (place - 1, place - 2)
    for start in places:
        if reading.reach([*lexemes[:start], *lexemes[place + 1 :]], start) > start:
            word = f"{lexemes[start].keyword} " if start < place - 1 else ""
            return f"Leave out {word}()."
    return None


def _moves(lexemes: Sequence[Lexeme], place: int, at: int, reading: Reading) -> bool:
    """Say whether what is between `at` and `place` can be read behind some of what begins at `place`."""
    depth = 0
    for end in range(place + 1, min(place + _LONGEST, len(lexemes))):
        depth += _DEPTH.get(lexemes[end - 1].kind, 0)
        if depth < 0:
            break
        if depth == 0:
            moved = [*lexemes[:at], *lexemes[place:end], *lexemes[at:place], *lexemes[end:]]
            if reading.reach(moved, at) >= end:
                return True
    return False


def _outside(lexemes: Sequence[Lexeme]) -> Iterator[int]:
    """Yield which lexemes are in no brackets that open among them."""
    depth = 0
    for place, lexeme in enumerate(lexemes):
        depth += _DEPTH.get(lexeme.kind, 0)
        if depth == 0:
            yield place
