"""A job's write → the columns of its sources that are the sink's as they are, where that is all there is to do."""

from __future__ import annotations

from sinkql import logical, physical
from sinkql.runtime.local.task import SourceColumns


def fusable(write: physical.Write) -> tuple[SourceColumns, ...] | None:
    """Return which columns of which sources are the sink's, if that is all there is to do."""
    if write.mode != "append" or write.change != "append":
        return None
    return _branches(write.input, tuple(column.name for column in write.columns))


def _branches(operator: physical.Operator, names: tuple[str, ...]) -> tuple[SourceColumns, ...] | None:
    match operator:
        case physical.Read():
            plain = operator.change != "retract" and not operator.holes
            return (SourceColumns(operator.source, names),) if plain else None
        case physical.Map():
            below = _columns_below(operator, names)
            return None if below is None else _branches(operator.input, below)
        case physical.Union():
            first = [column.name for column in physical.columns_of(operator)]
            found: list[SourceColumns] = []
            for each in operator.inputs:
                own = [column.name for column in physical.columns_of(each)]
                branches = _branches(each, tuple(own[first.index(name)] for name in names))
                if branches is None:
                    return None
                found.extend(branches)
            return tuple(found)
        case physical.Stateful() | physical.Flatten() | physical.Repeat() | physical.Use():
            return None


def _columns_below(operator: physical.Map, names: tuple[str, ...]) -> tuple[str, ...] | None:
    if operator.where is not None:
        return None
    if not operator.outputs:
        return names
    types = {column.name: column.type for column in physical.columns_of(operator.input)}
    outputs = {output.name: output for output in operator.outputs}
    below = []
    for name in names:
        column = outputs[name].expression
        if not isinstance(column, logical.Reference) or types.get(column.name) != outputs[name].type:
            return None
        below.append(column.name)
    return tuple(below)
