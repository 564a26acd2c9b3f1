"""The received changes → the next entry of the log, with its unchanged values filled from the server."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sinkql.capture.buffer import Receiver
from sinkql.capture.control import CaptureIntervals, SubscribedSink
from sinkql.capture.log import LogWriter
from sinkql.capture.snapshot import TableSnapshotReader
from sinkql.capture.unchanged_values import MissingKeys, keys_to_fetch, with_rows_at
from sinkql.connector_api.cdc import CapturedTable, Position, SchemaChanged, Stream, TableRows
from sinkql.errors import TableError
from sinkql.machine import clock
from sinkql.storage import failpoint


@dataclass(slots=True)
class Publisher:
    """The writer of `changes` entries, with their transactions that a snapshot does not see yet.

    Snapshots see all changes up to `visible`; `unseen` are later transactions of the log, with their positions.
    `requested_end` is the highest position that a sink asked the log to reach.
    """

    log: LogWriter
    stream: Stream
    intervals: CaptureIntervals
    tables: Mapping[str, CapturedTable]
    receiver: Receiver
    snapshots: TableSnapshotReader
    requested_end: Position = ""
    visible: Position = ""
    unseen: list[tuple[Position, Any]] = field(default_factory=list)
    missing_keys: MissingKeys = field(default_factory=MissingKeys)
    unconfirmed_bytes: int = 0
    """What was published since the last confirmation."""
    _published_at: float = 0.0

    def begin(self, start: Position) -> None:
        """Restore the unseen transactions from the log, which continues at `start`."""
        self.unseen = [transaction for entry in self.log.entries for transaction in entry.unseen]
        self.visible = next((entry.start for entry in self.log.entries if entry.unseen), start)
        self._published_at = clock.monotonic()

    def is_due(self, sinks: Sequence[SubscribedSink]) -> bool:
        """Return whether the next entry should be written now, by the commit intervals of the sinks."""
        buffer = self.receiver.buffer
        if buffer.open or buffer.to <= self.log.to:
            return False
        if buffer.since is not None and (
            self.seconds_left(sinks) == 0.0 or buffer.bytes >= self.intervals.entry_bytes or buffer.files
        ):
            return True
        # without changes: some sinks and snapshots wait for the position
        awaited = max(self.requested_end, self.snapshots.high)
        return self.log.to < awaited or clock.monotonic() >= self._published_at + self.intervals.quiet_seconds

    def seconds_left(self, sinks: Sequence[SubscribedSink]) -> float:
        """Return the seconds until an entry with the buffered changes is due; infinity without complete changes."""
        buffer = self.receiver.buffer
        if buffer.open or buffer.since is None:
            return math.inf
        return max(0.0, buffer.since + self.intervals.entry_after(sinks) - clock.monotonic())

    def publish(self) -> bool:
        """Write the buffered changes as an entry; return whether there was one to write.

        Changes that end inside a transaction are not written yet.
        """
        buffer = self.receiver.buffer
        if buffer.open or buffer.to <= self.log.to:
            return False
        failpoint.point("publish")
        tables = buffer.table_entries(self.tables, self._complete)
        failpoint.point("publish-files")
        unseen = self._unseen(buffer.commits)
        self.log.add(
            "changes",
            to=buffer.to,
            at=clock.time(),
            transactions=len(buffer.commits),
            unseen=tuple(unseen),
            tables=dict(tables),
        )
        self.unseen += unseen
        if not self.unseen:
            self.visible = self.log.to
        for table, part in tables.items():
            self.snapshots.extend(table, part.high)
        self._published_at = clock.monotonic()
        self.unconfirmed_bytes += buffer.bytes
        self.receiver.reset(self.log.to)
        return True

    def _unseen(self, commits: Sequence[tuple[Position, Any]]) -> list[tuple[Position, Any]]:
        """Return the transactions from the first one on that a snapshot does not see yet."""
        if not commits:
            return []
        first = self.stream.look().unseen([id_ for _, id_ in commits])
        return [] if first is None else list(commits[first:])

    def update_visible(self) -> None:
        """Ask the server up to which position a snapshot sees all changes of the log."""
        first = self.stream.look().unseen([id_ for _, id_ in self.unseen]) if self.unseen else None
        if first is None:
            self.unseen, self.visible = [], self.log.to
            return
        if first:
            self.visible = self.unseen[first - 1][0]
        self.unseen = self.unseen[first:]

    def _complete(self, table: str, rows: TableRows, ids: Sequence[Any]) -> tuple[TableRows, Position | None]:
        """Fill unchanged values from the server while chunks may be newer than the changes.

        The server's values, and rows that it no longer has, may reflect later changes up to the returned position.
        """
        missing = self.missing_keys.keys_after(table, self.log.to)
        precedes_chunks = self.snapshots.is_before_chunks(table)
        if not precedes_chunks and not missing:
            return rows, None
        captured = self.tables[table]
        places = keys_to_fetch(captured, rows.rows, None if precedes_chunks else missing)
        if not places:
            return rows, None
        try:
            completed, end = self.stream.complete(captured, TableRows(rows.rows.take(pa.array(places))), ids)
        except TableError as error:
            detail = f" ({error.detail})" if error.detail else ""
            # the table's sinks stop before these rows
            self.snapshots.change_schema(SchemaChanged(captured, f"{error.message}{detail}", lost=True))
            return rows, None
        if end is None:
            return rows, None
        self.stream.flush()  # an idle server might never reach the position otherwise
        self.missing_keys.add(captured, completed.rows, end)
        return TableRows(with_rows_at(rows.rows, places, completed.rows), rows.errors), end
