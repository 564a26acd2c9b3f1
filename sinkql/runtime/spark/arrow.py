"""How a task with state knows its bucket: a row is there for each bucket, wherever the task's frame stands.

The number of a task's partition says it only as long as no partitions are put before its own, as a union does. A row
more for each bucket is cheaper than another shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its customary name

from sinkql.lowering.spark.sql import quoted
from sinkql.runtime.local.murmur3 import bucket_numbers

_TRIED = 64


@cache
def hashes_of(buckets: int) -> tuple[int, ...]:
    """Return a `$h1` for each bucket that a shuffle puts there."""
    found: dict[int, int] = {}
    start = 0
    while len(found) < buckets:
        values = np.arange(start, start + _TRIED * buckets)
        for value, bucket in zip(values, bucket_numbers([pa.array(values)], ["bigint"], buckets), strict=True):
            found.setdefault(int(bucket), int(value))
        start += len(values)
    return tuple(found[bucket] for bucket in range(buckets))


def with_bucket_rows(spark: SparkSession, rows: DataFrame, buckets: int, place: str = "$h1") -> DataFrame:
    """Add a row for each bucket, which has nothing but the `place` that a shuffle puts there, and then NULLs."""
    hashes = ", ".join(f"{each}L" for each in hashes_of(buckets))
    own = F.expr(f"element_at(array({hashes}), CAST(id AS INT) + 1)")
    columns = [own if each.name == place else F.lit(None).cast(each.dataType) for each in rows.schema]
    return rows.unionAll(spark.range(0, buckets, 1, 1).select(*columns))


def bucket_column(buckets: int, place: Sequence[str] = ("$h1",)) -> F.Column:
    """Return `$b`: the bucket into which a shuffle by `place` puts a row."""
    return F.pmod(F.hash(*[F.col(quoted(name)) for name in place]), F.lit(buckets))


def split_bucket_rows(batches: Iterator[pa.RecordBatch]) -> tuple[int | None, Iterator[pa.RecordBatch]]:
    """Return the bucket of a task's rows, and those that are not there for that alone; no bucket where none come.

    Of `with_bucket_rows` rows one comes always.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return None, batches
    return int(first.column("$b")[0].as_py()), map(_without_marks, chain([first], batches))


def _without_marks(batch: pa.RecordBatch) -> pa.RecordBatch:
    own = batch.column("$h2")
    return batch.filter(own.is_valid()) if own.null_count else batch
