"""A table that cannot be read at first stops only its own sinks until it is fixed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capture.pipeline import run_once
from sinkql.capture import sink_messages
from sinkql.errors import SinkqlError
from sinkql.session.session import Session
from support.patience import Deadline
from support.postgres import Postgres
from support.readers import duckdb_folder

from .pipeline import capturing

pytestmark = pytest.mark.server

_SERVER = """
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE TABLE u (id int PRIMARY KEY);
INSERT INTO t VALUES (1, 10), (2, 20);
INSERT INTO u VALUES (1);
CREATE ROLE {database} LOGIN REPLICATION;
GRANT SELECT ON t, u TO {database};
CREATE PUBLICATION p FOR TABLE t, u;
"""
_SQL = """
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE '{database}', USER '{database}');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;
CREATE SINKS FOR TABLES (t, u) INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n')
  WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture
def session(
    tmp_path: Path, postgres: Postgres, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    postgres.execute(_SERVER.format(database=postgres_database), postgres_database)
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(port=postgres.port, database=postgres_database))
        yield session
        session.execute("DROP SOURCE s CASCADE;")
    postgres.execute(f"DROP OWNED BY {postgres_database}; DROP ROLE {postgres_database}", postgres_database)


def _once(session: Session, name: str) -> None:
    run_once(session, f"{name}_sink")


def _read(name: str) -> list[tuple[Any, ...]]:
    return duckdb_folder(Path("lake/n") / name)


_RENAMED = {
    "table": "ALTER TABLE t RENAME TO other",
    "swapped": "ALTER TABLE t RENAME TO other; CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (7, 7)",
    "schema": "CREATE SCHEMA s; ALTER TABLE t SET SCHEMA s; ALTER TABLE s.t RENAME TO other; "
    "GRANT USAGE ON SCHEMA s TO {role}; ALTER DATABASE {role} SET search_path = public, s",
}


@pytest.mark.share(3)
@pytest.mark.parametrize("how", _RENAMED)
def test_a_table_is_read_by_whatever_name_it_has(
    session: Session, postgres: Postgres, postgres_database: str, how: str
) -> None:
    postgres.execute(_RENAMED[how].format(role=postgres_database), postgres_database)
    with capturing(session):
        _once(session, "t")
        postgres.execute("DELETE FROM other WHERE id = 2", postgres_database)
        _once(session, "t")
    assert _read("t") == [(1, 10)]


_UNREAD = {
    "right": ("REVOKE SELECT ON t FROM {role}", "SQ3710", "permission denied", "GRANT SELECT ON t TO {role}"),
    "column": (
        "ALTER TABLE t RENAME v TO w",
        "SQ3711",
        'column "v" was dropped or renamed',
        "ALTER TABLE t RENAME w TO v",
    ),
    "type": (
        "ALTER TABLE t ALTER v TYPE bigint",
        "SQ3711",
        'the type of column "v" was integer and is bigint now',
        "ALTER TABLE t ALTER v TYPE integer",
    ),
}
"""The change of a table, the error of its sink, the error's detail, and the fix."""


@pytest.mark.share(3)
@pytest.mark.parametrize("what", _UNREAD)
def test_a_table_that_cannot_be_read_stops_its_own_sinks(
    session: Session, postgres: Postgres, postgres_database: str, what: str
) -> None:
    done, code, detail, mended = (each.format(role=postgres_database) for each in _UNREAD[what])
    postgres.execute(done, postgres_database)
    with capturing(session):
        stopped = _stopped(session, code)
        _until_told(session, code)
        assert detail in (stopped.detail or "")
        assert stopped.hint
        postgres.execute("INSERT INTO u VALUES (2)", postgres_database)
        _once(session, "u")
        assert _read("u") == [(1,), (2,)]
        postgres.execute(mended, postgres_database)
        postgres.execute("INSERT INTO t VALUES (3, 30)", postgres_database)
        _once(session, "t")
    assert _read("t") == [(1, 10), (2, 20), (3, 30)]


def _until_told(session: Session, code: str) -> None:
    """Wait until the source's status reports that the table cannot be read."""
    query = "SELECT error, details FROM mz_internal.mz_source_statuses WHERE name = 's'"
    deadline = Deadline()
    while True:
        error, details = session.execute(query)[0].rows[0]
        if error is not None and error.startswith(code):
            assert json.loads(details)["unread"]["public.t"] == error
            return
        deadline.check("a status")


def _stopped(session: Session, code: str) -> SinkqlError:
    """Run the table's sink until it fails with this code; before that, its capture may not have begun."""
    deadline = Deadline()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink_messages, "_PATIENCE_SECONDS", 0.1)
        while True:
            with pytest.raises(SinkqlError) as stopped:
                _once(session, "t")
            if stopped.value.code == code:
                return stopped.value
            deadline.check(stopped.value.message)
