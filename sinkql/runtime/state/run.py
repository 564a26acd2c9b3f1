"""A sorted Arrow table ↔ a run: one immutable, durable, memory-mapped file of an arrangement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from sinkql import durable, faults
from sinkql.errors import LostStateError, SinkqlError

Entry = Mapping[str, Any]
"""What a manifest says of a run: `file`, `rows`, `bytes`, `merges` (0 for one batch's), `digest` of its rows."""


@dataclass(frozen=True, slots=True)
class MappedRun:
    """A run's rows, sorted by `keys`, its first column (uint64)."""

    table: pa.Table
    keys: NDArray[np.uint64]

    def ints(self, column: str) -> NDArray[np.int64]:
        """Return a bigint column of the run."""
        return ints(self.table.column(column))


def in_memory(table: pa.Table) -> MappedRun:
    """Return a sorted table as a run that is in no file."""
    return MappedRun(table, unsigned(table.column(0)))


def open_run(folder: Path, entry: Entry) -> MappedRun:
    """Map a run's file; SQ3404 if it is not there or not the file that the manifest means."""
    path = folder / str(entry["file"])
    try:
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise _lost(path, f"it has {size} bytes, the manifest says {entry['bytes']}")
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        table = reader.read_all()
    except (FileNotFoundError, NotADirectoryError, pa.ArrowInvalid) as error:
        raise _lost(path, str(error)) from error
    if table.num_rows != entry["rows"]:
        raise _lost(path, f"it has {table.num_rows} rows, the manifest says {entry['rows']}")
    return in_memory(table)


def write_run(path: Path, table: pa.Table, *, merges: int = 0, digest: str) -> Entry:
    """Write a sorted table to a new file, durably, and return its manifest entry; SQ3409 if the name is taken."""
    try:
        with durable.stream(path) as file:
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table.combine_chunks())
            size = file.tell()
    except FileExistsError as error:
        raise SinkqlError("SQ3409", f'state file "{path.name}" already exists', detail=str(path)) from error
    faults.point("arrangement-run")
    return {"file": path.name, "rows": table.num_rows, "bytes": size, "merges": merges, "digest": digest}


def digest_of(table: pa.Table) -> str:
    """Return a hash of a table's values; what stands below a NULL does not count."""
    found = xxhash.xxh3_128()
    for column in table.columns:
        array = one_chunk(column)
        found.update(np.packbits(np.asarray(array.is_valid())).tobytes())
        values = array.drop_null()
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.uint8())
        found.update(memoryview(pa.record_batch([values], names=["values"]).serialize()))
    return found.hexdigest()


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def ints(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Return a 64-bit integer column without NULLs as int64."""
    found: NDArray[np.int64] = one_chunk(column).to_numpy(zero_copy_only=False).view(np.int64)
    return found


def unsigned(column: pa.Array | pa.ChunkedArray) -> NDArray[np.uint64]:
    """Return a 64-bit integer column without NULLs as uint64."""
    return ints(column).view(np.uint64)


def _lost(path: Path, why: str) -> LostStateError:
    return LostStateError(
        "SQ3404",
        f'state file "{path.name}" is missing or damaged',
        detail=f"{path}: {why}",
        hint="Restore the sink's state folder, or drop the sink and create it again, into a new table.",
    )
