"""Views that group, join and count by arrays and rows agree with DuckDB after every batch."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from views.changing import changes
from views.harness import Relation, View, Views

if TYPE_CHECKING:
    from pathlib import Path

_ARRAYS = ((), (1,), (1, 2), (2, 1), (None,), (1, None), None)
_RELATIONS = (
    Relation("a", {"g": "integer", "x": "integer", "s": "integer[]"}),
    Relation("b", {"g": "integer", "x": "double precision", "s": "integer[]"}),
)
_VIEWS = {
    "grouped": "SELECT s, count(*) AS n, sum(x) AS t FROM a GROUP BY s",
    "distinct": "SELECT DISTINCT s FROM a",
    "joined": "SELECT a.g, a.x, b.x AS other FROM a JOIN b ON a.s = b.s",
    "left": "SELECT a.g, a.x, b.x AS other FROM a LEFT JOIN b ON a.s = b.s AND a.g < b.g",
    "ordered": "SELECT a.g, a.x, b.x AS other FROM a JOIN b ON a.g = b.g AND a.s < b.s",
    "united": "SELECT s FROM a UNION SELECT s FROM b",
    "besides": "SELECT s FROM a EXCEPT ALL SELECT s FROM b",
    "within": "SELECT g FROM a WHERE s IN (SELECT s FROM b)",
    "placed": "SELECT g, count(*) OVER (PARTITION BY s) AS n FROM a",
    "rows": "SELECT g, count(DISTINCT (x, s)) AS n FROM a GROUP BY g",
    "floats": "SELECT count(DISTINCT (g, x)) AS n FROM b",
}
_ORACLES = {
    "rows": "SELECT g, count(DISTINCT {'x': x, 's': s}) AS n FROM a GROUP BY g",
    "floats": "SELECT count(DISTINCT {'g': g, 'x': x + 0.0}) AS n FROM b",
}


def _a(random_: random.Random) -> tuple[Any, ...]:
    return random_.choice((1, 2, None)), random_.choice((1, 2, None)), random_.choice(_ARRAYS)


def _b(random_: random.Random) -> tuple[Any, ...]:
    return random_.choice((1, 2, None)), random_.choice((0.0, -0.0, 1.5, None)), random_.choice(_ARRAYS)


def test_arrays_and_rows_are_told_apart_by_their_values(tmp_path: Path) -> None:
    views = Views(tmp_path, _RELATIONS, {name: View(sql, _ORACLES.get(name)) for name, sql in _VIEWS.items()})
    random_ = random.Random(5)
    for _ in range(6):
        views.batch(changes(views, random_, {"a": _a, "b": _b}))
    views.check_cut([2, 4])
    assert all(views.checked[name] > 1 for name in _VIEWS), views.checked
    views.close()
