"""Explain why a query does not parse: what was expected, and a hint if the fix is obvious.

Also gives the hint for an operand or a part of a clause that is missing.
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
"""Words that an expression must follow."""
_STATEMENTS = ("CREATE", "DROP", "ALTER", "INSERT", "SHOW", "SET", "EXPLAIN", "COMMIT", "BEGIN", "SUBSCRIBE", "DELETE")
_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT")
_ORDER = "The order of the clauses is SELECT, FROM, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT."
_BEFORE_RELATION = ("FROM", "JOIN", "TABLE")
_BETWEEN_COLUMNS = (",", "FROM")
_BEFORE_COLUMN = ("SELECT", "DISTINCT", ",")
_BEFORE_EXPRESSION = (*_BEFORE_COLUMN, "(", *_WAITING)
_BEHIND_COLUMN = ("", ")", "AS", *_BETWEEN_COLUMNS, *(word for word in _WAITING if not word[0].isalpha()))
_BEGINNINGS = ("FROM", "CASE", "UNION")
"""Keywords that, if they are meant as names, only the next word shows to be wrong."""
_MAX_QUOTED = 8
_NEVER_NAMES = frozenset({"SELECT", "FROM", "WHERE", "HAVING", "WITH"})
"""Words at the place of a name that mean that the name is missing."""
_MAX_TOKENS_TRIED = 300
_BACK = 3
_BACK_TO_HABIT = 16
_AHEAD = 5
Attempt = Callable[[str], int | None]
"""A function that returns the position at which a text does not parse, None if it parses."""


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
    """Return the error at the token number `stuck`, or at the end of the text; `expected` comes from sqlglot.

    `reserved` are the words that are names only in quotes.
    """
    statement = _next_statement(tokens, stuck, text)
    if statement is not None:
        token = tokens[statement]
        before = tokens[statement - 1]
        return SinkqlError(
            "SQ1005",
            f'";" is missing before {token.text.upper()}',
            Span(offset + token.start, offset + token.end + 1),
            hint=f'End the statement before it with ";", after "{text[before.start : before.end + 1]}".',
        )
    foreign = _foreign_form(tokens, stuck, text, offset)
    if foreign is not None:
        return foreign
    for place, wanted_kind in _possible_names(tokens, stuck, text, expected, reserved):
        if _parses_quoted(tokens, place, text, reserved, attempt):
            span, unexpected = _describe(tokens, place, text, offset)
            name = text[span.start - offset : span.end - offset].lower()
            message = f"expected {wanted_kind}, found {unexpected}"
            return SinkqlError("SQ2201", message, span, hint=f'A name that is a keyword needs quotes: "{name}".')
    label = (
        keyword_as_label(tokens, stuck, text, offset, attempt=attempt)
        or _missing_label(tokens, stuck, text, offset)
        or _string_as_name(tokens, stuck, text, offset, expected, attempt)
    )
    if label is not None:
        return label
    missing = missing_hint([text[token.start : token.end + 1].upper() for token in tokens], stuck, expected)
    if missing is not None:
        span, unexpected = _describe(tokens, stuck, text, offset)
        return SinkqlError("SQ2201", f"expected {expected}, found {unexpected}", span, hint=missing)
    misspelt = _find_misspelling(tokens, stuck, text, attempt)
    place, keyword = (stuck, None) if misspelt is None else misspelt
    span, unexpected = _describe(tokens, place, text, offset)
    wanted = expected if keyword is None else keyword
    message = (
        f"expected {wanted}, found {unexpected}"
        if wanted
        else f"unexpected {unexpected.removeprefix('the ').removeprefix('a ')}"
    )
    hint = f"Did you mean {keyword}?" if keyword is not None else _order_hint(tokens, stuck)
    return SinkqlError("SQ2201", message, span, hint=hint)


def keyword_as_label(
    tokens: Sequence[Any], stuck: int, text: str, offset: int, *, attempt: Attempt
) -> SinkqlError | None:
    """Return the error for a keyword that names a column without AS, at `stuck` or just before."""
    for place in (stuck - 1, stuck):
        behind = text[tokens[place + 1].start : tokens[place + 1].end + 1].upper() if place + 1 < len(tokens) else ""
        if not 0 < place < len(tokens) or behind not in _BETWEEN_COLUMNS:
            continue
        token = tokens[place]
        word = text[token.start : token.end + 1]
        before = text[tokens[place - 1].start : tokens[place - 1].end + 1].upper()
        can_be_label = word.isalpha() and word.upper() not in ("SELECT", "FROM", "WITH")
        if not can_be_label or before == "AS" or before in _BEFORE_EXPRESSION:
            continue
        if attempt(f"{text[: token.start]}AS {text[token.start :]}") is None:
            span, description = _describe(tokens, place, text, offset)
            hint = f"A keyword names a column only after AS: AS {word}."
            return SinkqlError("SQ2201", f"unexpected {description}", span, hint=hint)
    return None


def _missing_label(tokens: Sequence[Any], stuck: int, text: str, offset: int) -> SinkqlError | None:
    """Return the error for AS without a name, where the next FROM was read as the name."""
    words = [text[token.start : token.end + 1].upper() for token in tokens[: stuck + 1]]
    if words[stuck - 2 : stuck] != ["AS", "FROM"] or stuck >= len(tokens):
        return None
    span, description = _describe(tokens, stuck - 1, text, offset)
    hint = "Write a name after AS, or leave it out."
    return SinkqlError("SQ2201", f"expected a name, found {description}", span, hint=hint)


def _string_as_name(
    tokens: Sequence[Any], stuck: int, text: str, offset: int, expected: str | None, attempt: Attempt
) -> SinkqlError | None:
    """Return the error for a name in single quotes."""
    if not 0 < stuck < len(tokens):
        return None
    span, description = _describe(tokens, stuck, text, offset)
    written = text[tokens[stuck].start : tokens[stuck].end + 1]
    if description != "a string" or not re.fullmatch(r"'\w+( \w+)*'", written):
        return None
    quoted = f'"{written[1:-1]}"'
    if attempt(text[: tokens[stuck].start] + quoted + text[tokens[stuck].end + 1 :]) is not None:
        return None
    message = (
        f"expected {expected}, found {description}" if expected else f"unexpected {description.removeprefix('a ')}"
    )
    return SinkqlError("SQ2201", message, span, hint=f"Write names in double quotes: {quoted}.")


def _possible_names(
    tokens: Sequence[Any], stuck: int, text: str, expected: str | None, reserved: Set[str]
) -> Iterator[tuple[int, str]]:
    """Yield the indices of keywords that may be meant as names, with the expected kind of name."""
    words = [text[token.start : token.end + 1].upper() for token in tokens[: stuck + 2]]
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
    starts_form = stuck > 1 and before in _BEGINNINGS and words[stuck - 2] in _BEFORE_COLUMN
    if starts_form and stuck < len(tokens) and words[stuck] in _BETWEEN_COLUMNS:
        yield stuck - 1, "an expression"


def _parses_quoted(tokens: Sequence[Any], place: int, text: str, reserved: Set[str], attempt: Attempt) -> bool:
    """Return whether the text parses with a keyword in quotes, together with further keywords that then fail."""
    quoted: list[int] = []
    while len(quoted) < _MAX_QUOTED:
        token = tokens[place]
        start, end = token.start + 2 * len(quoted), token.end + 1 + 2 * len(quoted)
        text = f'{text[:start]}"{text[start:end].lower()}"{text[end:]}'
        quoted.append(place)
        reached = attempt(text)
        if reached is None:
            return True
        position = reached - 2 * len(quoted)
        place = next((at for at, token in enumerate(tokens) if token.start == position), -1)
        if place <= quoted[-1] or tokens[place].text.upper() not in reserved - _NEVER_NAMES:
            return False
    return False


def _foreign_form(tokens: Sequence[Any], stuck: int, text: str, offset: int) -> SinkqlError | None:
    """Return the error for a form of another SQL dialect at the token number `stuck`, or shortly before it."""
    for place in range(max(0, stuck - _BACK_TO_HABIT), min(stuck + 1, len(tokens))):
        ahead = " ".join(text[token.start : token.end + 1].upper() for token in tokens[place : place + _AHEAD])
        for form in habits().query:
            form_text = begins(form, ahead)
            if form_text is not None and (place == stuck or not form.here):
                last = tokens[min(place + form_text.count(" "), len(tokens) - 1)]
                return known_refusal(form, form_text, Span(offset + tokens[place].start, offset + last.end + 1))
    return None


def _describe(tokens: Sequence[Any], place: int, text: str, offset: int) -> tuple[Span, str]:
    if place >= len(tokens):
        end = len(text.rstrip())
        return Span(offset + end, offset + end), "the end of the query"
    token = tokens[place]
    written = text[token.start : token.end + 1]
    shown = "a string" if written.endswith("'") else f'"{written}"'
    return Span(offset + token.start, offset + token.end + 1), shown


def _next_statement(tokens: Sequence[Any], stuck: int, text: str) -> int | None:
    """Return the index of a token that begins another statement on a new line."""
    for place in range(1, min(stuck + 1, len(tokens))):
        token = tokens[place]
        is_start = token.text.upper() in _STATEMENTS and place >= stuck - _BACK
        if is_start and "\n" in text[tokens[place - 1].end + 1 : token.start]:
            return place
    return None


def _order_hint(tokens: Sequence[Any], stuck: int) -> str | None:
    """Return the order of clauses if the clause at `stuck` follows a clause that it must precede."""
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


def _find_misspelling(tokens: Sequence[Any], stuck: int, text: str, attempt: Attempt) -> tuple[int, str] | None:
    """Return the index of a misspelt word and its keyword, with which the query parses, or parses further."""
    if len(tokens) > _MAX_TOKENS_TRIED:
        return None
    limit = tokens[stuck].end + 1 if stuck < len(tokens) else len(text)
    further: tuple[int, str] | None = None
    for place in range(min(stuck, len(tokens) - 1), max(-1, stuck - _BACK - 1), -1):
        token = tokens[place]
        if token.text.upper() in _KEYWORDS or not re.fullmatch(r"\w{3,}", text[token.start : token.end + 1]):
            continue
        keyword = nearest(token.text, _KEYWORDS, cutoff=0.7)
        if keyword is None:
            continue
        reached = attempt(f"{text[: token.start]}{keyword}{text[token.end + 1 :]}")
        if reached is None:
            return place, keyword
        if further is None and reached - len(keyword) + len(token.text) > limit:
            further = place, keyword
    return further


def _first_word(token: Any) -> str:
    """Return a token's first word in upper case; GROUP BY is one token."""
    return next(iter(str(token.text).upper().split()), "")


