"""A changed password or a revoked privilege stalls a source; it resumes once the cause is repaired."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.session import Session
from support.mariadb import MariaDb
from support.patience import Deadline
from support.readers import duckdb_folder

pytestmark = pytest.mark.server

_SQL = """
CREATE SECRET pw AS 'old';
CREATE CONNECTION my TO MYSQL (HOST '127.0.0.1', PORT {port}, USER '{user}', PASSWORD SECRET pw);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM MYSQL CONNECTION my FOR SCHEMAS ({database});
CREATE SINKS FOR ALL TABLES OF SOURCE s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n')
  WITH (COMMIT INTERVAL = '1s');
"""
_CHANGES = {
    "password, put back": ("ALTER USER {user} IDENTIFIED BY 'new'", "SQ4461", "ALTER USER {user} IDENTIFIED BY 'old'"),
    "password, another secret": ("ALTER USER {user} IDENTIFIED BY 'new'", "SQ4461", ""),
    "privilege": ("REVOKE REPLICATION SLAVE ON *.* FROM {user}", "SQ4465", "GRANT REPLICATION SLAVE ON *.* TO {user}"),
}
"""The change of the user, the error, and the repair on the server; if empty, the secret is altered instead."""


@pytest.fixture
def user(server: MariaDb, database: str) -> Iterator[str]:
    name = f"u_{database}"
    server.run(
        f"CREATE USER {name} IDENTIFIED BY 'old'",
        f"GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {name}",
        f"CREATE TABLE {database}.t (id int PRIMARY KEY)",
        f"INSERT INTO {database}.t VALUES (1)",
    )
    yield name
    server.run(f"DROP USER {name}")


@pytest.mark.share(3)
@pytest.mark.parametrize("what", _CHANGES)
def test_a_user_that_is_altered_stalls_its_source_until_that_is_put_right(
    server: MariaDb, database: str, user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    done, code, mended = (each.format(user=user) for each in _CHANGES[what])
    monkeypatch.chdir(tmp_path)
    with Session(tmp_path / "catalog.db") as session:
        session.execute(_SQL.format(port=server.port, user=user, database=database))
        with capturing(session):
            catch_up(session)
            server.run(done, f"KILL USER {user}", f"INSERT INTO {database}.t VALUES (2)")
            assert _stalled(session) == code
            server.run(mended) if mended else session.execute("ALTER SECRET pw AS 'new';")
            catch_up(session, turn=2)
        assert duckdb_folder("lake/n/t") == [(1,), (2,)]


def _stalled(session: Session) -> str:
    """Wait until the source is stalled; return its error code."""
    query = "SELECT error FROM mz_internal.mz_source_statuses WHERE name = 's' AND status = 'stalled'"
    deadline = Deadline()
    while not (rows := session.execute(query)[0].rows):
        deadline.check("a stalled source")
    return str(rows[0][0]).partition(":")[0]
