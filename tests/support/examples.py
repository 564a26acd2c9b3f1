"""How many examples Hypothesis generates."""

from __future__ import annotations

from hypothesis import settings


def examples(most: int) -> int:
    """Return a third of a number, and all of it where examples are random, as `make soak` has them."""
    return most // 3 if settings().derandomize else most
