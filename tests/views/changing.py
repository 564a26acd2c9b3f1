"""Random changes of relations: rows that come, several-fold too, and rows that are there and go."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from views.harness import Change, Views

Columns = Mapping[str, Callable[[random.Random], tuple[Any, ...]]]
"""By relation, what makes a row of it."""


def changes(views: Views, random_: random.Random, rows: Columns, most: int = 6) -> dict[str, list[Change]]:
    """Return a batch of changes of all relations; of an upsert relation a row that goes is one of any key."""
    found: dict[str, list[Change]] = {}
    for name, row in rows.items():
        kind = views.content.relations[name].kind
        there = sorted(views.content.rows[name].elements(), key=repr)
        going = random_.sample(there, min(len(there), random_.randrange(most))) if kind == "table" else []
        found[name] = [(each, -1) for each in going]
        for _ in range(random_.randrange(most + 2)):
            sign = -1 if kind == "upsert" and not random_.randrange(3) else 1
            found[name].append((row(random_), sign))
    return found
