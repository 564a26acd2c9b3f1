"""Four relations of random rows: a keyed table, a table without a key, an append source and an upsert source."""

from __future__ import annotations

import random
from datetime import date
from decimal import Decimal
from typing import Literal

from views.harness import Relation
from views.rows import Row

Type = Literal["int", "num", "text", "bool", "date", "mean", "list"]
"""The kinds of values of columns. Means and lists are outputs of the outermost query only."""

RELATIONS = (
    Relation(
        "a",
        {"id": "int NOT NULL", "g": "int", "x": "bigint", "n": "numeric(10,2)", "t": "text", "d": "date"},
        ("id",),
    ),
    Relation("b", {"g": "int", "x": "bigint", "n": "numeric(10,2)", "t": "text", "f": "boolean"}),
    Relation("c", {"g": "int NOT NULL", "x": "bigint", "t": "text"}, kind="append"),
    Relation("u", {"id": "int NOT NULL", "g": "int", "x": "bigint", "t": "text", "d": "date"}, ("id",), "upsert"),
)
TYPES: dict[str, Type] = {"g": "int", "id": "int", "x": "int", "n": "num", "t": "text", "f": "bool", "d": "date"}
_VALUES: dict[str, tuple[object, ...]] = {
    "g": (0, 1, 2, 3),
    "x": (-2, 0, 1, 1, 2, 3, 7),
    "n": (Decimal("-1.50"), Decimal(0), Decimal(1), Decimal("2.25"), Decimal(3)),
    "t": ("", "a", "B", "ab", "ä", "b%"),
    "f": (True, False),
    "d": (date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1)),
}


def row(relation: Relation, random_: random.Random, id_: int | None = None) -> Row:
    """Return a row of a relation with this key; by default, with one of a dozen keys."""
    found: list[object] = []
    for name, type_ in relation.columns.items():
        if name == "id":
            found.append(random_.randrange(12) if id_ is None else id_)
        elif "NOT NULL" not in type_ and not random_.randrange(5):
            found.append(None)
        else:
            found.append(random_.choice(_VALUES[name]))
    return tuple(found)
