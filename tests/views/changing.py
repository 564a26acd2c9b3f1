"""Random changes of relations: inserts, some of them of equal rows, and deletes of existing rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from views.harness import Change, Views

Columns = Mapping[str, Callable[[random.Random], tuple[Any, ...]]]
"""By relation, a function that returns a random row."""


def changes(views: Views, random_: random.Random, rows: Columns, most: int = 6) -> dict[str, list[Change]]:
    """Return a batch of changes of all relations; a delete in an upsert relation may have any key."""
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
