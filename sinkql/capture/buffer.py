"""Changes from the stream → the table entries of the next log entry.

Rows wait in memory. Rows of a long transaction go to data files before the entry is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sinkql.capture import data_file
from sinkql.capture.control import CaptureIntervals
from sinkql.capture.log import DataFile, LogWriter, TableEntry
from sinkql.capture.log_store import LogStore
from sinkql.capture.unchanged_values import fill_unchanged, has_unchanged_from_other_key
from sinkql.connector_api.cdc import (
    CapturedTable,
    Position,
    PositionAdvanced,
    RowsChanged,
    Snapshot,
    TableRows,
)
from sinkql.machine import clock

_ERROR_BYTES = 500
"""Estimated size of a row error without its texts."""
Complete = Callable[[str, TableRows, Sequence[Any]], tuple[TableRows, Position | None]]


@dataclass(slots=True)
class Buffer:
    """The changes of the next log entry, up to position `to`; `open` inside a transaction."""

    store: LogStore
    epoch: int
    to: Position = ""
    open: bool = False
    bytes: int = 0
    since: float | None = None
    """When the first event was added, in seconds of the monotonic clock."""
    commits: list[tuple[Position, Any]] = field(default_factory=list)
    """The end position and the id of each transaction."""
    rows: dict[str, list[TableRows]] = field(default_factory=dict)
    files: dict[str, list[DataFile]] = field(default_factory=dict)
    truncated: set[str] = field(default_factory=set)
    incomplete: set[str] = field(default_factory=set)
    """Tables with rows that lack values of another key's row."""
    changed_after: dict[str, Position] = field(default_factory=dict)
    """For each changed table, a position before its first change."""
    high: dict[str, Position] = field(default_factory=dict)

    def add(self, event: RowsChanged, now: float) -> None:
        """Add the rows and transactions of an event."""
        if self.since is None:
            self.since = now
        for table in (*event.emptied, *event.tables):
            self.changed_after.setdefault(table, self.to)
        for table in event.emptied:
            self._truncate(table)
        for table, parts in event.tables.items():
            self.rows.setdefault(table, []).extend(parts)
            self.bytes += _size(parts)
        self.commits += zip(event.transactions.ends, event.transactions.ids, strict=True)
        self.to, self.open = max(self.to, event.to), event.open

    def advance(self, to: Position) -> None:
        """Move the end of the buffer to a later position without changes."""
        self.to = max(self.to, to)

    def _truncate(self, table: str) -> None:
        """Drop the buffered rows of a table: the server truncated it after them."""
        self.bytes -= _size(self.rows.pop(table, []))
        for file in self.files.pop(table, []):
            self.store.remove(file.name)
        self.incomplete.discard(table)
        self.truncated.add(table)

    @property
    def has_changes(self) -> bool:
        """Return whether an entry would contain any change."""
        return bool(self.rows or self.files or self.truncated or self.commits)

    def spill(self) -> None:
        """Write rows from memory to data files, which the next entry will name.

        Rows that lack values of another key's row stay in memory, and so do all rows after them in their table. Their
        values may arrive later in the same transaction.
        """
        for table, parts in self.rows.items():
            first = next((index for index, part in enumerate(parts) if has_unchanged_from_other_key(part)), len(parts))
            self._write(table, parts[:first])
            del parts[:first]
        self.bytes = sum(map(_size, self.rows.values()))

    def _write(self, table: str, parts: Sequence[TableRows]) -> None:
        file = data_file.write(self.store, table, self.epoch, parts) if parts else None
        if file is not None:
            self.files.setdefault(table, []).append(file)

    def can_separate(self, table: str, snapshot: Snapshot) -> bool:
        """Return whether a snapshot separates the buffered changes of a table into seen and unseen."""
        if table in self.files or table in self.truncated:
            return False
        return all(
            part.transactions is not None
            and not part.errors
            and snapshot.certain(np.unique(part.transactions).tolist())
            for part in self.rows.get(table, ())
        )

    def drop_visible(self, table: str, snapshot: Snapshot) -> None:
        """Drop the rows of a table whose transactions a snapshot sees."""
        parts = self.rows.pop(table, [])
        rest = [_invisible_rows(part, snapshot) for part in parts]
        self.bytes -= _size(parts) - _size(rest)
        if any(part.rows.num_rows for part in rest):
            self.rows[table] = rest

    def table_entries(self, tables: Mapping[str, CapturedTable], complete: Complete) -> Mapping[str, TableEntry]:
        """Write the buffered rows of whole transactions, and return the table entries.

        `complete` asks the server for values that rows lack.
        """
        ids = [id_ for _, id_ in self.commits]
        for table, parts in self.rows.items():
            filled = self._fill(tables[table], parts)
            self._write(table, [self._complete(table, part, ids, complete) for part in filled])
        self.rows.clear()
        return {
            table: TableEntry(
                tuple(self.files.get(table, ())),
                table in self.truncated,
                table in self.incomplete,
                self.high.get(table, ""),
            )
            for table in sorted({*self.files, *self.truncated})
        }

    def _fill(self, table: CapturedTable, parts: Sequence[TableRows]) -> Sequence[TableRows]:
        """Fill unchanged values from earlier rows of the buffer, including the rows in its files."""
        if not any(map(has_unchanged_from_other_key, parts)):
            return parts
        files = self.files.get(table.id, ())
        earlier = [TableRows(batch) for file in files for batch in data_file.read(self.store, file)]
        (filled,) = fill_unchanged(table, [*earlier, *parts])
        count = sum(part.rows.num_rows for part in earlier)
        return [TableRows(filled.rows.slice(count), filled.errors)]

    def _complete(self, table: str, part: TableRows, ids: Sequence[Any], complete: Complete) -> TableRows:
        """Fill unchanged values from the server; note tables that stay incomplete."""
        if not has_unchanged_from_other_key(part):
            return part
        part, high = complete(table, part, ids)
        if high is not None:
            self.high[table] = max(self.high.get(table, ""), high)
        if has_unchanged_from_other_key(part):
            self.incomplete.add(table)
        return part


