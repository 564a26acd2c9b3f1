"""Consolidate changes of rows, and write and read runs of them as memory-mapped files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from xxhash import xxh3_64, xxh3_64_hexdigest, xxh3_64_intdigest

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.view.log import StoredRun, damaged_error
from sinkql.errors import SinkqlError
from sinkql.storage import files, spill
from sinkql.storage.digest import DigestingFile

DIFF, HAD = physical.DIFF, "$had"
"""The column with the number of additions of a row minus its removals, and the mark of old rows in a comparison."""
_BATCH_ROWS = 1 << 16
_ODD = np.uint64(0x9E3779B97F4A7C15)


def schema_of(columns: Sequence[physical.Column]) -> pa.Schema:
    """Return the schema of changes of rows with these columns."""
    return pa.schema([*((column.name, arrow_type(column.type)) for column in columns), (DIFF, pa.int64())])


def consolidate(table: pa.Table) -> pa.Table:
    """Sum `$diff` over equal rows, and drop rows whose sum is zero."""
    names = [name for name in table.column_names if name != DIFF]
    keys = {f"k{index}": _comparable(table.column(name)) for index, name in enumerate(names)}
    indices = pa.array(np.arange(len(table)))
    keyed = pa.table({**keys, "$place": indices, DIFF: table.column(DIFF)})
    sums = keyed.group_by(list(keys), use_threads=False).aggregate([("$place", "min"), (DIFF, "sum")])
    sums = sums.filter(pc.not_equal(sums.column(f"{DIFF}_sum"), 0))
    rows = table.select(names).take(sums.column("$place_min").combine_chunks())
    return rows.append_column(DIFF, sums.column(f"{DIFF}_sum")).combine_chunks()


def consolidated_parts(tables: Iterable[pa.Table], schema: pa.Schema, folder: Path) -> Iterator[pa.Table]:
    """Yield all rows, equal ones in one part; many rows are spilled to a temporary file in `folder`."""
    for part in spill.spilled_parts(tables, schema, _hash_ranges, folder):
        yield part.rows


def _hash_ranges(table: pa.Table) -> spill.Ranges:
    """Return a hash of each row; rows that are equal except for `$diff` and `$had` have the same."""
    hashes = np.zeros(len(table), np.uint64)
    for name in table.column_names:
        if name not in (DIFF, HAD):
            hashes = (hashes ^ _hashes(_comparable(table.column(name)))) * _ODD
    return spill.hash_range(hashes)


def _hashes(column: pa.ChunkedArray | pa.Array) -> NDArray[np.uint64]:
    """Return hashes; equal values have the same."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = array.cast(pa.uint8()) if pa.types.is_boolean(array.type) else array
    width = array.type.bit_width if pa.types.is_primitive(array.type) else 0
    if width:
        bits = array.view(f"uint{width}").fill_null(0).to_numpy(zero_copy_only=False)
    elif pa.types.is_decimal128(array.type):
        array = array.fill_null(pa.scalar(0, array.type))
        bits = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset :][: 2 * len(array) : 2]
    else:
        values = array.cast(pa.binary()).fill_null(b"").to_pylist()
        bits = np.fromiter(map(xxh3_64_intdigest, values), np.uint64, len(array))
    hashes: NDArray[np.uint64] = bits.astype(np.uint64) * _ODD
    return hashes ^ (hashes >> np.uint64(29))


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return values whose bytes are equal if the values are."""
    if pa.types.is_floating(column.type):
        return pc.add(column, pa.scalar(0.0, column.type))  # makes -0.0 and 0.0 equal
    if pa.types.is_nested(column.type):
        return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
    return column


def expand(table: pa.Table) -> pa.Table:
    """Return the added rows without `$diff`, each as often as it was added."""
    counts = np.maximum(table.column(DIFF).to_numpy(), 0)
    indices = np.repeat(np.arange(len(table)), counts)
    return table.drop_columns([DIFF]).take(pa.array(indices))


def negate(table: pa.Table) -> pa.Table:
    """Return the changes that undo others."""
    return table.set_column(table.num_columns - 1, DIFF, pc.negate(table.column(DIFF)))


def check_present(table: pa.Table, view: str) -> pa.Table:
    """Return the rows of a view; raise SQ3401 if a row was removed more often than added."""
    if len(table) and pc.min(table.column(DIFF)).as_py() < 0:
        from sinkql.planner.name import short_name  # for the message only: the planner is large

        raise SinkqlError(
            "SQ3401",
            f'a row that was never added is removed, in view "{short_name(view)}"',
            hint="A source deletes or changes rows that it never sent; check that it was read from its beginning.",
        )
    return table


class RunFile:
    """A run that is written part by part, and durable when the context ends. Without rows, no file is written."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.rows = self.bytes = 0
        self.digest = ""
        self._path, self._schema = path, schema
        self._stack = ExitStack()
        self._file: DigestingFile | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def __enter__(self) -> RunFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._writer is not None and self._file is not None and kind is None:
            self._writer.close()
            self.bytes, self.digest = self._file.tell(), self._file.digest.hexdigest()
        self._stack.__exit__(kind, error, traceback)

    def add(self, table: pa.Table) -> None:
        """Write changes."""
        if not len(table):
            return
        if self._writer is None:
            self._file = DigestingFile(self._stack.enter_context(files.write_stream(self._path)), xxh3_64())
            self._writer = pa.ipc.new_file(self._file, self._schema)
        self._writer.write_table(table, max_chunksize=_BATCH_ROWS)
        self.rows += len(table)


def read_runs(files: Iterable[StoredRun], schema: pa.Schema) -> pa.Table:
    """Return the changes of some runs, one run after the other, with the columns of the schema.

    Raises FileNotFoundError, and SQ3452 for a file that has changed, which could crash the process.
    """
    tables = [schema.empty_table()]
    for file in files:
        try:
            buffer = pa.memory_map(str(file.path)).read_buffer()
            if buffer.size != file.bytes:
                raise ValueError(f"it has {buffer.size} bytes, but {file.bytes} were written")
            if file.digest and xxh3_64_hexdigest(memoryview(buffer)) != file.digest:
                raise ValueError("its content has changed")
            table = pa.ipc.open_file(buffer).read_all()
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:
            raise damaged_error(file.path, str(error)) from error
        tables.append(table.select(schema.names).cast(schema))
    return pa.concat_tables(tables)


def in_batches(table: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of a memory-mapped table in batches."""
    for start in range(0, len(table), _BATCH_ROWS):
        yield table.slice(start, _BATCH_ROWS)
