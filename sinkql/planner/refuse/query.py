"""A query that does not parse → the error with what is missing or too much: the change after which it parses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import count
from typing import Any

from sinkql.errors import SinkqlError, Span, nearest
from sinkql.parser.mistake.habit import begins, habits, refused
from sinkql.parser.mistake.repair import Repair, advice, search
from sinkql.planner.refuse.missing import hint as hint_of_missing

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
_ORDER = "The order of the clauses is SELECT, FROM, WHERE, GROUP BY, HAVING."
_BEFORE_RELATION = ("FROM", "JOIN", "TABLE")
_BETWEEN_COLUMNS = (",", "FROM")
_BEFORE_COLUMN = ("SELECT", "DISTINCT", ",")
_BEFORE_EXPRESSION = (*_BEFORE_COLUMN, "(", *_WAITING)
_BEHIND_COLUMN = ("", ")", "AS", *_BETWEEN_COLUMNS, *(each for each in _WAITING if not each[0].isalpha()))
_BEGINNINGS = ("FROM", "CASE", "UNION")
"""Words that are wrong only by what follows them, if they are meant as names."""
_MOST_QUOTED = 8
_NEVER_NAMES = frozenset({"SELECT", "FROM", "WHERE", "HAVING", "WITH"})
"""Words that stand at a name's place because that was left out."""
_NEEDLESS = (",", "(", ")", "=", ".", "AND", "OR")
_EXPRESSIONS = ("1 = 1", "1")
_OPERATORS = {"=<": "<=", "=>": ">=", "=!": "!="}
_JOINED = {"GROUPBY": "GROUP BY", "ORDERBY": "ORDER BY"}
_TRIED = 300
_BACK = 3
_BACK_TO_HABIT = 16
_AHEAD = 4
Attempt = Callable[[str], int | None]
"""Return where a text does not parse, None if it does."""


def complaint(
    tokens: Sequence[Any],
    stuck: int,
    text: str,
    offset: int,
    *,
    expected: str | None,
    reserved: Set[str],
    attempt: Attempt,
) -> SinkqlError:
    """Return the error for the token number `stuck`, or for the end of the text; `expected` is what sqlglot says.

    `reserved` are the words that are names only in quotes.
    """
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
    foreign = _habit(tokens, stuck, text, offset)
    if foreign is not None:
        return foreign
    for place, meant in _perhaps_names(tokens, stuck, text, expected, reserved):
        if _parses_quoted(tokens, place, text, reserved, attempt):
            span, found = _found(tokens, place, text, offset)
            name = text[span.start - offset : span.end - offset].lower()
            message = f"expected {meant}, found {found}"
            return SinkqlError("SQ2201", message, span, hint=f'A name that is a keyword needs quotes: "{name}".')
    label = (
        keyword_as_label(tokens, stuck, text, offset, attempt=attempt)
        or _unnamed(tokens, stuck, text, offset)
        or _string_as_name(tokens, stuck, text, offset, expected, attempt)
    )
    if label is not None:
        return label
    missing = hint_of_missing([text[each.start : each.end + 1].upper() for each in tokens], stuck, expected)
    if missing is not None:
        span, found = _found(tokens, stuck, text, offset)
        return SinkqlError("SQ2201", f"expected {expected}, found {found}", span, hint=missing)
    repair = _repair(tokens, stuck, text, expected, attempt)
    misread = repair is not None and repair.place < stuck and repair.inserted and not _moves(repair)
    span, found = _found(tokens, repair.place if repair is not None and misread else stuck, text, offset)
    if repair is not None and misread and repair.removed > 1:
        start, end = _replaced(tokens, repair, text)
        span, found = Span(offset + start, offset + end), f'"{text[start:end]}"'
    wanted = (_wanted(repair) if repair is not None else None) or expected
    message = (
        f"expected {wanted}, found {found}" if wanted else f"unexpected {found.removeprefix('the ').removeprefix('a ')}"
    )
    hint = _hint(tokens, stuck, text, repair) if repair is not None else _order(tokens, stuck)
    return SinkqlError("SQ2201", message, span, hint=hint)


def keyword_as_label(
    tokens: Sequence[Any], stuck: int, text: str, offset: int, *, attempt: Attempt
) -> SinkqlError | None:
    """Return the error for a keyword that names a column and needs AS before it, at `stuck` or just before."""
    for place in (stuck - 1, stuck):
        behind = text[tokens[place + 1].start : tokens[place + 1].end + 1].upper() if place + 1 < len(tokens) else ""
        if not 0 < place < len(tokens) or behind not in _BETWEEN_COLUMNS:
            continue
        token = tokens[place]
        word = text[token.start : token.end + 1]
        before = text[tokens[place - 1].start : tokens[place - 1].end + 1].upper()
        named = word.isalpha() and word.upper() not in ("SELECT", "FROM", "WITH")
        if not named or before == "AS" or before in _BEFORE_EXPRESSION:
            continue
        if attempt(f"{text[: token.start]}AS {text[token.start :]}") is None:
            span, found = _found(tokens, place, text, offset)
            hint = f"A keyword names a column only after AS: AS {word}."
            return SinkqlError("SQ2201", f"unexpected {found}", span, hint=hint)
    return None


