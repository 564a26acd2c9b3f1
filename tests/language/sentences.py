"""Generate sentences from the grammar's rules."""

from __future__ import annotations

from functools import cache
from random import Random

from hypothesis import strategies as st

from sinkql.parser.read import automaton
from support.keywords import WORDS

# depth of rules after which the shortest expansion is chosen
_DEPTH = 14
# share of names with at most three parts, a limit that the rules do not contain
_SHORT = 0.9

_EXPRESSIONS = ("1", "a + 1", "(a)", "f(a, 'x')", "CASE WHEN a THEN b END", "'x'", "a.b::text", "NOT a", "-1")
# PARTITION BY takes an expression in the options of Kafka, which only its label shows
_OPTIONS = tuple(sorted(WORDS.labels - {"PARTITION BY"}))
_TEXTS: dict[str, tuple[str, ...]] = {
    "NAME": ("a", "orders", "_x$1", "größe", "x2", "T", '"Quoted name"', '"select"', '"a""b"'),
    "LABEL": _OPTIONS,
    "OPTION_NAME": _OPTIONS,
    "FORMAT_NAME": ("parquet", "AVRO", "text", "xml"),
    "KIND": tuple(sorted(WORDS.words)),
    "STRING": ("'x'", "'it''s; --'", "E'\\n'", "$$d$$", "'10s'", "'a'\n'b'"),
    "NUMBER": ("0", "1", "10", "1.5", ".5", "1e3"),
    "QUERY": (
        "SELECT 1",
        "SELECT a, ';' AS b\nFROM t -- why;\nWHERE c = $$;$$",
        "WITH q AS (SELECT 1) SELECT * FROM q",
        "VALUES (1, 'x'), (2, E'\\'')",
        "(SELECT 1) UNION ALL SELECT /* ; */ 2",
        "TABLE t",
    ),
    "CONDITION": ("a = 1", "name LIKE 'x;%' AND (b)"),
    "EXPRESSION": _EXPRESSIONS,
    "EXPRESSIONS": (*_EXPRESSIONS, "a, b", "1, f(a, b)"),
    "TYPE_WORD": ("varying", "precision", "list"),
    "HEX": ("X'00ff'",),
    "CSV_WITH": ("WITH",),
    "KEY_STRATEGY": ("KEY STRATEGY",),
    "VALUE_STRATEGY": ("VALUE STRATEGY",),
    "DOC_ON": ("DOC ON TYPE", "KEY DOC ON COLUMN", "VALUE DOC ON TYPE"),
    "PARTITION_BY": ("PARTITION BY",),
}
"""Texts for the terminals that are neither keywords nor signs."""


@cache
def _height() -> dict[str, int]:
    """Return the least depth of each rule."""
    rules = automaton.rules()
    found: dict[str, int] = {}
    while len(found) < len(rules):
        for name, expansions in rules.items():
            known = [
                1 + max((found.get(each, 0) for each in expansion), default=0)
                for expansion in expansions
                if all(each.isupper() or _terminal(each) or each in found for each in expansion)
            ]
            if known:
                found[name] = min(known)
    return found


def _terminal(name: str) -> bool:
    return name not in automaton.rules()


@st.composite
def sentences(draw: st.DrawFn) -> tuple[str, frozenset[str]]:
    """Draw a statement and the names of its rules."""
    # one number for all choices: it gives each rule the same share, and is faster
    return sentence(Random(draw(st.integers(0, 2**64 - 1))))


def sentence(random: Random) -> tuple[str, frozenset[str]]:
    """Return a random statement and the names of its rules."""
    wanted = random.choice(sorted(reached()))
    used: set[str] = set()
    tokens: list[str] = []
    waiting = [(random.choice([each for each in _statements() if wanted in _leads_to(each)]), 0)]
    while waiting:
        name, depth = waiting.pop()
        if _terminal(name):
            tokens.append(random.choice(_written(name)))
            continue
        used.add(name)
        expansions = _expansions(name, deep=depth >= _DEPTH)
        if depth < _DEPTH and wanted not in used and wanted in _leads_to(name):
            expansions = tuple(
                each for each in automaton.rules()[name] if any(wanted in _leads_to(symbol) for symbol in each)
            )
        if name.startswith("__name_star") and random.random() < _SHORT:
            expansions = (min(expansions, key=len),)
        waiting += [(each, depth + 1) for each in reversed(random.choice(expansions))]
    return " ".join(tokens), frozenset(used)


@cache
def _leads_to(name: str) -> frozenset[str]:
    """Return the rules that can occur below a rule, including itself."""
    found, waiting = set(), [name]
    while waiting:
        each = waiting.pop()
        if each not in found and not _terminal(each):
            found.add(each)
            waiting += [symbol for expansion in automaton.rules()[each] for symbol in expansion]
    return frozenset(found)


@cache
def _statements() -> tuple[str, ...]:
    """Return the rules of whole statements: the alternatives of `start`, through the rules that only list others."""
    found, waiting = [], ["start"]
    while waiting:
        name = waiting.pop()
        alone = [expansion[0] for expansion in automaton.rules()[name] if len(expansion) == 1]
        between = len(alone) == len(automaton.rules()[name]) and not any(_terminal(each) for each in alone)
        if between:
            waiting += alone
        else:
            found.append(name)
    return tuple(sorted(found))


@cache
def _expansions(name: str, *, deep: bool) -> tuple[tuple[str, ...], ...]:
    expansions = automaton.rules()[name]
    if not deep:
        return expansions
    heights = [max((_height().get(each, 0) for each in expansion), default=0) for expansion in expansions]
    return tuple(each for each, height in zip(expansions, heights, strict=True) if height == min(heights))


@cache
def _written(terminal: str) -> tuple[str, ...]:
    if terminal in _TEXTS:
        return _TEXTS[terminal]
    signs = {name: sign for sign, name in automaton.symbols().items()}
    return (signs[terminal],) if terminal in signs else (terminal, terminal, terminal.lower())


@cache
def reached() -> frozenset[str]:
    """Return the rules that sentences use: all except the ones that only choose between statements."""
    return frozenset().union(*(_leads_to(each) for each in _statements()))
