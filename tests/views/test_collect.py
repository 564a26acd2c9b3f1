"""Aggregates that collect the rows of a group are right after every batch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from views.changing import changes
from views.harness import Relation, View, Views

_RELATIONS = (
    Relation("t", {"g": "integer", "x": "bigint", "n": "text"}),
    Relation("s", {"g": "integer", "x": "bigint", "n": "text"}, kind="append"),
    Relation("u", {"id": "bigint NOT NULL", "g": "integer", "n": "text"}, ("id",), "upsert"),
)
_VIEWS = {
    "joined": View("SELECT g, string_agg(n, ', ' ORDER BY n DESC, x) AS a FROM t GROUP BY g"),
    "distinct_": View(
        "SELECT g, string_agg(DISTINCT n, '') AS a FROM t GROUP BY g",
        "SELECT g, string_agg(DISTINCT n, '' ORDER BY n) AS a FROM t GROUP BY g",
    ),
    "listed": View("SELECT g, array_agg(x ORDER BY x DESC NULLS LAST) AS a FROM s GROUP BY g"),
    "whole": View("SELECT string_agg(n, ',' ORDER BY n) AS a, count(*) AS c, sum(x) AS s, min(n) AS m FROM t"),
    "mixed": View(
        "SELECT g, count(x) AS c, array_agg(DISTINCT x ORDER BY x) AS a, max(x) + 1 AS m, avg(x) AS v FROM t GROUP BY g"
    ),
    "sums": View("SELECT g, sum(DISTINCT x) AS s, avg(DISTINCT x) AS a, count(DISTINCT x) AS c FROM t GROUP BY g"),
    "all_sums": View("SELECT sum(DISTINCT x) AS s, count(*) AS n FROM s"),
    "filtered": View("SELECT g, string_agg(n, '-' ORDER BY n) FILTER (WHERE x > 1) AS a FROM t GROUP BY g"),
    "upserted": View("SELECT g, string_agg(n, '' ORDER BY id) AS a FROM u GROUP BY g HAVING count(*) > 1"),
    "rolled": View("SELECT g, string_agg(n, '' ORDER BY n) AS a, grouping(g) AS q FROM t GROUP BY ROLLUP (g)"),
    "filtered_array": View(
        "SELECT g, array_agg(x ORDER BY x DESC) FILTER (WHERE n = 'a') AS a,"
        " array_agg(DISTINCT x) FILTER (WHERE n <> 'b') AS d FROM t GROUP BY g",
        "SELECT g, array_agg(x ORDER BY x DESC) FILTER (WHERE n = 'a') AS a,"
        " array_agg(DISTINCT x ORDER BY x) FILTER (WHERE n <> 'b') AS d FROM t GROUP BY g",
    ),
    "percentiles": View(
        "SELECT g, percentile_cont(0.25) WITHIN GROUP (ORDER BY x) AS c,"
        " percentile_cont(0.4) WITHIN GROUP (ORDER BY x DESC) FILTER (WHERE n = 'a') AS f,"
        " percentile_cont(ARRAY[0, 0.5]) WITHIN GROUP (ORDER BY x) AS s,"
        " percentile_disc(0.5) WITHIN GROUP (ORDER BY x) AS d FROM t GROUP BY g",
        "SELECT g, percentile_cont(0.25) WITHIN GROUP (ORDER BY x) AS c,"
        " percentile_cont(0.4) WITHIN GROUP (ORDER BY x DESC) FILTER (WHERE n = 'a') AS f,"
        " quantile_cont(x, [0, 0.5]) AS s, percentile_disc(0.5) WITHIN GROUP (ORDER BY x) AS d FROM t GROUP BY g",
    ),
    "modes": View(
        "SELECT g, mode() WITHIN GROUP (ORDER BY x) AS a, mode() WITHIN GROUP (ORDER BY x DESC) AS d FROM t GROUP BY g",
        "SELECT g, arg_max(x, c * 10 - x) AS a, arg_max(x, c * 10 + x) AS d"
        " FROM (SELECT g, x, count(x) AS c FROM t GROUP BY g, x) AS q GROUP BY g",
    ),
    "of_json": View(
        "SELECT g, jsonb_agg(x ORDER BY x DESC, n) AS a, jsonb_agg(DISTINCT x) FILTER (WHERE n = 'a') AS d,"
        " jsonb_object_agg(n, x ORDER BY x NULLS FIRST) FILTER (WHERE n IS NOT NULL) AS o FROM t GROUP BY g",
        """SELECT g, '[' || string_agg(coalesce(CAST(x AS text), 'null'), ', ' ORDER BY x DESC) || ']' AS a,
            '[' || string_agg(DISTINCT coalesce(CAST(x AS text), 'null'), ', '
                ORDER BY coalesce(CAST(x AS text), 'null')) FILTER (WHERE n = 'a') || ']' AS d,
            (SELECT '{' || string_agg('"' || n || '": ' || coalesce(CAST(m AS text), 'null'), ', '
                ORDER BY length(n), n) || '}'
             FROM (SELECT n, max(x) AS m FROM t AS u WHERE n IS NOT NULL AND u.g IS NOT DISTINCT FROM t.g GROUP BY n)
            ) AS o FROM t GROUP BY g""",
    ),
    "any_": View("SELECT g, any_value(g) AS a FROM t GROUP BY g"),
}


def _row(random_: random.Random) -> tuple[Any, ...]:
    return random_.choice([0, 1, None]), random_.choice([1, 2, 3, None]), random_.choice(["a", "b", "", None])


def _keyed(random_: random.Random) -> tuple[Any, ...]:
    return random_.randrange(6), random_.randrange(2), random_.choice(["a", "b", None])


def test_aggregates_over_all_rows_of_a_group_are_what_they_are_of_all_rows(tmp_path: Path) -> None:
    views = Views(tmp_path, _RELATIONS, _VIEWS)
    assert views.planned("mixed").shape.keys == (frozenset({"g"}),)
    random_ = random.Random(6)
    views.batch({"t": [], "s": [], "u": []})
    for _ in range(5):
        views.batch(changes(views, random_, {"t": _row, "s": _row, "u": _keyed}))
    views.batch({"t": [(row, -count) for row, count in views.content.rows["t"].items()]})
    views.check_parts()
    views.check_cut([2, 4])
    assert all(views.checked[name] > 3 for name in _VIEWS), views.checked
    views.close()
