"""A stream of a real server's log: changes, statements that truncate or alter tables, and purged transactions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from mysql.captured import received, stream_of, table_of
from sinkql.connector_api.cdc import CapturedTable, Event, PositionAdvanced, RowsChanged, SchemaChanged
from sinkql.connectors.mysql import stream as module
from sinkql.connectors.mysql.purify import check_settings
from sinkql.connectors.mysql.stream import MySqlStream
from sinkql.errors import SinkqlError, TableError
from support.mariadb import MYSQLD, MariaDb
from support.patience import Deadline, joined

pytestmark = pytest.mark.server
_of_mariadb = pytest.mark.skipif(MYSQLD is not None, reason="MySQL does not have these statements")


@pytest.fixture
def table(server: MariaDb, database: str) -> CapturedTable:
    server.run(f"CREATE TABLE {database}.t (id int PRIMARY KEY, v varchar(20))")
    return table_of(server, database, "t")


@pytest.fixture
def stream(server: MariaDb, table: CapturedTable) -> Iterator[MySqlStream]:
    with stream_of(server) as found:
        found.begin(found.create(), [table])
        yield found


def test_offsets_count_transactions_and_tables_tell_about_how_many_rows_they_have(
    server: MariaDb, database: str, table: CapturedTable, stream: MySqlStream
) -> None:
    before = stream.number(stream.approximate_position())
    _run(server, database, *(f"INSERT INTO t VALUES ({n}, 'x'), ({n + 50}, 'x')" for n in range(50)), "ANALYZE TABLE t")
    assert stream.number(stream.approximate_position()) - before >= 50
    with stream.chunk(table) as read:
        assert 50 <= (read.count() or 0) <= 200


def test_what_keeps_a_table_alone_from_being_read(
    server: MariaDb, database: str, table: CapturedTable, stream: MySqlStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinkql.connectors.mysql.snapshot._LOCK_S", 1)

    def code() -> str:
        with pytest.raises(TableError) as unread, stream.chunk(table) as chunk:
            chunk.read(None, 1 << 20)
        assert unread.value.hint
        return unread.value.code

    with server.connect(database=database) as other, other.cursor() as cursor:
        cursor.execute("LOCK TABLES t WRITE")
        cursor.execute("ALTER TABLE t ADD COLUMN w int")
        assert code() == "SQ3712"
        cursor.execute("UNLOCK TABLES")
    _run(server, database, "RENAME TABLE t TO other")
    assert code() == "SQ3711"
    _run(server, database, "RENAME TABLE other TO t", "ALTER TABLE t DROP PRIMARY KEY")
    assert code() == "SQ3711"
    _run(server, database, "ALTER TABLE t ADD PRIMARY KEY (id), DROP COLUMN v")
    assert code() == "SQ3711"


_RETYPED = {
    "v varchar(80) CHARACTER SET latin1": None,
    "v varchar(90)": None,
    "v varchar(10)": "v",
    "v varbinary(80)": "v",
    "v enum('x', 'y')": "v",
    "v int": "v",
    "v char(80)": "v",
    "v text": None,
    "v tinytext": "v",
    "v varchar(80) NULL": None,
    "c varchar(4)": None,
    "c char(3)": "c",
    "b binary(8)": "b",
    "b varbinary(4)": "b",
    "bits bit(9)": None,
    "bits bit(4)": "bits",
    "i bigint": "i",
    "i int unsigned": "i",
    "d decimal(12, 2)": None,
    "d decimal(10, 4)": "d",
    "at timestamp(3) NULL": "at",
    "at datetime(6)": None,
    "at datetime": "at",
    "doc longtext": None,
    "doc text": None if MYSQLD else "doc",  # MariaDB's type for doc is longtext
    "body mediumtext": None,
    "body tinytext": "body",
    "body blob": "body",
}
"""The new type of a column, and the column that the error names; None if its rows are still read."""


def test_a_column_of_another_type_than_was_declared_is_not_read(server: MariaDb, database: str) -> None:
    """It is refused both in the initial snapshot and in the log."""
    columns = (
        "id int PRIMARY KEY, v varchar(80), i int, d decimal(10, 2), at datetime(3), doc json, body text, c char(4), "
        "b binary(4), bits bit(8)"
    )
    server.run(f"CREATE TABLE {database}.t ({columns})", f"INSERT INTO {database}.t (id, i) VALUES (1, 2)")
    table = table_of(server, database, "t")
    read: dict[str, str | None] = {}
    logged: dict[str, str | None] = {}
    for column in _RETYPED:
        _run(server, database, "DROP TABLE t", f"CREATE TABLE t ({columns})")
        with stream_of(server) as stream:
            stream.begin(stream.create(), [table])
            _run(server, database, f"ALTER TABLE t MODIFY {column}", "INSERT INTO t (id) VALUES (1)")
            said = [each.problem for each in _events(stream) if isinstance(each, SchemaChanged)]
            logged[column] = (said or [None])[0]
            try:
                with stream.chunk(table) as chunk:
                    chunk.read(None, 1 << 20)
                read[column] = None
            except TableError as error:
                read[column] = f"{error.code} {error.detail}"
    assert read == {each: name and f'SQ3711 column "{name}" has another type' for each, name in _RETYPED.items()}
    of = f'of table "{database}.t"'
    assert logged == {each: name and f'column "{name}" {of} has another type' for each, name in _RETYPED.items()}


def test_a_table_that_has_lost_a_column_is_read_on_without_it(server: MariaDb, database: str) -> None:
    server.run(
        f"CREATE TABLE {database}.t (id int PRIMARY KEY, v int, w int)",
        f"INSERT INTO {database}.t VALUES (1, 2, 3), (2, 3, 4)",
    )
    table = table_of(server, database, "t")
    with stream_of(server) as stream:
        _run(server, database, "ALTER TABLE t RENAME COLUMN v TO x")
        with stream.chunk(table) as chunk:
            found = chunk.read(("1",), 1 << 20)
            (part,) = found.rows
    assert part.rows.drop_columns(["$diff", "$at"]).to_pylist() == [{"id": 2, "w": 4}]
    assert found.reshaped is not None
    assert [each.name for each in found.reshaped.table.columns] == ["id", "w"]
    assert found.reshaped.problem == f'of table "{database}.t" column "v" was dropped or renamed'


def _events(stream: MySqlStream) -> list[Event]:
    found: list[Event] = []
    received(stream, stream.end(), found.append)
    return found


def _changes(events: list[Event]) -> list[Any]:
    """Return the changes of one table: rows as (diff, key, value), `emptied`, and problems."""
    found: list[Any] = []
    for event in events:
        match event:
            case RowsChanged():
                found += ["emptied"] * len(event.emptied)
                for rows in (rows for parts in event.tables.values() for rows in parts):
                    assert not rows.errors
                    found += [(row["$diff"], row["id"], row.get("v", ...)) for row in rows.rows.to_pylist()]
            case SchemaChanged():
                found.append(event.problem)
            case PositionAdvanced():
                pass
    return found


def _run(server: MariaDb, database: str, *statements: str) -> None:
    with server.connect(database=database, local_infile=True) as connection, connection.cursor() as cursor:
        for each in statements:
            cursor.execute(each)


def _finish(server: MariaDb, statement: str) -> None:
    """End a prepared transaction, once the server has released it from its closed connection."""
    deadline = Deadline()
    while True:
        deadline.check(statement)
        with suppress(pymysql.Error):
            server.run(statement)
            return


def test_changes_come_in_their_order_with_their_keys(server: MariaDb, stream: MySqlStream, database: str) -> None:
    _run(
        server, database,
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)", "UPDATE t SET v = 'x' WHERE id <> 2",
        "UPDATE t SET id = 4 WHERE id = 1", "DELETE FROM t WHERE id = 2", "REPLACE INTO t VALUES (3, 'again')",
        "INSERT INTO t VALUES (4, 'd') ON DUPLICATE KEY UPDATE v = 'e'",
    )  # fmt: skip
    assert _changes(_events(stream)) == [
        (1, 1, "a"), (1, 2, "b"), (1, 3, None), (1, 1, "x"), (1, 3, "x"), (-1, 1, None), (1, 4, "x"), (-1, 2, None),
        (1, 3, "again"), (1, 4, "e"),
    ]  # fmt: skip


@_of_mariadb
def test_only_what_is_committed_comes(server: MariaDb, stream: MySqlStream, database: str) -> None:
    _run(
        server, database,
        "CREATE TABLE loose (id int) ENGINE = MyISAM", "BEGIN", "INSERT INTO t VALUES (1, 'a')", "SAVEPOINT s",
        "INSERT INTO t VALUES (2, 'b')", "INSERT INTO loose VALUES (1)", "ROLLBACK TO s",
        "INSERT INTO t VALUES (3, 'c')",
        "COMMIT", "BEGIN", "INSERT INTO t VALUES (4, 'd')", "INSERT INTO loose VALUES (2)", "ROLLBACK",
    )  # fmt: skip
    assert _changes(_events(stream)) == [(1, 1, "a"), (1, 3, "c")]


def test_a_prepared_transaction_comes_when_it_is_committed(
    server: MariaDb, stream: MySqlStream, table: CapturedTable, database: str
) -> None:
    _run(
        server, database,
        "XA START 'one'", "INSERT INTO t VALUES (1, 'a')", "XA END 'one'", "XA PREPARE 'one'",
    )  # fmt: skip
    _run(server, database, "INSERT INTO t VALUES (2, 'b')")
    events = _events(stream)
    assert _changes(events) == [(1, 2, "b")]
    last = next(each.to for each in reversed(events) if isinstance(each, RowsChanged | PositionAdvanced))
    _finish(server, "XA COMMIT 'one'")
    _run(server, database, "INSERT INTO t VALUES (3, 'c')")
    assert _changes(_events(stream)) == [(1, 1, "a"), (1, 3, "c")]
    with stream_of(server) as again:
        again.begin(last, [table])
        assert _changes(_events(again)) == [(1, 1, "a"), (1, 3, "c")]


def test_a_prepared_transaction_comes_however_often_the_log_is_read_again_before_its_end(
    server: MariaDb, table: CapturedTable, database: str
) -> None:
    with stream_of(server) as stream:
        position = stream.create()
    _run(server, database, "XA START 'far'", "INSERT INTO t VALUES (1, 'a')", "XA END 'far'", "XA PREPARE 'far'")
    for number in range(2, 5):
        _run(server, database, f"INSERT INTO t VALUES ({number}, 'b')")
        with stream_of(server) as again:
            again.begin(position, [table])
            events = _events(again)
        assert _changes(events) == [(1, number, "b")]
        position = next(each.to for each in reversed(events) if isinstance(each, RowsChanged | PositionAdvanced))
    _finish(server, "XA COMMIT 'far'")
    with stream_of(server) as again:
        again.begin(position, [table])
        assert _changes(_events(again)) == [(1, 1, "a")]


def test_reading_begins_once_what_was_prepared_before_has_ended(
    server: MariaDb, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _run(server, database, "CREATE TABLE u (id int PRIMARY KEY)")
    table = table_of(server, database, "u")
    _run(server, database, "XA START 'old'", "INSERT INTO u VALUES (1)", "XA END 'old'", "XA PREPARE 'old'")
    with stream_of(server) as stream:
        monkeypatch.setattr(module, "_WAIT_S", 0.2)
        with pytest.raises(SinkqlError) as caught:
            stream.create()
        assert caught.value.code == "SQ4470"
        monkeypatch.undo()
        ending = threading.Thread(target=_finish, args=(server, "XA COMMIT 'old'"), daemon=True)
        ending.start()
        stream.begin(stream.create(), [table])
        joined(ending)
        with stream.chunk(table) as chunk:
            (read,) = chunk.read(None, 1 << 20).rows
        assert read.rows.num_rows == 1


def test_a_prepared_transaction_that_is_rolled_back_never_comes(
    server: MariaDb, stream: MySqlStream, database: str
) -> None:
    _run(server, database, "XA START 'two'", "INSERT INTO t VALUES (1, 'a')", "XA END 'two'", "XA PREPARE 'two'")
    _finish(server, "XA ROLLBACK 'two'")
    _run(server, database, "INSERT INTO t VALUES (2, 'b')")
    assert _changes(_events(stream)) == [(1, 2, "b")]


_EMPTIED = (
    "TRUNCATE TABLE t",
    "truncate /* all */ `t`",
    "TRUNCATE {d}.t",
    pytest.param("CREATE OR REPLACE TABLE t LIKE u", marks=_of_mariadb),
)


@pytest.mark.parametrize("statement", _EMPTIED, ids=range(len(_EMPTIED)))
def test_a_table_is_emptied_between_its_rows(
    server: MariaDb, stream: MySqlStream, database: str, statement: str
) -> None:
    _run(server, database, "CREATE TABLE u LIKE t")
    _run(
        server, database, "INSERT INTO t VALUES (1, 'a')", statement.format(d=database), "INSERT INTO t VALUES (2, 'b')"
    )
    assert _changes(_events(stream)) == [(1, 1, "a"), "emptied", (1, 2, "b")]


_GOES_ON = (
    "ALTER TABLE t ADD COLUMN n int FIRST",
    "ALTER TABLE t MODIFY v varchar(90)",
    "ALTER TABLE t ADD INDEX w (v), ALTER v SET DEFAULT 'x'",
    "ALTER TABLE t CONVERT TO CHARACTER SET latin1",
    "TRUNCATE TABLE u",
    "DROP TABLE u",
    "ALTER TABLE t DROP PRIMARY KEY, ADD UNIQUE (id)",
    "ALTER TABLE t ADD UNIQUE (v, id), DROP PRIMARY KEY, ADD UNIQUE (id)",
    "RENAME TABLE u TO w",
    "ALTER TABLE t ADD COLUMN engine varchar(9), ADD `drop` int, COMMENT 'engine=x, drop column v'",
    "ALTER TABLE t ROW_FORMAT = DYNAMIC ENGINE = InnoDB, ADD INDEX i (v), ALTER COLUMN v SET DEFAULT 'y'",
    "DELETE FROM u",
)


@pytest.mark.parametrize("statement", _GOES_ON, ids=range(len(_GOES_ON)))
def test_other_columns_and_other_tables_change_nothing(
    server: MariaDb, stream: MySqlStream, database: str, statement: str
) -> None:
    _run(server, database, "CREATE TABLE u LIKE t")
    _run(server, database, "INSERT INTO t VALUES (1, 'é')", statement, "INSERT INTO t (id, v) VALUES (2, 'é')")
    assert _changes(_events(stream)) == [(1, 1, "é"), (1, 2, "é")]


_GONE = 'column "v" of table "{d}.t" was dropped or renamed'
_RETYPED_V = 'column "v" of table "{d}.t" has another type'
_KEYLESS = 'table "{d}.t" no longer has a unique key of "id"'
_DROPPED = 'table "{d}.t" was dropped or renamed'
_UNLOGGED = 'rows of table "{d}.t" were changed by a statement without rows in the log'
_PROBLEMS = (
    ("ALTER TABLE t DROP v", _GONE, False),
    ("ALTER TABLE t CHANGE v w varchar(20)", _GONE, False),
    ("ALTER TABLE t ADD x int, RENAME COLUMN v TO w", _GONE, False),
    ("ALTER TABLE t MODIFY v varchar(5)", _RETYPED_V, False),
    ("ALTER TABLE t MODIFY v int", _RETYPED_V, False),
    ("ALTER TABLE t MODIFY id bigint", 'column "id" of table "{d}.t" has another type', False),
    (
        "ALTER TABLE t MODIFY v varchar(20) CHARACTER SET big5",
        'column "v" of table "{d}.t" has the character set big5',
        False,
    ),
    ("ALTER TABLE t DROP PRIMARY KEY", _KEYLESS, True),
    ("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, v)", _KEYLESS, True),
    ("DROP TABLE t", _DROPPED, True),
    ("RENAME TABLE t TO w", _DROPPED, True),
    ("ALTER TABLE t RENAME TO w", _DROPPED, True),
    ("RENAME TABLE u TO w, t TO u", _DROPPED, True),
    ("ALTER TABLE t ROW_FORMAT = DYNAMIC ENGINE = MyISAM", _UNLOGGED, True),
    ("ALTER TABLE t ADD x int, TRUNCATE PARTITION p", _UNLOGGED, True),
    ("SET sql_mode = ''; ALTER TABLE t MODIFY v varchar(20) NOT NULL", _UNLOGGED, True),
    ("SET SESSION binlog_format = 'STATEMENT'; UPDATE t SET v = 'y'", _UNLOGGED, True),
    ("SET SESSION binlog_format = 'STATEMENT'; UPDATE seen SET v = 'y'", _UNLOGGED, True),
    ("SET SESSION binlog_format = 'STATEMENT'; INSERT INTO u VALUES (3, 'by a trigger')", _UNLOGGED, True),
    ("SET SESSION binlog_format = 'STATEMENT'; SELECT changing()", _UNLOGGED, True),
    ("SET SESSION binlog_format = 'STATEMENT'; LOAD DATA LOCAL INFILE '{file}' INTO TABLE t", _UNLOGGED, True),
    pytest.param(
        "ALTER TABLE t ADD SYSTEM VERSIONING",
        'table "{d}.t" has system versioning, which is not supported yet',
        True,
        marks=_of_mariadb,
    ),
)
"""Statements, the problem of the table, and whether some of its changes may be missing."""
_BESIDE = (
    "CREATE TABLE u LIKE t",
    "CREATE TRIGGER g AFTER INSERT ON u FOR EACH ROW INSERT INTO t VALUES (NEW.id, NEW.v)",
    "CREATE VIEW seen AS SELECT * FROM t",
    "CREATE FUNCTION changing() RETURNS int DETERMINISTIC MODIFIES SQL DATA BEGIN DELETE FROM t; RETURN 1; END",
)


@pytest.mark.parametrize(("statement", "problem", "lost"), _PROBLEMS, ids=range(len(_PROBLEMS)))
def test_an_error_says_what_no_sink_can_continue_with(
    server: MariaDb, stream: MySqlStream, database: str, tmp_path: Path, statement: str, problem: str, lost: bool
) -> None:
    (tmp_path / "file").write_text("7\tseven\n")
    if "PARTITION" in statement:
        _run(server, database, "ALTER TABLE t PARTITION BY HASH (id) (PARTITION p)")
        statement = "ALTER TABLE t TRUNCATE PARTITION p"
    statements = statement.format(file=tmp_path / "file").split("; ")
    _run(server, database, *_BESIDE, "INSERT INTO t VALUES (1, '5')", *statements)
    if "MODIFY" in statement or "KEY" in statement:
        _run(server, database, "INSERT INTO t (id, v) VALUES (2, '6')")
    events = _events(stream)
    assert _changes(events)[0] == (1, 1, "5")
    said = [(each.problem, each.lost) for each in events if isinstance(each, SchemaChanged)]
    assert said[0] == (problem.format(d=database), lost)
    assert all(each == (None, False) for each in said[1:])  # later events say that the table is readable again
    assert len(said) > 1 or "MODIFY" in statement or "KEY" in statement


def test_a_table_that_is_as_it_was_again_is_told(server: MariaDb, stream: MySqlStream, database: str) -> None:
    _run(
        server, database, "ALTER TABLE t DROP PRIMARY KEY", "INSERT INTO t VALUES (1, 'a')",
        "ALTER TABLE t ADD PRIMARY KEY (id)",
    )  # fmt: skip
    said = [each for each in _events(stream) if isinstance(each, SchemaChanged)]
    assert [each.problem for each in said] == [_KEYLESS.format(d=database), None]
    assert [len(each.table.columns) for each in said] == [0, 2]


def test_a_table_without_a_key_has_what_came_and_what_went(server: MariaDb, database: str) -> None:
    _run(server, database, "CREATE TABLE t (id int, v varchar(20))")
    with stream_of(server) as stream:
        stream.begin(stream.create(), [table_of(server, database, "t")])
        _run(
            server, database, "INSERT INTO t VALUES (1, 'a'), (1, 'a')", "UPDATE t SET v = 'b' LIMIT 1",
            "DELETE FROM t WHERE v = 'a'",
        )  # fmt: skip
        assert _changes(_events(stream)) == [(1, 1, "a"), (1, 1, "a"), (-1, 1, "a"), (1, 1, "b"), (-1, 1, "a")]


@_of_mariadb
def test_compressed_changes_are_opened(server: MariaDb, stream: MySqlStream, database: str) -> None:
    server.run("SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10")
    try:
        long = "x" * 20
        _run(
            server, database, f"INSERT INTO t VALUES (1, '{long}'), (2, '{long}'), (3, '{long}')",
            "UPDATE t SET v = REPEAT('y', 20)", "DELETE FROM t WHERE id < 3", "TRUNCATE TABLE t",
        )  # fmt: skip
    finally:
        server.run("SET GLOBAL log_bin_compress = OFF")
    inserts = [(1, number, long) for number in (1, 2, 3)]
    updates = [(1, number, "y" * 20) for number in (1, 2, 3)]
    assert [*inserts, *updates, (-1, 1, None), (-1, 2, None), "emptied"] == _changes(_events(stream))


def test_a_section_ends_where_it_is_to_stop(server: MariaDb, table: CapturedTable, database: str) -> None:
    with stream_of(server) as stream:
        start = stream.create()
        ends = []
        for number in range(4):
            _run(server, database, f"INSERT INTO t VALUES ({number}, 'a')")
            ends.append(stream.end())
        stream.begin(start, [table], stops=ends[1:3])
        events = _events(stream)
    assert ends[1:] == [each.to for each in events if isinstance(each, RowsChanged)]


@_of_mariadb
def test_a_log_that_the_server_has_deleted_is_told(server: MariaDb, table: CapturedTable, database: str) -> None:
    with stream_of(server) as stream:
        start = stream.create()
        _run(server, database, "INSERT INTO t VALUES (1, 'a')")
        server.run("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
        (file, *_) = server.rows("SHOW MASTER STATUS")[0]
        deadline = Deadline()
        while len(server.rows("SHOW BINARY LOGS")) > 1:  # the server needs time to release files of a closed connection
            deadline.check("the end of older files")
            server.run(f"PURGE BINARY LOGS TO '{file}'")
        stream.begin(start, [table])
        with pytest.raises(SinkqlError) as caught:
            received(stream, stream.end(), lambda _: None)
    assert caught.value.code == "SQ4466", str(caught.value)
    assert "ALTER SOURCE … SKIP" in (caught.value.hint or "")


@_of_mariadb
def test_a_server_that_lost_transactions_is_told(stream: MySqlStream, server: MariaDb, table: CapturedTable) -> None:
    ahead = f"{1 << 40:016x}:0-1-{1 << 40}"
    with stream_of(server) as other, pytest.raises(SinkqlError) as caught:
        other.begin(ahead, [table])
    assert caught.value.code == "SQ4467"


def test_the_case_of_tables_names_says_nothing_where_the_server_says_so(
    server: MariaDb, table: CapturedTable, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the setting is changed here: the server's actual setting is fixed when it is created."""
    monkeypatch.setattr(module, "variables", lambda _, name: {name: "1"})
    with stream_of(server) as stream:
        stream.begin(stream.create(), [table])
        _run(server, database, "CREATE TABLE T LIKE t", "INSERT INTO t VALUES (1, 'a')", "TRUNCATE TABLE T")
        assert _changes(_events(stream)) == [(1, 1, "a"), "emptied"]


