"""Write Arrow rows to one Parquet data file of a table, with the statistics for its manifest entry. Runs in tasks.

The names of data files say which sink, epoch and attempt wrote them, and whether the rows were rewritten.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import TableVersion

from sinkql.connectors.iceberg.file.arrow_types import stored
from sinkql.connectors.iceberg.file.manifest import Vector, vector_name
from sinkql.connectors.iceberg.file.partition import WHOLE, PartitionValue
from sinkql.connectors.iceberg.file_damage import FooterSealer
from sinkql.connectors.iceberg.storage import storage_errors, storage_properties
from sinkql.errors import SinkqlError
from sinkql.keywords import qualified_name
from sinkql.machine.memory import remembered

ROW_GROUP_ROWS = 262_144
_ROW_GROUP_BYTES = 128 << 20
"""Rows are buffered in memory up to this size, or up to `ROW_GROUP_ROWS`."""
_STRETCHES, _STRETCH = 16, 256
_SAMPLE = _STRETCHES * _STRETCH
_DICTIONARY_BYTES = 2 << 20
"""Iceberg's default limit for the dictionary of a column in a row group."""
_METRICS = "write.metadata.metrics.column"
_DAY_MICROS = 86_400_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The days of the years 1 to 9999, counted from 1970; Python has no dates, and so no bounds, outside them."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """The manifest entry of a data file, a delete file or one deletion `vector` in a file; picklable.

    Bounds are Iceberg's single-value bytes.
    """

    content: Literal["data", "deletes"]
    path: str
    rows: int
    size: int
    place: PartitionValue = WHOLE
    column_sizes: Mapping[int, int] | None = None
    value_counts: Mapping[int, int] | None = None
    null_value_counts: Mapping[int, int] | None = None
    nan_value_counts: Mapping[int, int] | None = None
    lower_bounds: Mapping[int, bytes] | None = None
    upper_bounds: Mapping[int, bytes] | None = None
    split_offsets: tuple[int, ...] | None = None
    order_id: int | None = None
    vector: Vector | None = None

    @property
    def name(self) -> str:
        """Return the name that identifies the entry's content in its table."""
        return self.path if self.vector is None else vector_name(self.path, self.vector)


@dataclass(frozen=True, slots=True)
class Sorting:
    """A column by which the rows of a file are sorted."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class TaskTable:
    """A loaded table as tasks need it; picklable, and with only the storage's credentials."""

    name: str
    location: str
    schema_json: str
    properties: Mapping[str, str]
    storage: Mapping[str, str]
    spec_json: str
    sorting: tuple[Sorting, ...]
    order_id: int | None
    version: TableVersion

    def __repr__(self) -> str:
        return f"TaskTable({self.location!r})"

    def path(self, name: str) -> str:
        """Return the full path of a data or delete file with that name."""
        return load_location_provider(self.location, dict(self.properties)).new_data_location(name)

    def metadata_path(self, name: str) -> str:
        """Return the full path of a file with that name beside the table's metadata."""
        return load_location_provider(self.location, dict(self.properties)).new_metadata_location(name)

    def schema(self) -> Schema:
        """Return the table's Iceberg schema."""
        return _schema(self.schema_json)

    def spec(self) -> PartitionSpec:
        """Return the partition spec of new files."""
        return _spec(self.spec_json)

    def io(self) -> FileIO:
        """Return access to the table's files; one object per process, so that connections stay open."""
        return _io(tuple(sorted(self.storage.items())), self.location)


def for_tasks(table: Table, *, key: Sequence[str] = ()) -> TaskTable:
    """Return a loaded table as tasks need it; without a sort order, its rows are sorted by `key`."""
    sorting = _sorting(table)
    return TaskTable(
        name=qualified_name(*table.name()),
        location=table.location(),
        schema_json=table.schema().model_dump_json(),
        properties=dict(table.properties),
        storage=storage_properties(table.io),
        spec_json=table.spec().model_dump_json(),
        sorting=sorting or tuple(Sorting(name, descending=False, nulls_first=True) for name in key),
        order_id=table.sort_order().order_id if sorting else None,
        version=table.metadata.format_version,
    )


