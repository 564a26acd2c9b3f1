"""Catalog files that were changed, truncated, or are open to other users; and commands about the file."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sinkql.catalog.catalog import Catalog
from sinkql.catalog.sqlite.database import Database
from sinkql.catalog.sqlite.private_file import check_ours, coded, make_private
from sinkql.catalog.sqlite.schema import VERSION
from sinkql.catalog.system import LAYOUT
from sinkql.catalog.verify import problems
from sinkql.cli.main import run_command as run
from sinkql.connector_api.registry import discover
from sinkql.errors import SinkqlError
from sinkql.session import Session

_PAGE = 4096
_SCRIPT = """
CREATE SCHEMA s;
CREATE SECRET word AS 'open sesame';
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE VIEW s.v AS SELECT n.counter FROM n;
COMMENT ON VIEW s.v IS 'a view';
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "catalog.db"
    Session(path).execute(_SCRIPT)
    return path


def _sql(path: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)
        connection.execute("UPDATE identity SET generation = generation + 1")


def _opened(path: Path) -> Catalog:
    return Catalog(path, discover())


def _refused(path: Path) -> SinkqlError:
    with pytest.raises(SinkqlError) as refused:
        _opened(path)
    return refused.value


def test_what_relations_show_of_items_is_written_again_for_other_views(file: Path) -> None:
    query = "SELECT name, type FROM mz_sources"
    expected = [("n", "load-generator")]
    for detailed_for, found in ((LAYOUT.digest, [("n", None)]), ("another", expected)):
        _sql(file, "UPDATE items SET details = '{}'")
        _sql(file, "UPDATE identity SET detailed_for = ?", detailed_for)
        _opened(file)
        with closing(sqlite3.connect(file)) as connection:
            assert found == connection.execute(query).fetchall()


def test_file_that_becomes_a_catalog_while_it_is_looked_at_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    make_private(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as plain:
        statements: list[str] = []

        def beginning(statement: str) -> None:
            statements.append(statement)
            if len(statements) == 2:
                Database(path, LAYOUT)

        plain.set_trace_callback(beginning)
        check_ours(plain, path)
        plain.set_trace_callback(None)
        assert plain.execute("PRAGMA user_version").fetchone() == (VERSION,)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o610])
def test_file_that_others_may_use_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    error = _refused(file)
    assert (error.code, error.hint) == ("SQ4114", f"Run chmod 600 {file}.")
    file.chmod(0o600)
    _opened(file)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o701, 0o755])
def test_folder_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / ".sinkql"
    folder.mkdir(mode=0o700)
    _opened(folder / "catalog.db")
    folder.chmod(mode)
    error = _refused(folder / "catalog.db")
    assert (error.code, error.hint) == ("SQ4114", f"Run chmod 700 {folder}.")
    folder.chmod(0o700)
    _opened(folder / "catalog.db")


def test_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".sinkql"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    error = _refused(folder / "catalog.db")
    assert (error.code, error.message) == ("SQ4114", f'folder "{folder}" belongs to another user')
    assert list(folder.iterdir()) == []