_MISSING_WAITING = (
    "SELECT", "DISTINCT", "WHERE", "HAVING", "BY", "GROUP BY", "ORDER BY", "LIMIT", "OFFSET", "AND", "OR", "NOT", "ON",
    "LIKE", "ILIKE", "BETWEEN", "WHEN", "THEN", "ELSE", "FROM", "PLACING", "ESCAPE", "=", "<", ">", "<=", ">=", "<>",
    "!=", "+", "-", "*", "/", "%", "||", "->", "->>", "~", "~*", "!~", "!~*",
)  # fmt: skip
"""Words and signs that an expression must follow."""
_CONDITIONS = ("WHERE", "HAVING", "ON", "WHEN", "AND", "OR", "(")
_ENDS = frozenset((
    "", ")", "FROM", "WHERE", "GROUP BY", "GROUP", "HAVING", "ORDER BY", "ORDER", "LIMIT", "OFFSET", "FETCH", "UNION",
    "UNION ALL", "EXCEPT", "INTERSECT", "QUALIFY", "WINDOW", "AND", "OR", "WHEN", "THEN", "ELSE", "END", "ON", "USING",
    "AS", "ASC", "DESC", "IN", "LIKE", "ILIKE", "BETWEEN", "IS",
))  # fmt: skip
"""Words that follow a complete expression or relation, so that an operand is missing before them."""
_BINARY = frozenset(("=", "<", ">", "<=", ">=", "<>", "!=", "*", "/", "%", "||"))


