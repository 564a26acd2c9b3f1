"""A URL → an open catalog in a Postgres database, its tables made or up to date; its transactions."""

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
_KEPT = 2  # connections, while nobody uses them
_DEFAULTS: dict[str, Any] = {
    "application_name": "sinkql",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""What a URL may say otherwise: a host that is cut off is noticed within a lease's time."""
_HELD = 60
"""Seconds: a transaction that does nothing for so long is ended; a host that is cut off would lock out all others."""


class ServerDatabase:
    """An open catalog in Postgres. Transactions at a time have a connection each, kept for the next; forks share none.

    Opening raises SQ4102 (a newer one), SQ4104 (locked for too long), SQ4113 (the URL), SQ4115 (`existing`, and there
    is none), SQ4150 (no answer), SQ4151 (login), SQ4152 (no database), SQ4153 (privileges), SQ4154 (another program's),
    SQ4156 (a pooler without transactions).
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
        # One message to the server, which also a pooler that gives out a connection a transaction understands.
        self._begin_read = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = {schema_name}"
        self._begin_write = (
            f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL search_path = {schema_name}; "
            f"SET LOCAL lock_timeout = '{BUSY_SECONDS}s'; "
            f"SET LOCAL idle_in_transaction_session_timeout = '{_HELD}s'; "
            f"SELECT pg_catalog.pg_advisory_xact_lock({key})"
        )
        self._bring_up_to_date(existing=existing)
        if not existing:
            make_private_folder(url.folder)

    @property
    def address(self) -> Address:
        """Return what the database is opened by."""
        return self._url

    @property
    def folder(self) -> Path:
        """Return where this machine keeps tables, logs and the state of sinks."""
        return self._url.folder

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open the only transaction that may write, of all hosts."""
        # Threads of one process wait here, and do not each take a connection for that.
        self._here()
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
        """Open a read-only transaction, which sees one state of the database."""
        with coded(self._url), self._transaction(self._begin_read) as connection:
            yield connection

    @contextmanager
    def views(self) -> Iterator[FileConnection]:
        """Open a read-only transaction of SQLite over a copy in memory of what the system relations show."""
        self._here()
        with self._showing:
            if self._shown is None:
                self._shown = Memory.empty(self._layout, self._url, self.folder)
            with self.read() as connection, self._shown.write() as copy:
                schema.refresh(copy, connection)
            with self._shown.read() as shown:
                yield shown

    def copy(self) -> Memory:
        """Return a copy of what the database holds now, in memory, for one thread."""
        found = Memory.empty(self._layout, self._url, self.folder)
        with self.read() as connection, found.write() as copy:
            schema.fill(copy, connection)
        return found

    def replace(self, copy: Memory) -> None:
        """Put what a copy holds in the place of what the database does."""
        with copy.read() as source, self.write() as connection:
            schema.replace(connection, source)

    def damage(self) -> list[str]:
        """Return nothing: the server looks after its pages itself."""
        return []

    def close(self) -> None:
        """Close the connections that are kept; the next transaction opens one again."""
        self._here()
        idle, self._idle = self._idle, []
        for link in idle:
            link.close()

    # --- connections -------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        link = self._begun(begin)
        idle = self._idle
        try:
            yield Connection(link)
            if link.execute("COMMIT").statusmessage != "COMMIT":  # a statement of it failed, and somebody went on
                raise psycopg.errors.InFailedSqlTransaction("the transaction was rolled back")
        except BaseException:
            _end(link)
            raise
        finally:
            if idle is self._idle and len(idle) < _KEPT and _usable(link):
                idle.append(link)
            else:
                link.close()

    def _begun(self, begin: str) -> Link:
        """Return a connection of this process in which a transaction has begun."""
        self._here()
        while True:
            try:
                link, kept = self._idle.pop(), True
            except IndexError:
                link, kept = self._connect(), False
            try:
                link.execute(begin)
            except psycopg.OperationalError:
                lost = kept and link.closed  # since it was kept: the next one may be there
                link.close()
                if not lost:
                    raise
            except BaseException:
                link.close()
                raise
            else:
                return link

    def _connect(self) -> Link:
        given = {**_DEFAULTS, **conninfo_to_dict(self._url.libpq), "client_encoding": "utf8"}
        link = GuardedConnection.connect(
            **given,
            autocommit=True,  # transactions begin where they are told to
            prepare_threshold=None,  # which a pooler may not understand
            row_factory=namedtuple_row,
        )
        link.silence = ResponseWatch(link.fileno, partial(self._works, None))
        try:
            link.silence = ResponseWatch(link.fileno, partial(self._works, backend_pid(link)))
        except psycopg.Error:
            link.close()
            raise
        return link

    def _works(self, session: int | None) -> bool:
        """Ask the server over a new connection whether it works on what a session has asked for."""
        with closing(self._connect()) as link:
            return is_backend_active(link, session)

    def _here(self) -> None:
        """Leave connections and locks to the process that this one was forked from."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._inherited.append(self._idle)
            self._idle = []
            self._turn, self._showing, self._shown = threading.Lock(), threading.Lock(), None

    def _bring_up_to_date(self, *, existing: bool) -> None:
        newest = self._layout.version
        with self.read() as connection:
            self.found = version = schema.version_of(connection, self._url, newest)
            """The version that the catalog had before it was opened; 0 where there was none."""
        if version == newest:
            return
        if version == 0 and existing:
            hint = f"Run sinkql exec FILE to make it, or {ANOTHER}."
            raise NoCatalogError("SQ4115", f'catalog "{self._url}" does not exist', hint=hint)
        with self.write() as connection:
            # Another process may have done it meanwhile.
            version = schema.version_of(connection, self._url, newest)
            if version < newest:
                schema.make(connection, self._url, self._layout, version)


def _usable(link: Link) -> bool:
    return not link.closed and link.info.transaction_status == TransactionStatus.IDLE


def _end(link: Link) -> None:
    """Roll back, or close a connection that cannot."""
    try:
        if link.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            link.execute("ROLLBACK")
        elif link.info.transaction_status != TransactionStatus.IDLE:
            link.close()
    except psycopg.Error:
        link.close()
