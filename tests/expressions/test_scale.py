"""A numeric column has the scale that Postgres shows if the query determines it, and no value loses a digit."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from expressions import vectors
from sinkql.errors import SinkqlError
from sinkql.logical import NUMERIC
from support.postgres import Postgres

_COLUMNS = {
    "g": "integer", "i": "integer", "k": "bigint", "s": "smallint", "m": "numeric(10,2)", "h": "numeric(8,4)",
    "n": "numeric", "d": "date", "x": "timestamp", "z": "timestamptz", "o": "time", "b": "boolean",
}  # fmt: skip
_ROWS = (
    "(1, 7, 12345678901, 3, 12.30, 1.2345, 0.123456, '1973-05-06', '1973-05-06 07:08:09.25',"
    " '2001-02-03 04:05:06.789+00',"
    " '10:11:12.5', true)",
    "(1, -3, -5, -1, -0.05, 99.0001, 17, '2024-02-29', '2024-02-29 23:59:59.999999', '1969-12-31 23:59:59+00',"
    " '00:00:00', false)",
    "(2, 0, 2, 0, NULL, 3.5, NULL, NULL, NULL, NULL, NULL, NULL)",
    "(2, 1, 1, 1, 5.00, 2.0000, 5.50, '2000-01-01', '2000-01-01 00:00:00', '2000-01-01 00:00:00+00', '23:59:59', true)",
)
_KNOWN = {
    "extract(year FROM d)": 0, "extract(epoch FROM d)": 0, "extract(dow FROM x)": 0, "extract(hour FROM z)": 0,
    "extract(second FROM x)": 6, "extract(milliseconds FROM x)": 3, "extract(microseconds FROM x)": 0,
    "extract(epoch FROM x)": 6, "extract(epoch FROM z)": 6, "extract(second FROM o)": 6, "extract(minute FROM o)": 0,
    "extract(epoch FROM o)": 6, "extract(epoch FROM x - TIMESTAMP '2000-01-01')": 6,
    "extract(day FROM x - TIMESTAMP '2000-01-01')": 0, "extract(second FROM x - TIMESTAMP '2000-01-01')": 6,
    "extract(century FROM d) * 100": 0, "extract(epoch FROM x) / 60": None,
    "round(n, 2)": 2, "round(n)": 0, "round(n, -1)": 0, "round(m, 5)": 5, "trunc(n, 1)": 1, "trunc(m, 4)": 4,
    "round(m / 3, 2)": 2, "trunc(n / 7, 3)": 3, "ceil(n)": 0, "floor(m / 3)": 0, "ceil(n / 3)": 0, "sign(n)": 0,
    "abs(m)": 2, "-m": 2, "-n": None, "abs(n)": None, "m + h": 4, "m - 1": 2, "m * h": 6, "m * 1.5": 3, "h % m": 4,
    "div(m, 3)": 0, "div(m, h)": 0, "factorial(5)": 0, "1.50": 2, "-1.5": 1, "12345678901234567890": 0,
    "i * 1.5": 1, "i / 2.0": None, "m / 3": None, "n * 1": None, "power(m, 2)": None, "m ^ 2": None, "h * h * h": None,
    "coalesce(round(n, 2), 0)": 2, "coalesce(m, h)": 4, "coalesce(m, NULL)": 2, "coalesce(NULL, n, 1.0)": None,
    "CASE WHEN b THEN round(n, 3) ELSE m END": 3, "CASE WHEN b THEN m * 1.0 END": 3,
    "CASE WHEN b THEN n ELSE 1 END": None,
    "greatest(m, 1.5, h)": 4, "least(round(n, 1), 2)": 1, "nullif(m * 2, 3)": 2, "nullif(round(n, 2), 1.5)": 2,
    "m": 2, "n": None, "i::numeric": None, "(i + 1.5)::numeric(38,10)": None, "m::numeric(12,3)": 3,
}  # fmt: skip
"""Expressions with the scale of their columns; None for plain numerics."""
_QUERIES = {
    "SELECT sum(i) * 1.5 AS x FROM t": 1, "SELECT sum(k) AS x FROM t": 0, "SELECT sum(m) AS x FROM t GROUP BY g": 2,
    "SELECT sum(round(n, 3)) AS x FROM t": 3, "SELECT sum(m * h) AS x FROM t": 6, "SELECT sum(n) AS x FROM t": None,
    "SELECT sum(m) FILTER (WHERE b) AS x FROM t": 2, "SELECT sum(DISTINCT m) AS x FROM t": 2,
    "SELECT min(round(n, 1)) AS x FROM t": 1, "SELECT max(extract(year FROM d)) AS x FROM t": 0,
    "SELECT max(m) AS x FROM t": 2, "SELECT avg(m) AS x FROM t": None, "SELECT round(avg(m), 2) AS x FROM t": 2,
    "SELECT sum(m) + sum(h) AS x FROM t": 4, "SELECT count(*) * 1.25 AS x FROM t": 2,
    "SELECT extract(year FROM d) AS x, count(*) FROM t GROUP BY 1": 0,
    "SELECT y + 1 AS x FROM (SELECT extract(year FROM d) AS y FROM t) AS q": 0,
    "SELECT extract(year FROM d) + 0.5 AS x FROM t GROUP BY extract(year FROM d)": 1,
    "SELECT DISTINCT round(n, 2) AS x FROM t": 2, "SELECT sum(m) AS x FROM t GROUP BY ROLLUP (g)": 2,
    "SELECT m * 1.0 AS x FROM t UNION ALL SELECT extract(year FROM d) FROM t": 3,
    "SELECT m AS x FROM t UNION SELECT h FROM t": 4, "SELECT i AS x FROM t UNION ALL SELECT m FROM t": 2,
    "SELECT m AS x FROM t UNION ALL SELECT NULL": 2, "SELECT n AS x FROM t UNION ALL SELECT m FROM t": None,
    "SELECT round(n, 3) AS x FROM t EXCEPT SELECT m FROM t": 3,
    "SELECT column1 AS x FROM (VALUES (1.5), (2.25), (3)) AS v": 2,
    "SELECT sum(m) OVER (PARTITION BY g) AS x FROM t": 2, "SELECT sum(k) OVER (ORDER BY i) AS x FROM t": 0,
    "SELECT lag(round(n, 2), 1, 0.125) OVER (ORDER BY i) AS x FROM t": 3,
    "SELECT first_value(extract(year FROM d)) OVER (ORDER BY i) AS x FROM t": 0,
    "SELECT max(m * 1.5) OVER (ORDER BY i) AS x FROM t": 3, "SELECT avg(m) OVER (ORDER BY i) AS x FROM t": None,
    "SELECT (SELECT sum(m * 1.5) FROM t) AS x": 3,
    "SELECT a.x FROM (SELECT m * 2.0 AS x FROM t) AS a JOIN t ON a.x = t.m * 2": 3,
    "SELECT x FROM (SELECT round(n, 1) AS x, g FROM t) AS a FULL JOIN (SELECT h AS x, g FROM t) AS b USING (x)": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def server(postgres: Postgres) -> str:
    database = postgres.database()
    columns = ", ".join(f"{name} {type_}" for name, type_ in _COLUMNS.items())
    postgres.execute(
        f"SET TIME ZONE 'UTC'; CREATE TABLE t ({columns}); INSERT INTO t VALUES {', '.join(_ROWS)}", database
    )
    return database


def _scale(query: str) -> int | None:
    """Return the scale of a query's first column; None for a plain numeric."""
    type_ = vectors.query(query, vectors.table(_COLUMNS)).relation.shape.columns[0].type
    assert type_.name == "numeric"
    return None if type_ == NUMERIC else type_.scale