def _unnamed(tokens: Sequence[Any], stuck: int, text: str, offset: int) -> SinkqlError | None:
    """Return the error for AS without a name: the FROM behind it was read as one."""
    words = [text[each.start : each.end + 1].upper() for each in tokens[: stuck + 1]]
    if words[stuck - 2 : stuck] != ["AS", "FROM"] or stuck >= len(tokens):
        return None
    span, found = _found(tokens, stuck - 1, text, offset)
    hint = "Write a name after AS, or leave it out."
    return SinkqlError("SQ2201", f"expected a name, found {found}", span, hint=hint)


def _string_as_name(
    tokens: Sequence[Any], stuck: int, text: str, offset: int, expected: str | None, attempt: Attempt
) -> SinkqlError | None:
    """Return the error for a name in the quotes of strings."""
    if not 0 < stuck < len(tokens):
        return None
    span, found = _found(tokens, stuck, text, offset)
    written = text[tokens[stuck].start : tokens[stuck].end + 1]
    if found != "a string" or not re.fullmatch(r"'\w+( \w+)*'", written):
        return None
    quoted = f'"{written[1:-1]}"'
    if attempt(text[: tokens[stuck].start] + quoted + text[tokens[stuck].end + 1 :]) is not None:
        return None
    message = f"expected {expected}, found {found}" if expected else f"unexpected {found.removeprefix('a ')}"
    return SinkqlError("SQ2201", message, span, hint=f"Names stand in double quotes: {quoted}.")


def _perhaps_names(
    tokens: Sequence[Any], stuck: int, text: str, expected: str | None, reserved: Set[str]
) -> Iterator[tuple[int, str]]:
    """Yield the places of keywords that may be meant as names, with what is expected there."""
    words = [text[each.start : each.end + 1].upper() for each in tokens[: stuck + 2]]
    before = words[stuck - 1] if stuck else ""
    behind = words[stuck + 1] if stuck + 1 < len(words) else ""
    if stuck < len(tokens) and words[stuck] in reserved - _NEVER_NAMES:
        if before in _BEFORE_RELATION or expected == "a relation":
            yield stuck, "a relation"
        elif behind == "." or expected == "a name":
            yield stuck, "a name"
        elif before in _BEFORE_EXPRESSION and behind in _BEHIND_COLUMN:
            yield stuck, "an expression"
    if stuck < len(tokens) and words[stuck] in _NEVER_NAMES and before in _BEFORE_COLUMN and behind in _BETWEEN_COLUMNS:
        yield stuck, "an expression"
    begun = stuck > 1 and before in _BEGINNINGS and words[stuck - 2] in _BEFORE_COLUMN
    if begun and stuck < len(tokens) and words[stuck] in _BETWEEN_COLUMNS:
        yield stuck - 1, "an expression"


def _parses_quoted(tokens: Sequence[Any], place: int, text: str, reserved: Set[str], attempt: Attempt) -> bool:
    """Tell whether the text parses as soon as a keyword stands in quotes, and with it those where it is stuck then."""
    quoted: list[int] = []
    while len(quoted) < _MOST_QUOTED:
        token = tokens[place]
        start, end = token.start + 2 * len(quoted), token.end + 1 + 2 * len(quoted)
        text = f'{text[:start]}"{text[start:end].lower()}"{text[end:]}'
        quoted.append(place)
        reached = attempt(text)
        if reached is None:
            return True
        there = reached - 2 * len(quoted)
        place = next((at for at, each in enumerate(tokens) if each.start == there), -1)
        if place <= quoted[-1] or tokens[place].text.upper() not in reserved - _NEVER_NAMES:
            return False
    return False


def _habit(tokens: Sequence[Any], stuck: int, text: str, offset: int) -> SinkqlError | None:
    """Return the error for a foreign form at the token number `stuck`, or a little before it."""
    for place in range(max(0, stuck - _BACK_TO_HABIT), min(stuck + 1, len(tokens))):
        ahead = " ".join(text[each.start : each.end + 1].upper() for each in tokens[place : place + _AHEAD])
        for form in habits().query:
            found = begins(form, ahead)
            if found is not None:
                last = tokens[min(place + found.count(" "), len(tokens) - 1)]
                return refused(form, found, Span(offset + tokens[place].start, offset + last.end + 1))
    return None


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


def _repair(tokens: Sequence[Any], stuck: int, text: str, expected: str | None, attempt: Attempt) -> Repair | None:
    """Return the first repair with which the text parses, else the one that gets on furthest."""
    if len(tokens) > _TRIED:
        return None
    there = tokens[stuck].end + 1 if stuck < len(tokens) else len(text)

    def unread(repair: Repair) -> int | None:
        start, end = _replaced(tokens, repair, text)
        written = f" {' '.join(repair.inserted)} "
        reached = attempt(text[:start] + written + text[end:])
        if reached is None:
            return 0
        reached -= len(written) - (end - start)
        return 1 + sum(token.start >= reached for token in tokens) if reached > there else None

    return search(_repairs(tokens, stuck, text, expected), unread)


