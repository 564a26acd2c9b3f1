"""The rows of one bucket and one part of a rebuild → two files in its folder: what becomes of each key, and the rows.

Both are in the order of the keys' hashes, so that the comparison with the table reads a range of them at a time.

Rows in a table's Arrow types → 128-bit hashes of all their values: rows with equal ones need not be written again.

Values are taken as they are stored, so that 0.0 is not -0.0. Arrays and the like go in as text.
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
    """Put by the rows of one bucket of part `number`; a `WriteTask`. `table` is the one that is about to be.

    As in a batch, the last row of a key in the part counts; SQ3552 for two rows of one key.
    """

    commit: str
    buckets: int | None
    key: tuple[str, ...]
    change: physical.Change
    number: int
    home: StateDirectory
    table: TaskTable

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write the files; the result's data is their name, None where no row came."""
        given = [batch for batch in batches if batch.num_rows]
        if not given:
            return WriteResult(bucket, 0, None, superseded=0)
        rows = pa.Table.from_batches(given).combine_chunks()
        changes = key_changes(rows, self.table.schema(), self.key, self.change, self.home.hash_key)
        chosen = rows.take(pa.array(changes.row[changes.upsert]))
        chosen = cast(chosen, target_schema(self.table.schema(), chosen.schema))
        d1, d2 = (np.zeros(len(changes.row), np.uint64) for _ in range(2))
        d1[changes.upsert], d2[changes.upsert] = digests(chosen, self.home.hash_key)
        name = f"{self.number:06}-b{bucket}-{self.commit}-{attempt}"
        fates: dict[str, Column] = {
            "h1": changes.h1, "h2": changes.h2, "d1": d1, "d2": d2, "comes": changes.upsert.astype(np.uint8),
            "fresh": changes.fresh.astype(np.uint8), "at": np.cumsum(changes.upsert) - 1,
        }  # fmt: skip
        keys_file, rows_file = (self.home.folder / each for each in part_files(name))
        keys_file.parent.mkdir(parents=True, exist_ok=True)
        put_by(keys_file, fates)
        with pa.ipc.new_file(str(rows_file), chosen.schema) as file:
            file.write_table(chosen, max_chunksize=_ROWS_A_BATCH)
        if self.home.remote:
            self.home.upload(part_files(name))
        failpoint.point("rebuild-part")
        keys, gone = len(changes.row), int(np.count_nonzero(~changes.upsert))
        return WriteResult(bucket, keys, name, gone, len(rows) - keys)


def part_files(name: str) -> tuple[str, str]:
    """Return the names of the two files of a task: what becomes of its keys, and the rows."""
    return f"{name}.keys", f"{name}.rows"


@dataclass(frozen=True, slots=True)
class Part:
    """The files of a task, mapped into memory: the arrays of what becomes of each key, and the rows that come.

    `at` tells of each key whose row comes where the row is.
    """

    number: int
    h1: Hashes
    h2: Hashes
    d1: Hashes
    d2: Hashes
    comes: Column
    fresh: Column
    at: Indices
    rows: pa.Table

    @classmethod
    def open(cls, folder: Path, name: str) -> Part:
        """Map the files of that name."""
        keys_file, rows_file = (folder / each for each in part_files(name))
        rows = pa.ipc.open_file(pa.memory_map(str(rows_file))).read_all()
        return cls(int(name.partition("-")[0]), **mapped(keys_file), rows=rows)

    def taken(self, places: Indices) -> pa.Table:
        """Return the rows of the keys at these places, of which there are some; what lies around is not copied."""
        at = self.at[places]
        low, high = int(at.min()), int(at.max())
        return self.rows.slice(low, high - low + 1).take(pa.array(at - low))


def put_by(path: Path, columns: Mapping[str, Column]) -> None:
    """Write equally long arrays to a file."""
    batch = pa.RecordBatch.from_arrays([pa.array(column) for column in columns.values()], names=list(columns))
    with pa.ipc.new_file(str(path), batch.schema) as file:
        file.write_batch(batch)


def mapped(path: Path) -> dict[str, Column]:
    """Map the arrays of a file, which costs no private memory."""
    batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    return {name: column.to_numpy() for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def cuts(h1: Hashes, bounds: Hashes) -> Sequence[int]:
    """Return where each range of hashes begins in a sorted array, and where the last one ends."""
    return [0, *np.searchsorted(h1, bounds).tolist(), len(h1)]


_BITS = {pa.float64(): pa.int64(), pa.float32(): pa.int32(), pa.float16(): pa.int16()}


def digests(rows: pa.Table, hash_key: HashKey) -> tuple[Hashes, Hashes]:
    """Return the two halves of each row's hash; columns count in their order."""
    return hash_rows(hash_key, [_hashed(rows.column(name)) for name in rows.column_names])


def _hashed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    bits = _BITS.get(column.type)
    if bits is not None:
        return pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)
    if pa.types.is_nested(column.type) or not is_hashable(column.type):
        texts = [None if value is None else repr(value) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.large_string())])
    return column
