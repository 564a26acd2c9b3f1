"""Chunks of tables, as one transaction of a real server sees them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pyarrow.compute as pc
import pytest

from sinkql.connector_api.cdc import CapturedTable, Key, RowsChanged, TableRows
from sinkql.connectors.postgres.stream import PostgresStream
from sinkql.errors import SinkqlError, TableError
from support.postgres import Postgres

from .reading import Reading, reading, shown, tables

pytestmark = pytest.mark.server

Run = Callable[[str], object]
LONG = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) AS i)"


@pytest.fixture
def run(postgres: Postgres, postgres_database: str) -> Run:
    return lambda text: postgres.execute(text, postgres_database)


def _chunks(stream: PostgresStream, table: CapturedTable, size: int) -> list[list[dict[str, Any]]]:
    """Read a keyed table in one transaction per chunk, and a table without a key in one transaction."""
    found: list[list[dict[str, Any]]] = []
    after: Key | None = None
    while table.key:
        with stream.chunk(table) as chunk:
            part = chunk.read(after, size)
        found.append([row for rows in part.rows for row in shown(rows.rows)])
        after = part.last
        if after is None:
            return found
    with stream.chunk(table) as chunk:
        part = chunk.read(None, size)
        assert part.last is None
        return [shown(rows.rows) for rows in part.rows]


def test_chunks_are_in_the_order_of_a_key_of_any_types(
    postgres: Postgres, postgres_database: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinkql.connectors.postgres.chunk._FIRST_ROWS", 7)
    run("CREATE TYPE mood AS ENUM ('sad', 'ok')")
    run("CREATE TABLE t (n numeric, m mood, d date, s varchar(9), v int, PRIMARY KEY (m, d, n, s))")
    run(
        "INSERT INTO t SELECT i / 3.0, CASE WHEN i % 2 = 0 THEN 'ok' ELSE 'sad' END::mood, "
        "date '2024-01-01' + i % 3, 'it''s ' || i % 2, i FROM generate_series(1, 60) AS i"
    )
    run("CREATE PUBLICATION p FOR TABLE t")
    found = Reading(postgres, postgres_database, tables(postgres, postgres_database))
    chunks = _chunks(found.stream, found.tables["t"], 200)
    rows = [row["v"] for each in chunks for row in each]
    assert rows == [
        v for (v,) in postgres.execute("SELECT v FROM t WHERE n = round(n, 10) ORDER BY m, d, n, s", postgres_database)
    ]
    assert len(chunks) > 5
    found.stream.close()


def test_rows_of_a_chunk_that_do_not_fit_are_told_by_their_key(
    postgres: Postgres, postgres_database: str, run: Run
) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY, d date, n numeric); CREATE PUBLICATION p FOR TABLE t")
    run("INSERT INTO t VALUES (1, '2024-01-01', 1), (2, 'infinity', 1), (3, '0044-03-15 BC', 1)")
    run("INSERT INTO t VALUES (4, NULL, 'NaN'), (5, NULL, 0)")
    found = Reading(postgres, postgres_database, tables(postgres, postgres_database))
    with found.stream.chunk(found.tables["t"]) as chunk:
        (rows,) = chunk.read(None, 1 << 20).rows
    assert [(row["id"], row["d"]) for row in shown(rows.rows)] == [(1, date(2024, 1, 1)), (5, None)]
    years = 'column "d": only the years 1 to 9999 are supported, not infinity'
    assert [(each.position, each.message) for each in rows.errors] == [
        ("the first snapshot, id = 2", years),
        ("the first snapshot, id = 3", years),
        ("the first snapshot, id = 4", 'column "n": a numeric must be finite, and not NaN'),
    ]
    found.stream.close()


def test_a_table_without_a_key_is_read_whole_by_its_pages(postgres: Postgres, postgres_database: str, run: Run) -> None:
    run("CREATE TABLE t (a int, s text) PARTITION BY LIST (a)")
    run("CREATE TABLE one PARTITION OF t FOR VALUES IN (1); CREATE TABLE two PARTITION OF t FOR VALUES IN (2)")
    run("CREATE TABLE none PARTITION OF t DEFAULT")
    run("ALTER TABLE t REPLICA IDENTITY FULL; ALTER TABLE one REPLICA IDENTITY FULL")
    run("ALTER TABLE two REPLICA IDENTITY FULL; ALTER TABLE none REPLICA IDENTITY FULL")
    run("CREATE PUBLICATION p FOR TABLE t WITH (publish_via_partition_root = true)")
    run("INSERT INTO t SELECT 1 + i % 2, i FROM generate_series(1, 5000) AS i")
    found = Reading(postgres, postgres_database, tables(postgres, postgres_database))
    chunks = _chunks(found.stream, found.tables["t"], 40_000)
    assert sorted(int(row["s"]) for each in chunks for row in each) == list(range(1, 5001))
    assert len(chunks) > 4
    found.stream.close()


def test_a_row_filter_holds_for_the_first_snapshot_too(postgres: Postgres, postgres_database: str, run: Run) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE PUBLICATION p FOR TABLE t WHERE (v <> 'no' AND id > 1)")
    run("INSERT INTO t VALUES (1, 'yes'), (2, 'no'), (3, 'yes')")
    found = Reading(postgres, postgres_database, tables(postgres, postgres_database))
    assert [row["id"] for each in _chunks(found.stream, found.tables["t"], 1000) for row in each] == [3]
    found.stream.close()


def test_a_transaction_that_has_not_ended_is_not_seen(postgres: Postgres, postgres_database: str, run: Run) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
    found = Reading(postgres, postgres_database, tables(postgres, postgres_database))
    with postgres.connect(postgres_database) as writer:
        writer.execute("BEGIN; INSERT INTO t VALUES (1)")
        (number,) = writer.execute("SELECT pg_current_xact_id()::text::int8").fetchone() or (0,)
        run("INSERT INTO t VALUES (2); DELETE FROM t")
        with found.stream.chunk(found.tables["t"]) as chunk:
            assert chunk.snapshot.unseen([number - 1, number % 2**32]) == 1
            writer.execute("COMMIT")
            assert [rows.rows.num_rows for rows in chunk.read(None, 1000).rows] == [0]
        assert found.stream.look().unseen([number % 2**32]) is None
    found.stream.close()


def test_missing_values_of_rows_that_moved_are_asked_for(postgres: Postgres, postgres_database: str, run: Run) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY, v int, long text, longer text); CREATE PUBLICATION p FOR TABLE t")
    with reading(postgres, postgres_database) as found:
        run(f"INSERT INTO t SELECT i, i, {LONG} || i, {LONG} || -i FROM generate_series(1, 3) AS i")
        run("UPDATE t SET v = 9 WHERE id = 3; UPDATE t SET id = 10 + id WHERE id < 3")
        changes = found.read()
        run("DELETE FROM t WHERE id = 12")
        (changed,) = [each for each in changes if isinstance(each, RowsChanged)]
        (rows,) = changed.tables["t"]
        whole, end = found.stream.complete(found.tables["t"], rows, changed.transactions.ids)
        assert end is not None
        assert _after(whole) == [
            (3, 9, None, None, b"\x0c"),
            (1, None, None, None, None),
            (11, 1, "1", "-1", None),
            (2, None, None, None, None),
            (12, 2, None, None, b"\x0c"),
        ]
        kept = TableRows(whole.rows.filter(pc.is_null(whole.rows.column("$hole"))))
        assert found.stream.complete(found.tables["t"], kept, [])[1] is None
        with postgres.connect(postgres_database) as writer, pytest.MonkeyPatch.context() as patch:
            writer.execute("BEGIN; LOCK TABLE t")
            patch.setattr("sinkql.connectors.postgres.chunk._SETTINGS", "SET lock_timeout = '50ms'")
            patch.setattr("sinkql.connectors.postgres.chunk._PATIENCE_S", 0)
            with pytest.raises(SinkqlError, match="SQ3712") as caught:
                found.stream.complete(found.tables["t"], rows, changed.transactions.ids)
            assert not isinstance(caught.value, TableError)  # the capture retries, and no change is lost


def _after(rows: TableRows) -> list[tuple[Any, ...]]:
    """Return the rows after the inserts, with only the end of long values."""
    return [
        (row["id"], row["v"], row["long"] and row["long"][6400:], row["longer"] and row["longer"][6400:], row["$hole"])
        for row in shown(rows.rows)[3:]
    ]
