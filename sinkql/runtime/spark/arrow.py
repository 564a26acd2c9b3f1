"""Convert rows between Arrow and Spark, and give each stateful task its bucket.

A task's partition number is its bucket only if no partitions precede its own, as in a union. Therefore each bucket has
one extra row, which costs less than another shuffle.

`map_in_arrow` accepts columns whose names contain dots, backquotes or stars. `Consolidation` removes the changes of a
bucket that cancel out: a computed row may be the same before and after its input changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its customary name
from pyspark.sql.types import StructType

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.logical.type import Type
from sinkql.lowering.spark.sql import quoted
from sinkql.runtime.local.murmur3 import hashes_of
from sinkql.runtime.local.xxhash64 import xxhash64
from sinkql.state_store.directory import StateDirectory
from sinkql.storage.consolidate import consolidate
from sinkql.storage.spill import Ranges, hash_range, spilled_parts


def with_bucket_rows(spark: SparkSession, rows: DataFrame, buckets: int, place: str = "$h1") -> DataFrame:
    """Add a row for each bucket; it has only the `place` that a shuffle puts there, and NULLs."""
    hashes = ", ".join(f"{hash_}L" for hash_ in hashes_of(buckets))
    of_bucket = F.expr(f"element_at(array({hashes}), CAST(id AS INT) + 1)")
    columns = [of_bucket if field.name == place else F.lit(None).cast(field.dataType) for field in rows.schema]
    return rows.unionAll(spark.range(0, buckets, 1, 1).select(*columns))


def bucket_column(buckets: int, place: Sequence[str] = ("$h1",)) -> F.Column:
    """Return `$b`: the bucket into which a shuffle by `place` puts a row."""
    return F.pmod(F.hash(*[F.col(quoted(name)) for name in place]), F.lit(buckets))


def split_bucket_rows(batches: Iterator[pa.RecordBatch]) -> tuple[int | None, Iterator[pa.RecordBatch]]:
    """Return the bucket of a task's rows, and the rows without the bucket's extra row; no bucket for a task without
    rows.

    After `with_bucket_rows` each task has at least one row.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return None, batches
    return int(first.column("$b")[0].as_py()), map(_without_marks, chain([first], batches))


def _without_marks(batch: pa.RecordBatch) -> pa.RecordBatch:
    halves = batch.column("$h2")
    return batch.filter(halves.is_valid()) if halves.null_count else batch


Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)
Column = TypeVar("Column", pa.Array, pa.ChunkedArray)


def to_spark(rows: Rows) -> Rows:
    """Return rows in Spark's types: a time of day is its microseconds."""
    for place, field in enumerate(rows.schema):
        carried = _carried(field.type)
        if carried != field.type:
            rows = rows.set_column(place, field.name, rows.column(place).cast(carried))
    return rows


def from_spark(rows: Rows, types: Sequence[Type | None]) -> Rows:
    """Return rows of Spark as columns of these types; a column of type None is internal and unchanged."""
    for place, type_ in enumerate(types):
        field = rows.schema.field(place)
        if pa.types.is_nested(field.type):
            rows = rows.set_column(place, field.name, _with_offsets(rows.column(place)))
        if type_ is not None and _TIME.search(str(type_)):
            rows = rows.set_column(place, field.name, rows.column(place).cast(arrow_type(type_)))
    return rows


def batches_to_spark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return batches in Spark's types."""
    return map(to_spark, batches)


def _with_offsets(column: Column) -> Column:
    """Return a column with the offsets of its lists: Spark omits them for empty columns, and `nbytes` reads them."""
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array(map(_with_offsets, column.chunks), column.type)
    return pa.concat_arrays([pa.array([], column.type), column])


def _carried(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_time64(type_):
        return pa.int64()
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_carried(field.type)) for field in type_])
    return pa.list_(_carried(type_.value_type)) if pa.types.is_list(type_) else type_


_TIME = re.compile(r"\btime\b")


Batches = Iterator[pa.RecordBatch]
_PLAIN = re.compile(r"[^.`*]*")


def map_in_arrow(rows: DataFrame, function: Callable[[Batches], Batches], schema: StructType | str) -> DataFrame:
    """Call mapInArrow, which reads column names as paths: other names are replaced by plain names for the call."""
    names = rows.columns
    if all(map(_PLAIN.fullmatch, names)):
        return rows.mapInArrow(function, schema)

    def renamed(batches: Batches) -> Batches:
        return function(batch.rename_columns(names) for batch in batches)

    return rows.toDF(*[f"c{place}" for place in range(len(names))]).mapInArrow(renamed, schema)


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Adds up the changes of equal rows, in parts by the sink's key if there are many; `home` stores these parts."""

    key: tuple[str, ...]
    types: tuple[Type, ...]
    home: StateDirectory

    @classmethod
    def of(cls, write: physical.Write, home: StateDirectory) -> Consolidation:
        """Return the consolidation of a sink."""
        types = {column.name: column.type for column in write.columns}
        return cls(write.key, tuple(types[name] for name in write.key), home)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that remain; `$diff` is the last column."""
        tables = (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
        first = next(tables, None)
        if first is not None:
            for part in spilled_parts(chain([first], tables), first.schema, self._ranges, self.home.folder):
                yield from consolidate(part.rows.to_batches())

    def _ranges(self, rows: pa.Table) -> Ranges:
        return hash_range(xxhash64([rows.column(name).combine_chunks() for name in self.key], self.types))
