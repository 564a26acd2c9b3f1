"""Random changes of a real server, with captures and servers that are killed: the tables are the server's.

The seed determines the changes, but not the progress of a capture at its death.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.storage import failpoint
from support.fault import armed
from support.mariadb import PASSWORD, MariaDb
from support.patience import Deadline
from support.readers import Rows, duckdb_folder

pytestmark = [pytest.mark.server, pytest.mark.long]

_TABLES = (
    "CREATE TABLE t (a int, b varchar(8) COLLATE utf8mb4_bin, v text, d decimal(30,6), made datetime(6), "
    "PRIMARY KEY (b, a))",
    "CREATE TABLE logged (x int, w varchar(20))",
    "INSERT INTO logged VALUES (1, 'old'), (1, 'old'), (2, NULL)",
)
_SINKS = """
CREATE SECRET p AS '{password}';
CREATE CONNECTION my TO MYSQL (HOST '127.0.0.1', PORT {port}, USER 'reader', PASSWORD SECRET p);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s FROM MYSQL CONNECTION my FOR TABLES ({database}.t, {database}.logged);
CREATE SINKS FOR TABLES (t) INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n') WITH (COMMIT INTERVAL = '1s');
CREATE SINK log FROM logged INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'log') MODE APPEND
  WITH (COMMIT INTERVAL = '1s');
CREATE MATERIALIZED VIEW per_a AS SELECT a, count(*) AS n, sum(d) AS d FROM t GROUP BY a;
CREATE SINK per_a_sink FROM per_a INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'per_a') KEY (a)
  MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_WORDS = ("a", "A", "b ", "é", "E", "zz", "", "O'k")
_NO_WAITING = "SET innodb_lock_wait_timeout = 0, lock_wait_timeout = 0"
_POINTS = (
    "claim", "read-marker", "data-file", "data-files", "index-run", "commit-request", "commit-reply", "committed",
)  # fmt: skip
_T, _LOGGED = "a, b, v, d, made", "x, w"


@dataclass
class Workload:
    """Random changes over two connections with one transaction each, and in distributed transactions."""

    server: MariaDb
    database: str
    chance: random.Random
    open: dict[int, Any] = field(default_factory=dict)
    prepared: list[str] = field(default_factory=list)
    count: int = 0

    def change(self) -> None:
        """Make a change on one of the connections; ignore errors, including the changes that a dying server loses."""
        one = self.chance.randrange(2)
        try:
            connection = self._connection(one)
            with connection.cursor() as cursor:
                self._one(cursor)
                if self.chance.random() < 0.7:
                    connection.rollback() if self.chance.random() < 0.15 else connection.commit()
        except pymysql.Error:
            self._leave(one)

    def end(self) -> None:
        """End all open and prepared transactions."""
        for one in list(self.open):
            self._leave(one)
        for each in self.prepared:
            self._finish(each)
        self.prepared.clear()

    def _connection(self, one: int) -> Any:
        if one not in self.open:
            self.open[one] = self.server.connect(database=self.database, autocommit=False, init_command=_NO_WAITING)
        return self.open[one]

    def _leave(self, one: int) -> None:
        with suppress(pymysql.Error):
            self.open.pop(one).close()

    def _one(self, cursor: Any) -> None:
        chance = self.chance
        self.count += 1
        a, b = chance.randrange(9), chance.choice(_WORDS)
        v, d = chance.choice((None, "v" * chance.randrange(3000))), f"{chance.randrange(-(10**9), 10**9)}.000001"
        made = f"2024-01-01 00:00:00.{self.count:06d}"
        match chance.randrange(20):
            case 0 | 1 | 2 | 3 | 4:
                cursor.execute(
                    "INSERT INTO t (a, b, v, d, made) VALUES (%s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE v = 'again'",
                    (a, b, v, d, made),
                )
            case 5 | 6:
                cursor.execute("UPDATE t SET v = %s, d = %s WHERE a = %s", (v, d, a))
            case 7:
                cursor.execute("UPDATE t SET a = a + 100 WHERE a = %s", (a,))
            case 8 | 9:
                cursor.execute("DELETE FROM t WHERE a = %s", (a,))
            case 10:
                cursor.execute("REPLACE INTO t (a, b, v, d, made) VALUES (%s, %s, %s, %s, %s)", (a, b, v, d, made))
            case 11:
                cursor.execute("SAVEPOINT s")
                cursor.execute("UPDATE t SET d = d + 1")
                cursor.execute("ROLLBACK TO s")
            case 12 | 13:
                cursor.execute("INSERT INTO logged (x, w) VALUES (%s, %s)", (a, chance.choice((None, b))))
            case 14:
                cursor.execute("UPDATE logged SET w = 'new' WHERE x = %s", (a,))
            case 15:
                cursor.execute("DELETE FROM logged WHERE x = %s LIMIT 1", (a,))
            case 16:
                values = ", ".join(f"({n}, 'many', 'm', {n}, NULL)" for n in range(1000, 1000 + chance.randrange(2500)))
                cursor.execute(f"REPLACE INTO t (a, b, v, d, made) VALUES {values}, (0, 'many', 'm', 0, NULL)")
            case 17:
                self._distributed(cursor, a)
            case 18:
                self._schema(cursor)
            case 19:
                if chance.random() < 0.3:
                    cursor.execute("TRUNCATE TABLE t")

    def _distributed(self, cursor: Any, a: int) -> None:
        if self.prepared and self.chance.random() < 0.6:
            self._finish(self.prepared.pop())
            return
        name = f"x{self.count}"
        cursor.connection.commit()
        for each in (f"XA START '{name}'", f"REPLACE INTO t (a, b) VALUES ({a}, '{name}')", f"XA END '{name}'"):
            cursor.execute(each)
        cursor.execute(f"XA PREPARE '{name}'")
        self.prepared.append(name)
        cursor.connection.close()  # another connection ends the transaction
        raise pymysql.err.InterfaceError

    def _finish(self, name: str) -> None:
        how = self.chance.choice(("COMMIT", "ROLLBACK"))
        deadline = Deadline()
        while True:
            deadline.check("the end of a distributed transaction")
            try:
                self.server.run(f"XA {how} '{name}'")
            except pymysql.err.OperationalError as error:
                if error.args[0] != 1397:  # XAER_NOTA: its connection is still closing, or a crash lost it
                    raise
                if (name,) not in [row[3:] for row in self.server.rows("XA RECOVER")]:
                    return
            else:
                return

    def _schema(self, cursor: Any) -> None:
        match self.chance.randrange(4):
            case 0:
                cursor.execute(f"ALTER TABLE t ADD COLUMN c{self.count} int DEFAULT 7 FIRST")
            case 1:
                cursor.execute("ALTER TABLE t ENGINE = InnoDB")
            case 2:
                cursor.execute(f"ALTER TABLE logged ADD COLUMN c{self.count} varchar(9)")
            case 3:
                cursor.execute(f"CREATE TABLE other{self.count} SELECT * FROM logged")