def _sorting(table: Table) -> tuple[Sorting, ...]:
    """Return the table's sort order; empty if it sorts by a transform or a dropped column."""
    terms = []
    for field in table.sort_order().fields:
        name = table.schema().find_column_name(field.source_id)
        if name is None or not isinstance(field.transform, IdentityTransform):
            return ()
        descending, nulls_first = field.direction is SortDirection.DESC, field.null_order is NullOrder.NULLS_FIRST
        terms.append(Sorting(name, descending, nulls_first))
    return tuple(terms)


@remembered(16)
def _io(storage: tuple[tuple[str, str], ...], location: str) -> FileIO:
    return load_file_io(dict(storage), location)


@lru_cache(maxsize=16)
def _schema(text: str) -> Schema:
    return Schema.model_validate_json(text)


@lru_cache(maxsize=16)
def _spec(text: str) -> PartitionSpec:
    return PartitionSpec.model_validate_json(text)


@dataclass(frozen=True, slots=True)
class _OpenFile:
    """A Parquet file that is being written."""

    stream: pa.NativeFile
    sealer: FooterSealer
    writer: pq.ParquetWriter

    def close(self) -> int:
        """Finish the file and return its size."""
        self.sealer.keep_footer()
        self.writer.close()
        self.sealer.finish()
        size: int = self.stream.tell()
        self.stream.close()
        return size


class DataFileWriter:
    """A writer of one new data file of one partition; row n of the input has position n.

    Columns are found by name and cast to the table's types. Columns that the table does not have are left out. The file
    is created with the first rows. Raises SQ3151 for a value that the table's column cannot hold.
    """

    def __init__(self, table: TaskTable, name: str, place: PartitionValue) -> None:
        self._table = table
        self._place = place
        self._path = table.path(name)
        self._schema: pa.Schema | None = None
        self._stream: pa.NativeFile | None = None
        self._file: _OpenFile | None = None
        self._metadata: list[pq.FileMetaData] = []
        self._buffered: list[pa.Table] = []
        self._waiting = self._waiting_bytes = 0
        self._rows = 0
        self._without_bounds: set[str] = set()

    def write(self, data: pa.Table | pa.RecordBatch) -> None:
        """Add rows, and write full row groups immediately."""
        if data.num_rows == 0:
            return
        rows = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
        if self._schema is None:
            self._schema = target_schema(self._table.schema(), rows.schema)
        rows = cast(rows, self._schema)
        self._without_bounds.update(name for name in rows.column_names if _has_unusual_years(rows.column(name)))
        self._buffered.append(rows)
        self._waiting += rows.num_rows
        self._waiting_bytes += rows.nbytes
        self._rows += rows.num_rows
        while self._waiting >= ROW_GROUP_ROWS:
            self._flush(ROW_GROUP_ROWS)
        if self._waiting_bytes >= _ROW_GROUP_BYTES:
            self._flush(self._waiting)

    @property
    def waiting(self) -> int:
        """Return the bytes of the rows buffered in memory."""
        return self._waiting_bytes

    def flush(self) -> None:
        """Write the buffered rows as a row group."""
        if self._waiting:
            self._flush(self._waiting)

    @property
    def size(self) -> int:
        """Return the bytes written to the file until now."""
        return self._stream.tell() if self._stream is not None else 0

    def close(self) -> FileEntry | None:
        """Finish the file and return its entry; None if it has no rows."""
        self.flush()
        if self._file is None:
            return None
        with storage_errors(self._table.name):
            size = self._file.close()
        return self._entry(size)

    def discard(self) -> None:
        """Close and delete the file, which no manifest names."""
        if self._stream is None:
            return
        with suppress(Exception):  # if it fails, maintenance deletes the orphan file later
            if self._file is not None:
                self._file.writer.close()
            self._stream.close()
            self._table.io().delete(self._path)

    def _flush(self, rows: int) -> None:
        whole = pa.concat_tables(self._buffered)
        with storage_errors(self._table.name):
            self._write(whole.slice(0, rows))
        rest = whole.slice(rows)
        self._buffered = [rest] if rest.num_rows else []
        self._waiting, self._waiting_bytes = rest.num_rows, rest.nbytes

    def _write(self, rows: pa.Table) -> None:
        if self._file is None:
            self._file = self._open(rows)
        self._file.writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)

    def _open(self, rows: pa.Table) -> _OpenFile:
        self._stream = self._table.io().new_output(self._path).create(overwrite=True)
        sealer = FooterSealer(self._stream, self._path)
        writer = pq.ParquetWriter(
            sealer,
            self._schema,
            compression="zstd",
            compression_level=1,
            store_schema=False,
            use_dictionary=repeating(rows),
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
            write_page_checksum=True,
            metadata_collector=self._metadata,
        )
        return _OpenFile(self._stream, sealer, writer)

    def _entry(self, size: int) -> FileEntry:
        schema = self._table.schema()
        without = {f"{_METRICS}.{name}": "counts" for name in self._without_bounds}
        statistics = data_file_statistics_from_parquet_metadata(
            self._metadata[0],
            compute_statistics_plan(schema, {**self._table.properties, **without}),
            parquet_path_to_id_mapping(schema),
        ).to_serialized_dict()
        offsets = statistics.get("split_offsets")
        return FileEntry(
            content="data",
            path=self._path,
            rows=self._rows,
            size=size,
            place=self._place,
            column_sizes=statistics["column_sizes"],
            value_counts=statistics["value_counts"],
            null_value_counts=statistics["null_value_counts"],
            nan_value_counts=statistics["nan_value_counts"],
            lower_bounds=statistics["lower_bounds"],
            upper_bounds=statistics["upper_bounds"],
            split_offsets=tuple(offsets) if offsets else None,
        )