def test_truncated_file_is_refused_or_found_damaged(file: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole, items = file.read_bytes(), list(_opened(file).entries())
    for length in range(1, len(whole), len(whole) // 40):
        cut = tmp_path / str(length) / "catalog.db"
        cut.parent.mkdir()
        cut.touch(mode=0o600)
        cut.write_bytes(whole[:length])
        shutil.copy(f"{file}.key", f"{cut}.key")
        try:
            found = [problem.code for problem in problems(_opened(cut))]
        except SinkqlError as error:
            found = [error.code]
        if not found and len(whole) - length < _PAGE:  # the cut text is that of a derived view, which was recreated
            assert items == list(_opened(cut).entries())
        else:
            assert set(found) & {"SQ4101", "SQ4103", "SQ4105"}, length


@pytest.mark.parametrize(
    ("column", "value"), [("create_sql", "CREATE VIEW"), ("create_sql", "SELECT 1;"), ("facts", "{"), ("facts", "[]")]
)
def test_item_that_does_not_read_is_refused(file: Path, column: str, value: str) -> None:
    _sql(file, f"UPDATE items SET {column} = ? WHERE name = 'v'", value)
    opened = _opened(file)
    for _ in range(2):
        with pytest.raises(SinkqlError) as refused:
            opened.plans.entry("materialize.s.v")
        assert refused.value.code == "SQ4106"
    assert "SQ4106" in [problem.code for problem in problems(opened)]


@pytest.mark.parametrize(
    ("change", "item"),
    [
        ("UPDATE items SET full_name = 'materialize.s.w' WHERE name = 'v'", "materialize.s.w"),
        ("UPDATE items SET create_sql = replace(create_sql, ' AS', ' aS') WHERE name = 'v'", "materialize.s.v"),
        ("UPDATE items SET redacted_sql = 'x' WHERE name = 'v'", "materialize.s.v"),
        ("UPDATE items SET kind = 'SINK' WHERE name = 'v'", "materialize.s.v"),
        ("DELETE FROM dependencies", "materialize.s.v"),
        ("DELETE FROM items WHERE kind = 'SCHEMA'", "materialize.s.v"),
        ("UPDATE items SET create_sql = replace(create_sql, 'counter', 'countre') WHERE name = 'v'", "materialize.s.v"),
        ("UPDATE secrets SET ciphertext = x'00'", "materialize.public.word"),
        ("DELETE FROM secrets", None),
        ("UPDATE comments SET item_id = 'u99'", None),
    ],
)
def test_changed_file_is_found(file: Path, change: str, item: str | None) -> None:
    _sql(file, change)
    found = list(problems(_opened(file)))
    assert item in [problem.item for problem in found]
    assert all(problem.code.startswith("SQ") for problem in found)


def test_every_changed_byte_of_a_secret_shows(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        (good,) = connection.execute("SELECT ciphertext FROM secrets").fetchone()
    for place in range(len(good)):
        bad = good[:place] + bytes([good[place] ^ (1 << place % 8)]) + good[place + 1 :]
        _sql(file, "UPDATE secrets SET ciphertext = ?", bad)
        with pytest.raises(SinkqlError) as refused:
            _opened(file).secret("materialize.public.word")
        assert refused.value.code == "SQ4108"


# --- the commands -----------------------------------------------------------------------------------------------------


def _lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_backup_is_a_catalog_of_the_same_items(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "new" / "copy.db"
    assert run(["--catalog", str(file), "catalog", "backup", str(copy)]) == 0
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert list(_opened(copy).entries()) == list(_opened(file).entries())
    assert f"keep a copy of {file}.key elsewhere" in capsys.readouterr().out
    assert run(["--catalog", str(file), "catalog", "backup", str(copy)]) == 4
    assert "SQ4117" in capsys.readouterr().err


def test_restored_backup_has_the_rows_of_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, copy, back = tmp_path / "a" / "catalog.db", tmp_path / "copies" / "one.db", tmp_path / "b" / "catalog.db"
    with Session(file) as session:
        session.execute("CREATE TABLE t (a integer PRIMARY KEY); CREATE TABLE u (a integer); INSERT INTO t VALUES (7)")
    assert run(["--catalog", str(file), "catalog", "backup", str(copy)]) == 0
    folder = copy.with_name("one.db.tables")
    assert {stat.S_IMODE(each.stat().st_mode) for each in (folder, *folder.iterdir())} == {0o700, 0o600}
    with Session(file) as session:
        session.execute("INSERT INTO t VALUES (8)")
    assert run(["--catalog", str(file), "catalog", "backup", str(copy.with_name("two.db"))]) == 0
    back.parent.mkdir()
    copy.rename(back)
    assert run(["--catalog", str(back), "catalog", "verify"]) == 4
    assert "the file with its rows is missing" in capsys.readouterr().out
    folder.rename(back.with_name("tables"))
    assert run(["--catalog", str(back), "catalog", "verify"]) == 0
    with Session(back) as session:
        assert session.execute("SELECT * FROM t")[0].rows == ((7,),)
        with pytest.raises(SinkqlError, match="duplicate key value"):
            session.execute("INSERT INTO t VALUES (7)")


def test_verify_finds_nothing_wrong_with_any_kind_of_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_EVERY_KIND)
        session.execute("ALTER DATABASE d RENAME TO e; ALTER SCHEMA e.s RENAME TO z; ALTER SECRET e.z.w AS 'two'")
        assert list(problems(session.catalog)) == []


_EVERY_KIND = """
CREATE DATABASE d; CREATE SCHEMA d.s; SET database = d; SET search_path = s, public;
CREATE CLUSTER "c.c" (SIZE = 'local[1]');
CREATE SECRET w AS 'one'; CREATE SECRET env AS env_var('W');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake') WITH (VALIDATE = false);
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE TABLE "T.t" ("a b" integer PRIMARY KEY); CREATE VIEW v AS SELECT "a b" FROM "T.t";
CREATE MATERIALIZED VIEW m IN CLUSTER "c.c" AS SELECT counter FROM n;
CREATE SINK k IN CLUSTER "c.c" FROM m INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 't')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '2s');
COMMENT ON COLUMN v."a b" IS 'x'; COMMENT ON DATABASE d IS 'x'; ALTER TABLE "T.t" OWNER TO joe;
"""


def test_verify_prints_problems_and_exits_with_4(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--catalog", str(file), "catalog", "verify"]) == 0
    assert f"no problems in {file} (4 items)" in capsys.readouterr().out
    _sql(file, "DELETE FROM dependencies")
    assert run(["--catalog", str(file), "--output", "json", "catalog", "verify"]) == 4
    (problem,) = _lines(capsys)
    assert (problem["item"], problem["code"]) == ("materialize.s.v", "SQ4116")


def test_upgrade_tells_the_versions(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--catalog", str(file), "--output", "json", "catalog", "upgrade"]) == 0
    (said,) = _lines(capsys)
    assert (said["before"], said["version"]) == (VERSION, VERSION)


@pytest.mark.parametrize("command", [["verify"], ["upgrade"], ["backup", "x.db"]])
def test_commands_make_no_file_where_there_is_none(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none.db"
    assert run(["--catalog", str(missing), "catalog", *command]) == 4
    assert "SQ4115" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left"), sqlite3.OperationalError("database or disk is full")]
)
def test_a_full_disk_is_named(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(SinkqlError, match="could not write catalog file") as refused, coded(tmp_path / "c.db"):
        raise error
    assert refused.value.code == "SQ4105"
