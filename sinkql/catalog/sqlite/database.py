"""An open catalog file: private, checked, up to date and in WAL mode; its transactions and copies."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from sinkql.catalog.address import Address
from sinkql.catalog.sqlite.connection import BUSY_SECONDS, Connection
from sinkql.catalog.sqlite.private_file import check_ours, coded, create_private, locked, make_private
from sinkql.catalog.sqlite.schema import Layout
from sinkql.errors import SinkqlError
from sinkql.machine import clock

_MOST_IDLE = 5  # idle connections


class Database:
    """An open catalog file.

    Concurrent transactions use separate connections, which are reused later. Forked processes open separate
    connections. Opening raises SQ4101 (not a catalog), SQ4102 (newer version), SQ4103 (damaged), SQ4104 (locked too
    long), SQ4105 (cannot be opened or written) and SQ4114 (open to other users).
    """

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path = path.absolute()
        self._inherited: list[list[Connection]] = []
        self._idle: list[Connection] = []
        self._turn, self._pid = threading.Lock(), os.getpid()
        with self._coded():
            make_private(self.path)
            self._place = _place(self.path)
            _use_wal(self.path)
            self._upgrade(layout)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open the only transaction that may write."""
        # A transaction that reads first fails immediately if another one wrote before its write. With the write lock
        # from the start, it waits its turn.
        with self._alone(), self._coded(), self._connected() as connection, _transaction(connection, "BEGIN IMMEDIATE"):
            yield connection

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until no thread of this process writes, without a connection; SQLite would only poll."""
        if self._pid != os.getpid():
            self._turn, self._pid = (
                threading.Lock(),
                os.getpid(),
            )  # after a fork, the holder of the old lock may not exist in this process
        turn = self._turn
        if not turn.acquire(timeout=BUSY_SECONDS):
            raise locked(self.path)
        try:
            yield
        finally:
            turn.release()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a read-only transaction over one state of the file."""
        with self._coded(), self._connected() as connection:
            try:
                connection.execute("PRAGMA query_only = ON")
                with _transaction(connection, "BEGIN"):
                    yield connection
            finally:
                connection.execute("PRAGMA query_only = OFF")

    @property
    def address(self) -> Address:
        """Return the address of the file."""
        return self.path

    @property
    def folder(self) -> Path:
        """Return the file's folder, with tables, logs and the state of sinks."""
        return self.path.parent

    def views(self) -> AbstractContextManager[Connection]:
        """Open a read-only transaction over the system relations, which are views in the file."""
        return self.read()

    def copy(self) -> Memory:
        """Return a copy of the current content in memory, for one thread."""
        memory = Memory(self.address, self.folder)
        with self._coded(), closing(sqlite3.connect(self.path, timeout=BUSY_SECONDS)) as source:
            source.backup(memory.connection)
        return memory

    def damage(self) -> list[str]:
        """Return descriptions of damage to the file's pages."""
        with self.read() as connection:
            messages = connection.scalars("PRAGMA integrity_check")
        return [f"the file is damaged: {message}" for message in messages if message != "ok"]

    def close(self) -> None:
        """Close idle connections; the next transaction opens a new one."""
        with self._coded():
            idle, self._idle = self._idle, []
            for connection in idle:
                connection.close()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Yield a connection of this process to the file that currently has the path."""
        place = _place(self.path)
        if place != self._place:
            if place[0] == self._place[0]:
                self.close()
            else:
                self._inherited.append(self._idle)  # only the parent process may close them
                self._idle = []
            self._place = place
        idle = self._idle
        try:
            connection = idle.pop()
        except IndexError:
            connection = Connection.open(self.path)
        try:
            yield connection
        finally:
            if idle is self._idle and len(idle) < _MOST_IDLE:
                idle.append(connection)
            else:
                connection.close()

    def _coded(self) -> AbstractContextManager[None]:
        return coded(self.path)

    def _upgrade(self, layout: Layout) -> None:
        with self.read() as connection:
            version = layout.version_of(connection, self.path)
            if version == layout.version and layout.current(connection):
                return
        if 0 < version < layout.version:
            moment = clock.now().strftime("%Y%m%dT%H%M%S%fZ")
            back_up(self.path, self.path.with_name(f"{self.path.name}.v{version}-{moment}.backup"))
        with self.write() as connection:
            # Another process may have upgraded it since the check.
            version = layout.version_of(connection, self.path)
            if version < layout.version or not layout.current(connection):
                layout.make(connection, version)


class Memory(Database):
    """The content of a catalog in memory, for one thread: a copy of the catalog at an address, or empty."""

    def __init__(self, address: Address, folder: Path) -> None:
        self.path = Path(":memory:")
        self._address, self._folder = address, folder
        self.connection = Connection.open(":memory:")

    @classmethod
    def empty(cls, layout: Layout, address: Address = Path(":memory:"), folder: Path = Path()) -> Memory:
        """Return an empty catalog."""
        memory = cls(address, folder)
        with memory.write() as connection:
            layout.make(connection, 0)
        return memory

    @property
    def address(self) -> Address:
        """Return the address of the catalog."""
        return self._address

    @property
    def folder(self) -> Path:
        """Return the folder with the catalog's tables, logs and the state of sinks."""
        return self._folder

    def copy(self) -> Memory:
        """Return a copy."""
        memory = Memory(self.address, self.folder)
        self.connection.backup(memory.connection)
        return memory

    def close(self) -> None:
        """Discard the content."""
        self.connection.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        yield

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        yield self.connection


@contextmanager
def _transaction(connection: Connection, begin: str) -> Iterator[None]:
    try:
        connection.execute(begin)  # within try, as an interrupt may follow immediately
        yield
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def _place(path: Path) -> tuple[int, int, int]:
    """Return a value that changes after a fork, or if another file has the path."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return os.getpid(), 0, 0
    return os.getpid(), status.st_dev, status.st_ino


def _use_wal(path: Path) -> None:
    """Switch the file to WAL mode permanently; refuse a foreign file before changing it."""
    plain = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        check_ours(plain, path)
        until = clock.monotonic() + BUSY_SECONDS
        while plain.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            # Wait for the write lock, because changing the mode fails immediately while it is held.
            plain.execute("BEGIN IMMEDIATE")
            plain.execute("COMMIT")
            try:
                plain.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:  # another writer was faster
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or clock.monotonic() > until:
                    raise
    finally:
        plain.close()


def back_up(path: Path, target: Path, *, beside: Path | None = None) -> None:
    """Copy a catalog file to a new file; raises as opening does, and SQ4117 as `write_copy`."""
    with coded(path), closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as source:
        check_ours(source, path)
        write_copy(source, target, beside=beside)


def write_copy(source: sqlite3.Connection, target: Path, *, beside: Path | None = None) -> None:
    """Write the content of an open catalog to a new file.

    Raises SQ4117 if the new file, or the folder `beside` it, exists.
    """
    for path in (target, beside):
        if path is not None and path.exists():
            raise SinkqlError("SQ4117", f'file "{path}" already exists', hint="Name another file.")
    with coded(target):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_private(target)
        with closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
