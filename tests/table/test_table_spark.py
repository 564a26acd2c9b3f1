"""Tables with Spark: batches of sinks, and the statements and queries that need an engine."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sinkql.errors import SinkqlError
from sinkql.runtime.spark.engine import SparkEngine
from sinkql.session import Session
from support.readers import connect, duckdb_folder, open_table
from support.running import drain, use_engine
from table.test_table_sinks import _SETUP, KINDS, Kind, expected, loop, sink, written

pytestmark = pytest.mark.spark


def rows(session: Session, text: str) -> list[tuple[Any, ...]]:
    return list(session.execute(text)[-1].rows)


@pytest.mark.share(4)
@pytest.mark.parametrize("kind", ["grouped", "upsert", "wholes", "union"])
def test_a_sink_in_spark_holds_what_its_table_gives(spark: SparkSession, session: Session, kind: str) -> None:
    session.execute(_SETUP)
    session.execute("INSERT INTO t VALUES (1, 1, 5, 'a'), (2, 1, 2.5, 'b'), (3, NULL, 9, NULL)")
    session.execute("INSERT INTO loose VALUES (1, 'a'), (1, 'a')")
    sink(session, KINDS[kind])
    running = loop(session)
    use_engine(running, SparkEngine(lambda: spark, buckets=2))
    running.start(epoch=1)
    for statement in (
        "SELECT 1",
        "UPDATE t SET id = id + 1, name = 'moved'; DELETE FROM loose",
        "DELETE FROM t WHERE g = 1; INSERT INTO t VALUES (1, 7, 4, 'x')",
    ):
        session.execute(statement)
        drain(running)
        assert written(KINDS[kind].changelog) == expected(session, KINDS[kind].expected)
    if not KINDS[kind].changelog:
        assert Counter(duckdb_folder(open_table(Path(), "n.s").location())) == written(False)
        assert Counter(rows(session, "SELECT * FROM s WHERE true ORDER BY 1 LIMIT 100")) == written(False)


def test_a_row_that_fails_is_shown_with_its_times(spark: SparkSession, session: Session) -> None:
    session.execute(_SETUP)
    session.execute("CREATE TABLE clocks (id int PRIMARY KEY, at time, ats time[], n int[], days date[])")
    session.execute("CREATE MATERIALIZED VIEW v AS SELECT id, 12 / id AS q, at, ats, n, days FROM clocks")
    session.execute("INSERT INTO clocks VALUES (0, '12:30', '{12:00,NULL}', '{7}', '{2024-01-31}')")
    sink(session, Kind("v", "KEY (id) MODE UPSERT", ""))
    running = loop(session)
    use_engine(running, SparkEngine(lambda: spark, buckets=2))
    running.start(epoch=1)
    with pytest.raises(SinkqlError) as caught:
        drain(running)
    shown = '{"id": 0, "at": "12:30:00", "ats": "[\'12:00:00\', None]", "n": "[7]", "days": "[2024-01-31]"}'
    assert caught.value.detail == f"it fails on the row {shown}"


def test_queries_group_order_and_read_views(spark: SparkSession, session: Session) -> None:
    session.execute(_SETUP)
    session.execute("INSERT INTO t VALUES (1, 1, 5, 'a'), (2, 1, 2.5, 'b'), (3, NULL, 9, NULL), (4, 2, NULL, 'É')")
    assert rows(session, "SELECT g, count(*), sum(n) FROM t GROUP BY g ORDER BY count(*) DESC, g NULLS FIRST") == [
        (1, 2, Decimal("7.5")),
        (None, 1, Decimal(9)),
        (2, 1, None),
    ]
    assert rows(session, "SELECT * FROM many ORDER BY id LIMIT 2 OFFSET 1") == [(2, "B"), (3, None)]
    assert rows(session, "SELECT most, rows FROM grouped WHERE g = 1") == [(Decimal(5), 2)]
    assert rows(session, "SELECT DISTINCT lower(name) AS low FROM t ORDER BY low DESC") == [
        (None,), ("é",), ("b",), ("a",)
    ]  # fmt: skip
    assert rows(session, "SELECT id, id FROM t ORDER BY n DESC NULLS LAST LIMIT 1") == [(3, 3)]
    query = "WITH x AS (SELECT id FROM t WHERE id < 3) SELECT max(id) AS m FROM x UNION ALL VALUES (9) ORDER BY m"
    assert rows(session, query) == [(2,), (9,)]
    assert rows(session, "SELECT b || 'x' FROM (VALUES (1, 'a'), (2, NULL)) AS v (a, b) ORDER BY a DESC") == [
        (None,), ("ax",)
    ]  # fmt: skip
    assert rows(session, "SELECT 7 / 2, upper('a'), 1.5 * 2") == [(3, "A", Decimal(3))]


def test_expressions_of_statements_are_those_of_views(spark: SparkSession, session: Session) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY, n numeric(8, 2) DEFAULT 10 / 4, name varchar(4), d date)")
    session.execute("INSERT INTO t (id, name) VALUES (1, upper('ab')), (2, NULL), (1 + 2, 'x')")
    session.execute(
        "UPDATE t SET n = n * 1.005 + abs(id), name = coalesce(name, 'none') WHERE length(name) IS NULL OR id = 1"
    )
    session.execute("UPDATE t SET d = DATE '2024-01-31' + id WHERE id % 2 = 1")
    session.execute("INSERT INTO t SELECT id + 10, n, name, d FROM t WHERE name LIKE '%n%' OR d > '2024-02-01'")
    assert [(*row[:3], str(row[3])) for row in rows(session, "SELECT * FROM t ORDER BY id")] == [
        (1, Decimal("3.01"), "AB", "2024-02-01"),
        (2, Decimal("4.01"), "none", "None"),
        (3, Decimal("2.00"), "x", "2024-02-03"),
        (12, Decimal("4.01"), "none", "None"),
        (13, Decimal("2.00"), "x", "2024-02-03"),
    ]
    assert session.execute("DELETE FROM t WHERE id % 10 = 2")[0].tag == "DELETE 2"


def test_a_statement_that_fails_on_one_row_changes_none(spark: SparkSession, session: Session) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (0, 1), (1, 1)")
    for statement, code in (
        ("UPDATE t SET n = 10 / id", "SQ3201"),
        ("DELETE FROM t WHERE 10 / id > 1", "SQ3201"),
        ("INSERT INTO t SELECT id + 1, n FROM t", "SQ2420"),
        ("INSERT INTO t SELECT id + 5, 3000000000 * n FROM t", "SQ2422"),
        ("INSERT INTO t SELECT id + 5, power(10, 12) * n FROM t", "SQ2422"),
    ):
        with pytest.raises(SinkqlError) as failed:
            session.execute(statement)
        assert failed.value.code == code
        assert failed.value.span is not None
    assert rows(session, "SELECT * FROM t") == [(0, 1), (1, 1)]


def test_years_that_python_has_not_are_written_and_not_shown(spark: SparkSession, session: Session) -> None:
    session.execute(
        "CREATE CONNECTION lake TO ICEBERG CATALOG "
        "(CATALOG TYPE = 'sql', URL = 'sqlite:///catalog.db', WAREHOUSE = 'lake');"
        "CREATE TABLE loose (id int PRIMARY KEY, name date, at timestamp);"
        "INSERT INTO loose VALUES (1, '9999-12-31', '9999-12-31 23:59'), (-2, '0001-01-01', '0001-01-01');"
        "CREATE MATERIALIZED VIEW far AS SELECT id, name + id AS d, at + id * INTERVAL '1 day' AS at FROM loose"
    )
    sink(session, Kind("far", "KEY (id) MODE UPSERT", ""))
    running = loop(session)
    use_engine(running, SparkEngine(lambda: spark, buckets=2))
    running.start(epoch=1)
    drain(running)
    with connect() as connection:
        folder = open_table(Path(), "n.s").location().removeprefix("file://")
        query = f"SELECT id, d::text, \"at\"::text FROM iceberg_scan('{folder}') ORDER BY id"
        found = connection.execute(query).fetchall()
    assert found == [
        (-2, "0001-12-30 (BC)", "0001-12-30 (BC) 00:00:00"),
        (1, "10000-01-01", "10000-01-01 23:59:00"),
    ]
    for statement in (
        "SELECT name + id FROM loose",
        "SELECT at + id * INTERVAL '1 day' FROM loose",
        "SELECT * FROM s",
        "UPDATE loose SET name = name + id",
        "INSERT INTO loose SELECT id + 9, name + id, at FROM loose",
    ):
        with pytest.raises(SinkqlError) as failed:
            session.execute(statement)
        assert failed.value.code == "SQ2647"
    assert rows(session, "SELECT (name + id)::text FROM loose WHERE id = 1") == [("10000-01-01",)]
