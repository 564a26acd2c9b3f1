"""Paths into a jsonb: steps written as an array of texts, `{a,0,"b c"}`, each of which is a key or an index."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sinkql.logical.array import read_array

_INDEX = re.compile(r"[ \t\n\r\f\v]*[+-]?[0-9]+")
_PLAIN_KEY = re.compile(r"[\w .:/@#$%&+=~-]+")
_MOST = 2**31


def path_steps(text: str) -> list[str | None]:
    """Return the steps of a path, None for NULL, which leads nowhere; raises ValueError for a text that is no path."""
    steps = read_array(text)
    if any(isinstance(step, list) for step in steps):
        raise ValueError(text)
    return [None if step is None else str(step) for step in steps]


def format_path(steps: Sequence[str | None]) -> str:
    """Return the text of a path."""
    return "{" + ",".join(map(_written, steps)) + "}"


def _written(step: str | None) -> str:
    return "NULL" if step is None else '"' + re.sub(r'(["\\])', r"\\\1", step) + '"'


def is_index(step: str) -> bool:
    """Tell whether a step is an index of an array, beside the key of an object."""
    return bool(_INDEX.fullmatch(step))


def index_of(step: str) -> int | None:
    """Return the index that a step is; None where it is none."""
    found = int(step) if is_index(step) else _MOST
    return found if -_MOST <= found < _MOST else None


def is_plain_key(step: str) -> bool:
    """Tell whether an engine's own paths can spell a key."""
    return bool(_PLAIN_KEY.fullmatch(step))
