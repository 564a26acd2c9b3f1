"""The catalog file: which users may read it, which files are refused, and concurrent writes of many processes."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sinkql.catalog import store
from sinkql.catalog.coordination.control import Control
from sinkql.catalog.sqlite.connection import Connection
from sinkql.catalog.sqlite.database import Database
from sinkql.catalog.sqlite.schema import APPLICATION_ID, UPGRADES, VERSION, Layout
from sinkql.catalog.system import LAYOUT, RELATIONS
from sinkql.errors import SinkqlError
from support.patience import PATIENCE_S, ended, joined

_NEXT = VERSION + 1


def _open(path: Path, layout: Layout = LAYOUT) -> Database:
    return Database(path, layout)


def _next(step: Callable[[store.Connection], None]) -> Layout:
    """Return the layout of the release after this one."""
    return Layout(LAYOUT.derived, (*UPGRADES, step))


def _add_column(connection: store.Connection) -> None:
    connection.execute("ALTER TABLE desired ADD COLUMN reason TEXT NOT NULL DEFAULT 'none'")


def _pragma(path: Path, name: str) -> object:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _refused(path: Path, layout: Layout = LAYOUT) -> str:
    with pytest.raises(SinkqlError) as raised:
        _open(path, layout)
    return raised.value.code


def test_file_and_folder_are_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / ".sinkql" / "catalog.db"
    _open(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_file_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    _open(path)
    assert (
        _pragma(path, "application_id"),
        _pragma(path, "user_version"),
        _pragma(path, "journal_mode"),
    ) == (APPLICATION_ID, VERSION, "wal")


def test_every_commit_is_synced(tmp_path: Path) -> None:
    with _open(tmp_path / "catalog.db").write() as connection:
        assert connection.scalar("PRAGMA synchronous") == 2


def test_system_relations_are_those_of_the_program_though_the_version_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    _open(path)
    derived = {**LAYOUT.derived, "mz_sinks": "CREATE VIEW mz_sinks AS\nSELECT 'other' AS name"}
    del derived["mz_views"]
    for layout, names in ((Layout(derived), [("other",)]), (LAYOUT, [])):
        _open(path, layout)
        with closing(sqlite3.connect(path)) as connection:
            assert names == connection.execute("SELECT name FROM mz_sinks").fetchall()
            found = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('view', 'trigger')").fetchall()
        assert {name for (name,) in found} == set(layout.derived)


def test_file_with_all_that_it_should_have_is_not_written_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    _open(path)
    with closing(sqlite3.connect(path)) as connection:
        before = connection.execute("PRAGMA schema_version").fetchone()
    _open(path)
    with closing(sqlite3.connect(path)) as connection:
        assert before == connection.execute("PRAGMA schema_version").fetchone()


def test_every_system_relation_can_be_read_by_any_program(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    _open(path)
    with closing(sqlite3.connect(path)) as connection:
        for relation in RELATIONS.values():
            columns = [each[0] for each in connection.execute(f"SELECT * FROM {relation.view}").description]
            assert list(relation.names) == columns


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
        connection.commit()
    before = path.read_bytes()
    assert _refused(path) == "SQ4101"
    assert before == path.read_bytes()


def test_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("CREATE SINK s FROM t;\n" * 100)
    assert _refused(path) == "SQ4101"


def test_newer_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    _open(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {_NEXT}")
    assert _refused(path) == "SQ4102"


def test_file_without_its_tables_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    database = _open(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE leases")
    with pytest.raises(SinkqlError) as raised:
        Control(database).holder("s")
    assert raised.value.code == "SQ4103"


def test_overwritten_pages_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    database = _open(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(SinkqlError) as raised:
        Control(database).set_desired("s", "running")
    assert raised.value.code == "SQ4103"


def test_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert _refused(tmp_path / "file" / "catalog.db") == "SQ4105"


def test_older_file_is_backed_up_before_it_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    Control(_open(path)).set_desired("s", "stopped")
    database = _open(path, _next(_add_column))
    (backup,) = tmp_path.glob(f"catalog.db.v{_NEXT - 1}-*.backup")
    with closing(sqlite3.connect(backup)) as connection:
        assert connection.execute("SELECT sink_id, desired FROM desired").fetchall() == [("s", "stopped")]
    assert (
        _pragma(backup, "user_version"),
        _pragma(path, "user_version"),
        stat.S_IMODE(backup.stat().st_mode),
    ) == (_NEXT - 1, _NEXT, 0o600)
    with database.read() as connection:
        assert connection.all("SELECT desired, reason FROM desired") == [("stopped", "none")]
    assert _refused(path) == "SQ4102"


def test_failed_upgrade_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    _open(path)

    def broken_step(connection: store.Connection) -> None:
        connection.execute("DROP TABLE identity")
        raise OSError("no space left")

    assert _refused(path, _next(broken_step)) == "SQ4105"
    with _open(path).read() as connection:
        assert connection.scalar("SELECT count(*) FROM identity") == 1


class _MeetingWriters(sqlite3.Connection):
    """A connection that, just before it changes the journal mode, lets a second connection begin to write."""

    writers = 0

    def execute(self, query: str, *values: Any) -> sqlite3.Cursor:
        if query != "PRAGMA journal_mode = WAL" or not _MeetingWriters.writers:
            return super().execute(query, *values)
        _MeetingWriters.writers -= 1
        (_, _, path) = super().execute("PRAGMA database_list").fetchone()
        with closing(sqlite3.Connection(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            return super().execute(query, *values)


def test_a_new_file_that_others_write_to_meanwhile_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_MeetingWriters, "writers", 3)
    path = tmp_path / "catalog.db"
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=_MeetingWriters))
        _open(path)
    assert (_MeetingWriters.writers, _pragma(path, "journal_mode")) == (0, "wal")


def test_copy_of_a_catalog_opens(tmp_path: Path) -> None:
    path, copy = tmp_path / "catalog.db", tmp_path / "copy.db"
    Control(_open(path)).set_desired("s", "running")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(path, copy)
    assert Control(_open(copy)).desired("s") == "running"


def test_a_forked_process_opens_the_file_itself(tmp_path: Path) -> None:
    database = _open(tmp_path / "catalog.db")
    with database.read():
        pass
    fork = multiprocessing.get_context("fork")
    theirs = fork.SimpleQueue()
    process = fork.Process(target=lambda: theirs.put((_files(tmp_path), _connection_of(database), _files(tmp_path))))
    process.start()
    assert ended(process) == [0]
    before, _, after = theirs.get()
    assert after > before
    with database.write() as connection:
        connection.insert("settings", {"name": "cluster", "value": "c"})


def test_a_file_put_in_the_place_of_another_is_the_one_that_is_read(tmp_path: Path) -> None:
    path, other = tmp_path / "catalog.db", tmp_path / "other.db"
    database = _open(path)
    with database.write() as connection:
        connection.insert("settings", {"name": "cluster", "value": "c"})
    database.close()
    _open(other).close()
    other.replace(path)
    with database.read() as connection:
        assert connection.scalar("SELECT count(*) FROM settings") == 0


def test_nothing_but_the_file_is_left_when_it_is_closed(tmp_path: Path) -> None:
    database = _open(tmp_path / "catalog.db")
    with database.write() as connection:
        connection.insert("settings", {"name": "cluster", "value": "c"})
    database.close()
    assert [path.name for path in tmp_path.iterdir()] == ["catalog.db"]


def _connection_of(database: Database) -> int:
    with database.read() as connection:
        return id(connection)


def _files(folder: Path) -> int:
    """Return how many open files of a folder this process has."""
    opened = (Path("/proc/self/fd") / each for each in os.listdir("/proc/self/fd"))
    return sum(path.exists() and path.resolve().is_relative_to(folder) for path in opened)


@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "BEGIN", "PRAGMA query_only = ON"])
def test_an_interrupt_right_after_a_statement_leaves_no_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    database = _open(tmp_path / "catalog.db")
    execute = Connection.execute

    def interrupted(self: Connection, sql: str, *values: Any) -> sqlite3.Cursor:
        done = execute(self, sql, *values)
        if sql == statement:
            raise KeyboardInterrupt
        return done

    for open_ in (database.read, database.write):
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(Connection, "execute", interrupted)
            with open_():
                pass
    with database.write() as connection:
        connection.put("settings", "name", {"name": "a", "value": "b"})
    with database.read() as connection:
        assert connection.scalar("SELECT value FROM settings WHERE name = 'a'") == "b"


def test_threads_that_write_at_once_take_few_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = _open(tmp_path / ".sinkql" / "catalog.db")
    control, opened, at_once = Control(database), [0], 60
    plain, begin = Connection.open, threading.Barrier(at_once)

    def counting(path: Path | str) -> Connection:
        opened[0] += 1
        return plain(path)

    monkeypatch.setattr(Connection, "open", counting)

    def write(number: int) -> None:
        begin.wait(PATIENCE_S)
        control.set_desired(f"s{number}", "running")

    threads = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        joined(thread)
    assert opened[0] <= 1
    assert control.all_desired().keys() == {f"s{number}" for number in range(at_once)}