def _replaced(tokens: Sequence[Any], repair: Repair, text: str) -> tuple[int, int]:
    start = tokens[repair.place].start if repair.place < len(tokens) else len(text.rstrip())
    return start, tokens[repair.place + repair.removed - 1].end + 1 if repair.removed else start


def _repairs(tokens: Sequence[Any], stuck: int, text: str, expected: str | None) -> Iterator[Repair]:
    """Yield changes, the likeliest first."""
    for cost, (place, removed, inserted) in zip(count(), _changes(tokens, stuck, text, expected)):
        yield Repair(place, removed, inserted, cost)


def _changes(
    tokens: Sequence[Any], stuck: int, text: str, expected: str | None
) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    yield from _operators(tokens, stuck, text)
    yield from _respelled(tokens, stuck)
    # a bracket is open before a name: AS belongs to what is around it
    yield from ((at, 0, (")",)) for at in range(max(0, stuck - _BACK), stuck) if tokens[at].text.upper() == "AS")
    yield from _moved(tokens, stuck, text)
    before = tokens[stuck - 1] if stuck else None
    needless = before.text if before is not None and before.text.upper() in _NEEDLESS else None
    if needless == ",":
        yield stuck - 1, 1, ()
    if stuck < len(tokens) and tokens[stuck].text == ",":
        yield stuck, 1, ()
    if before is not None and before.text.upper() in _WAITING:
        yield from ((stuck, 0, (each,)) for each in _EXPRESSIONS)
    case = any(each.text.upper() == "CASE" for each in tokens)
    for word in _likely_first(before, expected):
        if case or word not in _OF_CASE:
            yield stuck, 0, (word,)
    if stuck < len(tokens):
        yield stuck, 1, ()
    if needless is not None:
        yield stuck - 1, 1, ()


def _wanted(repair: Repair) -> str | None:
    """Return what the repair says was expected."""
    if not repair.inserted or _moves(repair):
        return None
    (word,) = repair.inserted
    return "an expression" if word in _EXPRESSIONS else word if word[0].isalpha() else f'"{word}"'


def _hint(tokens: Sequence[Any], stuck: int, text: str, repair: Repair) -> str:
    if _moves(repair):
        return _ORDER
    if repair.inserted and repair.inserted[0] in _EXPRESSIONS:
        return f"Write an expression after {tokens[stuck - 1].text.upper()}."
    start, end = _replaced(tokens, repair, text)
    operator = bool(repair.inserted) and text[start:end] in _OPERATORS
    return advice(
        repair,
        repair.inserted[0] if operator else _wanted(repair) or "",
        text[start:end] if operator else _shown(tokens, repair.place),
        end=repair.place >= len(tokens),
        before=_shown(tokens, stuck) if repair.place < stuck else "",
        near=not operator,
    )


def _moves(repair: Repair) -> bool:
    """Tell whether the repair puts a clause in another place."""
    return len(repair.inserted) > 1


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
    if token.token_type.name == "VAR":
        return f'"{token.text.lower()}"'
    return token.text.upper() if token.text.upper() in _KEYWORDS else f'"{token.text}"'


def _operators(tokens: Sequence[Any], stuck: int, text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    for found in re.finditer(r"(?<![<>=!])(=<|=>|=!)(?![<>=])", text):
        places = [at for at, token in enumerate(tokens) if found.start() <= token.start < found.end()]
        if places and tokens[places[0]].start == found.start() and stuck - 2 * _BACK <= places[0] <= stuck:
            yield places[0], len(places), (_OPERATORS[found[0]],)


def _respelled(tokens: Sequence[Any], stuck: int) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield keywords in the place of words like them, those before the place where parsing stops included."""
    for place in range(min(stuck, len(tokens) - 1), max(-1, stuck - _BACK - 1), -1):
        token = tokens[place]
        if token.text.upper() in _JOINED:
            yield place, 1, (_JOINED[token.text.upper()],)
        if not re.fullmatch(r"\w{3,}", token.text) or token.text.upper() in _KEYWORDS:
            continue
        near = nearest(token.text, _KEYWORDS)
        if near is not None:
            yield place, 1, (near,)


def _moved(tokens: Sequence[Any], stuck: int, text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield the clause that begins at `stuck` before each clause that it may have to precede."""
    if stuck >= len(tokens) or _first_word(tokens[stuck]) not in _CLAUSES:
        return
    following = (at for at in range(stuck + 1, len(tokens)) if _first_word(tokens[at]) in _CLAUSES)
    end = next(following, len(tokens))
    moved = text[tokens[stuck].start : tokens[end - 1].end + 1]
    for place in range(stuck - 1, -1, -1):
        if _first_word(tokens[place]) in _CLAUSES and _first_word(tokens[place]) != _first_word(tokens[stuck]):
            yield place, end - place, (moved, text[tokens[place].start : tokens[stuck].start])


def _first_word(token: Any) -> str:
    """Return a token's first word in upper case: GROUP BY is one token."""
    return next(iter(str(token.text).upper().split()), "")
