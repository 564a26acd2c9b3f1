"""GROUPING SETS, ROLLUP and CUBE are right after every batch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from views.changing import changes
from views.harness import Relation, View, Views

_RELATIONS = (
    Relation("t", {"a": "integer NOT NULL", "b": "text", "c": "bigint NOT NULL"}),
    Relation("s", {"a": "integer", "b": "text", "c": "bigint"}, kind="append"),
)
_VIEWS = {
    "rolled": "SELECT a, b, count(*) AS n, sum(c) AS s FROM t GROUP BY ROLLUP (a, b)",
    "cubed": "SELECT a, b, grouping(a, b) AS g, max(c) AS m FROM t GROUP BY CUBE (a, b)",
    "sets": "SELECT b, a, count(DISTINCT c) AS n FROM t GROUP BY GROUPING SETS ((a, b), (b), ())",
    "twice": "SELECT a, grouping(a) AS g, count(*) AS n FROM t GROUP BY GROUPING SETS ((a), (a), ())",
    "once": "SELECT a, grouping(a) AS g, count(*) AS n FROM t GROUP BY DISTINCT GROUPING SETS ((a), (a), ())",
    "product": "SELECT a, b, c, grouping(b) AS p, grouping(c) AS q FROM t GROUP BY a, ROLLUP (b), ROLLUP (c)",
    "computed": "SELECT a % 2 AS p, upper(b) AS u, avg(c) AS v FROM s GROUP BY ROLLUP (a % 2, upper(b))",
    "having_": """SELECT a, b, count(*) + grouping(b, a) AS n FROM t GROUP BY CUBE (a, b)
        HAVING grouping(a) = 1 OR count(*) > 1""",
    "together": "SELECT a, b, c, count(*) AS n FROM t GROUP BY ROLLUP ((a, b), c)",
    "one_set": "SELECT a, grouping(a) AS g, count(*) AS n FROM t GROUP BY GROUPING SETS ((a))",
    "nothing": "SELECT count(c) AS n FROM t GROUP BY ()",
    "no_call": "SELECT a, grouping(a) AS g FROM s GROUP BY ROLLUP (a)",
    "by_place": "SELECT b AS x, a, sum(c) AS s FROM t GROUP BY GROUPING SETS ((1), (2, x))",
}
_ORACLES = {
    "once": "SELECT a, grouping(a) AS g, count(*) AS n FROM t GROUP BY GROUPING SETS ((a), ())",
    "by_place": "SELECT b AS x, a, sum(c) AS s FROM t GROUP BY GROUPING SETS ((b), (a, b))",
}
_KEYS: dict[str, list[set[str]]] = {
    "rolled": [], "cubed": [{"a", "b", "g"}], "sets": [], "twice": [], "once": [{"a", "g"}], "one_set": [{"a"}],
    "product": [{"a", "b", "c", "p", "q"}], "nothing": [set()], "no_call": [{"a", "g"}],
}  # fmt: skip


def _row(random_: random.Random) -> tuple[Any, ...]:
    return random_.randrange(3), random_.choice(["x", "y", None]), random_.randrange(3)


def _nulls(random_: random.Random) -> tuple[Any, ...]:
    return tuple(random_.choice([each, None]) for each in _row(random_))


@pytest.mark.parametrize("rounds", [4, pytest.param(8, marks=pytest.mark.soak)])
def test_grouping_sets_give_what_they_give_of_all_rows(tmp_path: Path, rounds: int) -> None:
    views = Views(tmp_path, _RELATIONS, {name: View(sql, _ORACLES.get(name)) for name, sql in _VIEWS.items()})
    for name, keys in _KEYS.items():
        assert {frozenset(key) for key in keys} == set(views.planned(name).shape.keys), name
    random_ = random.Random(3)
    views.batch({"t": [], "s": []})
    for _ in range(rounds):
        views.batch(changes(views, random_, {"t": _row, "s": _nulls}))
    there = [(row, -count) for row, count in views.content.rows["t"].items()]
    views.batch({"t": there})
    views.check_parts()
    views.check_cut([2, 4])
    assert all(views.checked[name] > 5 for name in _VIEWS), views.checked
    views.close()