def missing_hint(words: Sequence[str], stuck: int, expected: str | None) -> str | None:
    """Return the hint for the word number `stuck` if an operand or a part of a clause is missing, else None.

    The words are in upper case.
    """
    before = words[stuck - 1] if stuck else ""
    word = words[stuck] if stuck < len(words) else ""
    where = f"before {word}" if word.isalpha() else f'before "{word}"' if word else "at the end"
    if word.isalpha() and stuck + 1 < len(words) and words[stuck + 1] == ".":
        return f'A name that is a keyword needs quotes: "{word.lower()}".'
    match expected:
        case "an expression":
            return _operand(before, word, where)
        case "a relation" if word in _ENDS and before != ",":
            return f"Write a relation after {before}."
        case "a type":
            return f"Write a type after {before}."
        case "ON or USING" if word in _ENDS or word in (",", ";", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS"):
            return f"Write ON and a condition {where}; CROSS JOIN returns all pairs of rows."
        case "a field":
            return f"Write a field {where}, such as year."
        case "SELECT" if (before, word) == ("(", ")"):
            return "Write a query between the parentheses."
        case "BY" if word in _ENDS:
            return f"Write BY and an expression after {before}."
        case "THEN" if word in _ENDS:
            return f"Write THEN and an expression {where}."
        case "WHEN" if word in _ENDS:
            return f"Write WHEN … THEN … {where}."
        case "ONLY":
            return f"Write ONLY {where}."
        case "AND" if word in _ENDS or word == ",":
            return "Write AND and the upper bound, as in BETWEEN 1 AND 9."
        case "AS" if word in ("SELECT", ")"):
            return "Write AS and a type, as in cast(a AS integer)." if word == ")" else _QUERY
        case '"]"' if word and (word in _ENDS or word == ","):
            return f'Write "]" {where}.'
        case "WHERE" if word == ")":
            return "Write WHERE and a condition between the parentheses."
        case "WHERE" if before == "(":
            return "Write WHERE before the condition."
        case '"("' if before == "IN":
            return "Write the values in parentheses after IN, as in IN (1, 2)."
        case '"("' if before == "VALUES":
            return "Write rows in parentheses after VALUES, as in VALUES (1, 'a'), (2, 'b')."
        case "a name" if word == "SELECT" and before != ",":
            return _QUERY
    return None


_QUERY = "Write WITH name AS (SELECT …) before the SELECT that reads it."


def _operand(before: str, word: str, where: str) -> str | None:
    if word in ("AND", "OR") and before in (
        "SELECT",
        *_CONDITIONS,
    ):  # a condition that stands alone follows an added SELECT
        return f"Leave out {word}."
    if word in _BINARY and before in ("SELECT", ",", *_CONDITIONS):
        return f'Write an expression before "{word}".'
    if (before, word) == ("(", ")"):
        return "Write an expression between the parentheses."
    if before in _MISSING_WAITING and word in _ENDS:
        return f"Write an expression after {before}."
    if before == "," and word in _ENDS:
        return f'Leave out "," {where}.'
    return None
