"""A path → an open catalog file, private, checked, up to date and in WAL; its transactions.

A catalog file, or one in memory → a file with a copy of it at one moment.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sinkql.catalog.address import Address
from sinkql.catalog.sqlite.connection import BUSY_SECONDS, Connection
from sinkql.catalog.sqlite.private_file import check_ours, coded, create_private, locked, make_private
from sinkql.catalog.sqlite.schema import Layout
from sinkql.errors import SinkqlError

_KEPT = 5  # connections, while nobody uses them


class Database:
    """An open catalog file. Transactions at a time have a connection each, kept for the next; forks share none.

    Opening raises SQ4101 (not a catalog), SQ4102 (a newer one), SQ4103 (damaged), SQ4104 (locked for too long), SQ4105
    (cannot be opened or written), SQ4114 (open to other users).
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
            self._bring_up_to_date(layout)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open the only transaction that may write."""
        # One that begins by reading and writes later fails at once if another one wrote in between; one that takes the
        # write lock first waits its turn.
        with self._alone(), self._coded(), self._connected() as connection, _transaction(connection, "BEGIN IMMEDIATE"):
            yield connection

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until no thread of this process writes, which takes no connection; SQLite only looks again and again."""
        if self._pid != os.getpid():
            self._turn, self._pid = threading.Lock(), os.getpid()  # who had the other one may not be in this process
        turn = self._turn
        if not turn.acquire(timeout=BUSY_SECONDS):
            raise locked(self.path)
        try:
            yield
        finally:
            turn.release()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a read-only transaction, which sees one state of the file."""
        with self._coded(), self._connected() as connection:
            try:
                connection.execute("PRAGMA query_only = ON")
                with _transaction(connection, "BEGIN"):
                    yield connection
            finally:
                connection.execute("PRAGMA query_only = OFF")

    @property
    def address(self) -> Address:
        """Return what the file is opened by."""
        return self.path

    @property
    def folder(self) -> Path:
        """Return the file's folder, where tables, logs and the state of sinks are too."""
        return self.path.parent

    def views(self) -> AbstractContextManager[Connection]:
        """Open a read-only transaction over the system relations, which are views in the file."""
        return self.read()

    def copy(self) -> Memory:
        """Return a copy of what the file holds now, in memory, for one thread."""
        found = Memory(self.address, self.folder)
        with self._coded(), closing(sqlite3.connect(self.path, timeout=BUSY_SECONDS)) as source:
            source.backup(found.connection)
        return found

    def damage(self) -> list[str]:
        """Return what is wrong with the file's pages."""
        with self.read() as connection:
            found = connection.scalars("PRAGMA integrity_check")
        return [f"the file is damaged: {each}" for each in found if each != "ok"]

    def close(self) -> None:
        """Close the connections that are kept; the next transaction opens one again."""
        with self._coded():
            idle, self._idle = self._idle, []
            for connection in idle:
                connection.close()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        """Lend a connection of this process to the file that is at the path now."""
        place = _place(self.path)
        if place != self._place:
            if place[0] == self._place[0]:
                self.close()
            else:
                self._inherited.append(self._idle)  # closing them is the other process's
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
            if idle is self._idle and len(idle) < _KEPT:
                idle.append(connection)
            else:
                connection.close()

    def _coded(self) -> AbstractContextManager[None]:
        return coded(self.path)

    def _bring_up_to_date(self, layout: Layout) -> None:
        with self.read() as connection:
            version = layout.version_of(connection, self.path)
            if version == layout.version and layout.current(connection):
                return
        if 0 < version < layout.version:
            moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
            back_up(self.path, self.path.with_name(f"{self.path.name}.v{version}-{moment}.backup"))
        with self.write() as connection:
            # Another process may have done it meanwhile.
            version = layout.version_of(connection, self.path)
            if version < layout.version or not layout.current(connection):
                layout.make(connection, version)


class Memory(Database):
    """What a catalog holds, in memory, for one thread: a copy of the one at an address, or empty."""

    def __init__(self, address: Address, folder: Path) -> None:
        self.path = Path(":memory:")
        self._address, self._folder = address, folder
        self.connection = Connection.open(":memory:")

    @classmethod
    def empty(cls, layout: Layout, address: Address = Path(":memory:"), folder: Path = Path()) -> Memory:
        """Return a catalog with nothing in it."""
        made = cls(address, folder)
        with made.write() as connection:
            layout.make(connection, 0)
        return made

    @property
    def address(self) -> Address:
        """Return what the catalog is opened by."""
        return self._address

    @property
    def folder(self) -> Path:
        """Return where the catalog's tables, logs and the state of sinks are."""
        return self._folder

    def copy(self) -> Memory:
        """Return a copy of it."""
        found = Memory(self.address, self.folder)
        self.connection.backup(found.connection)
        return found

    def close(self) -> None:
        """Forget it."""
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
        connection.execute(begin)  # an interrupt may come right after it
        yield
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def _place(path: Path) -> tuple[int, int, int]:
    """Return a value that changes when the process is another (a fork), or the file at the path is another."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return os.getpid(), 0, 0
    return os.getpid(), found.st_dev, found.st_ino


def _use_wal(path: Path) -> None:
    """Switch the file to WAL, which stays with it. Refuses a foreign file before changing anything in it."""
    plain = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        check_ours(plain, path)
        until = time.monotonic() + BUSY_SECONDS
        while plain.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            # Waits behind the lock of a write, where changing the mode itself fails at once.
            plain.execute("BEGIN IMMEDIATE")
            plain.execute("COMMIT")
            try:
                plain.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:  # the next writer came in between
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
    finally:
        plain.close()


def back_up(path: Path, target: Path, *, beside: Path | None = None) -> None:
    """Copy a catalog file at one moment into a new one; raises as opening does, and SQ4117 as `write_copy`."""
    with coded(path), closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as source:
        check_ours(source, path)
        write_copy(source, target, beside=beside)


def write_copy(source: sqlite3.Connection, target: Path, *, beside: Path | None = None) -> None:
    """Write what an open catalog has into a new file.

    Raises SQ4117 if the new file, or what is to come `beside` it, is there already.
    """
    for each in (target, beside):
        if each is not None and each.exists():
            raise SinkqlError("SQ4117", f'file "{each}" already exists', hint="Name another file.")
    with coded(target):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_private(target)
        with closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