def _shown(query: str) -> str:
    return f"SELECT max(scale(x)), min(scale(x)) FROM ({query}) AS q"


@pytest.mark.parametrize(
    ("query", "scale"), [*_QUERIES.items(), *((f"SELECT {each} AS x FROM t", scale) for each, scale in _KNOWN.items())]
)
def test_column_has_the_scale_that_postgres_shows(
    query: str, scale: int | None, postgres: Postgres, server: str
) -> None:
    assert scale == _scale(query)
    if scale is not None:
        ((most, _),) = postgres.execute(_shown(query), server)
        assert most == scale


def _some(chance: Random, depth: int) -> str:
    if depth == 0:
        return chance.choice(
            ("i", "k", "s", "m", "h", "n", "1", "2.50", "extract(year FROM d)", "extract(second FROM x)")
        )
    one, other = (_some(chance, depth - 1) for _ in range(2))
    form = chance.choice((
        "({} + {})", "({} - {})", "({} * {})", "round({}::numeric, 2)", "trunc(({})::numeric, 3)", "abs({})",
        "coalesce({}, {})", "greatest({}, {})", "CASE WHEN b THEN {} ELSE {} END", "nullif({}, {})", "-({})",
        "ceil(({}) * 1.0)", "({} / (1.5 + abs({})))", "({} % (1.5 + abs({})))", "({})::numeric(20,3)",
    ))  # fmt: skip
    return form.format(one, other)


def test_no_value_has_more_digits_than_its_column(postgres: Postgres, server: str) -> None:
    chance, outcomes = Random(11), Counter[str]()
    asked: list[tuple[str, int]] = []
    while len(asked) < 400:
        text, whole = _some(chance, chance.choice((1, 2, 3))), chance.random() < 0.2
        query = f"SELECT sum({text}) AS x FROM t" if whole else f"SELECT {text} AS x FROM t"
        try:
            type_ = vectors.query(query, vectors.table(_COLUMNS)).relation.shape.columns[0].type
        except SinkqlError:
            outcomes["refused"] += 1
            continue
        if type_.name == "numeric" and type_ != NUMERIC:
            asked.append((query, type_.scale or 0))
        else:
            outcomes["plain"] += 1
    with postgres.connect(server) as connection:
        for query, scale in asked:
            found = connection.execute(_shown(query)).fetchone()
            assert found is not None
            if found[0] is not None:
                assert found[0] <= scale, query
                outcomes["same" if found[0] == scale else "wider"] += 1
    assert outcomes["same"] > 10 * outcomes["wider"], outcomes
