"""What a server keeps for a source: its replication slot, and places in the server's log as positions.

A position is a timeline of the server and a place in its log, in hexadecimal digits: after a failover places go on from
where the timelines part, so that positions sort as commits do, and one of changes that a failover lost is known.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from sinkql.connector_api.cdc import Position
from sinkql.errors import SinkqlError

Connection = psycopg.Connection[tuple[Any, ...]]
_PATIENCE_S = 60
_BREATH_S = 0.02
_FAILOVER_VERSION = 170000


def slot_name(source_id: str) -> str:
    """Return the name of a source's slot."""
    return "sinkql_" + source_id.replace("-", "_").lower()


def application_name(source_id: str) -> str:
    """Return what connections of a source are called on the server."""
    return f"sinkql {source_id}"


# --- positions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Timelines:
    """The server's timeline, and the earlier ones that it came from, with the places at which they ended."""

    current: int
    earlier: tuple[tuple[int, int], ...] = ()

    def position(self, place: int) -> Position:
        """Return a place in the log as a position."""
        for timeline, end in self.earlier:
            if place <= end:
                return f"{timeline:08x}{place:016x}"
        return f"{self.current:08x}{place:016x}"

    def place(self, position: Position) -> int | None:
        """Return the place of a position; None where the server has no such part of its log."""
        place = int(position[8:], 16)
        return place if self.position(place) == position else None


def read_history(content: str) -> tuple[tuple[int, int], ...]:
    """Return the timelines of a history file, and where each ended."""
    lines = [line.split() for line in content.splitlines() if line.strip() and not line.startswith("#")]
    return tuple((int(timeline), read_place(place)) for timeline, place, *_ in lines)


def read_place(text: str) -> int:
    """Return a place in the log that Postgres has written."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def shown(place: int) -> str:
    """Return a place in the log as Postgres writes it."""
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"


# --- snapshots --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """What pg_current_snapshot says: transactions before `first` have ended, those from `last` on have not begun."""

    first: int
    last: int
    running: frozenset[int]

    @classmethod
    def read(cls, text: str) -> ServerSnapshot:
        """Read what Postgres prints."""
        first, last, running = text.split(":")
        return cls(int(first), int(last), frozenset(int(each) for each in running.split(",") if each))

    def unseen(self, ids: Sequence[Any]) -> int | None:
        """Return the place of the first of these transactions that it does not see; None where it sees all."""
        return next((place for place, each in enumerate(ids) if not self._sees(each)), None)

    def certain(self, ids: Sequence[Any]) -> bool:
        """Tell that it is known of all transactions whether it sees them."""
        return True

    def _sees(self, id_: int) -> bool:
        """Tell of a transaction by the lower 32 bits of its number, which the stream has."""
        number = self.last - ((self.last - id_ + _HALF) % _ALL - _HALF)
        return number < self.first or (number < self.last and number not in self.running)


_ALL, _HALF = 1 << 32, 1 << 31

# --- slots ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot: what is confirmed, None while it is being made, and who reads it.

    `lost` says why it is of no use any more, and what keeps the next one from that.
    """

    name: str
    confirmed: int | None
    lost: tuple[str, str] | None
    reader: int | None
    application: str | None


_REASONS_VERSION = 170000
_REASONS = {
    "idle_timeout": (
        "nobody read its slot for longer than the server's idle_replication_slot_timeout",
        "Raise that setting, or set it to 0.",
    ),
    "rows_removed": (
        "the server is a standby, and rows of its catalog that the slot needed were removed on the primary",
        "Set hot_standby_feedback = on on the standby.",
    ),
    "wal_level_insufficient": (
        "the server is a standby, and its primary did not have wal_level = logical for a while",
        "Set wal_level = 'logical' on the primary, and restart it.",
    ),
}
_REMOVED = ("the server has removed changes that were not read yet", "Raise max_slot_wal_keep_size on the server.")
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
    """Return what the slot has confirmed, made where there is none; all before it is seen by every later snapshot.

    To make one, the server waits for transactions that run. One whose commit waits for a standby is in no snapshot yet,
    though it may be before the slot: so all that have begun are waited for, too. One that is being made, perhaps for a
    process that has died by now, is waited for as well.
    """
    until = time.monotonic() + _PATIENCE_S
    while True:
        found = find_slot(connection, name)
        if found is not None and found.confirmed is not None:
            break
        if found is None:
            _create_slot(connection, name, source)
            continue
        if time.monotonic() > until:
            raise _waiting(source)
        time.sleep(_BREATH_S)
    last = _next_transaction(connection)
    while server_snapshot(connection).first < last:
        if time.monotonic() > until:
            raise _waiting(source)
        time.sleep(_BREATH_S)
    return found.confirmed


