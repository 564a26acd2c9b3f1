"""A path → an open catalog file, private, checked, up to date and in WAL; its transactions."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import StaticPool

from sinkql.catalog.file.backup import back_up
from sinkql.catalog.file.layout import Layout
from sinkql.catalog.file.sqlite_file import BUSY_SECONDS, check_ours, coded, make_private


class Database:
    """An open catalog file. Transactions at a time have a connection each, kept for the next; forks share none.

    Opening raises SQ4101 (not a catalog), SQ4102 (a newer one), SQ4103 (damaged), SQ4104 (locked for too long), SQ4105
    (cannot be opened or written), SQ4114 (open to other users).
    """

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path = path.absolute()
        self._inherited: list[Engine] = []
        with self._coded():
            make_private(self.path)
            self._place = _place(self.path)
            self._engine = _engine(self.path)
            _use_wal(self._engine)
            self._bring_up_to_date(layout)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open the only transaction that may write."""
        with self._coded(), self._connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a read-only transaction, which sees one state of the file."""
        with self._coded(), self._connect() as plain:
            connection = plain.execution_options(sinkql_begin="BEGIN")
            _set(connection, "query_only = ON")
            try:
                with connection.begin():
                    yield connection
            finally:
                _set(connection, "query_only = OFF")

    def close(self) -> None:
        """Close the connections that are kept; the next transaction opens one again."""
        with self._coded():
            self._engine.dispose()

    def _connect(self) -> Connection:
        """Return a connection of this process to the file that is at the path now."""
        place = _place(self.path)
        if place != self._place:
            if place[0] == self._place[0]:
                self._engine.dispose()
            else:
                self._inherited.append(self._engine)  # closing it is the other process's
            self._engine, self._place = _engine(self.path), place
        return self._engine.connect()

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


class Copy(Database):
    """What a catalog file holds now, copied into memory for one thread."""

    def __init__(self, original: Database) -> None:
        self.path = original.path
        memory = sqlite3.connect(":memory:", check_same_thread=False)
        source = sqlite3.connect(original.path, timeout=BUSY_SECONDS)
        try:
            with self._coded():
                source.backup(memory)
        finally:
            source.close()
        self._engine = _configured(sa.create_engine("sqlite://", poolclass=StaticPool, creator=lambda: memory))

    def _connect(self) -> Connection:
        return self._engine.connect()


def _engine(path: Path) -> Engine:
    url = sa.URL.create("sqlite", database=str(path))
    return _configured(sa.create_engine(url, max_overflow=-1, connect_args={"timeout": BUSY_SECONDS}))


def _set(connection: Connection, pragma: str) -> None:
    """Set a pragma outside of any transaction, where a statement of SQLAlchemy's would begin one."""
    plain = connection.connection.dbapi_connection
    assert plain is not None
    plain.cursor().execute(f"PRAGMA {pragma}")


def _place(path: Path) -> tuple[int, int, int]:
    """Return a value that changes when the process is another (a fork), or the file at the path is another."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return os.getpid(), 0, 0
    return os.getpid(), found.st_dev, found.st_ino


def _configured(engine: Engine) -> Engine:
    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, record: object) -> None:
        connection.isolation_level = None  # transactions begin as said below, not where the driver thinks fit
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that begins by reading and writes later fails at once if another one wrote in between; one
        # that takes the write lock first waits its turn.
        connection.exec_driver_sql(connection.get_execution_options().get("sinkql_begin", "BEGIN IMMEDIATE"))

    return engine


def _use_wal(engine: Engine) -> None:
    """Switch the file to WAL, which stays with it. Refuses a foreign file before changing anything in it."""
    plain = sqlite3.connect(str(engine.url.database), timeout=BUSY_SECONDS, isolation_level=None)
    try:
        check_ours(plain, Path(str(engine.url.database)))
        if plain.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            # Waits behind the lock of a write, where changing the mode itself would fail at once.
            plain.execute("BEGIN IMMEDIATE")
            plain.execute("COMMIT")
            plain.execute("PRAGMA journal_mode = WAL")
    finally:
        plain.close()
