"""The stream's events for the changes of a real server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest

from sinkql.connector_api.cdc import PositionAdvanced, RowsChanged, SchemaChanged
from support.postgres import Postgres

from .reading import Reading, reading, shown

pytestmark = pytest.mark.server

Run = Callable[[str], object]
WHOLE = {"$hole": None, "$from": None}
LONG = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) AS i)"
"""A value that is stored outside its row."""


@pytest.fixture
def run(postgres: Postgres, postgres_database: str) -> Run:
    return lambda text: postgres.execute(text, postgres_database)


def test_rows_come_and_go_by_their_key(postgres: Postgres, postgres_database: str, run: Run) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE PUBLICATION p FOR TABLE t")
    with reading(postgres, postgres_database) as stream:
        run("BEGIN; INSERT INTO t VALUES (1, 'a'), (2, NULL); UPDATE t SET v = 'b' WHERE id = 1; COMMIT")
        run("UPDATE t SET id = 3 WHERE id = 2")
        run("DELETE FROM t WHERE id = 1")
        assert stream.rows("t") == [
            {"id": 1, "v": "a", "$diff": 1, **WHOLE},
            {"id": 2, "v": None, "$diff": 1, **WHOLE},
            {"id": 1, "v": "b", "$diff": 1, **WHOLE},
            {"id": 2, "v": None, "$diff": -1, **WHOLE},
            {"id": 3, "v": None, "$diff": 1, **WHOLE},
            {"id": 1, "v": None, "$diff": -1, **WHOLE},
        ]
        done = [each.transactions for each in stream.events if isinstance(each, RowsChanged)]
        assert sum(len(each.ids) for each in done) == 3
        ends = [end for each in done for end in each.ends]
        assert ends == sorted(ends)
        assert stream.stream.look().unseen([id_ for each in done for id_ in each.ids]) is None


def test_rows_of_a_table_without_a_key_come_and_go_whole(postgres: Postgres, postgres_database: str, run: Run) -> None:
    run("CREATE TABLE t (a int, long text); ALTER TABLE t REPLICA IDENTITY FULL; CREATE PUBLICATION p FOR TABLE t")
    with reading(postgres, postgres_database) as stream:
        run(f"INSERT INTO t VALUES (1, {LONG}), (1, 'x')")
        run("UPDATE t SET a = 2 WHERE long <> 'x'")
        run("DELETE FROM t WHERE a = 1")
        found = [(row["a"], len(row["long"]), row["$diff"]) for row in stream.rows("t")]
        assert found == [(1, 6400, 1), (1, 1, 1), (1, 6400, -1), (2, 6400, 1), (1, 1, -1)]


def test_values_that_are_not_sent_are_unchanged_values_of_the_key_that_the_row_had(
    postgres: Postgres, postgres_database: str, run: Run
) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY, v int, long text); CREATE PUBLICATION p FOR TABLE t")
    with reading(postgres, postgres_database) as stream:
        run(f"INSERT INTO t VALUES (1, 1, {LONG})")
        run("UPDATE t SET v = 2")
        run("UPDATE t SET id = 5")
        inserted, *rows = stream.rows("t")
        assert (len(inserted["long"]), inserted["$hole"]) == (6400, None)
        assert rows == [
            {"id": 1, "v": 2, "long": None, "$diff": 1, "$hole": b"\x04", "$from": None},
            {"id": 1, "v": None, "long": None, "$diff": -1, **WHOLE},
            {"id": 5, "v": 2, "long": None, "$diff": 1, "$hole": b"\x04", "$from": {"id": 1}},
        ]


def test_with_full_identity_nothing_is_missing_and_keys_may_change(
    postgres: Postgres, postgres_database: str, run: Run
) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY, v int, long text); ALTER TABLE t REPLICA IDENTITY FULL")
    run("CREATE PUBLICATION p FOR TABLE t")
    with reading(postgres, postgres_database) as stream:
        run(f"INSERT INTO t VALUES (1, 1, {LONG}), (2, 2, NULL)")
        run("UPDATE t SET v = 3")
        run("UPDATE t SET id = 5 WHERE id = 1")
        run("DELETE FROM t WHERE id = 2")
        found = [(row["id"], row["v"], len(row["long"] or ""), row["$diff"]) for row in stream.rows("t")]
        assert found == [
            (1, 1, 6400, 1), (2, 2, 0, 1), (1, 3, 6400, 1), (2, 3, 0, 1),
            (1, None, 0, -1), (5, 3, 6400, 1), (2, None, 0, -1),
        ]  # fmt: skip


def test_the_key_is_the_one_of_the_replica_identity(postgres: Postgres, postgres_database: str, run: Run) -> None:
    run("CREATE TABLE t (id int, code text NOT NULL, v int)")
    run("CREATE UNIQUE INDEX t_code ON t (code); ALTER TABLE t REPLICA IDENTITY USING INDEX t_code")
    run("CREATE PUBLICATION p FOR TABLE t")
    with reading(postgres, postgres_database) as stream:
        run("INSERT INTO t VALUES (1, 'a', 1), (1, 'b', 2)")
        run("UPDATE t SET code = 'c' WHERE code = 'a'")
        run("DELETE FROM t WHERE code = 'b'")
        found = [(row["id"], row["code"], row["$diff"]) for row in stream.rows("t")]
        assert found == [(1, "a", 1), (1, "b", 1), (None, "a", -1), (1, "c", 1), (None, "b", -1)]


def test_a_row_that_goes_goes_though_what_comes_in_its_place_does_not_fit(
    postgres: Postgres, postgres_database: str, run: Run
) -> None:
    run("CREATE TABLE t (a int, d date); ALTER TABLE t REPLICA IDENTITY FULL")
    run("CREATE TABLE u (id int PRIMARY KEY, d date); CREATE PUBLICATION p FOR TABLE t, u")
    with reading(postgres, postgres_database) as stream:
        run("INSERT INTO t VALUES (1, '2024-01-01'), (2, 'infinity'); INSERT INTO u VALUES (1, '2024-01-01')")
        run("UPDATE t SET d = 'infinity' WHERE a = 1; UPDATE t SET d = '2024-01-02' WHERE a = 2; DELETE FROM t")
        run("UPDATE u SET id = 2, d = 'infinity'")
        changes = [each.tables for each in stream.read() if isinstance(each, RowsChanged)]
        found = {
            name: [
                (tuple(row.values())[:3], len(rows.errors))
                for each in changes
                for rows in each.get(name, ())
                for row in shown(rows.rows)
            ]
            for name in ("t", "u")
        }
        first, second = date(2024, 1, 1), date(2024, 1, 2)
        assert [row for row, _ in found["t"]] == [
            (1, first, 1), (1, first, -1), (2, second, 1), (2, second, -1)
        ]  # fmt: skip
        assert [row for row, _ in found["u"]] == [(1, first, 1), (1, None, -1)]
        errors = [len(rows.errors) for each in changes for parts in each.values() for rows in parts]
        assert sum(errors) == 5  # one for each change with a value that does not fit


def test_a_long_value_of_a_change_that_does_not_fit_is_not_taken_for_the_one_from_before(
    postgres: Postgres, postgres_database: str, run: Run
) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY, d date, long text); CREATE PUBLICATION p FOR TABLE t")
    with reading(postgres, postgres_database) as stream:
        run(f"INSERT INTO t VALUES (1, '2024-01-01', {LONG}), (2, '2024-01-01', {LONG}), (3, '2024-01-01', 'short')")
        run("UPDATE t SET d = 'infinity', long = long || 'x' WHERE id = 1")
        run("UPDATE t SET d = 'infinity' WHERE id > 1")  # the long values of these rows stay valid
        run("UPDATE t SET d = '2024-01-02'")
        rows = [(row["id"], row["d"], row["$diff"], row["$hole"]) for row in stream.rows("t")[3:]]
        day = date(2024, 1, 2)
        assert rows == [(1, None, -1, None), (1, day, 1, b"\x04"), (2, day, 1, b"\x04"), (3, day, 1, None)]


def test_truncated_tables_lose_what_stood_before(postgres: Postgres, postgres_database: str, run: Run) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t, u")
    with reading(postgres, postgres_database) as stream:
        run("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)")
        run("BEGIN; INSERT INTO t VALUES (2); TRUNCATE t, u; INSERT INTO t VALUES (3); TRUNCATE t; COMMIT")
        found = [
            (
                sorted(each.emptied),
                {
                    name: [row["id"] for rows in parts for row in shown(rows.rows)]
                    for name, parts in each.tables.items()
                },
                each.open,
            )
            for each in stream.read()
            if isinstance(each, RowsChanged)
        ]
        assert found == [
            ([], {"t": [1, 2], "u": [1]}, True),
            (["t", "u"], {"t": [3]}, True),
            (["t"], {}, False),
        ]


def test_a_partitioned_table_is_one(postgres: Postgres, postgres_database: str, run: Run) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    run("CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)")
    run("CREATE TABLE high (v text, id int NOT NULL); ALTER TABLE high ADD PRIMARY KEY (id)")
    run("ALTER TABLE t ATTACH PARTITION high FOR VALUES FROM (10) TO (20)")
    run("CREATE PUBLICATION p FOR TABLE t WITH (publish_via_partition_root = true)")
    with reading(postgres, postgres_database) as stream:
        run("INSERT INTO t VALUES (1, 'a'), (11, 'b')")
        run("UPDATE t SET id = 12 WHERE id = 1")
        found = [(row["id"], row["v"], row["$diff"]) for row in stream.rows("t")]
        assert found == [(1, "a", 1), (11, "b", 1), (1, None, -1), (12, "a", 1)]


def test_columns_that_go_are_told_in_their_place(postgres: Postgres, postgres_database: str, run: Run) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY, gone int, v varchar(5)); CREATE PUBLICATION p FOR TABLE t")
    with reading(postgres, postgres_database) as stream:
        run("INSERT INTO t VALUES (1, 1, 'a')")
        run("ALTER TABLE t ALTER v TYPE text; ALTER TABLE t ADD more int; INSERT INTO t VALUES (2, 2, 'b', 9)")
        run("ALTER TABLE t DROP gone; INSERT INTO t VALUES (3, 'c', 9)")
        run("ALTER TABLE t ALTER v TYPE int USING 1; INSERT INTO t VALUES (4, 8, 9)")
        events = stream.read()
        problems = [each.problem for each in events if isinstance(each, SchemaChanged)]
        assert problems == [
            'of table "public.t" column "gone" was dropped or renamed',
            'of table "public.t" column "gone" was dropped or renamed; '
            'the type of column "v" was character varying and is integer now',
        ]
        kept = [
            [row for parts in each.tables.values() for rows in parts for row in shown(rows.rows)]
            if isinstance(each, RowsChanged)
            else [column.name for column in each.table.columns]
            for each in events
            if isinstance(each, RowsChanged | SchemaChanged)
        ]
        rows = [
            {name: row[name] for name in row if name[0] != "$"} if isinstance(row, dict) else row
            for each in kept
            for row in each
        ]
        assert rows == [
            {"id": 1, "gone": 1, "v": "a"}, {"id": 2, "gone": 2, "v": "b"},
            "id", "v", {"id": 3, "gone": None, "v": "c"}, "id", {"id": 4, "gone": None, "v": None},
        ]  # fmt: skip


def test_a_table_that_is_recreated_is_not_the_same(postgres: Postgres, postgres_database: str, run: Run) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR ALL TABLES")
    with reading(postgres, postgres_database) as stream:
        run("INSERT INTO t VALUES (1)")
        run("DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY)")
        run("INSERT INTO t VALUES (2)")
        changed, told, *_ = stream.read()
        assert isinstance(changed, RowsChanged)
        assert isinstance(told, SchemaChanged)
        assert (told.problem or "").startswith('table "public.t" was dropped and recreated')
        assert told.table.columns == ()


def test_a_long_transaction_comes_in_parts_and_a_stop_ends_one(
    postgres: Postgres, postgres_database: str, run: Run
) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE PUBLICATION p FOR TABLE t")
    with reading(postgres, postgres_database) as stream:
        run("INSERT INTO t VALUES (0, '')")
        run("INSERT INTO t SELECT i, repeat('x', 900) FROM generate_series(1, 20000) AS i")
        run("INSERT INTO t VALUES (20001, '')")
        changed = [each for each in stream.read() if isinstance(each, RowsChanged)]
        ids = [row["id"] for each in changed for rows in each.tables["t"] for row in shown(rows.rows)]
        assert ids == list(range(20002))
        opened = [each.open for each in changed]
        assert opened == [False, *[True] * (len(opened) - 2), False]
        assert len(opened) >= 4
        first, *_, last = (end for each in changed for end in each.transactions.ends)
        assert [each.to for each in changed] == [first] * (len(changed) - 1) + [last]
    again = Reading(postgres, postgres_database, stream.tables, stream.source.id)
    again.begin(stops=[first])
    try:
        assert next(each.to for each in again.read() if isinstance(each, RowsChanged)) == first
    finally:
        again.stream.close()


def test_what_is_confirmed_does_not_come_again_and_the_same_source_takes_over_its_slot(
    postgres: Postgres, postgres_database: str, run: Run
) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
    with reading(postgres, postgres_database) as stream:
        run("INSERT INTO t VALUES (1)")
        assert [row["id"] for row in stream.rows("t")] == [1]
        end = next(each.to for each in stream.events if isinstance(each, RowsChanged))
        stream.stream.confirm(end)
        run("INSERT INTO t VALUES (2)")
        again = Reading(postgres, postgres_database, stream.tables, stream.source.id)
        again.begin(end)
        try:
            assert [row["id"] for row in again.rows("t")] == [2]
            assert again.stream.retained() > 0
        finally:
            again.stream.close()


def test_a_stop_before_a_transaction_that_comes_in_parts_is_told(
    postgres: Postgres, postgres_database: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t")
    with reading(postgres, postgres_database) as found:
        run("INSERT INTO t VALUES (0)")
        run("CREATE TABLE other (id int)")
        stop = found.stream.end()
        again = Reading(postgres, postgres_database, found.tables, found.source.id)
        run("INSERT INTO t SELECT * FROM generate_series(1, 1000)")
        found.stream.close()
        monkeypatch.setattr("sinkql.connectors.postgres.replication._BLOCK", 2000)
        again.begin(stops=[stop])
        again.read()
        again.stream.close()
    first = next(place for place, each in enumerate(again.events) if isinstance(each, RowsChanged) and each.open)
    before = again.events[first - 1]
    assert isinstance(before, PositionAdvanced)
    assert before.to == stop
