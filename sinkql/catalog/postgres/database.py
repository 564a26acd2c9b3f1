"""An open catalog in a Postgres database: create or upgrade its tables, and run its transactions."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row

from sinkql.catalog.address import ANOTHER, Address, ServerUrl
from sinkql.catalog.postgres import schema
from sinkql.catalog.postgres.connection import Connection, Link
from sinkql.catalog.postgres.failure import busy, coded
from sinkql.catalog.sqlite.connection import Connection as FileConnection
from sinkql.catalog.sqlite.database import Memory
from sinkql.catalog.sqlite.private_file import make_private_folder
from sinkql.catalog.sqlite.schema import Layout
from sinkql.connector_api.dead_connection import GuardedConnection, ResponseWatch, backend_pid, is_backend_active
from sinkql.errors import NoCatalogError

BUSY_SECONDS = 30
_MOST_IDLE = 2  # idle connections
_DEFAULTS: dict[str, Any] = {
    "application_name": "sinkql",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Connection parameters that a URL can override; they detect a lost host within a lease's time."""
_MOST_IDLE_SECONDS = 60
"""The most seconds that a transaction may be idle: otherwise a lost host would lock out all others."""


class ServerDatabase:
    """An open catalog in Postgres.

    Concurrent transactions use separate connections, which are reused later. Forked processes open separate
    connections. Opening raises SQ4102 (newer version), SQ4104 (locked too long), SQ4113 (URL), SQ4115 (`existing`, but
    missing), SQ4150 (no answer), SQ4151 (login), SQ4152 (no database), SQ4153 (privileges), SQ4154 (another program's
    schema) and SQ4156 (pooler without transactions).
    """

    def __init__(self, url: ServerUrl, layout: Layout, *, existing: bool = False) -> None:
        self._url = url
        self._layout = layout
        self._pid = os.getpid()
        self._idle: list[Link] = []
        self._inherited: list[list[Link]] = []
        self._turn, self._showing = threading.Lock(), threading.Lock()
        self._shown: Memory | None = None
        schema_name = schema.quoted(url.schema)
        key = int.from_bytes(hashlib.sha256(f"sinkql {url.schema}".encode()).digest()[:8], signed=True)
        # One message to the server, which also works with a pooler that assigns connections per transaction.
        self._begin_read = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = {schema_name}"
        self._begin_write = (
            f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL search_path = {schema_name}; "
            f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'; "
            f"SET LOCAL idle_in_transaction_session_timeout = '{_MOST_IDLE_SECONDS}s'; "
            f"SELECT pg_catalog.pg_advisory_xact_lock({key})"
        )
        self._upgrade(existing=existing)
        if not existing:
            make_private_folder(url.folder)

    @property
    def address(self) -> Address:
        """Return the address of the database."""
        return self._url

    @property
    def folder(self) -> Path:
        """Return this machine's folder for tables, logs and the state of sinks."""
        return self._url.folder

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open the only transaction of all hosts that may write."""
        # Threads of one process wait here, without a connection.
        self._adopt_fork()
        turn = self._turn
        if not turn.acquire(timeout=BUSY_SECONDS):
            raise busy(self._url)
        try:
            with coded(self._url), self._transaction(self._begin_write) as connection:
                yield connection
        finally:
            turn.release()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a read-only transaction over one state of the database."""
        with coded(self._url), self._transaction(self._begin_read) as connection:
            yield connection

    @contextmanager
    def views(self) -> Iterator[FileConnection]:
        """Open a read-only SQLite transaction over a copy of the rows that system relations show."""
        self._adopt_fork()
        with self._showing:
            if self._shown is None:
                self._shown = Memory.empty(self._layout, self._url, self.folder)
            with self.read() as connection, self._shown.write() as copy:
                schema.refresh(copy, connection)
            with self._shown.read() as shown:
                yield shown

    def copy(self) -> Memory:
        """Return a copy of the current content in memory, for one thread."""
        memory = Memory.empty(self._layout, self._url, self.folder)
        with self.read() as connection, memory.write() as copy:
            schema.fill(copy, connection)
        return memory

    def replace(self, copy: Memory) -> None:
        """Replace the content of the database with a copy's."""
        with copy.read() as source, self.write() as connection:
            schema.replace(connection, source)

    def damage(self) -> list[str]:
        """Return an empty list: the server checks its pages."""
        return []

    def close(self) -> None:
        """Close idle connections; the next transaction opens a new one."""
        self._adopt_fork()
        idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    # --- connections -------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        link = self._begin(begin)
        idle = self._idle
        try:
            yield Connection(link)
            if link.execute("COMMIT").statusmessage != "COMMIT":  # a statement failed, and the caller ignored it
                raise psycopg.errors.InFailedSqlTransaction("the transaction was rolled back")
        except BaseException:
            _end_transaction(link)
            raise
        finally:
            if idle is self._idle and len(idle) < _MOST_IDLE and _is_usable(link):
                idle.append(link)
            else:
                link.close()

    def _begin(self, begin: str) -> Link:
        """Return a connection of this process with an open transaction."""
        self._adopt_fork()
        while True:
            try:
                link, reused = self._idle.pop(), True
            except IndexError:
                link, reused = self._connect(), False
            try:
                link.execute(begin)
            except psycopg.OperationalError:
                lost = reused and link.closed  # while it was idle: the next connection may work
                link.close()
                if not lost:
                    raise
            except BaseException:
                link.close()
                raise
            else:
                return link

    def _connect(self) -> Link:
        parameters = {**_DEFAULTS, **conninfo_to_dict(self._url.libpq), "client_encoding": "utf8"}
        link = GuardedConnection.connect(
            **parameters,
            autocommit=True,  # transactions begin explicitly
            prepare_threshold=None,  # poolers may not support prepared statements
            row_factory=namedtuple_row,
        )
        link.silence = ResponseWatch(link.fileno, partial(self._is_working, None))
        try:
            link.silence = ResponseWatch(link.fileno, partial(self._is_working, backend_pid(link)))
        except psycopg.Error:
            link.close()
            raise
        return link

    def _is_working(self, session: int | None) -> bool:
        """Ask the server over a new connection whether it is processing a session's request."""
        with closing(self._connect()) as link:
            return is_backend_active(link, session)

    def _adopt_fork(self) -> None:
        """After a fork, leave connections and locks to the parent process."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._inherited.append(self._idle)
            self._idle = []
            self._turn, self._showing, self._shown = threading.Lock(), threading.Lock(), None

    def _upgrade(self, *, existing: bool) -> None:
        newest = self._layout.version
        with self.read() as connection:
            self.previous_version = version = schema.version_of(connection, self._url, newest)
            """The version of the catalog before it was opened; 0 if it did not exist."""
        if version == newest:
            return
        if version == 0 and existing:
            hint = f"Run sinkql exec FILE to create it, or {ANOTHER}."
            raise NoCatalogError("SQ4115", f'catalog "{self._url}" does not exist', hint=hint)
        with self.write() as connection:
            # Another process may have upgraded it since the check.
            version = schema.version_of(connection, self._url, newest)
            if version < newest:
                schema.make(connection, self._url, self._layout, version)


def _is_usable(link: Link) -> bool:
    return not link.closed and link.info.transaction_status == TransactionStatus.IDLE


def _end_transaction(link: Link) -> None:
    """Roll back, or close a connection that cannot roll back."""
    try:
        if link.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            link.execute("ROLLBACK")
        elif link.info.transaction_status != TransactionStatus.IDLE:
            link.close()
    except psycopg.Error:
        link.close()
