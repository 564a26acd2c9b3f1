"""Read the rows of a data file with the current columns of its table, found by field id.

Rows that are rewritten into another file keep their ids from format version 3 on. They also keep the number of the
commit that wrote them, so that readers can tell a changed row from a moved one. If the file does not store these
values, they come from its entry: `Origin`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import InputStream
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.types import IcebergType, ListType, LongType, MapType, NestedField, StructType

from sinkql.connectors.iceberg.file.data_file import TaskTable, for_tasks
from sinkql.connectors.iceberg.file.deletes import Positions, live_files, read_dead, unite
from sinkql.connectors.iceberg.file.manifest import VECTORS, Origin, origins
from sinkql.connectors.iceberg.file_damage import FOOTER_BYTES, damage_as_error, read_footer
from sinkql.decode.parquet_footer import RowGroup, parse_row_groups

_ROWS, _BYTES = 1 << 16, 64 << 20
"""The most rows and bytes of a part."""
_AT_ONCE = 1 << 12
"""The most rows to decode together: their size in memory is unknown before, as large values are encoded."""


def read_rows(table: TaskTable, path: str) -> Iterator[pa.Table]:
    """Yield all rows of a file in order, in parts ready for a `DataFileWriter`.

    A column missing in the file is NULL. A column of a narrower type is cast later, by the writer. Raises SQ3530.
    """
    schema = schema_to_pyarrow(table.schema(), include_field_ids=True)
    with damage_as_error(path), table.io().new_input(path).open() as stream:
        parquet, groups = opened(stream, path)
        wanted = {field_id(field): field.name for field in schema}
        names = names_by_id(parquet.schema_arrow, wanted, table.properties)
        batches = parquet.iter_batches(_batch_rows(groups), columns=list(names.values()))
        for rows in _parts(batches):
            columns = [
                _as_type(rows.column(names[field.name]), field.type)
                if field.name in names
                else pa.nulls(rows.num_rows, field.type)
                for field in schema
            ]
            yield pa.Table.from_arrays(columns, names=schema.names)


def opened(stream: InputStream, path: str) -> tuple[pq.ParquetFile, Sequence[RowGroup]]:
    """Return a data file, which detects changed pages, and its row groups.

    Raises ValueError, or an error of Arrow, if its footer is damaged.
    """
    footer = read_footer(stream, path)
    groups = parse_row_groups(footer[:-FOOTER_BYTES])
    metadata = pq.read_metadata(pa.BufferReader(footer))
    return pq.ParquetFile(stream, metadata=metadata, page_checksum_verification=True), groups


def _parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Gather batches into parts."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def names_by_id(file: pa.Schema, wanted: Mapping[int, str], properties: Mapping[str, str]) -> dict[str, str]:
    """Return the file's column name for each wanted column that the file has, by the wanted name.

    A file without ids uses the names of the table's name mapping, if its properties have one.
    """
    ids = {field_id(field): field.name for field in file}
    if set(ids) == {-1}:
        ids = _ids_by_mapping(file.names, wanted, properties.get(TableProperties.DEFAULT_NAME_MAPPING))
    return {name: ids[id_] for id_, name in wanted.items() if id_ in ids}


def _ids_by_mapping(names: Collection[str], wanted: Mapping[int, str], mapping: str | None) -> dict[int, str]:
    if mapping is None:
        return {id_: name for id_, name in wanted.items() if name in names}
    fields = [(field.field_id, field.names) for field in parse_mapping_from_json(mapping).root]
    return {id_: name for id_, aliases in fields for name in aliases if id_ is not None and name in names}


def _batch_rows(groups: Sequence[RowGroup]) -> int:
    """Return how many rows of a file to decode together."""
    mean = max(1, sum(group.size for group in groups) // max(1, sum(group.rows for group in groups)))
    return max(1, min(_AT_ONCE, _BYTES // mean))


def field_id(field: pa.Field) -> int:
    """Return a field's id; -1 if it has none."""
    return int((field.metadata or {}).get(b"PARQUET:field_id", -1))


