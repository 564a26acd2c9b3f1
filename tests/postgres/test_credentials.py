"""A password or a privilege changes while a source is read: the source reports the error, and recovers once fixed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from capture.pipeline import run_once
from sinkql.capture import sink_messages
from sinkql.errors import SinkqlError
from sinkql.session.session import Session
from support.postgres import Postgres
from support.postgres import postgres as postgres_server
from support.readers import duckdb_folder

from .pipeline import capturing, stalled

pytestmark = pytest.mark.server

_SQL = """
CREATE SECRET pw AS 'old';
CREATE SECRET other AS 'new';
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE '{database}', USER 'bob', PASSWORD SECRET pw);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;
CREATE SINK a FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'a') KEY (id) MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """Run a server that asks bob for a password."""
    with postgres_server() as found:
        (found.data / "pg_hba.conf").write_text("host all postgres all trust\nhost all bob all scram-sha-256\n")
        found.execute("CREATE ROLE bob LOGIN REPLICATION; SELECT pg_reload_conf()")
        yield found


@pytest.fixture
def database(server: Postgres) -> str:
    name = server.database()
    server.execute("ALTER ROLE bob LOGIN REPLICATION PASSWORD 'old'")
    server.execute("CREATE TABLE t (id int PRIMARY KEY); GRANT SELECT ON t TO bob; INSERT INTO t VALUES (1)", name)
    server.execute("CREATE PUBLICATION p FOR TABLE t", name)
    return name


@pytest.fixture
def session(tmp_path: Path, server: Postgres, database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(port=server.port, database=database))
        yield session


_CHANGES = {
    "password, put back": ("PASSWORD 'new'", "SQ4404", "PASSWORD 'old'", ""),
    "password, another secret": ("PASSWORD 'new'", "SQ4404", "", "ALTER SECRET pw AS 'new';"),
    "password, another connection": (
        "PASSWORD 'new'",
        "SQ4404",
        "",
        "ALTER CONNECTION pg SET (PASSWORD = SECRET other);",
    ),
    "replication": ("NOREPLICATION", "SQ4411", "REPLICATION", ""),
    "login": ("NOLOGIN", "SQ4404", "LOGIN", ""),
}
"""The change of the role, the error, and the fix: a role attribute on the server, or SQL in the catalog."""


@pytest.mark.share(6)
@pytest.mark.parametrize("what", _CHANGES)
def test_a_role_that_is_altered_stalls_its_source_until_that_is_put_right(
    session: Session, server: Postgres, database: str, what: str
) -> None:
    done, code, there, here = _CHANGES[what]
    with capturing(session):
        _once(session)
        server.execute(f"ALTER ROLE bob {done}")
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'bob'")
        server.execute("INSERT INTO t VALUES (2)", database)
        assert stalled(session) == code
        failed = _failed(session)
        assert (failed.code, failed.retryable) == (code, True)
        assert failed.hint
        if there:
            server.execute(f"ALTER ROLE bob {there}")
        if here:
            session.execute(here)
        _once(session)
    assert duckdb_folder(Path("lake/n/a")) == [(1,), (2,)]


def _once(session: Session) -> None:
    run_once(session, "a")


def _failed(session: Session) -> SinkqlError:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink_messages, "_PATIENCE_SECONDS", 0.1)
        with pytest.raises(SinkqlError) as failed:
            _once(session)
    return failed.value
