"""Views over tables and sources agree with DuckDB after every batch."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from views.harness import Change, Relation, View, Views

_RELATIONS = (
    Relation("t", {"id": "bigint NOT NULL", "g": "int", "n": "numeric(10,2)", "name": "text"}),
    Relation("s", {"id": "bigint", "x": "int", "name": "text"}, kind="append"),
    Relation("u", {"id": "bigint NOT NULL", "x": "int", "name": "text"}, ("id",), "upsert"),
)
_VIEWS = {
    "many": View("SELECT id, upper(name) AS name FROM t WHERE n >= 2"),
    "grouped": View("SELECT g, count(*) AS c, sum(n) AS s, max(n) AS m FROM t GROUP BY g"),
    "whole": View("SELECT count(*) AS c, sum(n) AS s, min(name) AS l FROM t"),
    "filtered": View(
        "SELECT g, count(*) FILTER (WHERE n > 2) AS c, sum(n) FILTER (WHERE name = 'a') AS s, "
        "min(id) FILTER (WHERE name <> 'a') AS m FROM t GROUP BY g"
    ),
    "together": View("SELECT id, name FROM t WHERE n > 3 UNION ALL SELECT id, name FROM s"),
    "latest": View("SELECT id, x + 1 AS y FROM u WHERE x > 1"),
    "texts": View("SELECT name, count(*) AS c, avg(x) AS a FROM u GROUP BY name"),
}


def _row(name: str, random_: random.Random) -> tuple[Any, ...]:
    text = random_.choice([None, "a", "b", "c"])
    small = random_.choice([None, 0, 1, 2, 3])
    if name == "t":
        return random_.randrange(6), small, random_.choice([None, Decimal(2), Decimal("3.25")]), text
    return random_.randrange(6), small, text


def _changes(views: Views, random_: random.Random) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {"t": [], "s": [], "u": []}
    there = sorted(views.content.rows["t"].elements(), key=repr)
    found["t"] += [(row, -1) for row in random_.sample(there, min(len(there), random_.randrange(4)))]
    for name in found:
        for _ in range(random_.randrange(5)):
            row = _row(name, random_)
            found[name].append((row, -1 if name == "u" and not random_.randrange(3) else 1))
    return found


@pytest.mark.parametrize("sinks", [False, True])
def test_views_are_what_their_sql_gives(tmp_path: Path, *, sinks: bool) -> None:
    views, random_ = Views(tmp_path, _RELATIONS, _VIEWS, sinks=sinks), random.Random(5)
    for _ in range(5):
        views.batch(_changes(views, random_))
    views.check_parts()
    views.check_cut([2, 4])
    assert all(views.checked[name] for name in _VIEWS)
    views.close()
