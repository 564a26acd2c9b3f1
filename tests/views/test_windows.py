"""Window functions, and the first rows of partitions and of queries, are right after every batch."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.lowering.spark.query import QuerySql
from sinkql.testing import loads
from views.changing import changes
from views.harness import Relation, View, Views
from views.rows import Row

_RELATIONS = (
    Relation("l", {"k": "integer", "t": "text", "x": "numeric(10,2)"}),
    Relation("o", {"id": "bigint NOT NULL", "k": "bigint"}, ("id",), "upsert"),
    Relation("a", {"k": "integer", "t": "text"}, kind="append"),
)
_VIEWS = {
    "top": """
        SELECT k, t, n FROM (SELECT k, t, row_number() OVER (PARTITION BY k ORDER BY t, x) AS n FROM l) AS s
        WHERE n <= 2""",
    "last": """
        SELECT id, k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY id DESC) AS n FROM o) AS s
        WHERE n = 1""",
    "second": """
        SELECT id, k FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY id DESC) AS n FROM o) AS s
        WHERE n = 2""",
    "ties": """
        SELECT * FROM (SELECT *, rank() OVER (PARTITION BY k ORDER BY t) AS n FROM a) AS s WHERE n < 3 AND t <> 'b'""",
    "values_": """
        SELECT k + 1 AS m, n FROM (SELECT k, dense_rank() OVER (ORDER BY upper(t) DESC) AS n FROM l) AS s
        WHERE n BETWEEN 2 AND 3""",
    "from_three": """
        SELECT t FROM (SELECT t, row_number() OVER (PARTITION BY k ORDER BY t, x) AS n FROM l) AS s WHERE n >= 3""",
    "from_two": """
        SELECT t FROM (SELECT t, row_number() OVER (PARTITION BY k ORDER BY t, x) AS n FROM l) AS s
        WHERE n >= 2 AND n < 4""",
    "from_above_one": """
        SELECT t FROM (SELECT t, row_number() OVER (PARTITION BY k ORDER BY t, x) AS n FROM l) AS s
        WHERE n > 1 AND n <= 3""",
    "windows": """
        SELECT k, t, sum(x) OVER w AS total, avg(x) OVER (PARTITION BY t) AS mean,
          lag(t, 1, 'none') OVER (v ROWS 1 PRECEDING) AS before, count(*) FILTER (WHERE x > 0) OVER () AS n,
          bool_or(x > 1) OVER w AS some, k + row_number() OVER v AS m
        FROM l WINDOW w AS (PARTITION BY k ORDER BY t NULLS FIRST), v AS (PARTITION BY k ORDER BY t, x)""",
    "by_row": """
        SELECT k, t, lag(x, k, x + k) OVER v AS before, lead(t, -k, t || '!') OVER v AS behind,
          nth_value(t, k + 1) OVER (PARTITION BY k ORDER BY t, x ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING) AS nth,
          ntile(k + 1) OVER v AS part
        FROM l WINDOW v AS (PARTITION BY k ORDER BY t, x)""",
    "of_groups": """
        SELECT t, sum(x) AS s, rank() OVER (ORDER BY sum(x) DESC NULLS LAST) AS place, sum(sum(x)) OVER () AS total
        FROM l GROUP BY t""",
    "distinct_": "SELECT DISTINCT count(*) OVER (PARTITION BY k) AS n FROM l",
    "first_of_each": "SELECT DISTINCT ON (k) k, t, x FROM l ORDER BY k, t DESC, x",
    "first_of_other": "SELECT DISTINCT ON (upper(t), 2) k, x FROM l ORDER BY x, upper(t), k LIMIT 2",
    "first_three": "SELECT k, t FROM l ORDER BY t, k, x LIMIT 3 OFFSET 1",
    "hidden": "SELECT id FROM o ORDER BY -k, id FETCH FIRST 2 ROWS ONLY",
    "of_union": "SELECT t FROM l UNION ALL SELECT t FROM a ORDER BY t DESC LIMIT 3",
    "below": "SELECT count(*) AS c, max(t) AS m FROM (SELECT t FROM l ORDER BY t, k LIMIT 4) AS s",
    "all_but_two": "SELECT id, k FROM o ORDER BY k, id OFFSET 2",
    "none_": "SELECT id FROM o LIMIT 0",
    "ordered": "SELECT id FROM o ORDER BY k",
    "qualified": """
        SELECT k, t, count(*) OVER (PARTITION BY k) AS many FROM l
        QUALIFY row_number() OVER (PARTITION BY k ORDER BY t, x) <= 2 AND many > (SELECT count(*) - 8 FROM a)""",
    "qualified_last": "SELECT id, k FROM o QUALIFY row_number() OVER (PARTITION BY k ORDER BY id DESC) = 1",
    "qualified_groups": """
        SELECT t, sum(x) AS s FROM l WHERE k > 0 GROUP BY t HAVING count(*) > 1
        QUALIFY rank() OVER (ORDER BY sum(x) DESC NULLS LAST) < 3 OR s < 1""",
    "qualified_distinct": "SELECT DISTINCT t FROM l QUALIFY lag(x) OVER (PARTITION BY t ORDER BY k, x) > 1",
}  # fmt: skip
_KEYS: dict[str, list[set[str]]] = {
    "top": [{"k", "n"}], "last": [{"k"}, {"id"}], "second": [{"k"}, {"id"}], "qualified_last": [{"k"}, {"id"}],
    "ties": [], "first_of_each": [{"k"}], "of_groups": [{"t"}],
    "hidden": [{"id"}], "below": [set()],
}  # fmt: skip


def _row(random_: random.Random) -> Row:
    x = random_.choice([Decimal("1.50"), Decimal("-2.25"), None])
    return random_.choice([0, 1, 2, None]), random_.choice(["a", "b", "abcde", "abcdf", None]), x


_ROWS: dict[str, Callable[[random.Random], Row]] = {
    "l": _row,
    "o": lambda random_: (random_.randrange(6), random_.choice([1, 2, None])),
    "a": lambda random_: _row(random_)[:2],
}


@pytest.mark.parametrize("rounds", [4, pytest.param(8, marks=pytest.mark.soak)])
def test_windows_and_ranks_give_what_they_give_of_all_rows(tmp_path: Path, rounds: int) -> None:
    views = Views(tmp_path, _RELATIONS, {name: View(sql) for name, sql in _VIEWS.items()})
    for name, keys in _KEYS.items():
        assert {frozenset(key) for key in keys} == set(views.planned(name).shape.keys), name
    random_ = random.Random(1)
    for _ in range(rounds):
        views.batch(changes(views, random_, _ROWS))
    views.check_parts()
    views.check_cut([2, 4])
    assert all(views.checked[name] > 1 for name in _VIEWS if name != "none_"), views.checked
    views.close()


def test_rows_that_an_order_leaves_open_are_chosen_by_what_is_there_alone(tmp_path: Path) -> None:
    """The queries have LIMIT without ORDER BY, and DISTINCT ON ordered only by its columns."""
    views = Views(
        tmp_path,
        _RELATIONS,
        {
            "some": View("SELECT count(*) AS n FROM (SELECT k FROM l LIMIT 4) AS s"),
            "each": View("SELECT count(*) AS n FROM (SELECT DISTINCT ON (t) t, k FROM l ORDER BY t) AS s"),
        },
    )
    random_ = random.Random(2)
    for _ in range(4):
        views.batch(changes(views, random_, {"l": _row}))
    views.check_parts()
    views.close()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("count(*) OVER (ORDER BY k GROUPS 1 PRECEDING)", "GROUPS"),
        ("count(*) OVER (ORDER BY k ROWS UNBOUNDED PRECEDING EXCLUDE TIES)", "TIES"),
        ("lag(k, k) OVER (ORDER BY k)", r"lag\(\)"),
    ],
)
def test_what_spark_has_not_is_refused_where_a_query_runs_once(call: str, named: str, tmp_path: Path) -> None:
    views = Views(tmp_path, _RELATIONS, {"v": View(f"SELECT {call} AS n FROM l")})
    with pytest.raises(SinkqlError, match=named) as caught:
        QuerySql(views.catalog).relation(views.planned("v").relation)
    assert caught.value.code == "SQ2934"
    views.close()


@pytest.mark.parametrize(("call", "first"), [("ntile(k)", 1), ("nth_value(t, k)", "b")])
def test_a_number_less_than_one_is_an_error_of_its_row(call: str, first: int | str) -> None:
    pipeline = loads(
        "CREATE TABLE l (id bigint PRIMARY KEY, k integer, t text);"
        f"CREATE MATERIALIZED VIEW v AS SELECT id, {call} OVER (PARTITION BY id) AS n FROM l;"
    )
    pipeline.insert("l", [{"id": 1, "k": None, "t": "a"}, {"id": 2, "k": 1, "t": "b"}])
    assert [row["n"] for row in sorted(pipeline.rows("v"), key=lambda row: row["id"])] == [None, first]
    pipeline.insert("l", [{"id": 3, "k": 0, "t": "c"}])
    with pytest.raises(SinkqlError, match="1 or more, found less") as caught:
        pipeline.rows("v")
    assert caught.value.code == "SQ3201"
