"""How many examples Hypothesis generates: few for each change, more in `make soak`."""

from __future__ import annotations

from hypothesis import settings


def examples(few: int, many: int) -> settings:
    """Return settings with `few` examples, or with `many` in the profile "random"."""
    return settings(max_examples=few if settings().derandomize else many, deadline=None)
