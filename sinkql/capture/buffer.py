"""Changes as they come → the tables of one entry: rows in memory, and in files where a transaction is long."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sinkql.capture import data_file
from sinkql.capture.log import DataFile, TableEntry
from sinkql.capture.log_store import LogStore
from sinkql.capture.unchanged_values import fill_unchanged, has_unchanged_from_other_key
from sinkql.connector_api.cdc import CapturedTable, Position, RowsChanged, Snapshot, TableRows

_ERROR_BYTES = 500
"""What a record that did not decode takes beside its texts."""
Completing = Callable[[str, TableRows, Sequence[Any]], tuple[TableRows, Position | None]]


@dataclass(slots=True)
class Buffer:
    """What came since the last entry, up to `to`; `open` in the middle of a transaction."""

    store: LogStore
    epoch: int
    to: Position = ""
    open: bool = False
    bytes: int = 0
    since: float | None = None
    ends: list[tuple[Position, Any]] = field(default_factory=list)
    rows: dict[str, list[TableRows]] = field(default_factory=dict)
    files: dict[str, list[DataFile]] = field(default_factory=dict)
    emptied: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    came: dict[str, Position] = field(default_factory=dict)
    """Of tables that changed, a position before the first of their changes."""
    high: dict[str, Position] = field(default_factory=dict)

    def take(self, event: RowsChanged, now: float) -> None:
        """Add an event."""
        if self.since is None:
            self.since = now
        for table in (*event.emptied, *event.tables):
            self.came.setdefault(table, self.to)
        for table in event.emptied:
            self._empty(table)
        for table, parts in event.tables.items():
            self.rows.setdefault(table, []).extend(parts)
            self.bytes += _size(parts)
        self.ends += zip(event.transactions.ends, event.transactions.ids, strict=True)
        self.to, self.open = max(self.to, event.to), event.open

    def move(self, to: Position) -> None:
        """Nothing came up to there."""
        self.to = max(self.to, to)

    def _empty(self, table: str) -> None:
        """Forget what came of a table: all its rows went after that."""
        self.bytes -= _size(self.rows.pop(table, []))
        for file in self.files.pop(table, []):
            self.store.remove(file.name)
        self.moved.discard(table)
        self.emptied.add(table)

    @property
    def holds(self) -> bool:
        """Tell whether there is anything for an entry."""
        return bool(self.rows or self.files or self.emptied or self.ends)

    def spill(self) -> None:
        """Write rows that are in memory into files, which the next entry will name.

        Rows whose holes may have to be filled stay, and all that follow them: their transactions are not whole yet.
        """
        for table, parts in self.rows.items():
            first = next((place for place, part in enumerate(parts) if has_unchanged_from_other_key(part)), len(parts))
            self._write(table, parts[:first])
            del parts[:first]
        self.bytes = sum(map(_size, self.rows.values()))

    def _write(self, table: str, parts: Sequence[TableRows]) -> None:
        file = data_file.write(self.store, table, self.epoch, parts) if parts else None
        if file is not None:
            self.files.setdefault(table, []).append(file)

    def separable(self, table: str, snapshot: Snapshot) -> bool:
        """Tell whether of all that came of a table it is known whether a snapshot has it."""
        if table in self.files or table in self.emptied:
            return False
        return all(
            part.transactions is not None
            and not part.errors
            and snapshot.certain(np.unique(part.transactions).tolist())
            for part in self.rows.get(table, ())
        )

    def leave_out(self, table: str, snapshot: Snapshot) -> None:
        """Forget the rows of a table that came by transactions which a snapshot sees."""
        parts = self.rows.pop(table, [])
        left = [_unseen(part, snapshot) for part in parts]
        self.bytes -= _size(parts) - _size(left)
        if any(part.rows.num_rows for part in left):
            self.rows[table] = left

    def parts(self, tables: Mapping[str, CapturedTable], complete: Completing) -> Mapping[str, TableEntry]:
        """Return what the entry is to have of each table; all its transactions are whole."""
        ids = [id_ for _, id_ in self.ends]
        for table, parts in self.rows.items():
            known = self._filled(tables[table], parts)
            self._write(table, [self._completed(table, part, ids, complete) for part in known])
        self.rows.clear()
        return {
            table: TableEntry(
                tuple(self.files.get(table, ())), table in self.emptied, table in self.moved, self.high.get(table, "")
            )
            for table in sorted({*self.files, *self.emptied})
        }

    def _filled(self, table: CapturedTable, parts: Sequence[TableRows]) -> Sequence[TableRows]:
        """Return parts with holes filled from rows that came before them, of which some may be in files."""
        if not any(map(has_unchanged_from_other_key, parts)):
            return parts
        files = self.files.get(table.id, ())
        before = [TableRows(batch) for file in files for batch in data_file.read(self.store, file)]
        (whole,) = fill_unchanged(table, [*before, *parts])
        count = sum(part.rows.num_rows for part in before)
        return [TableRows(whole.rows.slice(count), whole.errors)]

    def _completed(self, table: str, part: TableRows, ids: Sequence[Any], complete: Completing) -> TableRows:
        """Fill holes of rows whose key changed from the server, as long as that is right; note where some are left."""
        if not has_unchanged_from_other_key(part):
            return part
        part, high = complete(table, part, ids)
        if high is not None:
            self.high[table] = max(self.high.get(table, ""), high)
        if has_unchanged_from_other_key(part):
            self.moved.add(table)
        return part


def _size(parts: Sequence[TableRows]) -> int:
    """Return how many bytes of memory rows take, and what is told of records that did not decode."""
    return sum(
        part.rows.nbytes + sum(_ERROR_BYTES + len(each.raw) + len(each.message) for each in part.errors)
        for part in parts
    )


def _unseen(part: TableRows, snapshot: Snapshot) -> TableRows:
    """Return the rows of a part that came by transactions which a snapshot does not see.

    Where they are not told, they came after all that it may see.
    """
    if part.transactions is None:
        return part
    ids, which = np.unique(part.transactions, return_inverse=True)
    unseen = np.array([snapshot.unseen([each]) is not None for each in ids.tolist()], bool)[which]
    return TableRows(part.rows.filter(pa.array(unseen)), part.errors, part.transactions[unseen])
