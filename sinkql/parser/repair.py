"""A statement that cannot be read on → the smallest change of one place after which it can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from sinkql import words
from sinkql.errors import nearest
from sinkql.parser import grammar
from sinkql.parser.lexical import Lexeme

STATEMENT_STARTS = frozenset(
    {
        "ALTER", "BEGIN", "COMMENT", "COMMIT", "CREATE", "DELETE", "DROP", "EXPLAIN", "INSERT", "ROLLBACK", "SELECT",
        "SET", "SHOW", "SUBSCRIBE", "UPDATE", "VALIDATE",
    }
)  # fmt: skip
_SEPARATORS = (",", ")", "(", "]", "=", "[", "=>", "||")
_CONFUSED = (("(", "[", "{", "<"), (")", "]", "}", ">"), ("=", "=>", "==", ":", ":="), (",", ".", "|", "&"))
_LIKELY = ("FROM", "TO", "AS", "INTO")
_PAIRS = (("NOT", "ENFORCED"), ("ICEBERG", "CATALOG"), ("IF", "EXISTS"))
_ENOUGH = 3
_BACK = 3
_MANY = 4
_WRAPPED = 24
_TRIED = 400


class Reading(Protocol):
    """Read statements that begin as the one that cannot be read."""

    def token_places(self) -> Sequence[int]: ...
    def expected(self, place: int) -> frozenset[str]: ...
    def reach(self, lexemes: Sequence[Lexeme], changed: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Repair:
    """Hold a change: at the lexeme `place`, `removed` lexemes go and `inserted`, as a user writes it, comes."""

    place: int
    removed: int
    inserted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Change:
    cost: float
    repair: Repair
    lexemes: tuple[Lexeme, ...]


def find_repair(lexemes: Sequence[Lexeme], place: int, reading: Reading) -> Repair | None:
    """Return the likeliest change; None if none lets the statement be read on by some words."""
    best: tuple[int, float] | None = None
    found: list[Repair] = []
    if _too_long(lexemes, place):
        return None
    typo = _typo(lexemes, place, reading)
    if typo is not None:
        return typo
    for change in sorted(_changes(lexemes, place, reading), key=lambda each: each.cost):
        if best is not None and best[0] == 0 and best[1] < change.cost:
            break
        repair = change.repair
        changed = [*lexemes[: repair.place], *change.lexemes, *lexemes[repair.place + repair.removed :]]
        reached = reading.reach(changed, repair.place) - (len(change.lexemes) - repair.removed)
        missed = len(lexemes) - reached
        if missed > 0 and reached - place < _ENOUGH:
            continue
        rank = (missed, change.cost)
        if best is None or rank < best:
            best, found = rank, [repair]
        elif rank == best:
            found.append(repair)
    # where many words would do, none is the right one
    many = 2 if found and found[0].removed and found[0].inserted and found[0].inserted[0].isalpha() else _MANY
    return found[0] if 0 < len(found) < many else None


def _typo(lexemes: Sequence[Lexeme], place: int, reading: Reading) -> Repair | None:
    """Return the keyword that a word, which is none, plainly misspells, whatever else is wrong behind it."""
    word = lexemes[place]
    if word.kind != "WORD" or word.keyword in grammar.keywords():
        return None
    near = nearest(word.text, _keywords(reading.expected(place)), cutoff=0.75)
    if near is None:
        return None
    (change,) = [_change(0, place, 1, (near,), lexemes)]
    further = reading.reach([*lexemes[:place], *change.lexemes, *lexemes[place + 1 :]], place)
    return change.repair if further > place + 1 or place == 0 else None


def _keywords(expected: frozenset[str]) -> list[str]:
    return sorted(expected & grammar.keywords()) + (["SELECT", "VALUES", "WITH"] if "QUERY" in expected else [])


def _too_long(lexemes: Sequence[Lexeme], place: int) -> bool:
    """Say whether trying would take too long: what is wrong in a very long list is plain without it."""
    return place > _TRIED or len(lexemes) - place > _TRIED


def _changes(lexemes: Sequence[Lexeme], place: int, reading: Reading) -> Iterator[_Change]:
    found = lexemes[place]
    ended = found.kind in ("END", ";")
    if not ended:
        yield _change(_removal_cost(lexemes, place), place, 1, (), lexemes)
    if place and lexemes[place - 1].kind in (",", "(", ")", "=", "."):
        yield _change(3.2, place - 1, 1, (), lexemes)
    expected = reading.expected(place)
    names = {terminal: symbol for symbol, terminal in grammar.symbols().items()}
    symbols = [names[each] for each in sorted(expected) if each in names]
    for symbol in symbols:
        cost = 1.0 + 0.1 * _SEPARATORS.index(symbol) if symbol in _SEPARATORS else 4.0
        yield _change(cost, place, 0, (symbol,), lexemes)
        if any(symbol in group and found.kind in group for group in _CONFUSED):
            yield _change(2.5, place, 1, (symbol,), lexemes)
    for first, second in _PAIRS:
        if first in expected:
            yield _change(3.6, place, 0, (first, second), lexemes)
    for keyword in sorted(expected & grammar.keywords()) if place else ():
        yield _change(_keyword_cost(keyword, expected), place, 0, (keyword,), lexemes)
        yield _change(4.5, place, 0, (keyword, "name"), lexemes)
        if not ended:
            yield _change(4.0, place, 1, (keyword,), lexemes)
    if place and lexemes[place - 1].keyword in grammar.keywords() and "NAME" in reading.expected(place - 1):
        yield _change(3.2, place - 1, 0, ("name",), lexemes)  # the keyword was taken for the name that is missing
    if "NAME" in expected:
        yield _change(3.8, place, 0, ("name",), lexemes)
        if found.keyword in words.RESERVED:
            yield _change(2.9, place, 1, ("name",), lexemes)
    if "STRING" in expected:
        yield _change(3.1 if lexemes[place - 1].kind == "=" else 3.9, place, 0, ("'…'",), lexemes)
    yield from _respelled(lexemes, place, reading)
    if "LPAR" in expected and not ended:
        yield from _bracketed(lexemes, place)


def _removal_cost(lexemes: Sequence[Lexeme], place: int) -> float:
    found = lexemes[place]
    doubled = place and found.text.upper() == lexemes[place - 1].text.upper()
    return 2.8 if doubled or found.kind not in ("WORD", "STRING", "QUOTED", "NUMBER") else 3.95


def _keyword_cost(keyword: str, expected: frozenset[str]) -> float:
    # where a name may stand too, the keyword put there may have been read as one
    return (3.4 if keyword in _LIKELY else 3.5) + (0.4 if "NAME" in expected else 0)


def _respelled(lexemes: Sequence[Lexeme], place: int, reading: Reading) -> Iterator[_Change]:
    """Yield keywords in the place of words that look like them, the last ones that were read as names included."""
    before = [each for each in reading.token_places() if each < place]
    for distance, at in enumerate([place, *reversed(before[-_BACK:])]):
        word = lexemes[at]
        if word.kind != "WORD":
            continue
        known = word.keyword in grammar.keywords() | words.RESERVED
        choices = [each for each in _keywords(reading.expected(at)) if each != word.keyword]
        near = nearest(word.text, choices, cutoff=0.75 if known else 0.6)
        if near is not None:
            yield _change(0.5 + 1.5 * known + 0.8 * distance, at, 1, (near,), lexemes)


def _bracketed(lexemes: Sequence[Lexeme], place: int) -> Iterator[_Change]:
    """Yield brackets around the next lexemes, some of them."""
    for count in range(1, min(_WRAPPED, len(lexemes) - place)):
        inside = lexemes[place : place + count]
        if inside[-1].kind in (";", "END", "(", ")"):
            break
        opening, closing = _lexeme("(", inside[0].start), _lexeme(")", inside[-1].end)
        yield _Change(0.9 + 0.001 * count, Repair(place, count, ("(", ")")), (opening, *inside, closing))


def _change(cost: float, place: int, removed: int, inserted: tuple[str, ...], lexemes: Sequence[Lexeme]) -> _Change:
    at = lexemes[place].start
    return _Change(cost, Repair(place, removed, inserted), tuple(_lexeme(each, at) for each in inserted))


def _lexeme(written: str, at: int) -> Lexeme:
    match written:
        case "name":
            return Lexeme("QUOTED", '"name"', at, at, "name")
        case "'…'":
            return Lexeme("STRING", written, at, at, "…")
        case _ if written.isalpha():
            return Lexeme("WORD", written, at, at, written.lower())
        case _:
            return Lexeme(written, written, at, at)
