"""Tables without a key have each row as often as the server, even if it is busy."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

from capture.pipeline import drain
from mysql.captured import received, stream_of, table_of
from postgres.pipeline import capturing
from sinkql.connector_api.cdc import RowsChanged
from sinkql.connectors.mysql.gtid import NumberedTransactions
from sinkql.connectors.mysql.snapshot import ServerSnapshot
from sinkql.runtime.local.engine import LocalEngine
from sinkql.session import Session
from support.mariadb import PASSWORD, MariaDb
from support.patience import joined
from support.readers import duckdb_folder
from support.running import loop_of

pytestmark = pytest.mark.server

_SCRIPT = """
CREATE SECRET p AS '{password}';
CREATE CONNECTION my TO MYSQL (HOST '127.0.0.1', PORT {port}, USER 'reader', PASSWORD SECRET p);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM MYSQL CONNECTION my FOR TABLES ({database}.odd);
CREATE SINK b FROM odd INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'b') MODE APPEND
  WITH (COMMIT INTERVAL = '1s');
"""


@pytest.mark.long
def test_rows_come_and_go_as_on_the_server_though_they_change_all_the_time(
    server: MariaDb, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _make_odd(server, database)
    script = _SCRIPT.format(password=PASSWORD.replace("'", "''"), port=server.port, database=database)
    stopping = threading.Event()
    writer = threading.Thread(target=_write, args=(server, database, stopping), daemon=True)
    with Session() as session:
        session.execute(script)
        writer.start()
        try:
            with capturing(session):
                _once(session)
                stopping.set()
                joined(writer)
                _once(session)
        finally:
            stopping.set()
            joined(writer)
    expected = dict(server.rows(f"SELECT x, count(*) FROM {database}.odd GROUP BY x"))
    found: Counter[object] = Counter()
    for x, diff, _ in duckdb_folder("lake/n/b"):
        found[x] += diff
    assert {x: count for x, count in found.items() if count} == expected


def test_changes_say_which_transactions_they_are_of(server: MariaDb, database: str) -> None:
    _make_odd(server, database)
    odd, found = table_of(server, database, "odd"), list[str]()
    with stream_of(server) as stream:
        stream.begin(stream.create(), [odd])
        server.run(f"INSERT INTO {database}.odd VALUES (1), (2)")
        with stream.chunk(odd) as read:
            server.run(f"DELETE FROM {database}.odd WHERE x = 1")

            def take(event: object) -> None:
                if isinstance(event, RowsChanged):
                    parts = [part for parts in event.tables.values() for part in parts]
                    found.extend(each for part in parts if part.transactions is not None for each in part.transactions)

            received(stream, stream.end(), take)
            assert len(found) == 3 + 50
            assert [read.snapshot.unseen([each]) for each in found] == [None] * 2 + [0] * 51
            assert read.snapshot.certain(found)


def test_of_transactions_that_commit_meanwhile_mysql_does_not_tell_whether_they_are_seen() -> None:
    server = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    before, after = (NumberedTransactions(f"{server}:1-{last}") for last in (5, 7))
    look = ServerSnapshot(before.contains, after.contains)
    assert look.certain([f"{server}:5", f"{server}:8"])
    assert look.unseen([f"{server}:5", f"{server}:6"]) == 1
    assert not look.certain([f"{server}:6"])


def _make_odd(server: MariaDb, database: str) -> None:
    """Create a table without a key, with duplicate rows."""
    with server.connect(database=database) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE odd (x int)")
        cursor.execute("INSERT INTO odd SELECT seq % 10 FROM seq_1_to_500")


def _write(server: MariaDb, database: str, stopping: threading.Event) -> None:
    """Change rows of the table until `stopping` is set."""
    with server.connect(database=database) as connection, connection.cursor() as cursor:
        turn = 0
        while not stopping.is_set():
            turn += 1
            cursor.execute(f"INSERT INTO odd VALUES ({turn % 13}), ({turn % 7})")
            cursor.execute(f"DELETE FROM odd WHERE x = {turn % 5} LIMIT 1")
            cursor.execute(f"UPDATE odd SET x = {turn % 11} WHERE x = {turn % 3} LIMIT 2")


def _once(session: Session) -> None:
    (job,) = session.jobs(("b",))
    context = session.context(job)
    context.folder.mkdir(parents=True, exist_ok=True)
    drain(loop_of(job, context, session.catalog.registry, engine=LocalEngine()))
