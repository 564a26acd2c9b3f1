"""CREATE CONNECTION … TO SSH TUNNEL: its keys, and a database that is reached through the tunnel."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinkql.connector_api.tunnel_keys import TunnelKeys
from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.front import front
from support.port import free_ports
from support.postgres import Postgres
from support.ssh import SshServer, ssh_server

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def ssh() -> Iterator[SshServer]:
    with ssh_server() as server:
        yield server


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session(tmp_path / "catalog.db") as opened:
        yield opened


def _tunnel(ssh: SshServer, *, port: int | None = None, key: str | None = None) -> str:
    host_key = f", HOST KEY '{key}'" if key is not None else ""
    return f"CREATE CONNECTION t TO SSH TUNNEL (HOST '127.0.0.1', PORT {port or ssh.port}, USER 'tunnel'{host_key});"


def _keys(session: Session) -> tuple[str, str]:
    (result,) = session.execute("SELECT public_key_1, public_key_2 FROM mz_catalog.mz_ssh_tunnel_connections;")
    ((first, second),) = result.rows
    return first, second


def _database(port: int) -> str:
    return (
        f"CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE postgres, USER postgres, "
        "SSH TUNNEL t);"
    )


def _refused(session: Session, text: str) -> str:
    with pytest.raises(SinkqlError) as caught:
        session.execute(text)
    assert "PRIVATE" not in str(caught.value)
    return caught.value.code


def test_a_database_is_reached_through_a_tunnel_with_either_key(
    session: Session, ssh: SshServer, postgres: Postgres
) -> None:
    session.execute(_tunnel(ssh, key=ssh.host_key))
    first, second = _keys(session)
    assert first != second
    assert _refused(session, _database(postgres.port)) == "SQ4421"
    for key in (first, second):
        ssh.authorize(key)
        ssh.forwarded.clear()
        session.execute(f"VALIDATE CONNECTION t; {_database(postgres.port)} VALIDATE CONNECTION pg;")
        assert set(ssh.forwarded) == {("127.0.0.1", postgres.port)}
        session.execute("DROP CONNECTION pg;")
    assert _refused(session, _database(free_ports(1)[0])) == "SQ4422"


def test_keys_are_rotated_and_the_one_that_stays_is_let_in(
    session: Session, ssh: SshServer, postgres: Postgres
) -> None:
    session.execute(_tunnel(ssh))
    first, second = _keys(session)
    session.execute("ALTER CONNECTION t ROTATE KEYS;")
    assert _keys(session)[0] == second
    assert _keys(session)[1] not in (first, second)
    ssh.authorize(second)
    session.execute(_database(postgres.port))
    ssh.authorize(first)
    assert _refused(session, "VALIDATE CONNECTION pg;") == "SQ4421"


def test_the_server_of_the_first_use_is_trusted_and_no_other(
    session: Session, ssh: SshServer, postgres: Postgres
) -> None:
    with ssh_server() as other, front(ssh.port) as address:
        session.execute(_tunnel(ssh, port=address.port))
        for server in (ssh, other):
            server.authorize(_keys(session)[0])
        session.execute("VALIDATE CONNECTION t;" + _database(postgres.port))
        address.upstream = other.port
        with pytest.raises(SinkqlError, match="SQ4425") as caught:
            session.execute("VALIDATE CONNECTION pg;")
        assert other.host_key in str(caught.value.detail)
        session.execute("ALTER CONNECTION t ROTATE KEYS;")
        ssh.authorize(_keys(session)[0])
        other.authorize(_keys(session)[0])
        assert _refused(session, "VALIDATE CONNECTION t;") == "SQ4425"
        session.execute(f"ALTER CONNECTION t SET (HOST KEY = '{other.host_key}'); VALIDATE CONNECTION pg;")
        address.upstream = ssh.port
        assert _refused(session, "VALIDATE CONNECTION pg;") == "SQ4423"
        session.execute("ALTER CONNECTION t RESET (HOST KEY); VALIDATE CONNECTION pg;")


def test_a_server_that_does_not_answer_is_not_known_afterwards(session: Session, ssh: SshServer) -> None:
    with front(free_ports(1)[0]) as address:
        session.execute(_tunnel(ssh, port=address.port))
        ssh.authorize(_keys(session)[0])
        assert _refused(session, "VALIDATE CONNECTION t;") == "SQ4420"
        address.upstream = ssh.port
        session.execute("VALIDATE CONNECTION t;")


def test_keys_that_an_earlier_version_kept_are_used(session: Session, ssh: SshServer) -> None:
    session.execute(_tunnel(ssh))
    name = "materialize.public.t"
    kept = TunnelKeys.parse(session.access.secret(name))
    catalog = session.access._catalog
    catalog.pin(name, kept.text(), json.dumps(kept.keys))
    ssh.authorize(_keys(session)[0])
    session.execute("VALIDATE CONNECTION t;")
    assert TunnelKeys.parse(catalog.secret(name).reveal()) == kept


def test_a_tunnel_that_cannot_be_opened_says_why(session: Session, ssh: SshServer) -> None:
    session.execute(_tunnel(ssh, port=free_ports(1)[0]))
    assert _refused(session, "VALIDATE CONNECTION t;") == "SQ4420"
    session.execute("DROP CONNECTION t;" + _tunnel(ssh))
    public = _keys(session)[0]
    ssh.authorize(public)
    session.execute("DROP CONNECTION t;" + _tunnel(ssh, key=public))
    assert _refused(session, "VALIDATE CONNECTION t;") == "SQ4423"
    assert _refused(session, _tunnel(ssh, key="AAAA").replace("CONNECTION t", "CONNECTION u")) == "SQ2554"


def test_private_keys_are_kept_as_secrets_are(session: Session, ssh: SshServer, tmp_path: Path) -> None:
    session.execute(_tunnel(ssh))
    with sqlite3.connect(tmp_path / "catalog.db") as file:
        dumped = "\n".join(file.iterdump())
    (shown,) = session.execute("SHOW CREATE CONNECTION t;")
    assert "PRIVATE KEY" not in dumped + str(shown.rows)
    session.execute("ALTER CONNECTION t RENAME TO u; DROP CONNECTION u;")
    with sqlite3.connect(tmp_path / "catalog.db") as file:
        assert file.execute("SELECT count(*) FROM secrets").fetchone() == (0,)


def test_the_extra_is_named_where_it_is_missing(
    session: Session, ssh: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.execute(_tunnel(ssh))
    monkeypatch.setitem(sys.modules, "asyncssh", None)
    assert _refused(session, "VALIDATE CONNECTION t;") == "SQ4424"
