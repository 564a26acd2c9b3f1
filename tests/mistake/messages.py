"""The texts that users read: sentences of the package, causes and cures of errors, hints of goldens and dialects."""

from __future__ import annotations

import re
from functools import cache

from golden import casefile
from golden.test_golden import FILES
from mistake.source_hint import sentences
from sinkql.errors import error_codes
from sinkql.parser.hint.other_dialects import habits


@cache
def told() -> tuple[str, ...]:
    """Return all texts, sorted."""
    found = {each.text for each in sentences()}
    found |= {part for code in error_codes for part in (error_codes[code].cause, error_codes[code].cure)}
    found |= {form.hint for form in (*habits().statement, *habits().query) if form.hint}
    return tuple(sorted(found.union(shown())))


@cache
def shown() -> tuple[str, ...]:
    """Return the hints and details in goldens, with their values filled in."""
    found: set[str] = set()
    for path in FILES:
        for case in casefile.read(path.read_text("utf-8"))[0]:
            found |= set(re.findall(r"^(?:hint|detail): (.*)", case.output, re.MULTILINE))
    return tuple(sorted(found))
