"""The task that writes the rows of one bucket, and its result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What one write task did in its bucket: rows read and written, and data for the connector, which is picklable.

    Of the `rows`, `removed` only delete a row. The task read `superseded` further rows, whose keys have a later row
    among `rows`; None if the task does not count them.
    """

    bucket: int
    rows: int
    data: Any
    removed: int = 0
    superseded: int | None = None


class WriteTask(Protocol):
    """Writes the rows of one bucket of one batch. It is picklable, and runs in a Spark task or in plain Python.

    If `buckets` is None, rows may have any distribution (append). Otherwise the caller sends all rows of a key (`key`
    columns) to one bucket, which is always the same for the same `bucketing` name. Rows have the write's columns, then
    `$seq` (append, if rows are written by key), `$diff` (retract), or `$diff` and `$seq` (upsert), according to the
    job's change kind.
    """

    @property
    def commit(self) -> str:
        """Return the id of the commit that the task is part of."""

    @property
    def buckets(self) -> int | None:
        """Return the number of buckets; None if any distribution is correct."""

    @property
    def key(self) -> tuple[str, ...]:
        """Return the columns that determine a row's bucket."""

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write the rows of one bucket; `attempt` is unique to the task attempt and is part of file names."""
