"""Store the rows that a test inserts into a source, and read them batch by batch for a job.

The constant rows of a query are in the first batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sinkql import logical, physical
from sinkql.connector_api.source_options import RecordErrorPolicy, on_error
from sinkql.connector_api.stream import Decoding, Limit, Offsets, ReadCounts, Reader, RowError, Split, UndecodableError
from sinkql.connector_api.types import arrow_type, python_values
from sinkql.connectors.constant.reader import ConstantReader
from sinkql.errors import SinkqlError
from sinkql.table.row import Row
from sinkql.testing.rows import alike

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record that did not decode."""

    error: RowError


Change = tuple[Row, int] | FailedRecord


@dataclass(slots=True)
class PipelineSource:
    """The changes of a source by batch, and the changes that wait for the next batch."""

    item: logical.Source
    read: physical.Read
    batches: list[list[Change]] = field(default_factory=list)
    waiting: list[Change] = field(default_factory=list)

    @property
    def retracts(self) -> bool:
        """Return whether the source retracts rows."""
        return self.read.change == "retract"

    @property
    def key(self) -> list[int]:
        """Return the indexes of the key columns, by which rows overwrite each other."""
        return [place for place, column in enumerate(self.read.columns) if column.name in self.read.key]

    def rows(self) -> list[Row]:
        """Return the present rows in insertion order."""
        changes = [
            change
            for change in (*(change for batch in self.batches for change in batch), *self.waiting)
            if not isinstance(change, FailedRecord)
        ]
        if self.key:
            return self._rows_by_key(changes)
        rows: dict[Row, Row] = {}
        counts: Counter[Row] = Counter()
        for row, diff in changes:
            rows.setdefault(alike(row), row)
            counts[alike(row)] += diff
        return [rows[key] for key, count in counts.items() for _ in range(count)]

    def _rows_by_key(self, changes: Iterable[tuple[Row, int]]) -> list[Row]:
        rows: dict[Row, Row] = {}
        for row, diff in changes:
            key = alike(tuple(row[place] for place in self.key))
            rows.pop(key, None)
            if diff > 0:
                rows[key] = row
        return list(rows.values())

    def deletion(self, row: Row) -> Change:
        """Return the change that deletes a row. For rows by key it has only the key."""
        if not self.key:
            return row, -1
        return tuple(value if place in self.key else None for place, value in enumerate(row)), -1

    def decode(self, data: bytes, decoding: Decoding) -> None:
        """Decode records in the source's format. The next batch reports records that do not decode."""
        options = self.read.options
        stream = BytesIO(data.removeprefix(b"\xef\xbb\xbf"))
        try:
            for decoded in decoding.open(options["format"], self.read.columns).decode(stream):
                columns = map(python_values, decoded.batch.columns)
                self.waiting += [(row, 1) for row in zip(*columns, strict=True)]
                for failure in decoded.failures:
                    self.waiting.append(
                        FailedRecord(RowError(str(failure.line), "SQ3101", failure.message, failure.raw))
                    )
        except UndecodableError as error:
            message = f"the text cannot be read as {options['format']['name']}: {error}"
            raise SinkqlError("SQ3102", message, hint="Correct the text.") from error

    def skipped(self) -> int:
        """Return the number of skipped records, which did not decode."""
        if on_error(self.read.options) == "fail":
            return 0
        return sum(isinstance(change, FailedRecord) for batch in self.batches for change in batch)

    def end_batch(self) -> None:
        """End the batch of the waiting changes."""
        self.batches.append(self.waiting)
        self.waiting = []


@dataclass(frozen=True, slots=True)
class PipelineReader(Reader):
    """A reader of the rows of a test. Its offset `batch` is the number of read batches."""

    source: PipelineSource

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the start. All sinks exist before the rows of a test, even sinks without a snapshot."""
        return {"batch": 0}

    def target(self, start: Offsets) -> Offsets:
        """Return the present end."""
        return {"batch": len(self.source.batches)}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the present end, as the batches of a test have no limit."""
        return until if until is not None else self.target(start)

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return one split with all batches of the range."""
        return [{"from": start["batch"], "to": end["batch"]}]

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[Any]:
        """Yield the rows, without rows inserted and deleted in the range, as a table's reader does."""
        changes = [change for batch in self.source.batches[split["from"] : split["to"]] for change in batch]
        read_counts.rows += len(changes)
        read = self.source.read
        rows_and_diffs = list(self._decoded(changes, read_counts))
        if self.source.retracts:
            rows_and_diffs = _consolidated(decoded := rows_and_diffs)
            read_counts.dropped += len(decoded) - len(rows_and_diffs)
        rows = list(zip(*(row for row, _ in rows_and_diffs), strict=True)) or [()] * len(read.columns)
        arrays = [pa.array(values, arrow_type(column.type)) for values, column in zip(rows, read.columns, strict=True)]
        names = [column.name for column in read.columns]
        if read.change != "append":
            arrays.append(pa.array([diff for _, diff in rows_and_diffs], pa.int64()))
            names.append("$diff")
        if read.holes:  # a test inserts complete rows
            key = pa.struct(
                [(column.name, arrow_type(column.type)) for column in read.columns if column.name in read.key]
            )
            arrays += [pa.nulls(len(rows_and_diffs), pa.binary()), pa.nulls(len(rows_and_diffs), key)]
            names += ["$hole", "$from"]
        yield pa.record_batch(arrays, names=names)

    def _decoded(self, changes: Iterable[Change], read_counts: ReadCounts) -> Iterator[tuple[Row, int]]:
        policy = RecordErrorPolicy(self.source.read.name, on_error(self.source.read.options))
        for change in changes:
            if not isinstance(change, FailedRecord):
                yield change
            else:
                policy.handle(read_counts, change.error)


def _consolidated(changes: list[tuple[Row, int]]) -> list[tuple[Row, int]]:
    counts: Counter[Row] = Counter()
    rows: dict[Row, Row] = {}
    for row, diff in changes:
        rows.setdefault(alike(row), row)
        counts[alike(row)] += diff
    return [(rows[key], diff) for key, diff in counts.items() if diff]


@dataclass(frozen=True, slots=True)
class ConstantRows(Reader):
    """A reader of the constant rows of a query. Its offset `batch` is the number of read batches."""

    read_: physical.Read

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the start."""
        return {"batch": 0}

    def target(self, start: Offsets) -> Offsets:
        """Return the end of the first batch, or a later start."""
        return {"batch": max(1, start["batch"])}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the end."""
        return until if until is not None else self.target(start)

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return one split with all rows if the range has the first batch."""
        return [{}] if start["batch"] == 0 < end["batch"] else []

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        yield from ConstantReader.of(self.read_).read(split, read_counts)
