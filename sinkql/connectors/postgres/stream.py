"""Stream the changes of a source's tables from its replication slot (`sinkql.connector_api.cdc.Stream`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import psycopg

from sinkql.connector_api.cdc import (
    SKIP,
    CapturedSource,
    CapturedTable,
    Event,
    Position,
    PositionAdvanced,
    Reveal,
    Snapshot,
    TableRows,
)
from sinkql.connector_api.read_history import ReadHistory
from sinkql.connectors.postgres.adbc import AdbcDriver
from sinkql.connectors.postgres.adbc import Server as AdbcServer
from sinkql.connectors.postgres.chunk import (
    END,
    ConnectionOpener,
    DroppedError,
    PostgresChunkRead,
    Query,
    TableSize,
    complete,
)
from sinkql.connectors.postgres.client import Login, failure
from sinkql.connectors.postgres.column import binary_as_text
from sinkql.connectors.postgres.connection import PostgresConnection
from sinkql.connectors.postgres.gap_detection import PublicationWatch, forget_known
from sinkql.connectors.postgres.history_check import HistoryCheck, OtherServerError, ReadTransaction
from sinkql.connectors.postgres.pgoutput import HEADER, Messages
from sinkql.connectors.postgres.publication import UNKNOWN
from sinkql.connectors.postgres.publication_monitor import PublicationMonitor
from sinkql.connectors.postgres.replication import Replication
from sinkql.connectors.postgres.rows import GarbledError
from sinkql.connectors.postgres.slot import (
    Connection,
    Timelines,
    acquire_slot,
    application_name,
    drop_slot,
    find_slot,
    format_place,
    identify_server,
    make_slot,
    query_value,
    read_place,
    retained_bytes,
    server_snapshot,
    slot_name,
)
from sinkql.connectors.postgres.type import server_table
from sinkql.errors import SinkqlError
from sinkql.machine import clock

_MOST_RETAINED = 10 << 30


class Server(AdbcServer, Protocol):
    """The server with a source's database."""

    @property
    def options(self) -> PostgresConnection:
        """Return the options of its connection."""

    def connect(self, *, replication: bool = False, application: str = ...) -> Connection:
        """Open a connection; raise SinkqlError."""


Failed = Callable[[psycopg.Error, PostgresConnection], SinkqlError]


