"""Constant rows of a query are present from the first batch on, beside rows that change."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from views.changing import changes
from views.harness import Relation, View, Views

_RELATIONS = (Relation("t", {"a": "integer", "b": "text"}), Relation("s", {"a": "integer", "b": "text"}, kind="append"))
_VIEWS = {
    "one": "SELECT 1 AS a, 'x' AS b, NULL AS c, 1.50 AS d, DATE '2024-02-29' AS e",
    "several": "VALUES (1, 'x'), (2, NULL), (2, NULL)",
    "named": "SELECT n + 1 AS m, s FROM (VALUES (1, NULL), (2, 'x'), (2.5, '3'), (NULL, NULL)) AS v (n, s) WHERE n > 1",
    "beside": "SELECT a, b FROM t UNION ALL VALUES (1, 'x'), (3, 'z')",
    "beside_appended": "SELECT a, b FROM s UNION ALL SELECT 7, 'q'",
    "null_beside": "SELECT a, b FROM t UNION ALL SELECT NULL, NULL UNION ALL SELECT 7, 'q'",
    "less": "(VALUES (0), (1), (2)) EXCEPT SELECT a FROM t",
    "grouped": "SELECT x, count(*) AS n FROM (SELECT b AS x FROM t UNION ALL VALUES ('x'), ('z')) AS u GROUP BY x",
    "counted": "SELECT count(*) AS n, sum(x) AS s FROM (VALUES (1), (2)) AS v (x)",
    "nothing": "SELECT x FROM (VALUES (1), (2)) AS v (x) WHERE x > 5",
    "with_it": "WITH w (k) AS (VALUES (1), (2)) SELECT a AS k FROM t INTERSECT SELECT k FROM w",
}
_ORACLES = {"several": "SELECT * FROM (VALUES (1, 'x'), (2, NULL), (2, NULL)) AS v"}


def _row(random_: random.Random) -> tuple[Any, ...]:
    return random_.randrange(4), random_.choice(["x", "y", None])


def test_rows_of_a_query_are_there_beside_those_that_come_and_go(tmp_path: Path) -> None:
    views = Views(tmp_path, _RELATIONS, {name: View(sql, _ORACLES.get(name)) for name, sql in _VIEWS.items()})
    assert views.planned("one").shape.keys == (frozenset(),)
    random_ = random.Random(2)
    views.batch({"t": [], "s": []})
    for _ in range(5):
        views.batch(changes(views, random_, {"t": _row, "s": _row}, most=3))
    views.check_parts()
    views.check_cut([2, 3])
    assert all(views.checked[name] for name in _VIEWS if name != "nothing"), views.checked
    views.close()
