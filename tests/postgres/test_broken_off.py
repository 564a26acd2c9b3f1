"""The connection between a source and its server breaks: the source reports the error and recovers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sinkql.session.session import Session
from support.authority import authority
from support.postgres import Postgres
from support.postgres import postgres as postgres_server
from support.readers import duckdb_folder
from support.ssh import ssh_server
from support.tls_front import tls_front

from .pipeline import capturing, catch_up, stalled

pytestmark = [pytest.mark.server, pytest.mark.soak]

_SQL = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;
CREATE SINK a FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'a') KEY (id) MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
"""


@dataclass(frozen=True)
class _Way:
    """A way to reach the server, and how to break and mend it; `code` is the error in between."""

    port: int
    options: str
    code: str
    breaks: Callable[[], object]
    mends: Callable[[], object]


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres_server() as found:
        found.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1); CREATE PUBLICATION p FOR TABLE t")
        yield found


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    with Session(tmp_path / "catalog.db") as session:
        yield session


def test_a_server_is_stopped(session: Session, server: Postgres) -> None:
    _goes_on(session, server, _Way(server.port, "", "SQ4402", server.stop, server.start))


def test_a_tunnel_dies(session: Session, server: Postgres) -> None:
    with ssh_server() as ssh:
        session.execute(f"CREATE CONNECTION ssh TO SSH TUNNEL (HOST '127.0.0.1', PORT {ssh.port}, USER 'tunnel')")
        (keys,) = session.execute("SELECT public_key_1 FROM mz_catalog.mz_ssh_tunnel_connections;")
        key = str(keys.rows[0][0])
        ssh.authorize(key)

        def die() -> None:
            ssh.authorized.clear()
            ssh.hang_up()

        _goes_on(session, server, _Way(server.port, ", SSH TUNNEL ssh", "SQ4421", die, lambda: ssh.authorize(key)))


def test_a_certificate_is_replaced_by_one_of_a_stranger(session: Session, server: Postgres, tmp_path: Path) -> None:
    trusted, identity = authority(tmp_path)
    (tmp_path / "other").mkdir()
    _, strange = authority(tmp_path / "other")
    kept = shutil.copy(identity, tmp_path / "kept")

    def replace() -> None:
        shutil.copy(strange, identity)
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'sinkql%'")

    session.execute(f"CREATE SECRET ca AS file('{trusted}')")
    options = ", SSL MODE = verify_ca, SSL CERTIFICATE AUTHORITY = SECRET ca"
    with tls_front(server.port, identity) as port:
        _goes_on(session, server, _Way(port, options, "SQ4408", replace, lambda: shutil.copy(kept, identity)))


def _goes_on(session: Session, server: Postgres, way: _Way) -> None:
    session.execute(
        f"CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {way.port}, DATABASE 'postgres', USER 'postgres'"
        f"{way.options}); {_SQL}"
    )
    with capturing(session):
        catch_up(session)
        way.breaks()
        assert stalled(session) == way.code
        way.mends()
        server.execute("INSERT INTO t VALUES (2)")
        catch_up(session, turn=2)
    assert duckdb_folder(Path("lake/n/a")) == [(1,), (2,)]
