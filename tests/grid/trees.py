"""Random typed expressions: templates of the grid inside each other, over its columns and constants.

Inner results must be exact so that outer ones can be compared. Three kinds of templates are therefore used only at the
top: functions whose last digit depends on a library, quotients, and products whose last digits do not fit a type.

A row within a row has only columns as fields. Postgres computes all fields, SinkQL only those it needs, and SQL
allows both. The same applies to ROW(…) if one field of it is read. A quotient keeps its digits through
coalesce(…) if a column or a constant follows, so it has only columns there, too. No part is an expression of several
constants: Postgres computes it while it plans, and skips the operands beside it if it is NULL.
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
"""Templates that are used only at the top: values that differ from Postgres's until they are rounded to the digits of
a type; rows, of whose fields Postgres computes only the requested ones; texts that depend on a locale in Postgres; and
constant texts in unsupported forms, which one engine does not report beside NULL."""

_CONSTANT = re.compile(r"\([^()@]*\) \* INTERVAL|INTERVAL '[^']*' \* \([^()@]*\)")
"""An expression of several constants; if it is NULL, Postgres computes nothing beside it."""


@cache
def _grammar() -> tuple[dict[str, list[Template]], list[Template]]:
    """Return the templates for inner expressions by the code of their type, and the templates for the top."""
    within: dict[str, list[Template]] = {}
    top: list[Template] = []
    for template in templates():
        if template.oracle is None or not template.places or template.oracle != template.sql:
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
    """A generator of expressions: templates whose columns are replaced with other templates."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._within, self._top = _grammar()

    def any(self, depth: int) -> Template:
        """Return an expression with at most `depth` nested templates."""
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
