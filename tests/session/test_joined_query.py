"""SELECT over several relations gives DuckDB's results, in Python and in Spark."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pytest

from session.system_forms import SPARK, fill, found
from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.session.row import query as row_query

_ROWS = """
CREATE TABLE a (id bigint, g int, name text);
CREATE TABLE b (id int, x int, label text);
INSERT INTO a VALUES (1, 1, 'x'), (2, NULL, 'y'), (3, 2, NULL), (3, 2, NULL), (4, 9, 'z');
INSERT INTO b VALUES (1, 1, 'x'), (2, 3, 'y'), (2, NULL, NULL), (NULL, 2, 'z');
"""
_QUERIES = (
    "SELECT a.id AS i, b.id AS j FROM a JOIN b ON a.g = b.id",
    "SELECT a.id AS i, b.x FROM a, b WHERE a.g = b.id AND a.id >= b.x",
    "SELECT a.id AS i, b.label FROM a LEFT JOIN b ON a.g = b.id AND a.id < b.x",
    "SELECT a.name, b.label FROM a RIGHT JOIN b ON a.g = b.x",
    "SELECT a.id AS i, b.id AS j, b.x FROM a FULL JOIN b ON a.g = b.x AND a.id > 1 AND b.label <> 'q'",
    "SELECT id, a.name, b.label FROM a FULL JOIN b USING (id)",
    "SELECT a.id AS i, b.label FROM a JOIN b ON a.name IS NOT DISTINCT FROM b.label",
    "SELECT x.id AS i, y.id AS j FROM a x CROSS JOIN a y WHERE x.id < y.id",
    "SELECT b.label, count(*) AS n, count(a.id) AS m FROM b LEFT JOIN a ON a.g = b.id GROUP BY b.label",
)

_FAILING = {
    "x::int": "integer out of range",
    "to_timestamp(x)": "timestamp out of range",
    "s::bigint": 'invalid input syntax for type bigint: "abc"',
    "make_date(2020, length(s) + 10, 1)": "date field value out of range",
    "(length(s) * 1000.0)::numeric(5,2)": "value out of range for numeric(5,2)",
}
"""Errors that Spark reports in its own words."""


def _found(session: Session) -> list[Counter[tuple[Any, ...]]]:
    session.execute(_ROWS)
    return [Counter(session.execute(query)[-1].rows) for query in _QUERIES]


def _expected() -> list[Counter[tuple[Any, ...]]]:
    with duckdb.connect() as database:
        database.execute(_ROWS)
        return [Counter(database.execute(query).fetchall()) for query in _QUERIES]


def test_joins_in_python(session: Session) -> None:
    assert _found(session) == _expected()
    assert session._spark is None


@pytest.mark.spark
def test_joins_in_spark(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_query, "_rows_here", lambda relation, inputs: None)
    assert _found(session) == _expected()
    assert session._spark is not None
    fill(session)  # and a system relation, in the same Spark
    for query in SPARK:
        assert found(session, query.format(r="plain")) == found(session, query.format(r="mz_relations")), query
    for expression, said in _FAILING.items():
        with pytest.raises(SinkqlError) as caught:
            session.execute(f"SELECT {expression} FROM (VALUES ('Infinity'::double precision, 'abc')) AS v (x, s)")
        assert said == caught.value.message


def test_columns_of_one_name_are_shown_twice(session: Session) -> None:
    session.execute(_ROWS)
    (result,) = session.execute("SELECT * FROM a JOIN b ON a.g = b.id ORDER BY a.id, label LIMIT 1")
    assert result.columns == ("id", "g", "name", "id", "x", "label")
    assert result.rows == ((1, 1, "x", 1, 1, "x"),)