def test_a_change_with_some_columns_only_is_told(server: MariaDb, stream: MySqlStream, database: str) -> None:
    _run(server, database, "SET binlog_row_image = 'MINIMAL'", "INSERT INTO t VALUES (1, 'a')", "UPDATE t SET v = 'b'")
    with pytest.raises(SinkqlError) as caught:
        received(stream, stream.end(), lambda _: None)
    assert caught.value.code == "SQ4468"
    assert "binlog_row_image" in (caught.value.hint or "")


def test_a_second_stream_of_a_source_ends_the_first(
    server: MariaDb, stream: MySqlStream, table: CapturedTable, database: str
) -> None:
    with stream_of(server) as second:
        second.begin(second.create(), [table])
        _run(server, database, "INSERT INTO t VALUES (1, 'a')")
        assert _changes(_events(second)) == [(1, 1, "a")]


class _Old:
    """A server with a log, but without the setting that puts column names into it."""

    def cursor(self) -> _Old:
        return self

    def __enter__(self) -> _Old:
        return self

    def __exit__(self, *error: object) -> None: ...

    def execute(self, query: str, arguments: object) -> None: ...

    def fetchall(self) -> list[tuple[str, str]]:
        return [("log_bin", "ON"), ("binlog_format", "ROW"), ("binlog_row_image", "FULL")]


def test_a_server_that_is_too_old_is_told() -> None:
    with pytest.raises(SinkqlError) as caught:
        check_settings(_Old(), maria=True, where="db:3306")
    assert caught.value.code == "SQ4463"
