"""A table → its rows as they are now, of some columns, up to a number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from sinkql.connectors.iceberg.file.data_file import for_tasks
from sinkql.connectors.iceberg.file.deletes import live_files, read_dead
from sinkql.connectors.iceberg.file.reader import read_rows
from sinkql.connectors.iceberg.file.vector import Positions, united


def scanned(table: Table, names: tuple[str, ...], limit: int) -> pa.Table:
    """Return up to `limit` rows of the named columns of a table."""
    if not any(_in_lists(field.field_type) for field in table.schema().fields if field.name in names):
        return table.scan(selected_fields=names, limit=limit).to_arrow()
    found: list[pa.Table] = []
    count = 0
    for _, part in live_rows(table):
        rows = part.select(names).slice(0, limit - count)
        found.append(rows)
        count += rows.num_rows
        if count >= limit:
            break
    return pa.concat_tables(found) if found else table.scan(selected_fields=names, limit=0).to_arrow()


def _in_lists(type_: IcebergType) -> bool:
    """Tell whether a type has structs in lists or maps: PyIceberg takes a NULL of those for one without elements."""
    match type_:
        case ListType(element_type=element):
            return isinstance(element, StructType) or _in_lists(element)
        case MapType(value_type=value):
            return isinstance(value, StructType) or _in_lists(value)
        case StructType():
            return any(_in_lists(field.field_type) for field in type_.fields)
        case _:
            return False


def live_rows(table: Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the path and the live rows of each data file, a part at a time."""
    known, tasks = live_files(table), for_tasks(table)
    dead: dict[str, list[Positions]] = defaultdict(list)
    for name, file in known.deletes.items():
        for path, positions in read_dead(table.io, name, file).items():
            dead[path].append(positions)
    for path in known.data:
        gone, start = united(*dead[path]) if dead[path] else np.empty(0, np.int64), 0
        for rows in read_rows(tasks, path):
            places = np.arange(start, start + rows.num_rows)
            yield path, rows.filter(pa.array(~np.isin(places, gone)))
            start += rows.num_rows