def _has_unusual_years(column: pa.ChunkedArray) -> bool:
    """Return whether a column has dates or times outside the years 1 to 9999."""
    if pa.types.is_date32(column.type):
        bounds, day = pc.min_max(column.cast(pa.int32())).as_py(), 1
    elif pa.types.is_timestamp(column.type) and column.type.unit == "us":
        bounds, day = pc.min_max(column.cast(pa.int64())).as_py(), _DAY_MICROS
    else:
        return False
    least, most = bounds["min"], bounds["max"]
    return least is not None and (least < _FIRST_DAY * day or most >= (_LAST_DAY + 1) * day)


def write_data_file(table: TaskTable, name: str, data: pa.Table, place: PartitionValue = WHOLE) -> FileEntry:
    """Write one data file with all rows of `data`, which has at least one row, all of one partition."""
    writer = DataFileWriter(table, name, place)
    writer.write(data)
    entry = writer.close()
    if entry is None:
        raise ValueError("a data file needs rows")
    return entry


def repeating(rows: pa.Table) -> list[str]:
    """Return the columns in which, by samples, at least every second value repeats an earlier one.

    A dictionary makes these columns smaller, and much faster to read; it makes other columns larger and slower to
    write. One sample consists of short stretches, for values that repeat in neighbouring rows; the second of rows from
    everywhere.
    """
    if rows.num_rows <= _SAMPLE:
        return [name for name in rows.column_names if _repeats(rows.column(name), 1.0)]
    starts = range(0, rows.num_rows, rows.num_rows // _STRETCHES)
    stretches = pa.concat_tables([rows.slice(start, _STRETCH) for start in starts])
    anywhere = np.random.default_rng(0).choice(rows.num_rows, _SAMPLE, replace=False)
    samples = stretches, rows.take(pa.array(np.sort(anywhere)))
    times = min(ROW_GROUP_ROWS, rows.num_rows) / _SAMPLE
    return [name for name in rows.column_names if any(_repeats(sample.column(name), times) for sample in samples)]


def _repeats(column: pa.ChunkedArray, times: float) -> bool:
    """Return whether the values of a column repeat at least twice, and fit in a dictionary.

    The whole column is `times` as long as the sample `column`.
    """
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if pa.types.is_nested(column.type):
        return False
    values = column.drop_null()
    some = pc.unique(values)
    if not 0 < len(some) < len(values):
        return False
    distinct = _distinct(len(some), len(values), times * len(values))
    return 2 * distinct <= times * len(values) and distinct * some.nbytes / len(some) <= _DICTIONARY_BYTES


def _distinct(seen: int, drawn: int, rows: float) -> float:
    """Estimate the distinct values among `rows`, if `seen` were distinct among `drawn`, all equally likely.

    Of n values drawn from d, d (1 - exp(-n / d)) are distinct.
    """
    least, most = float(seen), 1e12
    for _ in range(64):
        middle = (least * most) ** 0.5
        least, most = (middle, most) if -middle * math.expm1(-drawn / middle) < seen else (least, middle)
    return -least * math.expm1(-rows / least)


def target_schema(schema: Schema, source: pa.Schema) -> pa.Schema:
    """Return the table's Arrow schema with field ids, with 32-bit offsets if the source has them."""
    fields = []
    for field in schema_to_pyarrow(schema, include_field_ids=True):
        source_type = source.field(field.name).type
        if pa.types.is_large_string(field.type) and pa.types.is_string(source_type):
            fields.append(field.with_type(pa.string()))
        elif pa.types.is_large_binary(field.type) and pa.types.is_binary(source_type):
            fields.append(field.with_type(pa.binary()))
        else:
            fields.append(field)
    return pa.schema(fields)


def cast(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with exactly this schema, with columns found by name; raises SQ3151."""
    columns = [_cast_column(rows.column(field.name), field) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _cast_column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if not field.nullable and column.null_count:
        raise SinkqlError(
            "SQ3151",
            f'null value in required column "{field.name}" of the table',
            hint="Filter out these rows in the view, or use COALESCE.",
        )
    if column.type.equals(field.type):
        return column
    if isinstance(field.type, pa.UuidType):
        return pa.chunked_array([pa.ExtensionArray.from_storage(field.type, _uuid_bytes(column))])
    if pa.types.is_fixed_size_binary(field.type) and pa.types.is_string(column.type):
        return pa.chunked_array([_uuid_bytes(column)])
    try:
        return stored(column, field) if pa.types.is_nested(field.type) else pc.cast(column, field.type, safe=True)
    except pa.ArrowInvalid as error:
        raise SinkqlError(
            "SQ3151", f'a value does not fit column "{field.name}" of the table', detail=str(error)
        ) from error


def _uuid_bytes(column: pa.ChunkedArray) -> pa.Array:
    values = [None if text is None else UUID(text).bytes for text in column.to_pylist()]
    return pa.array(values, pa.binary(16))


_LETTERS = {False: "c", True: "f"}


def rewritten_name(sink: str, epoch: int, attempt: str, number: int, *, foreign: bool = False) -> str:
    """Return the name of a file of rewritten rows; `foreign` rows were written by another program."""
    return f"{_LETTERS[foreign]}{number}-{sink}-{epoch}-{attempt}.parquet"


def has_rows_of(path: str, sink: str) -> bool:
    """Return whether a data file holds rows that the sink wrote; compaction does not mix them with foreign rows."""
    return re.fullmatch(rf"[bc]\d+-{re.escape(sink)}-\d+-.+\.parquet", path.rpartition("/")[2]) is not None
