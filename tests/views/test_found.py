"""Bugs that random queries have found, in their smallest form."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal

import pytest

from sinkql.testing import loads
from views.random_case import Oracle, Outcome, cases, outcome

_VALUES = "(VALUES (1, 'a'), (2, NULL), (NULL, 'ab'))"
_FOUND = {
    "no column of a union is used": """
        SELECT 1 AS c
        FROM ((SELECT DISTINCT 1 AS c0 FROM b) UNION ALL (SELECT g FROM b)) r""",
    "an aggregate stands in HAVING alone, beside a subquery": """
        SELECT g, sum(x)::bigint AS s
        FROM b
        GROUP BY g
        HAVING max(x) FILTER (WHERE g > 0) >= (SELECT max(x) - 3 FROM u) OR count(*) > 2""",
    "the same VALUES with other names": f"""
        SELECT v.t
        FROM {_VALUES} v (x, t)
        JOIN (SELECT u.t FROM u JOIN {_VALUES} w (y, s) ON u.x = w.y) r ON r.t = v.t""",
    "IN has VALUES beside it, as one column and as two": """
        SELECT g, x
        FROM b
        WHERE g NOT IN (VALUES (1), (2)) OR (g, x) IN (VALUES (1, 1), (2, NULL)) AND x IN (VALUES (1))""",
    "EXISTS has a query in brackets, and what follows it, or VALUES": """
        SELECT g, EXISTS (VALUES (1)) AS e
        FROM b
        WHERE EXISTS ((SELECT x FROM u WHERE u.g = b.g) EXCEPT (SELECT x FROM c)) OR NOT EXISTS ((SELECT 1 FROM c))""",
    "values are collected in the order of a constant": """
        SELECT g, string_agg('a', ',' ORDER BY 'a', NULL DESC) AS s, array_agg(1 ORDER BY NULL) AS l
        FROM b
        GROUP BY g""",
    "VALUES begin joins in parentheses": """
        SELECT b.x, v.t FROM b JOIN ((VALUES (1, 'a'), (2, NULL)) AS v (x, t) LEFT JOIN c ON c.x = v.x) ON b.x = v.x""",
    "what is beyond the value of a subquery is one too, of each row": """
        SELECT c.x
        FROM c
        WHERE (SELECT min(x) FROM b) <= (SELECT max(u.x) FROM u WHERE u.g = c.g)
          AND (SELECT count(*) FROM b WHERE b.g = c.g) BETWEEN (SELECT min(g) FROM u) AND (SELECT max(id) FROM a)""",
    "a value that rows are compared with stands in the subquery on their side as well": """
        SELECT c.x
        FROM c
        WHERE (SELECT min(x) FROM b) <= (SELECT max(u.id) FROM u WHERE u.g = c.g AND u.x >= (SELECT min(x) FROM b))""",
}


_TABLES = """
    CREATE TABLE a (id bigint PRIMARY KEY, k bigint, t text);
    CREATE TABLE b (id bigint PRIMARY KEY, k bigint, x bigint);
    CREATE TABLE c (id bigint PRIMARY KEY, y bigint);
"""
_ROWS: dict[str, list[dict[str, object]]] = {
    "a": [{"id": 1, "k": 1, "t": "5"}, {"id": 2, "k": 2, "t": "none"}],
    "b": [{"id": 1, "k": 1, "x": 0}, {"id": 2, "k": 1, "x": 2}, {"id": 3, "k": 9, "x": 0}],
    "c": [{"id": 5, "y": 1}, {"id": 6, "y": 2}],
}
_FAILING: dict[str, tuple[str, list[tuple[object, object]]]] = {
    "a condition is below no join": (
        "SELECT a.id, b.x FROM a JOIN b ON a.k = b.k WHERE a.t::int > 3",
        [(1, 0), (1, 2)],
    ),
    "one of ON is below no join": (
        "SELECT a.id, b.x FROM a JOIN b ON a.k = b.k AND a.t::int > 3",
        [(1, 0), (1, 2)],
    ),
    "one of an outer join is of its pairs": (
        "SELECT a.id, b.id AS b FROM a FULL JOIN b ON a.k = b.k AND a.t::int > 3 AND 6 / (b.k * b.k) > 5",
        [(1, 1), (1, 2), (2, None), (None, 3)],
    ),
    "one above an outer join stays there": (
        "SELECT b.id AS b, a.id FROM a LEFT JOIN b ON b.k = a.k WHERE b.id IS NOT NULL AND a.t::int = 5",
        [(1, 1), (2, 1)],
    ),
    "an equality of ON waits for the join before": (
        "SELECT a.id, c.y FROM a JOIN b ON a.k = b.k JOIN c ON c.id = a.t::int",
        [(1, 1), (1, 1)],
    ),
    "an equality with rows of a join waits for that": (
        "SELECT q.id, c.y FROM (SELECT a.id, t FROM a JOIN b ON a.k = b.k) AS q, c WHERE c.id = q.t::int",
        [(1, 1), (1, 1)],
    ),
    "a condition is behind a filter of the same rows": (
        "SELECT t, x FROM (SELECT a.t, b.x FROM a JOIN b ON a.k = b.k WHERE b.x > 0) AS q "
        "WHERE t::int = x + 3 AND 10 / x > 3",
        [("5", 2)],
    ),
    "a condition is behind filters of a view below": (
        "SELECT id, x FROM (SELECT * FROM (SELECT id, x FROM b WHERE x IS NOT NULL) AS q WHERE x <> 0) AS r "
        "WHERE 4 / x > 1",
        [(2, 2)],
    ),
    "a subquery of two rows is in a branch that no row takes": (
        "SELECT id, CASE WHEN id > 5 THEN (SELECT y FROM c) ELSE 1 END FROM a",
        [(1, 1), (2, 1)],
    ),
    "a subquery has two rows for a row that is left out": (
        "SELECT id, (SELECT b.x FROM b WHERE b.k = a.k) FROM a WHERE id = 2",
        [(2, None)],
    ),
    "a subquery has two rows for a row that there is not": (
        "SELECT id, (SELECT sum(q.x) FROM b AS q WHERE q.k = (SELECT b.k FROM b WHERE b.x = c.y)) FROM c",
        [(5, None), (6, Decimal(2))],
    ),
}


@pytest.mark.parametrize("name", _FAILING)
def test_nothing_fails_on_a_row_that_is_left_out(name: str) -> None:
    sql, expected = _FAILING[name]
    pipeline = loads(f"{_TABLES} CREATE MATERIALIZED VIEW v (one, two) AS {sql};")
    for table, rows in _ROWS.items():
        pipeline.insert(table, rows)
    assert Counter((each["one"], each["two"]) for each in pipeline.rows("v")) == Counter(expected)


@pytest.mark.server
@pytest.mark.parametrize("name", _FOUND)
def test_query(name: str, oracle: Oracle) -> None:
    (made,) = cases(1, oracle, 1)
    assert outcome(replace(made, sql=_FOUND[name]), oracle) == Outcome("held")
