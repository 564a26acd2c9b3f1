"""Match repeats of a pattern without backtracking, on every Python.

Possessive quantifiers and atomic groups would do that, but match wrongly before Python 3.11.5 if the repeated pattern
can backtrack (CPython's gh-106052). Here nothing follows the repeats, so nothing makes them backtrack. They are matched
a number at a time, so the memory of a match does not grow with the text.
"""

from __future__ import annotations

import re
from typing import AnyStr, Generic

_REPEATS = 500


class RepeatedPattern(Generic[AnyStr]):
    """Any number of an item: alternatives that each match in one way, and never the empty text."""

    def __init__(self, item: AnyStr) -> None:
        pattern = f"(?:{item}){{1,{_REPEATS}}}" if isinstance(item, str) else b"(?:%b){1,%d}" % (item, _REPEATS)
        self._some: re.Pattern[AnyStr] = re.compile(pattern, re.DOTALL)

    def end(self, text: AnyStr, at: int = 0) -> int:
        """Return the end of the items that start at `at`."""
        while (match := self._some.match(text, at)) is not None:
            at = match.end()
        return at
