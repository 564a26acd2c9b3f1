"""A data file of a table → its rows as the table has them now. Columns are found by field id."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import InputStream
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import TableProperties
from pyiceberg.table.name_mapping import parse_mapping_from_json

from sinkql.connectors.iceberg.file.data_file import TaskTable
from sinkql.connectors.iceberg.file_damage import FOOTER_BYTES, damage_as_error, read_footer
from sinkql.decode.parquet_footer import RowGroup, parse_row_groups

_ROWS, _BYTES = 1 << 16, 64 << 20
"""What comes in a part, at most."""
_AT_ONCE = 1 << 12
"""Rows decoded at once: what they need in memory is known only then, for a file says how large values are encoded."""


def read_rows(table: TaskTable, path: str) -> Iterator[pa.Table]:
    """Yield all rows of a file in their order, a part at a time, ready for a `DataFileWriter`.

    A column that the file has not is NULL; one of a narrower type is left to the writer, which casts. Raises SQ3530.
    """
    schema = schema_to_pyarrow(table.schema(), include_field_ids=True)
    with damage_as_error(path), table.io().new_input(path).open() as stream:
        parquet, groups = opened(stream, path)
        wanted = {field_id(field): field.name for field in schema}
        names = names_by_id(parquet.schema_arrow, wanted, table.properties)
        batches = parquet.iter_batches(_at_once(groups), columns=list(names.values()))
        for rows in _parts(batches):
            columns = [
                _plain(rows.column(names[field.name]), field.type)
                if field.name in names
                else pa.nulls(rows.num_rows, field.type)
                for field in schema
            ]
            yield pa.Table.from_arrays(columns, names=schema.names)


def opened(stream: InputStream, path: str) -> tuple[pq.ParquetFile, Sequence[RowGroup]]:
    """Return a data file, which tells of changed pages, and its row groups.

    Raises ValueError, or what Arrow raises, where its footer is not whole as far as that can be told.
    """
    footer = read_footer(stream, path)
    groups = parse_row_groups(footer[:-FOOTER_BYTES])
    metadata = pq.read_metadata(pa.BufferReader(footer))
    return pq.ParquetFile(stream, metadata=metadata, page_checksum_verification=True), groups


def _parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Gather batches up to what comes in a part."""
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
    """Return a file's name of each wanted column that it has, by the wanted name.

    In a file without ids, the names are those of the table's name mapping, if its properties have one.
    """
    ids = {field_id(field): field.name for field in file}
    if set(ids) == {-1}:
        ids = _mapped(file.names, wanted, properties.get(TableProperties.DEFAULT_NAME_MAPPING))
    return {name: ids[id_] for id_, name in wanted.items() if id_ in ids}


def _mapped(names: Collection[str], wanted: Mapping[int, str], mapping: str | None) -> dict[int, str]:
    if mapping is None:
        return {id_: name for id_, name in wanted.items() if name in names}
    fields = [(field.field_id, field.names) for field in parse_mapping_from_json(mapping).root]
    return {id_: name for id_, known in fields for name in known if id_ is not None and name in names}


def _at_once(groups: Sequence[RowGroup]) -> int:
    """Return how many rows of a file to read at once."""
    mean = max(1, sum(each.size for each in groups) // max(1, sum(each.rows for each in groups)))
    return max(1, min(_AT_ONCE, _BYTES // mean))


def field_id(field: pa.Field) -> int:
    """Return a field's id, -1 if it has none."""
    return int((field.metadata or {}).get(b"PARQUET:field_id", -1))


def _plain(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    if isinstance(type_, pa.UuidType) and not isinstance(column.type, pa.BaseExtensionType):
        return pa.chunked_array([pa.ExtensionArray.from_storage(type_, chunk) for chunk in column.chunks], type_)
    return column
