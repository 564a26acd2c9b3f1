"""A path → an open catalog file, locked down, checked, migrated and in WAL; its transactions."""

from __future__ import annotations

import os
import shlex
import sqlite3
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import NullPool, StaticPool

from sinkql.catalog import schema
from sinkql.errors import SinkqlError

APPLICATION_ID = 0x53514C31  # "SQL1": what file(1) and we ourselves know the file by
VERSION = 2
BUSY_SECONDS = 30.0
_SMALLEST = 512  # bytes: one page of a database
_UNWRITABLE = ("unable to open", "readonly database", "disk I/O", "disk is full")

CreateViews = Callable[[Connection], None]


class Database:
    """Hold an open catalog file. Every transaction has a connection of its own, so threads and forks share none.

    Opening raises SQ4101 (not a catalog), SQ4102 (a newer one), SQ4103 (damaged), SQ4104 (locked for too long), SQ4105
    (cannot be opened or written), SQ4114 (open to other users).
    """

    def __init__(self, path: Path, create_views: CreateViews) -> None:
        self.path = path.absolute()
        with self._coded():
            _make_file(self.path)
            self._engine = _engine(self.path)
            _use_wal(self._engine)
            self._migrate(create_views)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that nobody else writes beside."""
        with self._coded(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that sees one state of the file and changes nothing."""
        with self._coded(), self._engine.connect() as plain:
            connection = plain.execution_options(sinkql_begin="BEGIN")
            try:
                with connection.begin():
                    connection.exec_driver_sql("PRAGMA query_only = ON")
                    yield connection
            finally:
                self._done_reading(connection)

    def _done_reading(self, connection: Connection) -> None:
        """Do nothing: the connection is closed."""

    def _coded(self) -> AbstractContextManager[None]:
        return coded(self.path)

    def _migrate(self, create_views: CreateViews) -> None:
        with self.read() as connection:
            version = _version(connection, self.path)
        if version == VERSION:
            return
        if version:
            self._back_up(version)
        with self.write() as connection:
            # Another process may have migrated meanwhile.
            if _version(connection, self.path) == VERSION:
                return
            _upgrade(connection)
            create_views(connection)
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.exec_driver_sql(f"PRAGMA user_version = {VERSION}")
            if connection.scalar(sa.select(sa.func.count()).select_from(schema.identity)) == 0:
                connection.execute(schema.identity.insert().values(catalog_id=str(uuid.uuid4()), generation=0))

    def _back_up(self, version: int) -> None:
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
        back_up(self.path, self.path.with_name(f"{self.path.name}.v{version}-{moment}.backup"))


class Copy(Database):
    """Hold what a catalog file holds now, in memory, for one thread."""

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

    def _done_reading(self, connection: Connection) -> None:
        # All transactions are of one connection.
        connection.exec_driver_sql("PRAGMA query_only = OFF")
        connection.rollback()


@contextmanager
def coded(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and the system about a file into coded ones."""
    try:
        yield
    except sa.exc.DatabaseError as error:
        raise _error(error.orig or error, path) from error
    except (sqlite3.DatabaseError, OSError) as error:
        raise _error(error, path) from error


def _error(error: BaseException, path: Path) -> SinkqlError:
    reason = str(error)
    if isinstance(error, sqlite3.OperationalError) and "locked" in reason:
        return SinkqlError(
            "SQ4104",
            f'catalog file "{path}" stays locked by another process',
            detail=reason,
            hint="Try again; if it lasts, look for a program that keeps the file open.",
        )
    if "not a database" in reason:
        return _foreign(path)
    if isinstance(error, OSError) or any(word in reason for word in _UNWRITABLE):
        return SinkqlError(
            "SQ4105",
            f'catalog file "{path}" cannot be written',
            detail=reason,
            hint="Check that its folder exists and is yours, and that the disk is not full.",
        )
    return SinkqlError(
        "SQ4103",
        f'catalog file "{path}" is damaged',
        detail=reason,
        hint="Put back a copy of it: beside it lies a backup of the time before its last migration, if it had one.",
    )


def _make_file(path: Path) -> None:
    """Create folder and file for the owner alone, before SQLite would create them for everybody."""
    if not path.parent.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        create_private(path)


def back_up(path: Path, target: Path, *, beside: Path | None = None) -> None:
    """Copy a catalog file at one moment into a new one; raises as opening does.

    Raises SQ4117 if the new file, or what is to come `beside` it, is there already.
    """
    for each in (target, beside):
        if each is not None and each.exists():
            raise SinkqlError("SQ4117", f'file "{each}" is there already', hint="Name another file.")
    with coded(path):
        source = sqlite3.connect(path, timeout=BUSY_SECONDS)
        try:
            check_ours(source, path)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            create_private(target)
            copy = sqlite3.connect(target)
            try:
                source.backup(copy)
            finally:
                copy.close()
        finally:
            source.close()


def version_of(path: Path) -> int:
    """Return the version of a catalog file that is there; raises as opening does."""
    with coded(path):
        plain = sqlite3.connect(path, timeout=BUSY_SECONDS)
        try:
            check_ours(plain, path)
            return int(plain.execute("PRAGMA user_version").fetchone()[0])
        finally:
            plain.close()


def create_private(path: Path) -> None:
    """Create an empty file for its owner alone."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _engine(path: Path) -> Engine:
    return _configured(
        sa.create_engine(
            sa.URL.create("sqlite", database=str(path)), poolclass=NullPool, connect_args={"timeout": BUSY_SECONDS}
        )
    )


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


def check_ours(plain: sqlite3.Connection, path: Path) -> None:
    """Refuse a file of another program (SQ4101), and one that others may use (SQ4114)."""
    # The file is not opened here: closing it would end the locks that other connections of this process hold.
    if 0 < path.stat().st_size < _SMALLEST:  # which SQLite may take for an empty file
        raise _foreign(path)
    (ours,) = plain.execute("PRAGMA application_id").fetchone()
    (count,) = plain.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if ours != APPLICATION_ID and count:
        raise _foreign(path)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SinkqlError(
            "SQ4114",
            f'catalog file "{path}" is open to other users',
            hint=f"Close it with chmod 600 {shlex.quote(str(path))}.",
        )


def _foreign(path: Path) -> SinkqlError:
    return SinkqlError(
        "SQ4101",
        f'file "{path}" is not a SinkQL catalog',
        hint="Name another file, or leave the name out to use .sinkql/catalog.db of the working folder.",
    )


def _version(connection: Connection, path: Path) -> int:
    version = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if version > VERSION:
        raise SinkqlError(
            "SQ4102",
            f'catalog file "{path}" was written by a newer SinkQL',
            detail=f"its version is {version}, the newest that this one knows is {VERSION}",
            hint="Upgrade with pip install --upgrade sinkql.",
        )
    return version


def _upgrade(connection: Connection) -> None:
    from alembic import command  # slow to import, and rarely needed
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
