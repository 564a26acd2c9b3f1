"""Stage the rows of one bucket and one part of a full refresh in two files: the changed keys, and the rows.

Both files are sorted by key hash, so that the comparison with the table can read one range of hashes at a time.

A row's digest is a 128-bit hash of all its values in the table's types: rows with equal digests are not written again.
Stored values are hashed, so 0.0 differs from -0.0. Arrays and other nested values are hashed as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import WriteResult
from sinkql.connectors.iceberg.file.data_file import TaskTable, cast, target_schema
from sinkql.connectors.iceberg.key_index.change import key_changes
from sinkql.hash_key import HashKey
from sinkql.row_hash import Hashes, hash_rows, is_hashable
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint
from sinkql.storage.sorted_run import Column, Indices

_ROWS_A_BATCH = 1 << 14


@dataclass(frozen=True, slots=True)
class CollectTask:
    """Stages the rows of one bucket of part `number` in `directory`; a `WriteTask`.

    `table` is the table as it will be after the refresh. As in a batch, the last row of a key in the part counts, and
    two rows of one key raise SQ3552.
    """

    commit: str
    buckets: int | None
    key: tuple[str, ...]
    change: physical.Change
    number: int
    directory: StateDirectory
    table: TaskTable

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write the files; the result's data is their name, None if the bucket has no rows."""
        parts = [batch for batch in batches if batch.num_rows]
        if not parts:
            return WriteResult(bucket, 0, None, superseded=0)
        rows = pa.Table.from_batches(parts).combine_chunks()
        schema, hash_key = self.table.schema(), self.directory.hash_key
        changes = key_changes(rows, schema, self.key, self.change, hash_key)
        upserts = rows.take(pa.array(changes.row[changes.upsert]))
        upserts = cast(upserts, target_schema(schema, upserts.schema))
        d1, d2 = (np.zeros(len(changes.row), np.uint64) for _ in range(2))
        d1[changes.upsert], d2[changes.upsert] = digests(upserts, hash_key)
        name = f"{self.number:06}-b{bucket}-{self.commit}-{attempt}"
        columns: dict[str, Column] = {
            "h1": changes.h1, "h2": changes.h2, "d1": d1, "d2": d2, "upsert": changes.upsert.astype(np.uint8),
            "fresh": changes.fresh.astype(np.uint8), "row": np.cumsum(changes.upsert) - 1,
        }  # fmt: skip
        keys_file, rows_file = (self.directory.folder / file for file in part_files(name))
        keys_file.parent.mkdir(parents=True, exist_ok=True)
        write_arrays(keys_file, columns)
        with pa.ipc.new_file(str(rows_file), upserts.schema) as file:
            file.write_table(upserts, max_chunksize=_ROWS_A_BATCH)
        if self.directory.remote:
            self.directory.upload(part_files(name))
        failpoint.point("rebuild-part")
        keys, removed = len(changes.row), int(np.count_nonzero(~changes.upsert))
        return WriteResult(bucket, keys, name, removed, len(rows) - keys)


def part_files(name: str) -> tuple[str, str]:
    """Return the names of the two files of a task: its changed keys, and its rows."""
    return f"{name}.keys", f"{name}.rows"


@dataclass(frozen=True, slots=True)
class Part:
    """The files of one task, mapped into memory.

    The arrays have an entry for each changed key: its hash, the digest of its row, and whether it is an `upsert` or
    `fresh`, as in `KeyChanges`. `row` is the place of an upsert in `rows`.
    """

    number: int
    h1: Hashes
    h2: Hashes
    d1: Hashes
    d2: Hashes
    upsert: Column
    fresh: Column
    row: Indices
    rows: pa.Table

    @classmethod
    def open(cls, folder: Path, name: str) -> Part:
        """Map the files of that name."""
        keys_file, rows_file = (folder / file for file in part_files(name))
        rows = pa.ipc.open_file(pa.memory_map(str(rows_file))).read_all()
        return cls(int(name.partition("-")[0]), **map_arrays(keys_file), rows=rows)

    def take(self, keys: Indices) -> pa.Table:
        """Return the rows of the upserts at these places, at least one, without a copy of the rows around them."""
        places = self.row[keys]
        low, high = int(places.min()), int(places.max())
        return self.rows.slice(low, high - low + 1).take(pa.array(places - low))


def write_arrays(path: Path, columns: Mapping[str, Column]) -> None:
    """Write arrays of equal length to a file."""
    batch = pa.RecordBatch.from_arrays([pa.array(column) for column in columns.values()], names=list(columns))
    with pa.ipc.new_file(str(path), batch.schema) as file:
        file.write_batch(batch)


def map_arrays(path: Path) -> dict[str, Column]:
    """Map the arrays of a file, which uses no private memory."""
    batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    return {name: column.to_numpy() for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def range_starts(h1: Hashes, bounds: Hashes) -> Sequence[int]:
    """Return the places in a sorted array at which the ranges of hashes begin, and the end of the last range."""
    return [0, *np.searchsorted(h1, bounds).tolist(), len(h1)]


_BITS = {pa.float64(): pa.int64(), pa.float32(): pa.int32(), pa.float16(): pa.int16()}


def digests(rows: pa.Table, hash_key: HashKey) -> tuple[Hashes, Hashes]:
    """Return the two halves of each row's digest, which depends on the order of the columns."""
    return hash_rows(hash_key, [_hashable(rows.column(name)) for name in rows.column_names])


def _hashable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with equal values exactly where the column has them, in a type that can be hashed."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    bits = _BITS.get(column.type)
    if bits is not None:
        return pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)
    if pa.types.is_nested(column.type) or not is_hashable(column.type):
        texts = [None if value is None else repr(value) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.large_string())])
    return column
