"""Read ranges of a table's change log as rows with `$diff`, without rows inserted and deleted in one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import Context, Limit, Measure, Offsets, ReadCounts, Reader, Size, Split
from sinkql.errors import SinkqlError
from sinkql.machine import clock
from sinkql.table.file import OtherLogError, Point, TableFile, table_path
from sinkql.table.row import Codec, NarrowError

_BATCH_ROWS = 1 << 14
_SPLIT_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class TableReader(Reader):
    """A reader of a table. Its offsets are `change`, the number of the last change, and the log's `digest` there."""

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
        """Return the start of the log or its present end."""
        return _offsets(self.file.last() if at_end else self.file.first())

    def target(self, start: Offsets) -> Offsets:
        """Return the log's present end."""
        with self._checked_log(start):
            return _offsets(self.file.last(_point(start)))

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the end of as many whole statements as fit the limit, at least one."""
        stop = until["change"] if until is not None else None
        with self._checked_log(start):
            return _offsets(self.file.end(_point(start), rows=limit.rows, size=limit.bytes, until=stop))

    def local_only(self) -> bool:
        """Return True, because the file is in the catalog's folder."""
        return True

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Return whether all changes up to a target were read."""
        return bool(offsets["change"] >= target["change"])

    def comparable_position(self, offsets: Offsets) -> Offsets | None:
        """Return the offsets, as all readers number changes equally."""
        return offsets

    def extend(self, end: Offsets, until: Offsets | None = None) -> Offsets:
        """Return the log's present end, or `until`."""
        return until if until is not None else self.target(end)

    def verify(self, offsets: Offsets) -> None:
        """Raise SQ3421 unless the log still has the same changes up to the offsets."""
        with self._checked_log(offsets):
            self.file.last(_point(offsets))

    def is_all_null(self, offsets: Offsets, column: str) -> bool:
        """Return whether all rows up to the offsets are NULL in a column and in the later ones."""
        return self.file.width(offsets["change"]) <= self.names.index(column)

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return ranges of at most a quarter of a million changes."""
        first, last = start["change"] + 1, end["change"]
        return [
            {"first": change, "last": min(change + _SPLIT_ROWS - 1, last), "start": start["change"], "end": dict(end)}
            for change in range(first, last + 1, _SPLIT_ROWS)
        ]

    def size(self, splits: Sequence[Split]) -> Size:
        """Return the number of changes, and the bytes of their statements' rows."""
        if not splits:
            return Size(0, 0)
        first, last = splits[0]["first"], splits[-1]["last"]
        return Size(last - first + 1, self.file.size(first, last))

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        """Yield the changes of a range, without rows inserted and deleted in the batch."""
        read_counts.rows += split["last"] - split["first"] + 1
        with self._checked_log(split["end"]):
            for batch in self._read(split, read_counts):
                read_counts.dropped -= batch.num_rows
                yield batch
        read_counts.dropped += split["last"] - split["first"] + 1

    def _read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        first, last, end = split["first"], split["last"], _point(split["end"])
        for changes in self.file.changes(first, last, start=split["start"], end=end, most=_BATCH_ROWS):
            read_counts.bytes += sum(len(data) for _, data in changes)
            try:
                arrays = self.file.codec.arrays(self.file.codec.decode(data) for _, data in changes)
            except NarrowError as error:
                raise self._narrow_error(error.place) from None
            diffs = pa.array([diff for diff, _ in changes], pa.int64())
            yield pa.record_batch([*arrays, diffs], names=[*self.names, "$diff"])

    def _narrow_error(self, place: int) -> SinkqlError:
        name, type_ = self.names[place], self.file.codec.types[place]
        return SinkqlError(
            "SQ3414",
            f'column "{name}" of table "{self.source}" has a value that type {type_} cannot hold',
            detail="The type of the column was widened after the sink started.",
            hint="A running sink continues with the new type. Start a sink with --once again.",
        )

    @contextmanager
    def _checked_log(self, offsets: Offsets) -> Iterator[None]:
        try:
            yield
        except OtherLogError as error:
            change = offsets["change"]
            state = f"has {error.last}" if error.last < change else f"has different ones before number {change + 1}"
            raise SinkqlError(
                "SQ3421",
                f'table "{self.source}" no longer has the changes that the sink has read',
                detail=f"The sink has read {change} changes, but the file {state}. It is an older or different file.",
                hint="Restore the newer file of the table, or drop the sink and create it again with a new table.",
            ) from error

    def measure(self, offsets: Offsets) -> Measure:
        """Return the numbers of all changes and of those read."""
        return Measure(max(offsets["change"], self.file.last().change), offsets["change"], "changes")

    def lag(self, offsets: Offsets) -> float:
        """Return the age of the oldest unread statement, in seconds."""
        since = self.file.waiting_since(offsets["change"])
        return 0.0 if since is None else max(0.0, clock.time() - since)


def _point(offsets: Offsets) -> Point:
    return Point(offsets["change"], offsets["digest"])


def _offsets(point: Point) -> Offsets:
    return {"change": point.change, "digest": point.digest}
