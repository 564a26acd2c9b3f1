"""Documented differences between SinkQL and Postgres: each has a reason and must occur in some cell."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from grid.postgres_values import ERROR
from grid.values import Beyond

Test = Callable[[str, Any, "str | None", Sequence[Any]], bool]
"""The SQL of an expression, an engine's outcome, Postgres's answer, and the row."""


@dataclass(frozen=True, slots=True)
class Documented:
    """A difference, the reason for it, and a test for its cells."""

    name: str
    reason: str
    holds: Test
    of_spark: bool = False
    """Whether only Spark has it; the evaluator leaves these rows to Spark."""


def _loud(test: Callable[[str, str], bool]) -> Test:
    """Return a test for cells that are an error here and a value in Postgres."""

    def holds(sql: str, outcome: Any, expected: str | None, row: Sequence[Any]) -> bool:
        return outcome[0] == "error" and not (expected or "").startswith(ERROR) and test(sql, expected or "")

    return holds


_NOT_READ = re.compile(
    r"::(?:time|timestamp|timestamptz|date|numeric|smallint|integer|bigint|bytea|real|double precision)$"
    r"|to_date\(|to_timestamp\(|decode\("
)


def _wide(sql: str, expected: str) -> bool:
    """Return whether Postgres's number does not fit 38 digits, 10 of them after the decimal point."""
    found = number_of(expected)
    return found is not None and (not found.is_finite() or abs(found) >= _MOST)


def _other_year(sql: str, expected: str) -> bool:
    return bool(re.search(r"\b\d{5,}-\d\d-\d\d|BC$|infinity", expected))


def _form(sql: str, expected: str) -> bool:
    return bool(_NOT_READ.search(sql))


_MOST = Decimal(10) ** 28
LARGE = Decimal(10) ** 18
"""From this value, a step of a computation may overflow: it has 38 digits, 20 of them after the decimal point."""


def number_of(text: str | None) -> Decimal | None:
    """Return the number in a text, or None."""
    try:
        return Decimal(text or "")
    except InvalidOperation:
        return None


def _last_digits(sql: str, outcome: Any, expected: str | None, row: Sequence[Any]) -> bool:
    """Return whether a quotient equals Postgres's, to the digits that both have."""
    if outcome[0] != "value" or not isinstance(outcome[1], Decimal) or not re.search(r"/|\^|power", sql):
        return False
    found = number_of(expected or "")
    if found is None or not found.is_finite():
        return False
    places = min(10, max(0, -int(found.as_tuple().exponent)))
    return abs(found - outcome[1]) <= Decimal(5).scaleb(-places - 1)


def _near(sql: str, outcome: Any, expected: str | None, row: Sequence[Any]) -> bool:
    """Return whether a float is within four units in the last place."""
    if outcome[0] != "value" or not isinstance(outcome[1], float) or not TRANSCENDENTAL.search(sql):
        return False
    found = float(expected or "nan")
    return abs(found - outcome[1]) <= 4 * abs(found) * 2.0**-52


TRANSCENDENTAL = re.compile(r"\b(?:exp|ln|log|log10|power|pow|sin|cos|tan|atan2|cbrt|radians|degrees)\(")

WIDE = "numerics have 38 digits"
BESIDE_NULL = "an operand that fails beside NULL"
"""docs/reference/types.md: an operand beside a NULL may be skipped, and does not fail then. `cells` checks the tree."""
AT_ONCE = "a constant that fails where no row comes to it"
"""docs/reference/types.md: Postgres computes constants while it plans. `cells` asks Postgres whether it failed."""


_FIRST = -210_866_803_200_000_000
"""The first instant of Postgres, in 4713 BC, in microseconds from 1970."""


def _early(sql: str, outcome: Any, expected: str | None, row: Sequence[Any]) -> bool:
    """Return whether Postgres rejects a time before its first instant, which is valid here."""
    if outcome[0] != "value" or expected != f"{ERROR}22008":
        return False
    return "years" in sql or (isinstance(outcome[1], Beyond) and not outcome[1].days and outcome[1].number < _FIRST)


def _long(sql: str, outcome: Any, expected: str | None, row: Sequence[Any]) -> bool:
    """Return whether a number in a jsonb, with 400 digits or more in Postgres, has an exponent here."""
    if outcome[0] != "value" or "json" not in sql or not re.search(r"\d{400}", expected or ""):
        return False
    return "e" in str(outcome[1]).lower()


DOCUMENTED = (
    Documented("numbers of more than 400 digits", "docs/reference/types.md: in a jsonb they have an exponent", _long),
    Documented(
        "instants before 4713 BC",
        "docs/reference/types.md: within an expression, years are not bound",
        _early,
        of_spark=True,
    ),
    Documented("numbers near zero with EEEE", "to_char(): an error tells", _loud(lambda sql, _: "EEEE" in sql)),
    Documented(WIDE, "docs/reference/types.md: numeric is numeric(38, 10), more is an error", _loud(_wide)),
    Documented(
        "years 1 to 9999", "docs/reference/types.md: a value that does not fit its type is an error", _loud(_other_year)
    ),
    Documented(
        "texts of fewer forms", "docs/reference/types.md: of texts, forms that are not exact are errors", _loud(_form)
    ),
    Documented(
        "digits that V moves out of an integer",
        "to_char() of Postgres overflows without a word",
        _loud(lambda sql, _: "V99" in sql),
    ),
    Documented(
        "last digits of quotients",
        "docs/reference/types.md: quotients are rounded to the digits of their type",
        _last_digits,
    ),
    Documented(
        "last digit of transcendental functions", "each library of mathematics rounds its own way", _near, of_spark=True
    ),
)


def documented(sql: str, outcome: Any, expected: str | None, row: Sequence[Any]) -> str | None:
    """Return the name of the documented difference of a cell, or None."""
    return next((each.name for each in DOCUMENTED if each.holds(sql, outcome, expected, row)), None)


def loud(sql: str, expected: str | None) -> str | None:
    """Return the name of the documented difference by which an expression fails only here, or None."""
    return documented(sql, ("error", None), expected, ())
