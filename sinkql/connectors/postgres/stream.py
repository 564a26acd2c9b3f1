"""A source's slot on a server → the changes of its tables (`sinkql.connector_api.cdc.Stream`)."""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg
from psycopg import sql

from sinkql.connector_api import dead_connection
from sinkql.connector_api.cdc import (
    SKIP,
    CapturedSource,
    CapturedTable,
    Event,
    Position,
    PositionAdvanced,
    SchemaChanged,
    Snapshot,
    TableRows,
)
from sinkql.connectors.postgres.chunk import END, Connect, DroppedError, PostgresChunkRead, Query, complete
from sinkql.connectors.postgres.client import guarded, is_working
from sinkql.connectors.postgres.column import binary_as_text
from sinkql.connectors.postgres.gap_detection import PublicationWatch, SentTables, forget_known, read_publication
from sinkql.connectors.postgres.history_check import HistoryCheck, OtherServerError, ReadHistories
from sinkql.connectors.postgres.pgoutput import HEADER, Messages
from sinkql.connectors.postgres.publication import UNKNOWN
from sinkql.connectors.postgres.rows import GarbledError
from sinkql.connectors.postgres.slot import (
    Connection,
    Timelines,
    application_name,
    drop_slot,
    find_slot,
    format_place,
    free_slot,
    make_slot,
    read_history,
    read_place,
    server_snapshot,
    slot_name,
)
from sinkql.connectors.postgres.type import server_table
from sinkql.errors import SinkqlError

_BLOCK = 8 << 20
_FEEDBACK_S = 1.0
_QUESTION_S = 0.2
_LAST_CHANCE_MS = 1000
_WATCH_S = 1.0
_WATCH_TIMES = 20
"""What looking at many tables, or at a server that is slow to answer, takes of the time at most is one in so many."""
_DATA, _KEEPALIVE = b"wk"
_COMMIT = ord("C")
_BINARY_VERSION = 140000
_MOST_RETAINED = 10 << 30
_SETTINGS = (
    "SET DateStyle = 'ISO'", "SET IntervalStyle = 'postgres'", "SET TimeZone = 'UTC'", "SET extra_float_digits = 3",
    "SET bytea_output = 'hex'", "SET statement_timeout = 0", "SET idle_session_timeout = 0",
)  # fmt: skip
"""How values are written where they are sent as text."""


_SENT_TO = END.replace("_insert_", "_flush_")
"""Up to where the server sends."""


class Server(Protocol):
    """Where a source's database is."""

    @property
    def options(self) -> Mapping[str, Any]:
        """Return the options of its connection."""

    def connect(self, *, replication: bool = False, application: str = ...) -> Connection:
        """Open a connection; raises SinkqlError."""


Failed = Callable[[psycopg.Error, Mapping[str, Any]], SinkqlError]