class PostgresStream:
    """Reads the slot of one source, and chunks of its tables.

    `begin` opens the replication connection. All queries go through a second connection, and each chunk opens another
    one. Large: the methods are those of a stream, and share its connections.
    """

    unit = "bytes"

    def __init__(self, server: Server, source: CapturedSource, failed: Failed) -> None:
        self._server = server
        self._source = source
        self._failed = failed
        self._slot = slot_name(source.id)
        self._application = application_name(source.id)
        self._connection: Connection | None = None
        self._timelines: Timelines | None = None
        self._replication: Replication | None = None
        self._messages: Messages | None = None
        self._monitor: PublicationMonitor | None = None
        self._stops: tuple[Position, ...] = ()
        self._to = self._confirmed = 0
        self._sizes: dict[str, TableSize] = {}
        self._driver = AdbcDriver(server)
        self._history = ReadHistory(ReadTransaction, source.notes)

    # --- the server ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check that the server is the same as before, and can send changes."""
        with self._translate_errors():
            self._server_timelines()
            level = self._ask("SELECT current_setting('wal_level')")
            if level != "logical":
                raise SinkqlError(
                    "SQ3705",
                    f"the server's wal_level is {level}, so it does not send the changes of tables",
                    hint="Run ALTER SYSTEM SET wal_level = 'logical' on the server, and restart it.",
                )
            if not self._ask("SELECT count(*) FROM pg_publication WHERE pubname = %s", self._publication):
                raise self._unpublished_error()

    @property
    def _publication(self) -> str:
        name: str = self._source.options["publication"]
        return name

    def _unpublished_error(self) -> SinkqlError:
        return SinkqlError(
            "SQ3704",
            f'the database has no publication "{self._publication}" of source "{self._source.name}", or had none '
            "when rows changed",
            hint=f'If it is missing, run CREATE PUBLICATION "{self._publication}" FOR TABLE … on the server. The '
            f"server does not send the changes made without it: {SKIP[0].lower()}{SKIP[1:]}",
        )

    def _server_timelines(self) -> Timelines:
        """Return the server's timelines; raise SQ3703 for another server."""
        if self._timelines is None and self._system != UNKNOWN:
            self._timelines = self._identify_server()
        return self._timelines or Timelines(1)

    @property
    def _system(self) -> str | None:
        """The system identifier of the server that was read."""
        system: str | None = self._source.options.get("tuning", {}).get("system")
        return system

    def _identify_server(self) -> Timelines:
        with self._server.connect(replication=True, application=self._application) as connection:
            system, timelines = identify_server(connection)
        if self._system in (None, system):
            return timelines
        raise SinkqlError(
            "SQ3703",
            f'the server of source "{self._source.name}" is not the one that was read: its system identifier is '
            f"{system}, and was {self._system}",
            hint="Correct HOST and PORT of the connection, or restore the server. If the tables have moved to this "
            "server, for example by pg_upgrade, run ALTER SOURCE … REFRESH REFERENCES and start the sinks. If they "
            f"report a missing slot, {SKIP[0].lower()}{SKIP[1:]}",
        )

    def create(self) -> Position:
        """Create the source's slot if it is missing, and return the position from which it has changes."""
        with self._translate_errors():
            return self._server_timelines().position(make_slot(self._query_connection(), self._slot, self._source.name))

    def end(self) -> Position:
        """Return the present end of the server's log, up to which all committed changes will be received."""
        position = self.approximate_position()
        self.flush()
        return position

    def approximate_position(self) -> Position:
        """Return the end of the server's log."""
        with self._translate_errors():
            return self._server_timelines().position(read_place(self._ask(f"SELECT {END}")))

    def number(self, position: Position) -> int:
        """Return a position's place in the server's log."""
        return int(position[8:] or "0", 16)

    def look(self) -> Snapshot:
        """Return the present snapshot."""
        with self._translate_errors():
            return server_snapshot(self._query_connection())

    def flush(self) -> None:
        """Advance the server's log past the last high watermark, even on an idle server.

        An empty transaction with an id does that: its commit waits for no standby.
        """
        with self._translate_errors():
            if not self._ask("SELECT pg_is_in_recovery()"):
                self._ask("SELECT pg_current_xact_id()::text")

    def retained(self) -> int:
        """Return the bytes of its log that the server retains for this source."""
        with self._translate_errors():
            return retained_bytes(self._query_connection(), self._slot, END)

    def most_retained(self) -> int:
        """Return the bytes that the server can retain without harm."""
        with self._translate_errors():
            setting = "SELECT setting::int8 FROM pg_settings WHERE name = 'max_slot_wal_keep_size'"
            megabytes = int(self._ask(setting) or -1)
        return _MOST_RETAINED if megabytes < 0 else min(_MOST_RETAINED, (megabytes << 20) // 2)

    def chunk(self, table: CapturedTable) -> PostgresChunkRead:
        """Return a read of a table that has not begun; it opens a separate connection."""
        opener = ConnectionOpener(
            lambda: self._server.connect(application=self._application), self._translate, self._driver
        )
        position = self._server_timelines().position
        size = self._sizes.setdefault(table.id, TableSize())
        return PostgresChunkRead(Query.of(table), self._source.name, opener, position, size)

    def complete(self, table: CapturedTable, rows: TableRows, ids: Sequence[Any]) -> tuple[TableRows, Position | None]:
        """Fill the unchanged values of rows whose key changed, by the new key; a dropped table has no rows."""
        try:
            return complete(lambda: self.chunk(table), rows, ids)
        except DroppedError:
            return rows, self.end()

    def renew(self) -> None:
        """Drop the slot, and delete all that is recorded of the server."""
        with self._translate_errors():
            drop_slot(self._query_connection(), self._source.id, self._source.name)
        forget_known(self._source.notes)
        self._history.clear()

    def close(self) -> None:
        """Close the connections."""
        if self._connection is not None:
            self._connection.close()
        if self._replication is not None:
            self._replication.close()
        self._connection = self._replication = None
        self._driver.close()

    # --- changes ------------------------------------------------------------------------------------------------------

    def follows(self, after: Position) -> bool:
        """Return whether the slot still has all changes after a position."""
        with self._translate_errors():
            place, slot = self._server_timelines().place(after), find_slot(self._query_connection(), self._slot)
        if place is None or slot is None or slot.lost is not None:
            return False
        return slot.confirmed is not None and slot.confirmed <= place

    def begin(self, after: Position, tables: Sequence[CapturedTable], stops: Sequence[Position] = ()) -> None:
        """Start to receive the changes after a position."""
        with self._translate_errors():
            timelines = self._server_timelines()
            place = timelines.place(after)
            if place is None:
                raise self._lost_error(after)
            confirmed = acquire_slot(self._query_connection(), self._source.id, self._source.name, place)
            self._messages = Messages(tables, timelines.position, after, self._history.received)
            last = self._history.last(place)
            check = None
            if last is not None and confirmed is not None and confirmed < last.end:
                check = HistoryCheck(last, place, HEADER)
            self._stops, self._to = tuple(stops), place
            watch = PublicationWatch.of(self._publication, self._source.notes, tables)
            self._monitor = PublicationMonitor(watch, self._unpublished_error)
            connection = self._server.connect(replication=True, application=self._application)
            self._replication = Replication(connection, self._confirmed, check)
            binary = all(map(_can_take_binary, tables))
            self._replication.start(self._slot, self._publication, place, binary=binary)
            self._check_end(after, place)

    def _check_end(self, after: Position, place: int) -> None:
        """Check that the server's log contains the place from which it sends.

        Otherwise the server would wait until its log reaches the place, with other changes. A standby may have been
        promoted since its timeline was read.
        """
        moved = self._system != UNKNOWN and self._identify_server() != self._timelines
        is_standby = self._ask("SELECT pg_is_in_recovery()")
        if not moved and read_place(self._ask(f"SELECT {END}")) >= place:
            return
        if moved or is_standby:
            raise SinkqlError(
                "SQ4413",
                "the server is a standby that is still catching up or being promoted",
                hint="Wait until it has finished. SinkQL retries automatically.",
            )
        raise self._lost_error(after)

    def _lost_error(self, after: Position) -> SinkqlError:
        return SinkqlError(
            "SQ3709",
            f'the server of source "{self._source.name}" lacks changes up to {format_place(self.number(after))} that '
            "were already read",
            detail="It was restored from a backup, or replaced by a standby that lacks them.",
            hint=SKIP,
        )

    def receive(self, seconds: float) -> Sequence[Event]:
        """Wait for changes up to a number of seconds, and return their events.

        The events contain complete transactions, or parts of about 8 MB of a longer one.
        """
        replication, messages, monitor = self._replication, self._messages, self._monitor
        assert replication is not None, "the stream has not begun"
        assert messages is not None
        assert monitor is not None
        with self._translate_errors():
            try:
                replication.receive(clock.monotonic() + seconds)
            except OtherServerError:
                raise self._lost_error(self._server_timelines().position(self._to)) from None
        events: list[Event] = []
        if parts := replication.take():
            try:
                events += messages.decode(parts, self._stops)
            except GarbledError as error:
                raise SinkqlError(
                    "SQ3713",
                    f'the server of source "{self._source.name}" sent messages that SinkQL cannot decode: {error}',
                    hint="Report this as a bug and include the server version.",
                ) from error
            self._to = max(self._to, messages.place)
        is_complete = replication.is_empty and not messages.within
        if replication.idle_place > self._to and is_complete:
            self._to = replication.idle_place
            events.append(PositionAdvanced(self._server_timelines().position(self._to)))
        with self._translate_errors():
            received = self._to if is_complete else None
            events += monitor.schema_changes(self._query_connection, messages.truncations, received)
        return events

    def looked_since(self, moment: float) -> bool:
        """Return whether the publication was compared since a moment; else request a comparison."""
        return self._monitor is not None and self._monitor.looked_since(moment)

    def confirm(self, position: Position) -> None:
        """Allow the server to delete its log up to a position."""
        place = self._server_timelines().place(position)
        if place is not None and place > self._confirmed:
            self._confirmed = place
            if self._replication is not None:
                with self._translate_errors():
                    self._replication.confirm(place)
        self._history.save()

    # --- queries ------------------------------------------------------------------------------------------------------

    def _query_connection(self) -> Connection:
        if self._connection is None:
            self._connection = self._server.connect(application=self._application)
        return self._connection

    def _ask(self, query: str, *values: object) -> Any:
        return query_value(self._query_connection(), query, *values)

    def _translate(self, error: psycopg.Error) -> SinkqlError:
        return self._failed(error, self._server.options)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.errors.UndefinedObject as error:
            if "publication" in str(error):  # it did not exist when a change was made
                raise self._unpublished_error() from error
            raise self._translate(error) from error
        except psycopg.Error as error:
            raise self._translate(error) from error


def _can_take_binary(table: CapturedTable) -> bool:
    """Return whether the binary form of each column that is read as text contains its text."""
    return all(not column.as_text or binary_as_text(column.type) for column in server_table(table.options).columns)


def open_stream(source: CapturedSource, secret: Reveal) -> PostgresStream:
    """Return a stream that has not connected yet."""
    return PostgresStream(_server_of(source, secret), source, failure)


def forget_source(source: CapturedSource, secret: Reveal) -> None:
    """Drop the slot of a source that no longer exists."""
    forget(_server_of(source, secret), source, failure)


def _server_of(source: CapturedSource, secret: Reveal) -> Login:
    assert source.connection is not None
    return Login.of(source.connection, secret)


def forget(server: Server, source: CapturedSource, failed: Failed) -> None:
    """Drop a source's slot."""
    try:
        with server.connect(application=application_name(source.id)) as connection:
            drop_slot(connection, source.id, source.name)
    except psycopg.Error as error:
        raise failed(error, server.options) from error
