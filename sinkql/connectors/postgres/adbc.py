"""Read rows as records through ADBC, which collects the values of a query without a Python object for each row.

The second connection imports the snapshot of psycopg's transaction. If anything fails, the caller reads the same rows
through psycopg, so a failure here is never an error of the source.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from sinkql.connector_api.dead_connection import ResponseWatch
from sinkql.connectors.postgres.client import SILENCE_S
from sinkql.connectors.postgres.slot import Connection

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import adbc_driver_manager

_NUMBERS = count()
_MOST_NUMBERS = 10_000
_BATCH_BYTES = 2 << 20
"""Bytes of a batch, so that the C library can reuse its memory."""


class AdbcFailedError(Exception):
    """A read through ADBC failed. The message may contain the user's name and values of rows."""


class Server(Protocol):
    """The server of a source, to which further connections can be opened."""

    def address(self, first: Connection, **more: object) -> AbstractContextManager[str]:
        """Yield the connection string of another connection like `first`, valid in the block."""

    def is_active(self, session: int | None) -> bool:
        """Return whether the server works on the request of a session; may raise."""


@dataclass(frozen=True, slots=True)
class ExportedSnapshot:
    """A snapshot that a transaction has exported under a name; `text` is what pg_current_snapshot returns."""

    name: str
    text: str


class AdbcDriver:
    """Opens the ADBC connections of one stream, until the first one is refused.

    The driver reads all types and attributes of a database before it connects, in 30 ms of CPU and 0.2 ms a table.
    Therefore all chunks of a stream share one.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._database: adbc_driver_manager.AdbcDatabase | None = None
        self._is_refused = find_spec("adbc_driver_postgresql") is None  # an extra

    @property
    def is_usable(self) -> bool:
        """Return whether the driver is installed, and no connection was refused."""
        return not self._is_refused

    def refuse(self) -> None:
        """Open no further connections."""
        self._is_refused = True

    def open(self, first: Connection, snapshot: ExportedSnapshot, settings: str) -> AdbcConnection:
        """Open a connection that sees a snapshot which `first` has exported; raise AdbcFailedError.

        After a failure no further connections are opened.
        """
        timeout = SILENCE_S * 1000 + next(_NUMBERS) % _MOST_NUMBERS
        with self._lock:
            if self._is_refused:
                raise AdbcFailedError("an earlier connection was refused")
            try:
                with _watch(timeout, lambda: False), _failures():
                    with self._server.address(first, tcp_user_timeout=timeout) as address:
                        opened = self._connect(address)
                    return AdbcConnection(opened, snapshot, settings, self._server, timeout)
            except AdbcFailedError:
                self.refuse()
                raise

    def _connect(self, address: str) -> adbc_driver_manager.AdbcConnection:
        import adbc_driver_manager
        import adbc_driver_postgresql

        if self._database is None:
            self._database = adbc_driver_postgresql.connect(address)
        else:
            self._database.set_options(uri=address)
        try:
            return adbc_driver_manager.AdbcConnection(self._database)
        finally:
            self._database.set_options(uri="")  # it contains the password

    def close(self) -> None:
        """Release the driver, after all connections were closed."""
        self.refuse()
        with self._lock:
            if self._database is not None:
                with suppress(RuntimeError):  # a connection is open yet: the driver is released after it
                    self._database.close()
            self._database = None


class AdbcConnection:
    """A transaction that sees an imported snapshot."""

    def __init__(
        self,
        connection: adbc_driver_manager.AdbcConnection,
        snapshot: ExportedSnapshot,
        settings: str,
        server: Server,
        timeout: int,
    ) -> None:
        self._connection = connection
        try:
            self._run(settings)
            self._run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._run(f"SET TRANSACTION SNAPSHOT '{snapshot.name}'")
            (batch,) = self._query("SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_current_snapshot()::text")
            ((session, text),) = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            if text != snapshot.text:
                raise AdbcFailedError("another server has a snapshot of the same name")
        except BaseException:
            connection.close()
            raise
        self._silence = _watch(timeout, partial(server.is_active, session))

    def lock(self, table: str) -> None:
        """Lock a table, given as SQL, that another connection has locked; raise AdbcFailedError.

        This fails if a third transaction waits for that lock: it would wait for both, and a wait here would have no
        end.
        """
        with self._silence, _failures():
            self._run(f"LOCK TABLE {table} IN ACCESS SHARE MODE NOWAIT")

    def read(self, query: str) -> list[pa.BinaryArray]:
        """Return the parts of the only column of a query, which is `bytea`; raise AdbcFailedError."""
        with self._silence, _failures():
            return [batch.column(0) for batch in self._query(query) if batch.num_rows]

    def close(self) -> None:
        """End the transaction."""
        with suppress(Exception):  # its rows were read, or are read through psycopg
            self._connection.close()

    def _run(self, text: str) -> None:
        from adbc_driver_manager import AdbcStatement

        with AdbcStatement(self._connection) as statement:
            statement.set_sql_query(text)
            statement.execute_update()

    def _query(self, text: str) -> list[pa.RecordBatch]:
        from adbc_driver_manager import AdbcStatement

        with AdbcStatement(self._connection) as statement:
            statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": _BATCH_BYTES})
            statement.set_sql_query(text)
            stream, _ = statement.execute_query()
            with pa.RecordBatchReader.from_stream(stream) as reader:
                return list(reader)


@contextmanager
def _failures() -> Iterator[None]:
    """Translate the failures of the driver."""
    import adbc_driver_manager

    try:
        yield
    except (adbc_driver_manager.Error, OSError, pa.ArrowException) as error:
        raise AdbcFailedError(str(error)) from error


def _watch(timeout: int, alive: Callable[[], bool]) -> ResponseWatch:
    """Return a watch over the connection that has a TCP timeout of so many milliseconds."""
    return ResponseWatch(partial(_find_socket, timeout), alive)


def _find_socket(timeout: int) -> int:
    """Return the open socket with a TCP timeout, which is different for each connection; raise OSError without one.

    The driver does not return its socket.
    """
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:") and _tcp_timeout(int(name)) == timeout:
                return int(name)
    raise OSError("no connection")


def _tcp_timeout(fileno: int) -> int:
    connected = socket.socket(fileno=fileno)
    try:
        return connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    finally:
        connected.detach()  # the driver closes it
