"""Random typed expressions: templates of the grid within each other, over its columns and constants.

What an expression gives is exact at each step, so that what is above it can be: functions that libraries compute with
another last digit, and quotients and products, whose last digits a type has no room for, stand at the top alone.

A row within a row has columns alone: Postgres computes all its fields, SinkQL those that decide, and SQL leaves it open
which operands are computed where some of them tell the result. So it is of ROW(…), of which one field is
taken. A quotient keeps its digits through coalesce(…) where a column or a constant is behind it, and has columns alone
there, too. No part is a constant of several: Postgres computes it while it plans, and nothing beside it if it is NULL.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import cache

from grid.cells import planned
from grid.edges import PLACES, VALUES
from grid.exceptions import TRANSCENDENTAL
from grid.templates import Template, templates
from sinkql.errors import SinkqlError

_PLACE = re.compile(r"@([a-z]{1,2})([0-2])\b")
_LITERALS: Mapping[str, Sequence[str]] = {
    "p": ("true", "false"),
    "i": ("0", "1", "-1", "7", "2147483647"),
    "l": ("0::bigint", "9223372036854775807", "-5::bigint"),
    "d": ("0.5::double precision", "'NaN'::double precision", "-2.0::double precision"),
    "n": ("1.5", "-0.07", "100.0"),
    "s": ("'a'::text", "''::text", "'😀b'::text", "'12'::text"),
    "u": ("date '2024-02-29'", "date '2024-11-03'"),
    "t": ("timestamp '2024-11-03 01:30:00'",),
    "z": ("timestamptz '2024-11-03 05:30:00+00'",),
}
_TYPES = {type_: code for code, (type_, _) in VALUES.items()}
_ROW_WITHIN = re.compile(r"(?<=, )(\((?:[^()]|\([^()]*\))*\))(?=\))")
_KEPT = re.compile(r"coalesce\(@m0 /|ROW\(")
_ROUNDED = re.compile(
    r"/|\^|\bpow(?:er)?\(|numeric\b|@[nf]\d \*|\* (?:@[nfm]|1\.5)|factorial|INTERVAL|@y|width_bucket|@[rj]\d::text"
    r"|ROW\(|convert_from|ELSE '"
)
"""Whose values are others than Postgres's until they are shown, rounded to the digits of a type; rows, of which
Postgres computes no field that is not asked for; what has another locale in Postgres; and constant texts in forms
that are not read, which are no error beside NULL in one engine."""

_CONSTANT = re.compile(r"\([^()@]*\) \* INTERVAL|INTERVAL '[^']*' \* \([^()@]*\)")
"""A constant of several, beside which nothing is NULL in Postgres."""


@cache
def _grammar() -> tuple[dict[str, list[Template]], list[Template]]:
    """Return the templates by the letters of what they give, and those that stand at the top alone."""
    within: dict[str, list[Template]] = {}
    top: list[Template] = []
    for template in templates():
        if template.judge is None or not template.places or template.judge != template.sql:
            continue
        try:
            type_ = planned(template).type
        except SinkqlError:
            continue
        top.append(template)
        code = "n" if type_.name == "numeric" else _TYPES.get(str(type_))
        if code is not None and not _ROUNDED.search(template.text) and not TRANSCENDENTAL.search(template.sql):
            within.setdefault(code, []).append(template)
    return within, top


class Trees:
    """Make expressions of a depth, each a template with others in the places of its columns."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._within, self._top = _grammar()

    def any(self, depth: int) -> Template:
        """Return an expression of at most so many templates within each other."""
        template = self._random.choice(self._top)
        return Template(self._filled(template, depth - 1))

    def _filled(self, template: Template, depth: int) -> str:
        parts = _ROW_WITHIN.split(template.text)
        found = [self._placed(part, depth * (place % 2 == 0)) for place, part in enumerate(parts)]
        made = "" if _KEPT.search(template.text) else "".join(found)
        return made if _PLACE.search(made) and not _CONSTANT.search(made) else template.text

    def _placed(self, text: str, depth: int) -> str:
        return _PLACE.sub(lambda match: self._of(match[1], depth), text)

    def _of(self, code: str, depth: int) -> str:
        chance = self._random.random()
        if depth > 0 and code in self._within and chance < 0.7:
            return f"({self._filled(self._random.choice(self._within[code]), depth - 1)})"
        if code in _LITERALS and chance > 0.93:
            return f"({self._random.choice(_LITERALS[code])})"
        return f"@{code}{self._random.randrange(PLACES)}"
