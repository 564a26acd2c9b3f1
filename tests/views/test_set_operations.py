"""INTERSECT and EXCEPT are right after every batch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from views.changing import changes
from views.harness import Relation, View, Views

_RELATIONS = (
    Relation("l", {"k": "integer", "t": "text"}),
    Relation("r", {"n": "bigint", "u": "text"}),
    Relation("x", {"k": "bigint", "t": "text"}, kind="append"),
    Relation("o", {"id": "bigint NOT NULL", "k": "bigint"}, ("id",), "upsert"),
    Relation("p", {"id": "bigint NOT NULL", "k": "bigint"}, ("id",), "upsert"),
)
_VIEWS = {
    "intersect_": "SELECT k, t FROM l INTERSECT SELECT n, u FROM r",
    "except_": "SELECT k, t FROM l EXCEPT SELECT n, u FROM r",
    "intersect_all": "SELECT k, t FROM l INTERSECT ALL SELECT n, u FROM r",
    "except_all": "SELECT k, t FROM l EXCEPT ALL SELECT n, u FROM r",
    "united": "SELECT k, t FROM l UNION SELECT n, u FROM r",
    "alike_but_for_conditions": "SELECT t, count(*) AS c FROM l WHERE k > 0 GROUP BY t UNION ALL "
    "SELECT t, count(*) AS c FROM l WHERE k > 1 GROUP BY t",
    "one_column": "SELECT k FROM l EXCEPT ALL SELECT n FROM r WHERE n > 0",
    "binds_closer": "SELECT t FROM l UNION ALL SELECT u FROM r INTERSECT SELECT t FROM x",
    "from_the_left": "SELECT k, t FROM l EXCEPT SELECT n, u FROM r EXCEPT SELECT k, t FROM x WHERE k > 1",
    "in_parentheses": "SELECT t FROM l EXCEPT (SELECT u FROM r EXCEPT ALL SELECT t FROM x)",
    "grouped": "SELECT t, count(*) AS c FROM (SELECT k, t FROM l EXCEPT ALL SELECT n, u FROM r) AS d GROUP BY t",
    "computed": "SELECT k + 1 AS m FROM (SELECT k, t FROM l INTERSECT ALL SELECT k, t FROM x) AS d WHERE k > 1",
    "by_key": "SELECT id, k FROM o EXCEPT SELECT id, k FROM p",
    "by_key_all": "SELECT id, k FROM o EXCEPT ALL SELECT id, k FROM p",
    "of_both": "SELECT k, id AS i FROM o INTERSECT ALL SELECT id, id AS j FROM p",
}
_KEYS = {
    "except_": [{"k", "t"}], "except_all": [], "by_key": [{"id"}, {"id", "k"}], "by_key_all": [{"id"}],
    "of_both": [{"i"}, {"k"}],
}  # fmt: skip


def _pair(random_: random.Random) -> tuple[Any, ...]:
    return random_.choice([0, 1, 2, None]), random_.choice(["a", "b", None])


def _keyed(random_: random.Random) -> tuple[Any, ...]:
    return random_.randrange(4), random_.choice([1, 2, None])


_ROWS = {"l": _pair, "r": _pair, "x": _pair, "o": _keyed, "p": _keyed}


def test_set_operations_give_what_they_give_of_all_rows(tmp_path: Path) -> None:
    views = Views(tmp_path, _RELATIONS, {name: View(sql) for name, sql in _VIEWS.items()})
    for name, keys in _KEYS.items():
        assert {frozenset(key) for key in keys} == set(views.planned(name).shape.keys), name
    random_ = random.Random(1)
    for _ in range(7):
        views.batch(changes(views, random_, _ROWS))
    views.check_parts()
    views.check_cut([2, 5])
    assert all(views.checked[name] > 1 for name in _VIEWS), views.checked
    views.close()
