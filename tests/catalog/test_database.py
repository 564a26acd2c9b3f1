"""The catalog file: who may read it, which files are refused, and many processes writing at once."""

from __future__ import annotations

import multiprocessing
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from sinkql.catalog import database as database_module
from sinkql.catalog import schema
from sinkql.catalog.control import Control
from sinkql.catalog.database import Database
from sinkql.catalog.system import RELATIONS, create_views
from sinkql.errors import SinkqlError

_NEXT = database_module.VERSION + 1
_SPAWN = multiprocessing.get_context("spawn")


def _open(path: Path) -> Database:
    return Database(path, create_views)


def _pragma(path: Path, name: str) -> object:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _refused(path: Path) -> str:
    with pytest.raises(SinkqlError) as raised:
        _open(path)
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
    ) == (database_module.APPLICATION_ID, database_module.VERSION, "wal")


def test_every_commit_is_synced(tmp_path: Path) -> None:
    with _open(tmp_path / "catalog.db").write() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


def test_migrations_make_the_schema_that_the_code_uses(tmp_path: Path) -> None:
    with _open(tmp_path / "catalog.db").write() as connection:
        difference = compare_metadata(MigrationContext.configure(connection), schema.metadata)
    assert difference == []


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
        connection.execute(f"PRAGMA user_version = {database_module.VERSION + 1}")
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


def test_older_file_is_backed_up_before_it_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "catalog.db"
    Control(_open(path)).set_desired("s", "stopped")
    monkeypatch.setattr(database_module, "VERSION", _NEXT)
    database = _open(path)
    (backup,) = tmp_path.glob(f"catalog.db.v{_NEXT - 1}-*.backup")
    with closing(sqlite3.connect(backup)) as connection:
        assert connection.execute("SELECT sink_id, desired FROM desired").fetchall() == [("s", "stopped")]
    assert (
        _pragma(backup, "user_version"),
        _pragma(path, "user_version"),
        stat.S_IMODE(backup.stat().st_mode),
    ) == (_NEXT - 1, _NEXT, 0o600)
    assert Control(database).desired("s") == "stopped"


def test_failed_migration_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "catalog.db"
    _open(path)

    def broken_step(connection: sa.Connection) -> None:
        connection.exec_driver_sql("DROP TABLE identity")
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(database_module, "VERSION", _NEXT)
        patched.setattr(database_module, "_upgrade", broken_step)
        assert _refused(path) == "SQ4105"
    with _open(path).read() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(schema.identity)) == 1


def test_reading_transaction_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(SinkqlError), _open(tmp_path / "catalog.db").read() as connection:
        connection.execute(schema.settings.insert().values(name="a", value="b"))


def _commit_often(path: Path, start: multiprocessing.synchronize.Barrier) -> None:
    start.wait()
    control = Control(_open(path))
    for _ in range(20):
        control.committed("s", rows=3, size=10, offsets={}, epoch=1)


def test_processes_that_open_a_new_file_and_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    barrier = _SPAWN.Barrier(4)
    processes = [_SPAWN.Process(target=_commit_often, args=(path, barrier)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    with _open(path).read() as connection:
        row = connection.execute(sa.select(schema.progress)).one()
        catalogs = connection.scalar(sa.select(sa.func.count()).select_from(schema.identity))
    assert (row.messages, row.bytes, row.commits, catalogs) == (240, 800, 80, 1)


def test_copy_of_a_catalog_opens(tmp_path: Path) -> None:
    path, copy = tmp_path / "catalog.db", tmp_path / "copy.db"
    Control(_open(path)).set_desired("s", "running")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(path, copy)
    assert Control(_open(copy)).desired("s") == "running"
