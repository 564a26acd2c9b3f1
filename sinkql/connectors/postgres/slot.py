"""Replication slots, positions in the server's log, and snapshots.

A position is a timeline and a place in the log, in hexadecimal digits. After a failover, places continue from the point
at which the timelines part. So positions sort as commits do, and a position of a lost change is recognized.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from sinkql.connector_api.cdc import SKIP, Position
from sinkql.errors import SinkqlError
from sinkql.machine import clock

Connection = psycopg.Connection[tuple[Any, ...]]
Query = str | sql.Composed
_PATIENCE_S = 60
_BREATH_S = 0.02
_FAILOVER_VERSION = 170000


def slot_name(source_id: str) -> str:
    """Return the name of a source's slot."""
    return "sinkql_" + source_id.replace("-", "_").lower()


def application_name(source_id: str) -> str:
    """Return the application name of a source's connections."""
    return f"sinkql {source_id}"


def query_row(connection: Connection, query: Query, *values: object) -> tuple[Any, ...]:
    """Return the row of a query that always has one."""
    (row,) = connection.execute(query, values or None)
    return row


def query_value(connection: Connection, query: Query, *values: object) -> Any:
    """Return the value of a query with one row of one column."""
    return query_row(connection, query, *values)[0]


# --- positions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Timelines:
    """The server's timeline, and its earlier timelines with the places at which they ended."""

    current: int
    earlier: tuple[tuple[int, int], ...] = ()

    def position(self, place: int) -> Position:
        """Return a place in the log as a position."""
        for timeline, end in self.earlier:
            if place <= end:
                return f"{timeline:08x}{place:016x}"
        return f"{self.current:08x}{place:016x}"

    def place(self, position: Position) -> int | None:
        """Return the place of a position; None if the server's log does not contain it."""
        place = int(position[8:], 16)
        return place if self.position(place) == position else None


def identify_server(replication: Connection) -> tuple[str, Timelines]:
    """Return the system identifier of the server of a replication connection, and its timelines."""
    system, timeline, *_ = query_row(replication, "IDENTIFY_SYSTEM")
    timeline = int(timeline)
    if timeline == 1:
        return system, Timelines(timeline)
    _, content = query_row(replication, f"TIMELINE_HISTORY {timeline}")
    return system, Timelines(timeline, read_history(content if isinstance(content, str) else bytes(content).decode()))


def read_history(content: str) -> tuple[tuple[int, int], ...]:
    """Return the timelines of a history file, and the places at which they ended."""
    lines = [line.split() for line in content.splitlines() if line.strip() and not line.startswith("#")]
    return tuple((int(timeline), read_place(place)) for timeline, place, *_ in lines)


def read_place(text: str) -> int:
    """Return a place in the log from its text."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def format_place(place: int) -> str:
    """Return a place in the log as Postgres writes it."""
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"


# --- snapshots --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """A result of pg_current_snapshot: transactions before `first` have ended, those from `last` on have not begun."""

    first: int
    last: int
    running: frozenset[int]

    @classmethod
    def read(cls, text: str) -> ServerSnapshot:
        """Parse the text that Postgres prints."""
        first, last, running = text.split(":")
        return cls(int(first), int(last), frozenset(int(number) for number in running.split(",") if number))

    def unseen(self, ids: Sequence[Any]) -> int | None:
        """Return the place of the first transaction that the snapshot does not see; None if it sees all."""
        return next((place for place, id_ in enumerate(ids) if not self._sees_transaction(id_)), None)

    def certain(self, ids: Sequence[Any]) -> bool:
        """Return True: the visibility of each transaction is known."""
        return True

    def _sees_transaction(self, id_: int) -> bool:
        """Return whether the snapshot sees a transaction, by the lower 32 bits of its id, as in the stream."""
        number = self.last - ((self.last - id_ + _HALF) % _ALL - _HALF)
        return number < self.first or (number < self.last and number not in self.running)


_ALL, _HALF = 1 << 32, 1 << 31

# --- slots ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot: its confirmed place (None during its creation), and the process that reads it.

    `lost` is the reason and the remedy if the slot is no longer usable.
    """

    name: str
    confirmed: int | None
    lost: tuple[str, str] | None
    reader: int | None
    application: str | None

    @property
    def cure(self) -> str:
        """Return what to do after a loss: first remove its cause, or it happens again."""
        return f"{self.lost[1]} Then {SKIP[0].lower()}{SKIP[1:]}" if self.lost is not None else SKIP


