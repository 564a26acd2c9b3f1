"""Read the rows that a query contains, once. Offsets: `at` is 0 before the rows and 1 after them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import Limit, Measure, Offsets, ReadCounts, Reader, Size, Split
from sinkql.connector_api.types import arrow_type
from sinkql.logical import Type
from sinkql.logical.expression import value_of
from sinkql.logical.type import INTERVAL, TEXT


@dataclass(frozen=True, slots=True)
class ConstantReader(Reader):
    """Read rows whose values are canonical texts."""

    columns: tuple[physical.Column, ...]
    rows: Sequence[Sequence[str | None]]

    @classmethod
    def of(cls, read: physical.Read) -> ConstantReader:
        """Return the reader of planned rows."""
        return cls(read.columns, read.options["rows"])

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the position before the rows, also for a sink without a snapshot: the rows belong to the query."""
        return {"at": 0}

    def target(self, start: Offsets) -> Offsets:
        """Return the position after the rows."""
        return {"at": 1}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the position after the rows, regardless of the limit."""
        return {"at": 1}

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return the rows as one split; none if they were read."""
        return [{"rows": len(self.rows)}] if start["at"] < end["at"] else []

    def size(self, splits: Sequence[Split]) -> Size:
        """Return the size of the rows' texts."""
        texts = (text for row in self.rows for text in row if text is not None) if splits else ()
        return Size(sum(split["rows"] for split in splits), sum(map(len, texts)))

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        arrays = []
        for index, column in enumerate(self.columns):
            type_ = _stored_type(column.type)
            texts = (row[index] for row in self.rows)
            values = [None if text is None else value_of(text, type_) for text in texts]
            arrays.append(pa.array(values, arrow_type(column.type)))
        read_counts.rows += len(self.rows)
        yield pa.record_batch(arrays, names=[column.name for column in self.columns])

    def measure(self, offsets: Offsets) -> Measure:
        """Return the number of rows that were read."""
        return Measure(len(self.rows), len(self.rows) * offsets["at"], "rows")


def _stored_type(type_: Type) -> Type:
    """Return the type of a column's stored values: an interval is stored as text."""
    return TEXT if type_ == INTERVAL else type_
