"""A query that does not parse → the error with what was expected there, and a hint where the fix is plain.

What has to stand where a query stops being one, and is not there → the hint that says what to write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

from sinkql.errors import SinkqlError, Span, nearest
from sinkql.parser.hint.other_dialects import begins, habits, known_refusal

_KEYWORDS = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "BY", "UNION", "ALL", "JOIN", "LEFT", "ON",
    "AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "AS", "WITH",
    "VALUES", "FILTER", "LIMIT", "USING", "INTERVAL", "ISNULL", "NOTNULL", "GROUP BY", "ORDER BY",
)  # fmt: skip
_WAITING = (
    "WHERE", "HAVING", "BY", "GROUP BY", "ORDER BY", "AND", "OR", "NOT", "ON", "LIKE", "IN", "BETWEEN", "WHEN", "THEN",
    "ELSE", "=", "<", ">", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "%", "||",
)  # fmt: skip
"""Words behind which an expression is still to come."""
_STATEMENTS = ("CREATE", "DROP", "ALTER", "INSERT", "SHOW", "SET", "EXPLAIN", "COMMIT", "BEGIN", "SUBSCRIBE", "DELETE")
_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT")
_ORDER = "The order of the clauses is SELECT, FROM, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT."
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
_TRIED = 300
_BACK = 3
_BACK_TO_HABIT = 16
_AHEAD = 5
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
    missing = missing_hint([text[each.start : each.end + 1].upper() for each in tokens], stuck, expected)
    if missing is not None:
        span, found = _found(tokens, stuck, text, offset)
        return SinkqlError("SQ2201", f"expected {expected}, found {found}", span, hint=missing)
    misspelt = _misspelt(tokens, stuck, text, attempt)
    place, near = (stuck, None) if misspelt is None else misspelt
    span, found = _found(tokens, place, text, offset)
    wanted = expected if near is None else near
    message = (
        f"expected {wanted}, found {found}" if wanted else f"unexpected {found.removeprefix('the ').removeprefix('a ')}"
    )
    hint = f"Did you mean {near}?" if near is not None else _order(tokens, stuck)
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
            if found is not None and (place == stuck or not form.here):
                last = tokens[min(place + found.count(" "), len(tokens) - 1)]
                return known_refusal(form, found, Span(offset + tokens[place].start, offset + last.end + 1))
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
    """Return the order of clauses where the one at `stuck` stands behind one that it goes before."""
    word = _first_word(tokens[stuck]) if stuck < len(tokens) else ""
    if word not in _CLAUSES:
        return None
    depth = 0
    for token in reversed(tokens[:stuck]):
        depth += (token.text == ")") - (token.text == "(")
        before = _first_word(token)
        if depth < 0 or (depth == 0 and before in ("SELECT", "UNION", "EXCEPT", "INTERSECT")):
            return None
        if depth == 0 and before in _CLAUSES and _CLAUSES.index(before) > _CLAUSES.index(word):
            return _ORDER
    return None


def _misspelt(tokens: Sequence[Any], stuck: int, text: str, attempt: Attempt) -> tuple[int, str] | None:
    """Return which word plainly misspells which keyword: with that the query is whole, or is read on."""
    if len(tokens) > _TRIED:
        return None
    there = tokens[stuck].end + 1 if stuck < len(tokens) else len(text)
    further: tuple[int, str] | None = None
    for place in range(min(stuck, len(tokens) - 1), max(-1, stuck - _BACK - 1), -1):
        token = tokens[place]
        if token.text.upper() in _KEYWORDS or not re.fullmatch(r"\w{3,}", text[token.start : token.end + 1]):
            continue
        near = nearest(token.text, _KEYWORDS, cutoff=0.7)
        if near is None:
            continue
        reached = attempt(f"{text[: token.start]}{near}{text[token.end + 1 :]}")
        if reached is None:
            return place, near
        if further is None and reached - len(near) + len(token.text) > there:
            further = place, near
    return further


def _first_word(token: Any) -> str:
    """Return a token's first word in upper case: GROUP BY is one token."""
    return next(iter(str(token.text).upper().split()), "")


