"""Texts of a query's own rows → rows, once. Offsets: `at`, 0 before them and 1 behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import Limit, Measure, Offsets, Reader, Split, Tally
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
        """Return the place before the rows, also for a sink that wants no rows from before: they are the query's."""
        return {"at": 0}

    def target(self, start: Offsets) -> Offsets:
        """Return the place behind the rows."""
        return {"at": 1}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the place behind the rows, whatever the limit."""
        return {"at": 1}

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return the rows as one split, none where they were read."""
        return [{"rows": len(self.rows)}] if start["at"] < end["at"] else []

    def fits_in_process(self, splits: Sequence[Split]) -> bool:
        """Tell that they are read at once."""
        return True

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        arrays = []
        for place, column in enumerate(self.columns):
            type_ = _held(column.type)
            texts = (row[place] for row in self.rows)
            values = [None if text is None else value_of(text, type_) for text in texts]
            arrays.append(pa.array(values, arrow_type(column.type)))
        tally.rows += len(self.rows)
        yield pa.record_batch(arrays, names=[each.name for each in self.columns])

    def measure(self, offsets: Offsets) -> Measure:
        """Return how many of the rows were read."""
        return Measure(len(self.rows), len(self.rows) * offsets["at"], "rows")


def _held(type_: Type) -> Type:
    """Return the type whose values stand in a column: an interval is its text."""
    return TEXT if type_ == INTERVAL else type_
