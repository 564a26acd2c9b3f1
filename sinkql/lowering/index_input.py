"""Define the input of the tasks of an index: hashes and columns of rows, and their number."""

from __future__ import annotations

from sinkql import physical
from sinkql.logical.type import BIGINT
from sinkql.lowering.task_input import COUNT, Measure, TaskInput, Value, identity, row_hash, value_columns


def prepare(arrange: physical.Arrange) -> TaskInput:
    """Return the input of an index's tasks: `$h1`, `$h2`, `$r`, the kept columns as `$v<i>`, and `$count`.

    Columns of the key that are not kept are `$a<i>`. Rows are hashed and kept as by a side of a join.
    """
    types = {column.name: column for column in physical.columns_of(arrange.input)}
    kept_values = tuple(Value(f"$v{place}", name, types[name].type) for place, name in enumerate(arrange.kept))
    by_column = {value.column: value for value in reversed(kept_values)}
    key_values = value_columns("a", [types[name] for name in dict.fromkeys(arrange.key) if name not in by_column])
    by_column |= {value.column: value for value in key_values}
    key = tuple(by_column[name] for name in arrange.key)
    return TaskInput(
        hashes=(*identity(key), row_hash("$r", kept_values)),
        values=(*kept_values, *key_values),
        group=("$h1", "$h2", *(value.name for value in (*kept_values, *key_values)), "$r"),
        measures=(Measure(COUNT, "rows", "", BIGINT),),
        append=physical.change_of(arrange.input) == "append",
        columns=(),
    )