def _kill_captures() -> int:
    """Kill the capture processes, as a machine without memory does; return their number."""
    killed = 0
    for keeper in _children(os.getpid()):
        for each in _children(keeper):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
                killed += 1
    return killed


def _children(process: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):
            found += [int(each) for each in (task / "children").read_text().split()]
    return found


def _rows(server: MariaDb, table: str, columns: str) -> list[tuple[Any, ...]]:
    return sorted(server.rows(f"SELECT {columns} FROM {table}"), key=repr)


def _table(name: str, columns: str) -> Rows:
    return sorted(duckdb_folder(Path("lake/n") / name, columns), key=repr)


def _check(server: MariaDb, database: str) -> None:
    """Check that the tables equal the server's: rows by key, the number of each row, and a view's result."""
    assert _rows(server, f"{database}.t", _T) == _table("t", _T)
    grouped = sorted(server.rows(f"SELECT a, count(*), sum(d) FROM {database}.t GROUP BY a"), key=repr)
    assert grouped == _table("per_a", "a, n, d")
    logged: Counter[tuple[Any, ...]] = Counter()
    for x, w, diff in duckdb_folder(Path("lake/n/log"), f"{_LOGGED}, _mz_diff"):
        logged[x, w] += diff
    assert Counter(server.rows(f"SELECT {_LOGGED} FROM {database}.logged")) == +logged
    assert all(count >= 0 for count in logged.values())


def _catch_up(session: Session, turn: int) -> None:
    """Run the sinks up to the end of the server's log; retry if the server restarts."""
    deadline = Deadline()
    while True:
        deadline.check("the end of the log")
        try:
            catch_up(session, turn=turn)
        except failpoint.FaultError:
            continue
        except SinkqlError as error:
            if not error.retryable:
                raise
        else:
            return


def _play(server: MariaDb, database: str, seed: int, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    chance = random.Random(seed)
    with server.connect(database=database) as connection, connection.cursor() as cursor:
        for each in _TABLES:
            cursor.execute(each)
        if chance.random() < 0.5:
            cursor.execute("INSERT INTO t SELECT seq, 'old', 'old', seq, NULL FROM seq_1_to_5000")
    work = Workload(server, database, chance)
    with Session() as session:
        password = PASSWORD.replace("'", "''")
        session.execute(_SINKS.format(password=password, port=server.port, database=database))
        with capturing(session):
            for step in range(steps):
                for _ in range(chance.randrange(60)):
                    work.change()
                if not step:
                    work.end()  # reading begins once the transactions prepared before it have ended
                if chance.random() < 0.4:
                    _kill_captures()
                if chance.random() < 0.3:
                    server.stop()
                    assert server.start()
                with monkeypatch.context() as patch:
                    patch.setattr(failpoint, "_passes", Counter())
                    rule = (
                        f"{chance.choice(_POINTS)}#{chance.randint(1, 4)}=fail"
                        if chance.random() < 0.5
                        else "none=fail"
                    )
                    for name, value in armed(rule).items():
                        patch.setenv(name, value)
                    _catch_up(session, turn=step + 1)
                _check(server, database)
            work.end()
            _catch_up(session, turn=steps + 1)
        _check(server, database)


@pytest.mark.parametrize("seed", [1])
def test_tables_are_the_servers(
    server: MariaDb, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.chdir(tmp_path)
    _play(server, database, seed, monkeypatch, steps=4)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_tables_are_the_servers_at_length(
    server: MariaDb, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.chdir(tmp_path)
    _play(server, database, seed, monkeypatch, steps=10)