_REASONS_VERSION = 170000
_REASONS = {
    "idle_timeout": (
        "its slot was unread for longer than the server's idle_replication_slot_timeout",
        "Raise that setting, or set it to 0.",
    ),
    "rows_removed": (
        "the server is a standby, and the primary removed catalog rows that the slot needed",
        "Set hot_standby_feedback = on on the standby.",
    ),
    "wal_level_insufficient": (
        "the server is a standby, and its primary did not have wal_level = logical for a while",
        "Set wal_level = 'logical' on the primary, and restart it.",
    ),
}
BOUND_HINT = "Run ALTER SYSTEM SET max_slot_wal_keep_size = '20GB'; and SELECT pg_reload_conf(); on the server."
_REMOVED = ("the server has removed unread changes", BOUND_HINT)
_SLOT = """
SELECT s.confirmed_flush_lsn::text, s.wal_status, s.active_pid, a.application_name, {reason}
FROM pg_replication_slots AS s LEFT JOIN pg_stat_activity AS a ON a.pid = s.active_pid
WHERE s.slot_name = %s AND s.database = current_database()
"""


def find_slot(connection: Connection, name: str) -> Slot | None:
    """Return a slot of the database."""
    named = connection.info.server_version >= _REASONS_VERSION
    row = connection.execute(_SLOT.format(reason="s.invalidation_reason" if named else "NULL"), [name]).fetchone()
    if row is None:
        return None
    confirmed, status, reader, application, reason = row
    lost = _REASONS.get(reason, _REMOVED) if status == "lost" or reason is not None else None
    return Slot(name, read_place(confirmed) if confirmed else None, lost, reader, application)


def make_slot(connection: Connection, name: str, source: str) -> int:
    """Return the confirmed place of a slot, creating the slot if it is missing.

    Every later snapshot sees all changes before that place. To create a slot, the server waits for running
    transactions. A transaction whose commit waits for a standby is in no snapshot yet, though it may be before the
    slot. So this function waits for all transactions that have begun. It also waits for a slot in creation, perhaps by
    a process that died.
    """
    until = clock.monotonic() + _PATIENCE_S
    while True:
        slot = find_slot(connection, name)
        if slot is not None and slot.confirmed is not None:
            break
        if slot is None:
            _create_slot(connection, name, source)
            continue
        if clock.monotonic() > until:
            raise _waiting_error(source)
        clock.sleep(_BREATH_S)
    last = _next_transaction(connection)
    while server_snapshot(connection).first < last:
        if clock.monotonic() > until:
            raise _waiting_error(source)
        clock.sleep(_BREATH_S)
    return slot.confirmed


def _create_slot(connection: Connection, name: str, source: str) -> None:
    more = ", false, false, true" if connection.info.server_version >= _FAILOVER_VERSION else ""
    try:
        connection.execute(f"SET statement_timeout = '{_PATIENCE_S}s'")
        connection.execute(f"SELECT pg_create_logical_replication_slot(%s, 'pgoutput'{more})", [name])
    except psycopg.errors.DuplicateObject:
        pass  # another process created it
    except psycopg.errors.QueryCanceled as error:
        raise _waiting_error(source) from error
    except psycopg.errors.ConfigurationLimitExceeded as error:
        raise SinkqlError(
            "SQ3707",
            "all replication slots of the server are in use",
            hint="Raise max_replication_slots and restart the server, or drop an unused slot: "
            "SELECT slot_name FROM pg_replication_slots WHERE NOT active;",
        ) from error
    finally:
        connection.execute("SET statement_timeout = 0")