def _as_type(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if isinstance(type_, pa.UuidType) and not isinstance(column.type, pa.BaseExtensionType):
        return pa.chunked_array([pa.ExtensionArray.from_storage(type_, chunk) for chunk in column.chunks], type_)
    return column


ROW_ID, SEQUENCE = "_row_id", "_last_updated_sequence_number"
_FIELDS = (
    NestedField(2147483540, ROW_ID, LongType(), required=False),
    NestedField(2147483539, SEQUENCE, LongType(), required=False),
)


class RewrittenRows:
    """The rows of data files that a writer of `table` moves to other files.

    `known` describes the table for tasks; its schema gets the columns of the ids.
    """

    def __init__(self, table: Table, task_table: TaskTable, paths: Collection[str]) -> None:
        self.table = task_table
        self._origins: dict[str, Origin] = {}
        schema = table.schema()
        names = {field.name for field in schema.fields}
        self._numbered = table.metadata.format_version >= VECTORS and names.isdisjoint({ROW_ID, SEQUENCE})
        if self._numbered:
            whole = Schema(*schema.fields, *_FIELDS, schema_id=schema.schema_id)
            self.table = replace(self.table, schema_json=whole.model_dump_json())
            self._origins = origins(table, paths)

    def rows(self, path: str) -> Iterator[pa.Table]:
        """Yield all rows of a file in order, in parts."""
        origin = self._origins.get(path)
        start = 0
        for rows in read_rows(self.table, path):
            yield _with_inherited(rows, start, origin) if origin is not None else rows
            start += rows.num_rows


def _with_inherited(rows: pa.Table, start: int, origin: Origin) -> pa.Table:
    if origin.first_row is not None:
        first = origin.first_row + start
        inherited = pa.array(range(first, first + rows.num_rows), pa.int64())
        rows = _fill(rows, ROW_ID, inherited)
    return _fill(rows, SEQUENCE, pa.scalar(origin.sequence, pa.int64()))


def _fill(rows: pa.Table, name: str, inherited: pa.Array | pa.Scalar) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, pc.coalesce(rows.column(name), inherited))


def scanned(table: Table, names: tuple[str, ...], limit: int) -> pa.Table:
    """Return up to `limit` rows of the named columns of a table."""
    if not any(_has_structs_in_lists(field.field_type) for field in table.schema().fields if field.name in names):
        return table.scan(selected_fields=names, limit=limit).to_arrow()
    parts: list[pa.Table] = []
    count = 0
    for _, part in live_rows(table):
        rows = part.select(names).slice(0, limit - count)
        parts.append(rows)
        count += rows.num_rows
        if count >= limit:
            break
    return pa.concat_tables(parts) if parts else table.scan(selected_fields=names, limit=0).to_arrow()


def _has_structs_in_lists(type_: IcebergType) -> bool:
    """Return whether a type has structs in lists or maps.

    PyIceberg reads a NULL list or map of structs as an empty one.
    """
    match type_:
        case ListType(element_type=element):
            return isinstance(element, StructType) or _has_structs_in_lists(element)
        case MapType(value_type=value):
            return isinstance(value, StructType) or _has_structs_in_lists(value)
        case StructType():
            return any(_has_structs_in_lists(field.field_type) for field in type_.fields)
        case _:
            return False


def live_rows(table: Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the path and the live rows of each data file, in parts."""
    files, tasks = live_files(table), for_tasks(table)
    dead: dict[str, list[Positions]] = defaultdict(list)
    for name, file in files.deletes.items():
        for path, positions in read_dead(table.io, name, file).items():
            dead[path].append(positions)
    for path in files.data:
        dead_positions, start = unite(*dead[path]) if dead[path] else np.empty(0, np.int64), 0
        for rows in read_rows(tasks, path):
            places = np.arange(start, start + rows.num_rows)
            yield path, rows.filter(pa.array(~np.isin(places, dead_positions)))
            start += rows.num_rows