_MISSING_WAITING = (
    "SELECT", "DISTINCT", "WHERE", "HAVING", "BY", "GROUP BY", "ORDER BY", "LIMIT", "OFFSET", "AND", "OR", "NOT", "ON",
    "LIKE", "ILIKE", "BETWEEN", "WHEN", "THEN", "ELSE", "FROM", "PLACING", "ESCAPE", "=", "<", ">", "<=", ">=", "<>",
    "!=", "+", "-", "*", "/", "%", "||", "->", "->>", "~", "~*", "!~", "!~*",
)  # fmt: skip
"""Words and signs behind which an expression is still to come."""
_CONDITIONS = ("WHERE", "HAVING", "ON", "WHEN", "AND", "OR", "(")
_ENDS = frozenset((
    "", ")", "FROM", "WHERE", "GROUP BY", "GROUP", "HAVING", "ORDER BY", "ORDER", "LIMIT", "OFFSET", "FETCH", "UNION",
    "UNION ALL", "EXCEPT", "INTERSECT", "QUALIFY", "WINDOW", "AND", "OR", "WHEN", "THEN", "ELSE", "END", "ON", "USING",
    "AS", "ASC", "DESC", "IN", "LIKE", "ILIKE", "BETWEEN", "IS",
))  # fmt: skip
"""Words that follow a whole expression or relation, so that the one before them is what is missing."""
_BINARY = frozenset(("=", "<", ">", "<=", ">=", "<>", "!=", "*", "/", "%", "||"))


def missing_hint(words: Sequence[str], stuck: int, expected: str | None) -> str | None:
    """Return the hint for the word number `stuck`, where an operand or a part of a clause is missing.

    The words are in upper case. None where something else may be wrong.
    """
    before = words[stuck - 1] if stuck else ""
    found = words[stuck] if stuck < len(words) else ""
    where = f"before {found}" if found.isalpha() else f'before "{found}"' if found else "at the end"
    if found.isalpha() and stuck + 1 < len(words) and words[stuck + 1] == ".":
        return f'A name that is a keyword needs quotes: "{found.lower()}".'
    match expected:
        case "an expression":
            return _operand(before, found, where)
        case "a relation" if found in _ENDS and before != ",":
            return f"Write a relation after {before}."
        case "a type":
            return f"Write a type after {before}."
        case "ON or USING" if found in _ENDS or found in (",", ";", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS"):
            return f"Write ON and a condition {where}; CROSS JOIN is of all pairs of rows."
        case "a field":
            return f"Write a field {where}, such as year."
        case "SELECT" if (before, found) == ("(", ")"):
            return "Write a query between the parentheses."
        case "BY" if found in _ENDS:
            return f"Write BY and an expression after {before}."
        case "THEN" if found in _ENDS:
            return f"Write THEN and an expression {where}."
        case "WHEN" if found in _ENDS:
            return f"Write WHEN … THEN … {where}."
        case "ONLY":
            return f"Write ONLY {where}."
        case "AND" if found in _ENDS or found == ",":
            return "Write AND and the upper bound, as in BETWEEN 1 AND 9."
        case "AS" if found in ("SELECT", ")"):
            return "Write AS and a type, as in cast(a AS integer)." if found == ")" else _QUERY
        case '"]"' if found and (found in _ENDS or found == ","):
            return f'Write "]" {where}.'
        case "WHERE" if found == ")":
            return "Write WHERE and a condition between the parentheses."
        case "WHERE" if before == "(":
            return "Write WHERE before the condition."
        case '"("' if before == "IN":
            return "Write the values in parentheses after IN, as in IN (1, 2)."
        case '"("' if before == "VALUES":
            return "Write rows in parentheses after VALUES, as in VALUES (1, 'a'), (2, 'b')."
        case "a name" if found == "SELECT" and before != ",":
            return _QUERY
    return None


_QUERY = "Write WITH name AS (SELECT …) before the SELECT that reads it."


def _operand(before: str, found: str, where: str) -> str | None:
    if found in ("AND", "OR") and before in ("SELECT", *_CONDITIONS):  # before a condition alone SELECT is put
        return f"Leave out {found}."
    if found in _BINARY and before in ("SELECT", ",", *_CONDITIONS):
        return f'Write an expression before "{found}".'
    if (before, found) == ("(", ")"):
        return "Write an expression between the parentheses."
    if before in _MISSING_WAITING and found in _ENDS:
        return f"Write an expression after {before}."
    if before == "," and found in _ENDS:
        return f'Leave out "," {where}.'
    return None
