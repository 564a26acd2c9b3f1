"""Templates, their columns and the types of the columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PLACE = re.compile(r"@([a-z]{1,2})([0-2])\b")
SAME = "the same"


@dataclass(frozen=True, slots=True)
class Template:
    """An expression of SinkQL, and the expression of Postgres with which it is compared."""

    text: str
    judged: str | None = SAME

    @property
    def sql(self) -> str:
        """Return the expression over the grid's columns."""
        return _PLACE.sub(r"\1\2", self.text)

    @property
    def oracle(self) -> str | None:
        """Return the SQL for Postgres; None if Postgres has no equivalent."""
        return self.sql if self.judged == SAME else None if self.judged is None else _PLACE.sub(r"\1\2", self.judged)

    @property
    def places(self) -> tuple[str, ...]:
        """Return the columns of the template, in order."""
        return tuple("".join(each) for each in _PLACE.findall(self.text))

    def failing(self, place: str) -> Template:
        """Return the template with a column that fails on some rows, and is its value or NULL on others."""
        column, failing = re.compile(rf"@{place}\b"), f"(CASE WHEN 1 / @i0 + 1 / @i2 IS NOT NULL THEN @{place} END)"
        judged = self.judged if self.judged in (None, SAME) else column.sub(failing, self.judged)
        return Template(column.sub(failing, self.text), judged)


INTEGERS = ("h", "i", "l")
UNSIGNED = ("v", "w", "x")
NUMERICS = ("n", "m", "f")
FLOATS = ("r", "d")
NUMBERS = (*INTEGERS, *NUMERICS, *FLOATS)
TIMES = ("u", "t", "z")
RANGES = {"ri": "i", "rl": "l", "rn": "n", "ru": "u", "rt": "t", "rz": "z"}
ARRAYS = {"ai": "i", "al": "l", "as": "s", "ad": "d", "an": "n", "ap": "p", "au": "u", "at": "t"}
COMPARED = ("p", *INTEGERS, *UNSIGNED, *NUMERICS, *FLOATS, "s", "b", "u", "c", "t", "z", "y", "g", *RANGES)
ORDERED = tuple(each for each in COMPARED if each not in RANGES)
SIGNS = ("=", "<>", "<", "<=", ">", ">=")
PAIRS = (
    ("h", "i"),
    ("i", "l"),
    ("l", "n"),
    ("m", "n"),
    ("i", "d"),
    ("r", "d"),
    ("n", "d"),
    ("l", "r"),
    ("i", "m"),
    ("f", "n"),
    ("u", "t"),
    ("t", "z"),
    ("u", "z"),
)
SPELLED = {
    "p": "boolean",
    "h": "smallint",
    "i": "integer",
    "l": "bigint",
    "n": "numeric",
    "r": "real",
    "d": "double precision",
    "s": "text",
    "b": "bytea",
    "u": "date",
    "c": "time",
    "t": "timestamp",
    "z": "timestamptz",
    "g": "uuid",
    "j": "jsonb",
}
JUDGED_AS = {"v": "uint2", "w": "uint4", "x": "uint8"}
"""Functions in Postgres that check that a number is in the range of one of these types."""


def plain(*texts: str) -> Iterator[Template]:
    yield from map(Template, texts)