class PostgresStream:
    """Read one source's slot, and parts of its tables."""

    unit = "bytes"

    def __init__(self, server: Server, source: CapturedSource, failed: Failed) -> None:
        self._server = server
        self._source = source
        self._failed = failed
        self._slot = slot_name(source.id)
        self._application = application_name(source.id)
        self._asking: Connection | None = None
        self._receiving: Connection | None = None
        self._timelines: Timelines | None = None
        self._messages: Messages | None = None
        self._stops: tuple[Position, ...] = ()
        self._parts: list[bytes | memoryview] = []
        self._size = self._whole = 0
        self._moved = self._to = self._confirmed = 0
        self._reported_at = self._heard = 0.0
        self._widths: dict[str, float] = {}
        self._watch: PublicationWatch | None = None
        self._last_look: _Seen | None = None
        self._watch_again_at = self._looked_at = float("-inf")
        self._histories = ReadHistories(source.notes)
        self._comparing: HistoryCheck | None = None

    # --- the server ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check that the server still is the one that was read, and has what is needed."""
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
            f'publication "{self._publication}" of source "{self._source.name}" is not in the database, or was not '
            "when rows changed",
            hint=f'Run CREATE PUBLICATION "{self._publication}" FOR TABLE … on the server, unless it is there '
            f"again. What changed in between is not sent: {SKIP[0].lower()}{SKIP[1:]}",
        )

    def _server_timelines(self) -> Timelines:
        """Return the server's timelines; raises SQ3703 for another server."""
        expected = self._source.options.get("tuning", {}).get("system")
        if self._timelines is None and expected != UNKNOWN:
            self._timelines = self._identify_server(expected)
        return self._timelines or Timelines(1)

    def _identify_server(self, expected: str | None) -> Timelines:
        with self._server.connect(replication=True, application=self._application) as link:
            row = link.execute("IDENTIFY_SYSTEM").fetchone()
            assert row is not None
            system, timeline = row[0], int(row[1])
            if expected not in (None, system):
                raise SinkqlError(
                    "SQ3703",
                    f'the server of source "{self._source.name}" is not the one that was read: '
                    f"its system identifier is {system}, and was {expected}",
                    hint="Correct HOST and PORT of the connection, or put the server back. If the tables have moved "
                    "to this one, as after pg_upgrade, run ALTER SOURCE … REFRESH REFERENCES, and start the sinks: if "
                    f"they report that the slot is not there, {SKIP[0].lower()}{SKIP[1:]}",
                )
            earlier: tuple[tuple[int, int], ...] = ()
            if timeline > 1:
                history = link.execute(f"TIMELINE_HISTORY {timeline}").fetchone()
                assert history is not None
                content = history[1]
                earlier = read_history(content if isinstance(content, str) else bytes(content).decode())
        return Timelines(timeline, earlier)

    def create(self) -> Position:
        """Have the server keep changes for this source from now on, unless it does, and return from where on."""
        with self._translate_errors():
            return self._server_timelines().position(make_slot(self._query_connection(), self._slot, self._source.name))

    def end(self) -> Position:
        """Return the server's present end: what has committed by now is received up to there."""
        with self._translate_errors():
            place = read_place(self._ask(f"SELECT {END}"))
        self.flush()
        return self._server_timelines().position(place)

    def known(self) -> Position:
        """Return the end of the server's log."""
        with self._translate_errors():
            return self._server_timelines().position(read_place(self._ask(f"SELECT {END}")))

    def number(self, position: Position) -> int:
        """Return a position's place in the server's log."""
        return int(position[8:] or "0", 16)

    def look(self) -> Snapshot:
        """Return what a snapshot sees now."""
        with self._translate_errors():
            return server_snapshot(self._query_connection())

    def flush(self) -> None:
        """Have the server's log reach the last `high`, also where nobody writes.

        A transaction that has a number and changes nothing: it waits for no standby.
        """
        with self._translate_errors():
            if not self._ask("SELECT pg_is_in_recovery()"):
                self._ask("SELECT pg_current_xact_id()::text")

    def retained(self) -> int:
        """Return how many bytes the server keeps for this reader."""
        with self._translate_errors():
            return int(
                self._ask(
                    f"SELECT coalesce((SELECT pg_wal_lsn_diff(({END})::pg_lsn, restart_lsn) FROM pg_replication_slots "
                    "WHERE slot_name = %s), 0)::int8",
                    self._slot,
                )
            )

    def most_retained(self) -> int:
        """Return how many bytes it may keep before that harms the server."""
        with self._translate_errors():
            setting = "SELECT setting::int8 FROM pg_settings WHERE name = 'max_slot_wal_keep_size'"
            megabytes = int(self._ask(setting) or -1)
        return _MOST_RETAINED if megabytes < 0 else min(_MOST_RETAINED, (megabytes << 20) // 2)

    def chunk(self, table: CapturedTable) -> PostgresChunkRead:
        """Return a read of a table, that has not begun; it goes through a connection of its own."""
        opener = Connect(lambda: self._server.connect(application=self._application), self._translate)
        return PostgresChunkRead(
            Query.of(table), self._source.name, opener, self._server_timelines().position, self._widths
        )

    def complete(self, table: CapturedTable, rows: TableRows, ids: Sequence[Any]) -> tuple[TableRows, Position | None]:
        """Fill the holes of rows whose key changed from the server, by the new key; a table that is gone has no row."""
        try:
            return complete(lambda: self.chunk(table), rows, ids)
        except DroppedError:
            return rows, self.end()

    def renew(self) -> None:
        """Drop the slot."""
        with self._translate_errors():
            drop_slot(self._query_connection(), self._source.id, self._source.name)
        forget_known(self._source.notes)
        self._histories.clear()

    def close(self) -> None:
        """Leave the server."""
        for connection in (self._asking, self._receiving):
            if connection is not None:
                connection.close()
        self._asking = self._receiving = None

    # --- changes ------------------------------------------------------------------------------------------------------

    def follows(self, after: Position) -> bool:
        """Tell whether the slot is there, and has confirmed nothing of it."""
        with self._translate_errors():
            place, slot = self._server_timelines().place(after), find_slot(self._query_connection(), self._slot)
        if place is None or slot is None or slot.lost is not None:
            return False
        return slot.confirmed is not None and slot.confirmed <= place

    def begin(self, after: Position, tables: Sequence[CapturedTable], stops: Sequence[Position] = ()) -> None:
        """Start to receive what comes after a position."""
        with self._translate_errors():
            timelines = self._server_timelines()
            place = timelines.place(after)
            if place is None:
                raise self._lost_error(after)
            confirmed = self._free_slot(place)
            self._messages = Messages(tables, timelines.position, after)
            self._messages.histories = self._histories.received
            last = self._histories.last(place)
            if last is not None and confirmed is not None and confirmed < last.end:
                self._comparing = HistoryCheck(last, place, HEADER)
            self._stops, self._to = tuple(stops), place
            self._watch = PublicationWatch.of(self._publication, self._source.notes, tables)
            self._start(place, binary=all(map(self._can_take_binary, tables)))
            self._check_end(after, place)

    def _can_take_binary(self, table: CapturedTable) -> bool:
        """Tell whether each column that is read as text is text in its binary form."""
        return all(not column.as_text or binary_as_text(column.type) for column in server_table(table.options).columns)

    def _free_slot(self, place: int) -> int | None:
        """Check that the slot is there with what comes after a place, and that no other process reads it.

        Return what it has confirmed.
        """
        name, connection = self._source.name, self._query_connection()
        slot = find_slot(connection, self._slot)
        if slot is not None:
            slot = free_slot(connection, slot, self._application, name)
        if slot is None:
            raise SinkqlError(
                "SQ3701",
                f'the replication slot "{self._slot}" of source "{name}" is not on the server any more',
                hint=SKIP,
            )
        if slot.lost is not None:
            raise SinkqlError(
                "SQ3702",
                f'source "{name}" has lost changes: {slot.lost[0]}',
                hint=f"{SKIP} {slot.lost[1]}",
            )
        if slot.confirmed is not None and slot.confirmed > place:
            raise SinkqlError(
                "SQ3702",
                f'source "{name}" has lost changes: the server has none before {format_place(slot.confirmed)}, '
                f"and {format_place(place)} is wanted",
                hint=SKIP,
            )
        return slot.confirmed

    def _check_end(self, after: Position, place: int) -> None:
        """Check that the server that sends what follows a place has what is before it.

        It would wait until its log comes there, with other changes. One that was a standby when it was asked for its
        timeline may have taken over since.
        """
        expected = self._source.options.get("tuning", {}).get("system")
        moved = expected != UNKNOWN and self._identify_server(expected) != self._timelines
        follows = self._ask("SELECT pg_is_in_recovery()")
        if not moved and read_place(self._ask(f"SELECT {END}")) >= place:
            return
        if moved or follows:
            raise SinkqlError(
                "SQ4413",
                "the server is a standby that has not received all, or takes over",
                hint="Wait until it has; it is tried again.",
            )
        raise self._lost_error(after)

    def _lost_error(self, after: Position) -> SinkqlError:
        return SinkqlError(
            "SQ3709",
            f'the server of source "{self._source.name}" does not have the changes up to '
            f"{format_place(int(after[8:], 16))}, which were read already",
            detail="It was put back from a copy, or replaced by a standby that lacks them.",
            hint=SKIP,
        )

    def _start(self, place: int, *, binary: bool) -> None:
        link = self._receiving = self._server.connect(replication=True, application=self._application)
        for setting in _SETTINGS:
            if "idle_session" not in setting or link.info.server_version >= _BINARY_VERSION:
                link.execute(setting)
        options = ["proto_version '1'", "publication_names {}"]
        if binary and link.info.server_version >= _BINARY_VERSION:
            options.append("binary 'true'")
        names = sql.Literal('"' + self._publication.replace('"', '""') + '"')
        begin = place if self._comparing is None else self._comparing.wanted.commit
        command = sql.SQL(f"START_REPLICATION SLOT {self._slot} LOGICAL {format_place(begin)} ({', '.join(options)})")
        with guarded(link):
            result = link.pgconn.exec_(command.format(names).as_bytes(link))
        if result.status != psycopg.pq.ExecStatus.COPY_BOTH:
            raise psycopg.errors.error_from_result(result)
        self._heard = time.monotonic()

    def receive(self, seconds: float) -> Sequence[Event]:
        """Wait up to so long, and return what came: up to about 8 MB, whole transactions where they are shorter."""
        assert self._receiving is not None, "it has not begun"
        assert self._messages is not None
        with self._translate_errors():
            try:
                self._receive(self._receiving, time.monotonic() + seconds)
            except OtherServerError:
                raise self._lost_error(self._server_timelines().position(self._to)) from None
        count = self._whole or (len(self._parts) if self._size >= _BLOCK else 0)
        events: list[Event] = []
        if count:
            parts, self._parts = self._parts[:count], self._parts[count:]
            self._size, self._whole = sum(map(len, self._parts)), 0
            try:
                events += self._messages.decode(parts, self._stops)
            except GarbledError as error:
                raise SinkqlError(
                    "SQ3713",
                    f'what the server of source "{self._source.name}" sends is not understood: {error}',
                    hint="Report it, with the version of the server.",
                ) from error
            self._to = max(self._to, self._messages.place)
        if self._moved > self._to and not self._parts and not self._messages.within:
            self._to = self._moved
            events.append(PositionAdvanced(self._server_timelines().position(self._moved)))
        return [*events, *self._watch_publication()]

    def _watch_publication(self) -> Sequence[SchemaChanged]:
        """Return what is to be said of tables of which the server has not sent all, once all before has come.

        What was said before is in the log by now, so that what is known since may be kept.
        """
        assert self._watch is not None
        assert self._messages is not None
        seen, now = self._last_look, time.monotonic()
        if seen is not None and seen.reported:
            self._watch.keep(seen.tables)
            del self._messages.truncations[: seen.truncations]
            seen = self._last_look = None
        if seen is None:
            if now < self._watch_again_at:
                return ()
            seen = self._last_look = self._look_at_tables(now)
            self._watch_again_at = now + max(_WATCH_S, _WATCH_TIMES * (time.monotonic() - now))
        if self._to < seen.end or self._parts or self._messages.within:
            return ()
        seen.reported, self._looked_at = True, seen.at
        with self._translate_errors():
            return self._watch.compare(self._query_connection(), seen.tables, self._messages.truncations)

    def looked_since(self, moment: float) -> bool:
        last = self._looked_at if self._last_look is None else self._last_look.at
        if last < moment:
            self._watch_again_at = float("-inf")
        return self._looked_at >= moment

    def _look_at_tables(self, at: float) -> _Seen:
        assert self._watch is not None
        assert self._messages is not None
        with self._translate_errors():
            tables = read_publication(
                self._query_connection(), self._publication, self._watch.tables, self._watch.recorded
            )
            if tables is None:
                raise self._unpublished_error()
            return _Seen(tables, read_place(self._ask(f"SELECT {_SENT_TO}")), len(self._messages.truncations), at)

    def _receive(self, connection: Connection, until: float) -> None:
        link, parts = connection.pgconn, self._parts
        get, poll = link.get_copy_data, select.poll()
        poll.register(link.socket, select.POLLIN)
        size, whole, most, heard = self._size, self._whole, _BLOCK, False
        while size < most:
            length, data = get(1)
            if length > 0:
                heard = True
                if data[0] == _DATA:
                    comparing = self._comparing
                    if comparing is not None and not self._is_new_message(comparing, data):
                        continue
                    parts.append(data)
                    size += length
                    if data[HEADER] == _COMMIT or (comparing is not None and comparing.is_skipping):
                        whole = len(parts)
                elif data[0] == _KEEPALIVE:
                    self._on_keepalive(data, idle=len(parts) == whole)
                continue
            if length < 0:
                self._raise_broken(link)
            self._size, self._whole = size, whole
            left = max(until - time.monotonic(), 0)
            self._send_feedback(ask=not parts)
            if not poll.poll(min(left, _QUESTION_S) * 1000) and not left:
                break
            link.consume_input()
        self._size, self._whole = size, whole
        if heard:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > dead_connection.SILENCE_S:  # it was asked each second how far it is
            if not is_working(connection) and not poll.poll(_LAST_CHANCE_MS):
                raise psycopg.OperationalError("the server closed the connection unexpectedly: it sends nothing")
            self._heard = time.monotonic()

    def _is_new_message(self, comparing: HistoryCheck, data: bytes | memoryview) -> bool:
        """Tell whether a message is new where what was read last comes once more."""
        is_new = comparing.accepts(data)
        if comparing.is_done:
            self._comparing = None
        return is_new

    def _on_keepalive(self, data: bytes | memoryview, *, idle: bool) -> None:
        place, _, wanted = struct.unpack_from(">qqB", data, 1)
        if self._comparing is not None:
            self._comparing.on_position(place)
        if idle:
            self._moved = max(self._moved, place)
        if wanted:
            self._send_feedback(ask=False, now=True)

    def _raise_broken(self, link: Any) -> None:
        result = link.get_result()
        if result is not None and result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(result)
        raise psycopg.OperationalError("the server closed the connection unexpectedly")

    def confirm(self, position: Position) -> None:
        """Let the server forget what is up to a position."""
        place = self._server_timelines().place(position)
        if place is not None and place > self._confirmed:
            self._confirmed = place
            if self._receiving is not None:
                with self._translate_errors():
                    self._send_feedback(ask=False, now=True)
        self._histories.save()

    def _send_feedback(self, *, ask: bool, now: bool = False) -> None:
        """Tell the server what is confirmed, but not all the time; with `ask` it answers with how far it is."""
        at = time.monotonic()
        due = self._reported_at + (_QUESTION_S if ask else _FEEDBACK_S)
        if self._receiving is None or (not now and at < due):
            return
        self._reported_at = at
        place = self._confirmed
        link = self._receiving.pgconn
        link.put_copy_data(struct.pack(">cqqqqB", b"r", place, place, place, 0, ask))
        link.flush()

    # --- asking -------------------------------------------------------------------------------------------------------

    def _query_connection(self) -> Connection:
        if self._asking is None:
            self._asking = self._server.connect(application=self._application)
        return self._asking

    def _ask(self, query: str, *values: object) -> Any:
        row = self._query_connection().execute(query, values or None).fetchone()
        assert row is not None
        return row[0]

    def _translate(self, error: psycopg.Error) -> SinkqlError:
        return self._failed(error, self._server.options)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.errors.UndefinedObject as error:
            if "publication" in str(error):  # as it was when a change was made that is to be sent
                raise self._unpublished_error() from error
            raise self._translate(error) from error
        except psycopg.Error as error:
            raise self._translate(error) from error


@dataclass(slots=True)
class _Seen:
    """How the publication had the tables `at` a time, when the server's end was before `end`; whether that was `told`.

    So many `truncations` had come by then.
    """

    tables: Mapping[str, SentTables]
    end: int
    truncations: int
    at: float
    reported: bool = False


def forget(server: Server, source: CapturedSource, failed: Failed) -> None:
    """Drop a source's slot."""
    try:
        with server.connect(application=application_name(source.id)) as connection:
            drop_slot(connection, source.id, source.name)
    except psycopg.Error as error:
        raise failed(error, server.options) from error
