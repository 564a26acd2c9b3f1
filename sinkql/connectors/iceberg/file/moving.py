"""Rows of a table's data files, read to be written into others. From version 3 on they keep their ids.

So that readers can tell a row that was changed from one that was only moved, it also keeps the number of the commit
that wrote it. A file where these are not said says them by its entry: `Origin`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from sinkql.connectors.iceberg.file.data_file import TaskTable
from sinkql.connectors.iceberg.file.manifest import VECTORS, Origin, origins
from sinkql.connectors.iceberg.file.reader import read_rows

ROW_ID, SEQUENCE = "_row_id", "_last_updated_sequence_number"
_FIELDS = (
    NestedField(2147483540, ROW_ID, LongType(), required=False),
    NestedField(2147483539, SEQUENCE, LongType(), required=False),
)


class RewrittenRows:
    """Read data files of a table, given by their paths, for a writer of `table`, which is `known` with the ids."""

    def __init__(self, table: Table, known: TaskTable, paths: Collection[str]) -> None:
        self.table = known
        self._origins: dict[str, Origin] = {}
        schema = table.schema()
        names = {field.name for field in schema.fields}
        self._numbered = table.metadata.format_version >= VECTORS and names.isdisjoint({ROW_ID, SEQUENCE})
        if self._numbered:
            whole = Schema(*schema.fields, *_FIELDS, schema_id=schema.schema_id)
            self.table = replace(self.table, schema_json=whole.model_dump_json())
            self._origins = origins(table, paths)

    def rows(self, path: str) -> Iterator[pa.Table]:
        """Yield all rows of a file in their order, a part at a time."""
        origin = self._origins.get(path)
        start = 0
        for rows in read_rows(self.table, path):
            yield _said(rows, start, origin) if origin is not None else rows
            start += rows.num_rows


def _said(rows: pa.Table, start: int, origin: Origin) -> pa.Table:
    if origin.first_row is not None:
        first = origin.first_row + start
        inherited = pa.array(range(first, first + rows.num_rows), pa.int64())
        rows = _filled(rows, ROW_ID, inherited)
    return _filled(rows, SEQUENCE, pa.scalar(origin.sequence, pa.int64()))


def _filled(rows: pa.Table, name: str, inherited: pa.Array | pa.Scalar) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, pc.coalesce(rows.column(name), inherited))
