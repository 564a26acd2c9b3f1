"""Exchange rows between tasks by bucket, as Arrow blobs that an RDD's shuffle carries.

No row passes through the JVM as a row: Spark sees pairs of a bucket and the bytes of an Arrow stream. A task gathers
the rows of each bucket until they fill a blob. The partitions after the shuffle are the buckets.

Blobs are smaller if there are many buckets, since Spark's Python worker gathers ten of them for each bucket before it
sends them on. Rows of one blob, and the order of blobs, may differ between two attempts at a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import RDD

from sinkql.storage import failpoint

BLOB_BYTES = 1 << 18
WAITING_BYTES = 64 << 20
"""The most bytes of rows that wait in a task until a blob is full."""
_SMALLEST_BLOB = 1 << 14

Pair = tuple[int, bytes]
Buckets = Callable[[pa.RecordBatch], NDArray[np.int64]]
"""Returns the bucket of each row."""
Combine = Callable[[pa.Table], pa.Table]
"""Returns fewer rows with the same meaning, or the same rows."""


def exchanged(pairs: RDD[Pair], buckets: int) -> RDD[Pair]:
    """Return an RDD with a partition for each bucket."""
    return pairs if buckets == 1 == pairs.getNumPartitions() else pairs.partitionBy(buckets, int)


def unpacked(pairs: Iterable[Pair]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of blobs."""
    for place, (_, blob) in enumerate(pairs):
        if not place:
            failpoint.point("exchange-received")
        yield from read_blob(blob)


def read_blob(blob: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a blob."""
    yield from pa.ipc.open_stream(blob)


def blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """Yield the rows as blobs, without regard to buckets."""
    for _, blob in packed(batches, lambda batch: np.zeros(batch.num_rows, np.int64), 1):
        yield blob


def packed(
    batches: Iterator[pa.RecordBatch],
    bucket_of: Buckets,
    buckets: int,
    *,
    combine: Combine | None = None,
    dropped: Sequence[str] = (),
) -> Iterator[Pair]:
    """Yield the rows as blobs with their buckets, without columns that only decide the bucket.

    `combine` is called with the rows of a full blob.
    """
    most = max(_SMALLEST_BLOB, min(BLOB_BYTES, WAITING_BYTES // buckets))
    waiting = [_Waiting() for _ in range(buckets)]
    gathered = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        numbers = bucket_of(batch)
        rest = batch.drop_columns(list(dropped)) if dropped else batch
        width = max(1, rest.nbytes // rest.num_rows)
        for bucket, part in _split(rest, numbers, buckets, max(1, most // width)):
            rows = waiting[bucket]
            rows.add(part, part.num_rows * width)
            if rows.size >= most and not rows.shrink(combine, most // 2):
                yield bucket, rows.blob()
        gathered += rest.nbytes
        if gathered > WAITING_BYTES:  # a bucket's few rows keep the whole batches in memory that they came in
            yield from _rest(waiting, combine)
            gathered = 0
    yield from _rest(waiting, combine)
    failpoint.point("exchange-sent")


def _rest(waiting: Iterable[_Waiting], combine: Combine | None) -> Iterator[Pair]:
    for bucket, rows in enumerate(waiting):
        if rows.parts:
            rows.shrink(combine, 0)
            yield bucket, rows.blob()


def _split(
    batch: pa.RecordBatch, numbers: NDArray[np.int64], buckets: int, most: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each bucket, in their order, at most `most` together."""
    rows, cuts = batch, np.array([0, batch.num_rows])
    if buckets > 1:
        order = np.argsort(numbers.astype(np.uint16), kind="stable")  # a radix sort
        rows, cuts = batch.take(pa.array(order)), np.searchsorted(numbers[order], np.arange(buckets + 1))
    for bucket in np.flatnonzero(np.diff(cuts)).tolist():
        end = int(cuts[bucket + 1])
        for begin in range(int(cuts[bucket]), end, most):
            yield bucket, rows.slice(begin, min(most, end - begin))


@dataclass(slots=True)
class _Waiting:
    """The rows of a bucket that wait for their blob."""

    parts: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0

    def add(self, part: pa.RecordBatch, size: int) -> None:
        self.parts.append(part)
        self.size += size

    def shrink(self, combine: Combine | None, enough: int) -> bool:
        """Combine the rows; return whether at most `enough` bytes remain."""
        if combine is None:
            return False
        rows = combine(pa.Table.from_batches(self.parts))
        self.parts, self.size = rows.to_batches(), rows.nbytes
        return self.size <= enough

    def blob(self) -> bytes:
        """Return the rows as a blob, and begin the next one."""
        rows = pa.Table.from_batches(self.parts).combine_chunks()
        self.parts, self.size = [], 0
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        blob: bytes = sink.getvalue().to_pybytes()
        return blob
