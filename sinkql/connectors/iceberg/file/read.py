"""A data file of a table → its rows as the table has them now. Columns are found by field id."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow

from sinkql.connectors.iceberg.file.data import TaskTable

_ROWS = 1 << 16


def read_rows(table: TaskTable, path: str) -> Iterator[pa.Table]:
    """Yield all rows of a file in their order, a part at a time, ready for a `DataFileWriter`.

    A column that the file has not is NULL; one of a narrower type is left to the writer, which casts.
    """
    schema = schema_to_pyarrow(table.schema(), include_field_ids=True)
    with table.io().new_input(path).open() as stream:
        parquet = pq.ParquetFile(stream)
        names = names_by_id(parquet.schema_arrow, {field_id(field): field.name for field in schema})
        wanted = list(names.values())
        for batch in parquet.iter_batches(_ROWS, columns=wanted):
            columns = [
                _plain(batch.column(names[field.name]), field.type)
                if field.name in names
                else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.Table.from_arrays(columns, names=schema.names)


def names_by_id(file: pa.Schema, wanted: dict[int, str]) -> dict[str, str]:
    """Return a file's name of each wanted column that it has, by the wanted name: by name in a file without ids."""
    ids = {field_id(field): field.name for field in file}
    if set(ids) == {-1}:
        return {name: name for name in wanted.values() if name in file.names}
    return {name: ids[id_] for id_, name in wanted.items() if id_ in ids}


def field_id(field: pa.Field) -> int:
    """Return a field's id, -1 if it has none."""
    return int((field.metadata or {}).get(b"PARQUET:field_id", -1))


def _plain(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if isinstance(type_, pa.UuidType) and not isinstance(column, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(type_, column)
    return column
