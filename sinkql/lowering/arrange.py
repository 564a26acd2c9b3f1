"""Rows that are kept by a key, for joins to look up → what goes into the tasks that keep them."""

from __future__ import annotations

from sinkql import physical
from sinkql.lowering.task_input import COUNT, Measure, TaskInput, Value, identity, row_hash, value_columns


def prepare(arrange: physical.Arrange) -> TaskInput:
    """Return what goes into the tasks: of each row `$h1`, `$h2`, `$r`, what is kept as `$v<i>`, and `$count`.

    What of the key is not kept comes as `$a<i>`. They are hashed, and kept, as a side of a join keeps them.
    """
    types = {column.name: column for column in physical.columns_of(arrange.input)}
    kept = tuple(Value(f"$v{place}", name, types[name].type) for place, name in enumerate(arrange.kept))
    own = {each.column: each for each in reversed(kept)}
    more = value_columns("a", [types[name] for name in dict.fromkeys(arrange.key) if name not in own])
    own |= {each.column: each for each in more}
    key = tuple(own[name] for name in arrange.key)
    return TaskInput(
        hashes=(*identity(key), row_hash("$r", kept)),
        values=(*kept, *more),
        group=("$h1", "$h2", *(each.name for each in (*kept, *more)), "$r"),
        measures=(Measure(COUNT, "rows", "", "bigint"),),
        append=physical.change_of(arrange.input) == "append",
        columns=(),
    )
