"""Changes of rows, added up so that equal rows are one; a run of them as a file that is mapped into memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql import durable, physical
from sinkql.errors import SinkqlError
from sinkql.extension.types import arrow_type

DIFF = physical.DIFF


def schema_of(columns: Sequence[physical.Column]) -> pa.Schema:
    """Return the schema of changes of rows of these columns."""
    return pa.schema([*((each.name, arrow_type(each.type)) for each in columns), (DIFF, pa.int64())])


def added_up(table: pa.Table) -> pa.Table:
    """Return each row once, with the sum of its `$diff`; those that add up to nothing are left out."""
    names = [name for name in table.column_names if name != DIFF]
    keys = {f"k{place}": _comparable(table.column(name)) for place, name in enumerate(names)}
    places = pa.array(np.arange(len(table)))
    given = pa.table({**keys, "$place": places, DIFF: table.column(DIFF)})
    sums = given.group_by(list(keys), use_threads=False).aggregate([("$place", "min"), (DIFF, "sum")])
    sums = sums.filter(pc.not_equal(sums.column(f"{DIFF}_sum"), 0))
    rows = table.select(names).take(sums.column("$place_min").combine_chunks())
    return rows.append_column(DIFF, sums.column(f"{DIFF}_sum")).combine_chunks()


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return values of which equal ones are the same bytes."""
    if pa.types.is_floating(column.type):
        return pc.add(column, pa.scalar(0.0, column.type))  # there are two zeros
    if pa.types.is_nested(column.type):
        return pa.array([None if each is None else repr(each) for each in column.to_pylist()], pa.string())
    return column


def repeated(table: pa.Table) -> pa.Table:
    """Return the rows that come, each as often as it does, without `$diff`."""
    counts = np.maximum(table.column(DIFF).to_numpy(), 0)
    places = np.repeat(np.arange(len(table)), counts)
    return table.drop_columns([DIFF]).take(pa.array(places))


def negated(table: pa.Table) -> pa.Table:
    """Return the changes that undo others."""
    return table.set_column(table.num_columns - 1, DIFF, pc.negate(table.column(DIFF)))


def check_present(table: pa.Table, view: str) -> pa.Table:
    """Return the rows of a view; raises SQ3401 where one is there less than no time."""
    if len(table) and pc.min(table.column(DIFF)).as_py() < 0:
        raise SinkqlError(
            "SQ3401",
            f'a row that was never added is removed, in view "{view}"',
            hint="A source deletes or changes rows that it never sent; check that it was read from its beginning.",
        )
    return table


def write_run(path: Path, table: pa.Table) -> int:
    """Write changes to a new file, durably; return its bytes."""
    with durable.stream(path) as file:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        return file.tell()


def read_runs(paths: Iterable[Path], schema: pa.Schema) -> pa.Table:
    """Return the changes in some files one after the other, those of the schema's columns; raises OSError."""
    tables = [schema.empty_table()]
    for path in paths:
        found = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        tables.append(found.select(schema.names).cast(schema))
    return pa.concat_tables(tables)
