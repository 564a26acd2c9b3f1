"""Ranges of a table's change log → rows with `$diff`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sinkql import physical
from sinkql.connector.stream import Context, Limit, Offsets, Split, Tally
from sinkql.connectors.table.file import TableFile
from sinkql.connectors.table.place import table_path
from sinkql.connectors.table.row import Codec
from sinkql.errors import SinkqlError

_BATCH_ROWS = 1 << 14
_SPLIT_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class TableReader:
    """Read a table. Offsets: `change`, the number of the last change that was read."""

    source: str
    names: tuple[str, ...]
    file: TableFile

    @classmethod
    def of(cls, read: physical.Read, context: Context) -> TableReader:
        """Return the reader of a planned table."""
        path = table_path(context.folder.parent.parent, read.options.get("table_id"), read.name)
        codec = Codec([column.type for column in read.columns])
        return cls(read.name, tuple(column.name for column in read.columns), TableFile(path, codec))

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the log's beginning, or its present end."""
        return {"change": self.file.last() if at_end else 0}

    def target(self, start: Offsets) -> Offsets:
        """Return the log's present end."""
        return {"change": max(start["change"], self._last(start))}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return as many whole statements as the limit lets in, at least one."""
        self._last(start)
        stop = until["change"] if until is not None else None
        return {"change": self.file.end(start["change"], rows=limit.rows, size=limit.bytes, until=stop)}

    def _last(self, start: Offsets) -> int:
        last = self.file.last()
        if last < start["change"]:
            raise SinkqlError(
                "SQ3421",
                f'table "{self.source}" has fewer changes than were read from it',
                detail=f"{start['change']} were read, its file has {last}",
                hint="Put back the table's newer file, or drop the sink and create it again, into a new table.",
            )
        return last

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return ranges of changes, a quarter of a million each at most."""
        first, last = start["change"] + 1, end["change"]
        return [{"first": at, "last": min(at + _SPLIT_ROWS - 1, last)} for at in range(first, last + 1, _SPLIT_ROWS)]

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows that came and went in a range of changes."""
        for changes in self.file.changes(split["first"], split["last"], _BATCH_ROWS):
            tally.rows += len(changes)
            tally.bytes += sum(len(data) for _, data in changes)
            arrays = self.file.codec.arrays(self.file.codec.decode(data) for _, data in changes)
            diffs = pa.array([diff for diff, _ in changes], pa.int64())
            yield pa.record_batch([*arrays, diffs], names=[*self.names, "$diff"])

    def committed(self, end: Offsets) -> None:
        """Do nothing: the log stays as it is."""

    def attachments(self, offsets: Offsets) -> tuple[str, ...]:
        """Return nothing: the offsets are all there is."""
        return ()

    def lag(self, offsets: Offsets) -> float:
        """Return for how long the oldest statement that was not read has been there."""
        since = self.file.waiting_since(offsets["change"])
        return 0.0 if since is None else max(0.0, time.time() - since)

    def finished(self, offsets: Offsets) -> bool:
        """Tell that a table never ends."""
        return False
