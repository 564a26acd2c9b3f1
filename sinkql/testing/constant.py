"""The rows that a query says itself, as a source of a test: all of them are in the first batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sinkql import physical
from sinkql.connector_api.stream import Limit, Offsets, Reader, Split, Tally
from sinkql.connectors.constant.reader import ConstantReader

if TYPE_CHECKING:
    import pyarrow as pa


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