@dataclass(slots=True)
class Receiver:
    """The buffer of the next entry, and the positions where entries must end.

    `stops` are positions of sinks after the end of the log, in order. An entry ends at each, so that no sink reads a
    change twice. `publish` writes the buffered changes to the log and calls `reset`.
    """

    log: LogWriter
    intervals: CaptureIntervals
    publish: Callable[[], None]
    stops: list[Position] = field(default_factory=list)
    buffer: Buffer = field(init=False)

    def __post_init__(self) -> None:
        self.reset(self.log.to)

    def reset(self, to: Position) -> None:
        """Start an empty buffer at a position."""
        self.buffer = Buffer(self.log.directory.store, self.log.epoch, to=to)

    def add(self, event: RowsChanged | PositionAdvanced, *, can_spill: bool) -> None:
        """Buffer an event. Publish first where the event passes a stop."""
        match event:
            case RowsChanged():
                self._publish_stops(event.to, opens=event.open)
                self.buffer.add(event, clock.monotonic())
                if self.buffer.bytes >= self.intervals.spill_bytes and can_spill:
                    self.buffer.spill()
            case PositionAdvanced():
                self._publish_stops(event.to)
                self.buffer.advance(event.to)

    def _publish_stops(self, to: Position, *, opens: bool = False) -> None:
        """End an entry at each stop before `to`.

        Also publish first if the event `opens` a transaction that may pass a stop.
        """
        while self.stops and to > self.stops[0]:
            self.buffer.advance(self.stops.pop(0))
            self.publish()
        if self.stops and opens:
            self.publish()

    def has_stops(self) -> bool:
        """Return whether the log has not reached all stops; remove the stops that it has reached."""
        self.stops = [position for position in self.stops if position > self.log.to]
        return bool(self.stops)

    def is_full(self, *, holding: bool, log_full: bool) -> bool:
        """Return whether reading must pause.

        Memory is full while the snapshots are `holding`, or the log is full between two transactions.
        """
        if self.buffer.bytes >= self.intervals.memory_bytes and holding:
            return True
        return log_full and not self.buffer.open

    @property
    def caught_up_to(self) -> Position:
        """Return the position up to which every received change is in the log."""
        return self.log.to if self.buffer.has_changes else max(self.buffer.to, self.log.to)


def _size(parts: Sequence[TableRows]) -> int:
    """Return the memory that rows and their row errors occupy, in bytes."""
    return sum(
        part.rows.nbytes + sum(_ERROR_BYTES + len(error.raw) + len(error.message) for error in part.errors)
        for part in parts
    )


def _invisible_rows(part: TableRows, snapshot: Snapshot) -> TableRows:
    """Return the rows whose transactions a snapshot does not see.

    Rows without transaction ids are later than everything that the snapshot can see.
    """
    if part.transactions is None:
        return part
    ids, index = np.unique(part.transactions, return_inverse=True)
    invisible = np.array([snapshot.unseen([id_]) is not None for id_ in ids.tolist()], bool)[index]
    return TableRows(part.rows.filter(pa.array(invisible)), part.errors, part.transactions[invisible])
