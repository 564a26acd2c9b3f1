"""A query that does not parse → the error with what is missing or too much: the change after which it parses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sinkql.errors import SinkqlError, Span, nearest
from sinkql.planner.query_habit import habit

_KEYWORDS = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "BY", "UNION", "ALL", "JOIN", "LEFT", "ON",
    "AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "WITH",
    "VALUES", "FILTER", "LIMIT", "USING", "INTERVAL", "ISNULL", "NOTNULL",
)  # fmt: skip
_INSERTED = (")", ",", "AND", "THEN", "END", "FROM", "AS", "(", "WHEN", "SELECT", "ON", "GROUP BY", "=", "NULL")
_OF_CASE = ("THEN", "END", "WHEN")
_WAITING = (
    "WHERE", "HAVING", "BY", "GROUP BY", "ORDER BY", "AND", "OR", "NOT", "ON", "LIKE", "IN", "BETWEEN", "WHEN", "THEN",
    "ELSE", "=", "<", ">", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "%", "||",
)  # fmt: skip
"""Words behind which an expression is still to come."""
_STATEMENTS = ("CREATE", "DROP", "ALTER", "INSERT", "SHOW", "SET", "EXPLAIN", "COMMIT", "BEGIN", "SUBSCRIBE", "DELETE")
_CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION")
_ORDER = "The clauses stand in this order: SELECT, FROM, WHERE, GROUP BY, HAVING."
_OPERATORS = {"=<": "<=", "=>": ">=", "=!": "!="}
_TRIED = 300
_BACK = 3
Attempt = Callable[[str], int | None]
"""Return where a text does not parse, None if it does."""


@dataclass(frozen=True, slots=True)
class _Change:
    """Hold a change of the text from `start` to `end`, what to say of it, and the token that it is about."""

    start: int
    end: int
    text: str
    place: int
    expected: str
    hint: str


def complaint(
    tokens: Sequence[Any], stuck: int, text: str, offset: int, *, expected: str | None, attempt: Attempt
) -> SinkqlError:
    """Return the error for the token number `stuck`, or for the end of the text; `expected` is what sqlglot says."""
    statement = _statement(tokens, stuck, text)
    if statement is not None:
        token = tokens[statement]
        before = tokens[statement - 1]
        return SinkqlError(
            "SQ1005",
            f'";" is missing before {token.text.upper()}',
            Span(offset + token.start, offset + token.end + 1),
            hint=f'End the statement before it with ";", after "{text[before.start : before.end + 1]}".',
        )
    foreign = habit(tokens, stuck, text, offset)
    if foreign is not None:
        return foreign
    change = _repair(tokens, stuck, text, expected, attempt)
    place = change.place if change is not None else stuck
    span, found = _found(tokens, place, text, offset)
    wanted = change.expected if change is not None and change.expected else expected
    message = f"expected {wanted}, found {found}" if wanted else f"unexpected {found.removeprefix('the ')}"
    hint = change.hint if change is not None else _order(tokens, stuck)
    return SinkqlError("SQ2201", message, span, hint=hint)


def _found(tokens: Sequence[Any], place: int, text: str, offset: int) -> tuple[Span, str]:
    if place >= len(tokens):
        end = len(text.rstrip())
        return Span(offset + end, offset + end), "the end of the query"
    token = tokens[place]
    written = text[token.start : token.end + 1]
    shown = "a string" if written.endswith("'") else f'"{written}"'
    return Span(offset + token.start, offset + token.end + 1), shown


def _statement(tokens: Sequence[Any], stuck: int, text: str) -> int | None:
    """Return which token begins another statement, in a line of its own."""
    for place in range(1, min(stuck + 1, len(tokens))):
        token = tokens[place]
        begins = token.text.upper() in _STATEMENTS and place >= stuck - _BACK
        if begins and "\n" in text[tokens[place - 1].end + 1 : token.start]:
            return place
    return None


def _order(tokens: Sequence[Any], stuck: int) -> str | None:
    word = _first_word(tokens[stuck]) if stuck < len(tokens) else ""
    return _ORDER if word in _CLAUSES else None


def _repair(tokens: Sequence[Any], stuck: int, text: str, expected: str | None, attempt: Attempt) -> _Change | None:
    """Return the first change with which the text parses, else the one that gets on furthest."""
    if len(tokens) > _TRIED:
        return None
    best, found = (tokens[stuck].end if stuck < len(tokens) else len(text)) + 1, None
    for change in _changes(tokens, stuck, text, expected):
        reached = attempt(text[: change.start] + change.text + text[change.end :])
        if reached is None:
            return change
        reached -= len(change.text) - (change.end - change.start)
        if reached > best:
            best, found = reached, change
    return found


def _changes(tokens: Sequence[Any], stuck: int, text: str, expected: str | None) -> Iterator[_Change]:
    yield from _operators(tokens, stuck, text)
    yield from _respelled(tokens, stuck)
    yield from _moved(tokens, stuck, text)
    at = tokens[stuck].start if stuck < len(tokens) else len(text.rstrip())
    following = _shown(tokens, stuck)
    before = tokens[stuck - 1] if stuck else None
    without = None
    if before is not None and before.text.upper() in (",", "(", ")", "=", ".", "AND", "OR"):
        hint = f'Leave out "{before.text}" before {following}.'
        without = _Change(before.start, before.end + 1, " ", stuck, "", hint)
    if without is not None and before is not None and before.text == ",":
        yield without
    if stuck < len(tokens) and tokens[stuck].text == ",":
        yield _Change(tokens[stuck].start, tokens[stuck].end + 1, " ", stuck, "", 'Leave out ",".')
    if before is not None and before.text.upper() in _WAITING:
        hint = f"Write an expression after {before.text.upper()}."
        yield _Change(at, at, " 1 = 1 ", stuck, "an expression", hint)
        yield _Change(at, at, " 1 ", stuck, "an expression", hint)
    case = any(each.text.upper() == "CASE" for each in tokens)
    for word in _likely_first(before, expected):
        if word in _OF_CASE and not case:
            continue
        shown = word if word[0].isalpha() else f'"{word}"'
        hint = f"Write {shown} before {following}." if stuck < len(tokens) else f"Add {shown}."
        yield _Change(at, at, f" {word} ", stuck, shown, hint)
    if stuck < len(tokens):
        hint = f"Leave out {following}."
        yield _Change(tokens[stuck].start, tokens[stuck].end + 1, " ", stuck, "", hint)
    if without is not None:
        yield without


def _likely_first(before: Any, expected: str | None) -> list[str]:
    """Return the words that may be missing: what has to follow the word before, what is expected, the others."""
    first = ["BY"] if before is not None and before.text.upper() in ("GROUP", "ORDER") else []
    first += [each for each in _INSERTED if expected is not None and each == expected.strip('"')]
    return [*first, *(each for each in _INSERTED if each not in first)]


def _shown(tokens: Sequence[Any], place: int) -> str:
    if place >= len(tokens):
        return "the end"
    token = tokens[place]
    if token.token_type.name.endswith("STRING"):
        return "the string"
    return token.text.upper() if token.text.upper() in _KEYWORDS else f'"{token.text}"'


def _operators(tokens: Sequence[Any], stuck: int, text: str) -> Iterator[_Change]:
    for found in re.finditer(r"(?<![<>=!])(=<|=>|=!)(?![<>=])", text):
        place = next((at for at, token in enumerate(tokens) if token.start == found.start()), None)
        if place is not None and stuck - 2 * _BACK <= place <= stuck:
            right = _OPERATORS[found[0]]
            hint = f"Write {right} instead of {found[0]}."
            yield _Change(found.start(), found.end(), right, place, f'"{right}"', hint)


def _respelled(tokens: Sequence[Any], stuck: int) -> Iterator[_Change]:
    """Yield keywords in the place of words like them, those before the place where parsing stops included."""
    for place in range(min(stuck, len(tokens) - 1), max(-1, stuck - _BACK - 1), -1):
        token = tokens[place]
        if not re.fullmatch(r"\w{3,}", token.text) or token.text.upper() in _KEYWORDS:
            continue
        near = nearest(token.text, _KEYWORDS)
        if near is not None:
            hint = f"Did you mean {near}?"
            yield _Change(token.start, token.end + 1, near, place, near, hint)


def _moved(tokens: Sequence[Any], stuck: int, text: str) -> Iterator[_Change]:
    """Yield the clause that begins at `stuck` before each clause that it may have to precede."""
    if stuck >= len(tokens) or _first_word(tokens[stuck]) not in _CLAUSES:
        return
    end = next((each.start for each in tokens[stuck + 1 :] if _first_word(each) in _CLAUSES), len(text.rstrip()))
    start = tokens[stuck].start
    for token in reversed(tokens[:stuck]):
        if _first_word(token) in _CLAUSES and _first_word(token) != _first_word(tokens[stuck]):
            changed = f"{text[start:end]} {text[token.start : start]} "
            yield _Change(token.start, end, changed, stuck, "", _ORDER)


def _first_word(token: Any) -> str:
    """Return a token's first word in upper case: GROUP BY is one token."""
    return next(iter(str(token.text).upper().split()), "")
