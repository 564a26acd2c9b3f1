"""A real MariaDB server with a row-based binary log, or a MySQL server if `SINKQL_MYSQLD` names one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from support.authority import authority
from support.patience import PATIENCE_S, Deadline
from support.port import held_ports
from support.programs import need

PASSWORD = "pass word's"
MYSQLD = os.environ.get("SINKQL_MYSQLD")
"""The program of a MySQL server, for test runs on MySQL instead of MariaDB."""

_SETTINGS = (
    "--bind-address=127.0.0.1", "--server-id=1", "--log-bin=binlog", "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL", "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=2",
    "--performance-schema=OFF", "--binlog-expire-logs-seconds=864000", "--skip-name-resolve",
    "--max-allowed-packet=64M", "--local-infile=1",
)  # fmt: skip
_OF_MARIADB = ("--binlog-format=ROW", "--innodb-log-file-size=16M", "--gtid-strict-mode=1")
_OF_MYSQL = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--mysqlx=OFF", "--innodb-redo-log-capacity=32M",
             "--secure-file-priv=")  # fmt: skip


@dataclass
class MariaDb:
    """A server on a port of this machine. `root` has no password; `reader` has `PASSWORD` and a capture's rights."""

    folder: Path
    port: int
    trusted: Path
    settings: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def connect(self, **options: Any) -> Any:
        """Return a connection of PyMySQL, by default with autocommit."""
        given = {"user": "root", "autocommit": True, "charset": "utf8mb4", "ssl_disabled": True, **options}
        return pymysql.connect(host="127.0.0.1", port=self.port, **given)

    def run(self, *statements: str) -> None:
        """Run statements, by default each in a transaction."""
        with self.connect() as connection, connection.cursor() as cursor:
            for each in statements:
                cursor.execute(each)

    def rows(self, query: str) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(query)
            found: Sequence[tuple[Any, ...]] = cursor.fetchall()
            return found

    def start(self) -> bool:
        """Start the server; return False if another process took its port."""
        identity = self.trusted.with_name("server.pem")
        own = _OF_MYSQL if MYSQLD else _OF_MARIADB
        arguments = [
            MYSQLD or need("mariadbd"), "--no-defaults", *_as_root("--user=root"), f"--datadir={self.folder / 'data'}",
            f"--socket={self.folder / 's'}", f"--port={self.port}", f"--ssl-ca={self.trusted}",
            f"--ssl-cert={identity}", f"--ssl-key={identity}", *_SETTINGS, *own, *self.settings,
        ]  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log)
        deadline = Deadline()
        while self.process.poll() is None:
            deadline.check("an answer")
            try:
                self.connect().close()
                return True
            except pymysql.Error:
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(timeout=0.05)
        return False

    def stop(self) -> None:
        """Kill the server, like a crash."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE_S)
            self.process = None


@contextmanager
def mariadb(folder: Path, *settings: str) -> Iterator[MariaDb]:
    """Run a server with its data in `folder` until the block ends."""
    program = "mariadb-install-db" if MYSQLD else need("mariadbd") and need("mariadb-install-db")
    more = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
    if MYSQLD:
        everybody = folder / "init.sql"
        everybody.write_text("CREATE USER root@'127.0.0.1';\nGRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n")
        program, more = MYSQLD, ["--initialize-insecure", f"--init-file={everybody}"]
    own = ["--no-defaults", f"--datadir={folder / 'data'}", *_as_root("--user=root")]
    done = subprocess.run([program, *own, *more], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    trusted, _ = authority(folder)
    with held_ports(1) as (port,):
        server = MariaDb(folder, port, trusted, settings)
        try:
            assert server.start(), (folder / "log").read_text()
            _add_reader(server)
            yield server
        finally:
            server.stop()


def _add_reader(server: MariaDb) -> None:
    password = PASSWORD.replace("'", "''")
    more = "REPLICATION CLIENT, XA_RECOVER_ADMIN" if MYSQLD else "BINLOG MONITOR"
    server.run(
        f"CREATE USER reader@'%' IDENTIFIED BY '{password}'",
        f"GRANT SELECT, REPLICATION SLAVE, {more} ON *.* TO reader@'%'",
    )


def _as_root(argument: str) -> tuple[str, ...]:
    return (argument,) if os.geteuid() == 0 else ()
