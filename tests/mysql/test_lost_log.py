"""If the log of a source is lost, it restarts at the positions of its sinks while the server still has its own log."""

from __future__ import annotations

from pathlib import Path

import pytest

from mysql.captured import stream_of, table_of
from postgres.pipeline import capturing, catch_up
from sinkql.capture.log import LogDirectory
from sinkql.capture.runner import discard
from sinkql.session import Session
from support.mariadb import PASSWORD, MariaDb
from support.patience import Deadline
from support.readers import duckdb_folder

pytestmark = pytest.mark.server

_SCRIPT = """
CREATE SECRET p AS '{password}';
CREATE CONNECTION my TO MYSQL (HOST '127.0.0.1', PORT {port}, USER 'reader', PASSWORD SECRET p);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM MYSQL CONNECTION my FOR TABLES ({database}.t);
CREATE SINK a FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'a') KEY (id) MODE UPSERT
  WITH (COMMIT INTERVAL = '1s');
"""


@pytest.mark.long
def test_sinks_read_on_without_the_log(
    server: MariaDb, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server.run(f"CREATE TABLE {database}.t (id int PRIMARY KEY, v text)", f"INSERT INTO {database}.t VALUES (1, 'a')")
    with Session() as session:
        session.execute(_SCRIPT.format(password=PASSWORD.replace("'", "''"), port=server.port, database=database))
        with capturing(session):
            catch_up(session)
        server.run(f"UPDATE {database}.t SET v = 'b'", f"INSERT INTO {database}.t VALUES (2, 'c')")
        (folder,) = Path(".sinkql").glob("**/capture/*")
        discard(LogDirectory.local(folder))
        with capturing(session):
            catch_up(session, turn=2)
    assert duckdb_folder("lake/n/a") == [(1, "b"), (2, "c")]


def test_the_server_tells_from_where_on_it_has_its_log(server: MariaDb, database: str) -> None:
    server.run(f"CREATE TABLE {database}.t (id int PRIMARY KEY)")
    with stream_of(server) as stream:
        stream.begin(start := stream.create(), [table_of(server, database, "t")])
        assert stream.follows(start)
        assert not stream.follows(f"{1 << 40:016x}:0-1-{1 << 40}")
    with stream_of(server) as stream:
        server.run(f"INSERT INTO {database}.t VALUES (1)", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
        (file, *_) = server.rows("SHOW MASTER STATUS")[0]
        deadline = Deadline()
        while len(server.rows("SHOW BINARY LOGS")) > 1:  # the server needs time to release files of a closed connection
            deadline.check("the end of older files")
            server.run(f"PURGE BINARY LOGS TO '{file}'")
        assert not stream.follows(start)
        assert stream.follows(stream.end())
