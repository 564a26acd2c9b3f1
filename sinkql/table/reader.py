"""Ranges of a table's change log → rows with `$diff`, those that came and went within a batch left out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import Context, Limit, Measure, Offsets, Reader, Split, Tally
from sinkql.errors import SinkqlError
from sinkql.table.file import OtherLogError, Point, TableFile, table_path
from sinkql.table.row import Codec, NarrowError

_BATCH_ROWS = 1 << 14
_SPLIT_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class TableReader(Reader):
    """Read a table. Offsets: `change`, the number of the last change that was read, and the log's `digest` there."""

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
        return _offsets(self.file.last() if at_end else self.file.first())

    def target(self, start: Offsets) -> Offsets:
        """Return the log's present end."""
        with self._of_one_log(start):
            return _offsets(self.file.last(_point(start)))

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return as many whole statements as the limit lets in, at least one."""
        stop = until["change"] if until is not None else None
        with self._of_one_log(start):
            return _offsets(self.file.end(_point(start), rows=limit.rows, size=limit.bytes, until=stop))

    def local_only(self) -> bool:
        """Tell that the table lies in the catalog's folder."""
        return True

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Tell whether all changes up to a target were read."""
        return bool(offsets["change"] >= target["change"])

    def comparable_position(self, offsets: Offsets) -> Offsets | None:
        """Return the offsets: a change is the same one to all readers."""
        return offsets

    def extended(self, end: Offsets, until: Offsets | None = None) -> Offsets:
        """Return the log's present end, or `until`."""
        return until if until is not None else self.target(end)

    def verify(self, offsets: Offsets) -> None:
        """Raise SQ3421 unless the log has all that was read from it, and as it was read."""
        with self._of_one_log(offsets):
            self.file.last(_point(offsets))

    def is_all_null(self, offsets: Offsets, column: str) -> bool:
        """Tell whether no row up to there reaches as far as the column."""
        return self.file.width(offsets["change"]) <= self.names.index(column)

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return ranges of changes, a quarter of a million each at most."""
        first, last = start["change"] + 1, end["change"]
        return [
            {"first": at, "last": min(at + _SPLIT_ROWS - 1, last), "start": start["change"], "end": dict(end)}
            for at in range(first, last + 1, _SPLIT_ROWS)
        ]

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows that came and went in a range of changes, less those that did both in the batch."""
        tally.rows += split["last"] - split["first"] + 1
        with self._of_one_log(split["end"]):
            for batch in self._read(split, tally):
                tally.dropped -= batch.num_rows
                yield batch
        tally.dropped += split["last"] - split["first"] + 1

    def _read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        first, last, end = split["first"], split["last"], _point(split["end"])
        for changes in self.file.changes(first, last, start=split["start"], end=end, most=_BATCH_ROWS):
            tally.bytes += sum(len(data) for _, data in changes)
            try:
                arrays = self.file.codec.arrays(self.file.codec.decode(data) for _, data in changes)
            except NarrowError as error:
                raise self._narrow(error.place) from None
            diffs = pa.array([diff for diff, _ in changes], pa.int64())
            yield pa.record_batch([*arrays, diffs], names=[*self.names, "$diff"])

    def _narrow(self, place: int) -> SinkqlError:
        name, type_ = self.names[place], self.file.codec.types[place]
        return SinkqlError(
            "SQ3414",
            f'column "{name}" of table "{self.source}" has a value that type {type_} cannot hold',
            detail="The column got a wider type after the sink was started.",
            hint="A sink that keeps running continues with the new type; run one that was started with --once again.",
        )

    @contextmanager
    def _of_one_log(self, offsets: Offsets) -> Iterator[None]:
        try:
            yield
        except OtherLogError as error:
            change = offsets["change"]
            there = f"has {error.last}" if error.last < change else f"has others before number {change + 1}"
            raise SinkqlError(
                "SQ3421",
                f'table "{self.source}" no longer has the changes that were read from it',
                detail=f"{change} were read, its file {there}: an older or another file was put in its place.",
                hint="Put the newer file of the table back, or drop the sink and create it again, into a new table.",
            ) from error

    def measure(self, offsets: Offsets) -> Measure:
        """Return how many changes there are."""
        return Measure(max(offsets["change"], self.file.last().change), offsets["change"], "changes")

    def lag(self, offsets: Offsets) -> float:
        """Return the age of the oldest unread statement, in seconds."""
        since = self.file.waiting_since(offsets["change"])
        return 0.0 if since is None else max(0.0, time.time() - since)


def _point(offsets: Offsets) -> Point:
    return Point(offsets["change"], offsets["digest"])


def _offsets(point: Point) -> Offsets:
    return {"change": point.change, "digest": point.digest}
