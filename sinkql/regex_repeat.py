"""Repeats of a part of a pattern that are never given back, on every Python.

Possessive quantifiers and atomic groups say so in a pattern, but match wrongly before Python 3.11.5 where what is
repeated can backtrack (CPython's gh-106052). Nothing follows the repeats here, so that nothing makes them backtrack,
and they are matched some at a time: the memory that a match needs does not grow with the text.
"""

from __future__ import annotations

import re
from typing import AnyStr, Generic

_AT_ONCE = 500


class RepeatedPattern(Generic[AnyStr]):
    """Any number of an item: alternatives, each of which matches in one way only, and never nothing."""

    def __init__(self, item: AnyStr) -> None:
        pattern = f"(?:{item}){{1,{_AT_ONCE}}}" if isinstance(item, str) else b"(?:%b){1,%d}" % (item, _AT_ONCE)
        self._some: re.Pattern[AnyStr] = re.compile(pattern, re.DOTALL)

    def end(self, text: AnyStr, at: int = 0) -> int:
        """Return where the items end that follow each other from a place on."""
        while (match := self._some.match(text, at)) is not None:
            at = match.end()
        return at