def retained_bytes(connection: Connection, name: str, end: str) -> int:
    """Return the bytes of the log before `end` that the server retains for a slot."""
    query = f"SELECT pg_wal_lsn_diff(({end})::pg_lsn, restart_lsn) FROM pg_replication_slots WHERE slot_name = %s"
    return int(query_value(connection, f"SELECT coalesce(({query}), 0)::int8", name))


def _next_transaction(connection: Connection) -> int:
    """Return an id that is higher than that of any transaction that has begun to write.

    The end of a snapshot may be lower than a running transaction. A standby assigns no ids.
    """
    query = "CASE WHEN pg_is_in_recovery() THEN pg_snapshot_xmax(pg_current_snapshot()) ELSE pg_current_xact_id() END"
    return int(query_value(connection, f"SELECT ({query})::text"))


def server_snapshot(connection: Connection) -> ServerSnapshot:
    """Return the present snapshot, or that of the connection's transaction."""
    return ServerSnapshot.read(query_value(connection, "SELECT pg_current_snapshot()::text"))


def _waiting_error(source: str) -> SinkqlError:
    return SinkqlError(
        "SQ3708",
        f'source "{source}" waits for earlier transactions of its server',
        hint="Wait, or end idle transactions: SELECT pid, query FROM pg_stat_activity ORDER BY xact_start; on the "
        "server lists them. SinkQL retries automatically.",
    )


def free_slot(connection: Connection, slot: Slot, application: str, source: str) -> Slot | None:
    """End an earlier reader of the same source; raise SQ3706 for any other reader.

    Return the slot afterwards, because the reader may have confirmed more. None if the slot was dropped.
    """
    until = clock.monotonic() + _PATIENCE_S
    current: Slot | None = slot
    while current is not None and current.reader is not None:
        if current.application not in (application, None) or clock.monotonic() > until:
            raise SinkqlError(
                "SQ3706",
                f'another program reads the replication slot of source "{source}": {current.application or "unknown"}',
                hint=f"End it on the server with SELECT pg_terminate_backend({current.reader}); SinkQL then retries.",
            )
        connection.execute("SELECT pg_terminate_backend(%s)", [current.reader])
        clock.sleep(_BREATH_S)
        current = find_slot(connection, slot.name)
    return current


def acquire_slot(connection: Connection, source_id: str, source: str, place: int) -> int | None:
    """Check that a source's slot has the changes after a place, end an earlier reader, and return the confirmed place.

    Raise SQ3701 if the slot is missing, SQ3702 if it has lost changes, and SQ3706 if another program reads it.
    """
    name = slot_name(source_id)
    slot = find_slot(connection, name)
    if slot is not None:
        slot = free_slot(connection, slot, application_name(source_id), source)
    if slot is None:
        message = f'the replication slot "{name}" of source "{source}" is no longer on the server'
        raise SinkqlError("SQ3701", message, hint=SKIP)
    if slot.lost is not None:
        message = f'source "{source}" has lost changes: {slot.lost[0]}'
        raise SinkqlError("SQ3702", message, hint=slot.cure)
    if slot.confirmed is not None and slot.confirmed > place:
        raise SinkqlError(
            "SQ3702",
            f'source "{source}" has lost changes: the server has none before {format_place(slot.confirmed)}, '
            f"and the source needs those from {format_place(place)} on",
            hint=SKIP,
        )
    return slot.confirmed


def drop_slot(connection: Connection, source_id: str, source: str) -> None:
    """Drop a source's slot if it exists."""
    slot = find_slot(connection, slot_name(source_id))
    if slot is None:
        return
    free_slot(connection, slot, application_name(source_id), source)
    try:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [slot.name])
    except psycopg.errors.UndefinedObject:
        return
