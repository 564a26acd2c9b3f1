"""What a test gives a source, batch by batch → what the source's reader gives a job.

The rows that a query says itself, as a source of a test: all of them are in the first batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any

from sinkql import logical, physical
from sinkql.connector_api.source_options import RecordErrorPolicy, on_error
from sinkql.connector_api.stream import Decoding, Limit, Offsets, Reader, RowError, Split, Tally, UndecodableError
from sinkql.connector_api.types import arrow_type, python_values
from sinkql.connectors.constant.reader import ConstantReader
from sinkql.errors import SinkqlError
from sinkql.table.row import Row
from sinkql.testing.rows import alike

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that did not decode."""

    error: RowError


Change = tuple[Row, int] | Refused


@dataclass(slots=True)
class GivenSource:
    """The changes of a source: those of each batch, and those that no batch has yet."""

    item: logical.Source
    read: physical.Read
    batches: list[list[Change]] = field(default_factory=list)
    waiting: list[Change] = field(default_factory=list)

    @property
    def retracts(self) -> bool:
        """Tell whether its rows come and go."""
        return self.read.change == "retract"

    @property
    def key(self) -> list[int]:
        """Return the places of the columns by which its rows overwrite each other."""
        return [place for place, column in enumerate(self.read.columns) if column.name in self.read.key]

    def rows(self) -> list[Row]:
        """Return the rows that are there, in the order in which they came."""
        changes = [
            each
            for each in (*(each for batch in self.batches for each in batch), *self.waiting)
            if not isinstance(each, Refused)
        ]
        if self.key:
            return self._left(changes)
        found: dict[Row, Row] = {}
        counts: Counter[Row] = Counter()
        for row, diff in changes:
            found.setdefault(alike(row), row)
            counts[alike(row)] += diff
        return [found[key] for key, count in counts.items() for _ in range(count)]

    def _left(self, changes: Iterable[tuple[Row, int]]) -> list[Row]:
        found: dict[Row, Row] = {}
        for row, diff in changes:
            key = alike(tuple(row[place] for place in self.key))
            found.pop(key, None)
            if diff > 0:
                found[key] = row
        return list(found.values())

    def gone(self, row: Row) -> Change:
        """Return the change that takes a row out: of rows by key it says no more than the key."""
        if not self.key:
            return row, -1
        return tuple(value if place in self.key else None for place, value in enumerate(row)), -1

    def decode(self, data: bytes, decoding: Decoding) -> None:
        """Take records in as the source's format has them; what does not decode is told when a batch reads it."""
        options = self.read.options
        stream = BytesIO(data.removeprefix(b"\xef\xbb\xbf"))
        try:
            for decoded in decoding.open(options["format"], self.read.columns).decode(stream):
                columns = map(python_values, decoded.batch.columns)
                self.waiting += [(row, 1) for row in zip(*columns, strict=True)]
                for each in decoded.failures:
                    self.waiting.append(Refused(RowError(str(each.line), "SQ3101", each.message, each.raw)))
        except UndecodableError as error:
            message = f"the text cannot be read as {options['format']['name']}: {error}"
            raise SinkqlError("SQ3102", message, hint="Correct the text.") from error

    def skipped(self) -> int:
        """Return how many records were left out because they did not decode."""
        if on_error(self.read.options) == "fail":
            return 0
        return sum(isinstance(each, Refused) for batch in self.batches for each in batch)

    def end_batch(self) -> None:
        """Make the changes that wait a batch."""
        self.batches.append(self.waiting)
        self.waiting = []


@dataclass(frozen=True, slots=True)
class GivenReader(Reader):
    """Read what a test gave. Offsets: `batch`, how many batches were read."""

    source: GivenSource

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the beginning: sinks are there before the test's rows, also those that want no rows from before."""
        return {"batch": 0}

    def target(self, start: Offsets) -> Offsets:
        """Return the present end."""
        return {"batch": len(self.source.batches)}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the present end: a test's batches have no limit."""
        return until if until is not None else self.target(start)

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return one split of all batches between the two."""
        return [{"from": start["batch"], "to": end["batch"]}]

    def read(self, split: Split, tally: Tally) -> Iterator[Any]:
        """Yield the rows; those that come and go between the two offsets are left out, as a table's reader does."""
        import pyarrow as pa

        changes = [each for batch in self.source.batches[split["from"] : split["to"]] for each in batch]
        tally.rows += len(changes)
        read = self.source.read
        kept = list(self._decoded(changes, tally))
        if self.source.retracts:
            kept = _consolidated(decoded := kept)
            tally.dropped += len(decoded) - len(kept)
        rows = list(zip(*(row for row, _ in kept), strict=True)) or [()] * len(read.columns)
        arrays = [pa.array(values, arrow_type(each.type)) for values, each in zip(rows, read.columns, strict=True)]
        names = [each.name for each in read.columns]
        if read.change != "append":
            arrays.append(pa.array([diff for _, diff in kept], pa.int64()))
            names.append("$diff")
        if read.holes:  # a test gives whole rows
            key = pa.struct([(each.name, arrow_type(each.type)) for each in read.columns if each.name in read.key])
            arrays += [pa.nulls(len(kept), pa.binary()), pa.nulls(len(kept), key)]
            names += ["$hole", "$from"]
        yield pa.record_batch(arrays, names=names)

    def _decoded(self, changes: Iterable[Change], tally: Tally) -> Iterator[tuple[Row, int]]:
        bad = RecordErrorPolicy(self.source.read.name, on_error(self.source.read.options))
        for each in changes:
            if not isinstance(each, Refused):
                yield each
            else:
                bad.take(tally, each.error)


def _consolidated(changes: list[tuple[Row, int]]) -> list[tuple[Row, int]]:
    counts: Counter[Row] = Counter()
    rows: dict[Row, Row] = {}
    for row, diff in changes:
        rows.setdefault(alike(row), row)
        counts[alike(row)] += diff
    return [(rows[key], diff) for key, diff in counts.items() if diff]


@dataclass(frozen=True, slots=True)
class RowsOfQuery(Reader):
    """Read them. Offsets: `batch`, how many batches were read."""

    read_: physical.Read

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the beginning."""
        return {"batch": 0}

    def target(self, start: Offsets) -> Offsets:
        """Return a batch further."""
        return {"batch": max(1, start["batch"])}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the end."""
        return until if until is not None else self.target(start)

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return the rows as one split where the first batch is among those."""
        return [{}] if start["batch"] == 0 < end["batch"] else []

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        yield from ConstantReader.of(self.read_).read(split, tally)