def _create_slot(connection: Connection, name: str, source: str) -> None:
    more = ", false, false, true" if connection.info.server_version >= _FAILOVER_VERSION else ""
    try:
        connection.execute(f"SET statement_timeout = '{_PATIENCE_S}s'")
        connection.execute(f"SELECT pg_create_logical_replication_slot(%s, 'pgoutput'{more})", [name])
    except psycopg.errors.DuplicateObject:
        pass  # another process was faster
    except psycopg.errors.QueryCanceled as error:
        raise _waiting(source) from error
    except psycopg.errors.ConfigurationLimitExceeded as error:
        raise SinkqlError(
            "SQ3707",
            "all replication slots of the server are in use",
            hint="Raise max_replication_slots and restart the server, or drop a slot that nobody reads: "
            "SELECT slot_name FROM pg_replication_slots WHERE NOT active;",
        ) from error
    finally:
        connection.execute("SET statement_timeout = 0")


def _next_transaction(connection: Connection) -> int:
    """Return a number that no transaction has which has begun to write.

    It is not what a snapshot ends with: one that still runs may be beyond that. A standby has no numbers to give.
    """
    query = "CASE WHEN pg_is_in_recovery() THEN pg_snapshot_xmax(pg_current_snapshot()) ELSE pg_current_xact_id() END"
    row = connection.execute(f"SELECT ({query})::text").fetchone()
    assert row is not None
    return int(row[0])


def server_snapshot(connection: Connection) -> ServerSnapshot:
    """Return what a snapshot sees now, or in the transaction of the connection."""
    row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
    assert row is not None
    return ServerSnapshot.read(row[0])


def _waiting(source: str) -> SinkqlError:
    return SinkqlError(
        "SQ3708",
        f'source "{source}" waits for transactions of its server that began before it',
        hint="Wait, or end those that were forgotten: SELECT pid, query FROM pg_stat_activity ORDER BY xact_start; on "
        "the server lists them. It is tried again.",
    )


def free_slot(connection: Connection, slot: Slot, application: str, source: str) -> Slot | None:
    """End a reader of the slot that is an earlier one of the same source; raises SQ3706 for another one.

    Return the slot as it is then: until it ended, the reader may have confirmed more. None where it is gone.
    """
    until = time.monotonic() + _PATIENCE_S
    found: Slot | None = slot
    while found is not None and found.reader is not None:
        if found.application not in (application, None) or time.monotonic() > until:
            raise SinkqlError(
                "SQ3706",
                f'another program reads the replication slot of source "{source}": {found.application or "unknown"}',
                hint=f"End it on the server with SELECT pg_terminate_backend({found.reader}); It is tried again.",
            )
        connection.execute("SELECT pg_terminate_backend(%s)", [found.reader])
        time.sleep(_BREATH_S)
        found = find_slot(connection, slot.name)
    return found


def drop_slot(connection: Connection, source_id: str, source: str) -> None:
    """Drop a source's slot, if there is one."""
    found = find_slot(connection, slot_name(source_id))
    if found is None:
        return
    free_slot(connection, found, application_name(source_id), source)
    try:
        connection.execute("SELECT pg_drop_replication_slot(%s)", [found.name])
    except psycopg.errors.UndefinedObject:
        return
