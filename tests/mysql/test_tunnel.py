"""A MariaDB server is reached through an SSH tunnel, by statements and by a capture."""

from __future__ import annotations

from pathlib import Path

import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.mariadb import PASSWORD, MariaDb
from support.port import free_ports
from support.readers import duckdb_folder
from support.ssh import ssh_server

pytestmark = pytest.mark.server


def test_a_server_is_reached_and_captured_through_a_tunnel(
    server: MariaDb, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("READER", PASSWORD)
    server.run(f"CREATE TABLE {database}.t (id int PRIMARY KEY)", f"INSERT INTO {database}.t VALUES (1), (2)")
    with ssh_server() as ssh, Session() as session:
        session.execute(
            f"CREATE CONNECTION ssh TO SSH TUNNEL (HOST '127.0.0.1', PORT {ssh.port}, USER 'tunnel', HOST KEY "
            f"'{ssh.host_key}'); CREATE SECRET p AS env_var('READER'); CREATE SECRET ca AS file('{server.trusted}');"
        )
        (keys,) = session.execute("SELECT public_key_1 FROM mz_catalog.mz_ssh_tunnel_connections;")
        ssh.authorize(keys.rows[0][0])
        options = "USER 'reader', PASSWORD SECRET p, SSH TUNNEL ssh, SSL MODE 'verify_identity', "
        options += "SSL CERTIFICATE AUTHORITY SECRET ca"
        closed = f"CREATE CONNECTION c TO MYSQL (HOST '127.0.0.1', PORT {free_ports(1)[0]}, {options});"
        with pytest.raises(SinkqlError, match="does not reach") as caught:
            session.execute(closed)
        assert caught.value.code == "SQ4422"
        session.execute(
            f"CREATE CONNECTION my TO MYSQL (HOST '127.0.0.1', PORT {server.port}, {options});"
            f"CREATE SOURCE s FROM MYSQL CONNECTION my FOR SCHEMAS ({database});"
            "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"
            "CREATE SINKS FOR ALL TABLES OF SOURCE s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n') "
            "WITH (COMMIT INTERVAL = '1s');"
        )
        assert session.preview("t").rows == ((1,), (2,))
        before = len(ssh.forwarded)
        with capturing(session):
            catch_up(session)
        assert duckdb_folder(tmp_path / "lake/n/t") == [(1,), (2,)]
        assert set(ssh.forwarded[before:]) == {("127.0.0.1", server.port)}
