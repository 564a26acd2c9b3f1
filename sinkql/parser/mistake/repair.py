"""A text that cannot be read on → the smallest change of one place after which it can.

`search` tries changes in the order of their costs, whatever reads the text. `find_repair` searches for statements,
whose grammar says what may stand at each place; `planner.refuse.query` searches for queries, whose parser does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sinkql import vocabulary
from sinkql.errors import nearest
from sinkql.parser.read import grammar
from sinkql.parser.read.lexical import Lexeme
from sinkql.parser.read.reader import Reading

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


@dataclass(frozen=True, slots=True)
class Repair:
    """A change: at the token `place`, `removed` tokens go and `inserted`, as a user writes it, comes.

    Brackets in the place of tokens are put around them.
    """

    place: int
    removed: int
    inserted: tuple[str, ...]
    cost: float


def search(repairs: Iterable[Repair], unread: Callable[[Repair], int | None]) -> Repair | None:
    """Return the cheapest of the repairs that leave the fewest tokens unread; None if many do so alike.

    `unread` tries a repair: how many tokens are left behind the place up to which the text can be read then, None if
    that is not far enough to be a repair.
    """
    best: tuple[int, float] | None = None
    found: list[Repair] = []
    for repair in sorted(repairs, key=lambda each: each.cost):
        if best is not None and best[0] == 0 and best[1] < repair.cost:
            break
        left = unread(repair)
        if left is None:
            continue
        rank = (left, repair.cost)
        if best is None or rank < best:
            best, found = rank, [repair]
        elif rank == best:
            found.append(repair)
    # where many words would do, none is the right one
    many = 2 if found and found[0].removed and found[0].inserted and found[0].inserted[0].isalpha() else _MANY
    return found[0] if 0 < len(found) < many else None


def advice(repair: Repair, written: str, found: str, *, end: bool = False, before: str = "", near: bool = False) -> str:
    """Return the sentence that says a repair.

    `written` is what comes and `found` what stands at its place, `end` says that nothing does, `before` what follows a
    token that goes, if it has to be said, `near` that what comes is what was misspelt.
    """
    if not repair.inserted:
        return f"Leave out {found} before {before}." if before else f"Leave out {found}."
    if repair.removed:
        return f"Did you mean {written}?" if near else f"Write {written} instead of {found}."
    return f"Add {written}." if end else f"Write {written} before {found}."


def find_repair(lexemes: Sequence[Lexeme], place: int, reading: Reading) -> Repair | None:
    """Return the likeliest change of a statement; None if none lets it be read on by some words."""
    if _too_long(lexemes, place):
        return None

    def unread(repair: Repair) -> int | None:
        changed = _repaired(lexemes, repair)
        reached = reading.reach(changed, repair.place) - (len(changed) - len(lexemes))
        left = len(lexemes) - reached
        return None if left > 0 and reached - place < _ENOUGH else left

    return _typo(lexemes, place, reading) or search(_repairs(lexemes, place, reading), unread)


def _typo(lexemes: Sequence[Lexeme], place: int, reading: Reading) -> Repair | None:
    """Return the keyword that a word plainly misspells, whatever else is wrong after it."""
    word = lexemes[place]
    if word.kind != "WORD" or word.keyword in grammar.keywords():
        return None
    near = nearest(word.text, _keywords(reading.expected(place)), cutoff=0.75)
    if near is None:
        return None
    repair = Repair(place, 1, (near,), 0)
    further = reading.reach(_repaired(lexemes, repair), place)
    return repair if further > place + 1 or place == 0 else None


def _keywords(expected: frozenset[str]) -> list[str]:
    return sorted(expected & grammar.keywords()) + (["SELECT", "VALUES", "WITH"] if "QUERY" in expected else [])


def _too_long(lexemes: Sequence[Lexeme], place: int) -> bool:
    """Say whether trying would take too long: what is wrong in a very long list is plain without it."""
    return place > _TRIED or len(lexemes) - place > _TRIED


def _repairs(lexemes: Sequence[Lexeme], place: int, reading: Reading) -> Iterator[Repair]:
    found = lexemes[place]
    ended = found.kind in ("END", ";")
    if not ended:
        yield Repair(place, 1, (), _removal_cost(lexemes, place))
    if place and lexemes[place - 1].kind in (",", "(", ")", "=", "."):
        yield Repair(place - 1, 1, (), 3.2)
    expected = reading.expected(place)
    names = {terminal: symbol for symbol, terminal in grammar.symbols().items()}
    symbols = [names[each] for each in sorted(expected) if each in names]
    for symbol in symbols:
        cost = 1.0 + 0.1 * _SEPARATORS.index(symbol) if symbol in _SEPARATORS else 4.0
        yield Repair(place, 0, (symbol,), cost)
        if any(symbol in group and found.kind in group for group in _CONFUSED):
            yield Repair(place, 1, (symbol,), 2.5)
    for first, second in _PAIRS:
        if first in expected:
            yield Repair(place, 0, (first, second), 3.6)
    for keyword in sorted(expected & grammar.keywords()) if place else ():
        yield Repair(place, 0, (keyword,), _keyword_cost(keyword, expected))
        yield Repair(place, 0, (keyword, "name"), 4.5)
        if not ended:
            yield Repair(place, 1, (keyword,), 4.0)
    if place and lexemes[place - 1].keyword in grammar.keywords() and "NAME" in reading.expected(place - 1):
        yield Repair(place - 1, 0, ("name",), 3.2)  # the keyword was taken for the name that is missing
    if "NAME" in expected:
        yield Repair(place, 0, ("name",), 3.8)
        if found.keyword in vocabulary.RESERVED:
            yield Repair(place, 1, ("name",), 2.9)
    if "STRING" in expected:
        yield Repair(place, 0, ("'…'",), 3.1 if lexemes[place - 1].kind == "=" else 3.9)
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


def _respelled(lexemes: Sequence[Lexeme], place: int, reading: Reading) -> Iterator[Repair]:
    """Yield keywords in the place of words that look like them, the last ones that were read as names included."""
    before = [each for each in reading.token_places() if each < place]
    for distance, at in enumerate([place, *reversed(before[-_BACK:])]):
        word = lexemes[at]
        if word.kind != "WORD":
            continue
        known = word.keyword in grammar.keywords() | vocabulary.RESERVED
        choices = [each for each in _keywords(reading.expected(at)) if each != word.keyword]
        near = nearest(word.text, choices, cutoff=0.75 if known else 0.6)
        if near is not None:
            yield Repair(at, 1, (near,), 0.5 + 1.5 * known + 0.8 * distance)


def _bracketed(lexemes: Sequence[Lexeme], place: int) -> Iterator[Repair]:
    """Yield brackets around the next lexemes, some of them."""
    for count in range(1, min(_WRAPPED, len(lexemes) - place)):
        inside = lexemes[place : place + count]
        if inside[-1].kind in (";", "END", "(", ")"):
            break
        yield Repair(place, count, ("(", ")"), 0.9 + 0.001 * count)


def _repaired(lexemes: Sequence[Lexeme], repair: Repair) -> list[Lexeme]:
    before, after = lexemes[: repair.place], lexemes[repair.place + repair.removed :]
    inside = lexemes[repair.place : repair.place + repair.removed]
    if repair.inserted == ("(", ")") and inside:
        return [*before, _lexeme("(", inside[0].start), *inside, _lexeme(")", inside[-1].end), *after]
    return [*before, *(_lexeme(each, lexemes[repair.place].start) for each in repair.inserted), *after]


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
