"""What has to stand where a query stops being one, and is not there → the hint that says what to write."""

from __future__ import annotations

from collections.abc import Sequence

_WAITING = (
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
    if before in _WAITING and found in _ENDS:
        return f"Write an expression after {before}."
    if before == "," and found in _ENDS:
        return f'Leave out "," {where}.'
    return None
