"""Decide how the table of a sink's earlier job becomes the table of a changed job, or why it cannot.

In place, the table's rows remain, and nothing is read again. The existing columns must keep their meaning under any
name, with equal or wider types, or be dropped. New columns are NULL in all existing rows. For append-only rows this
holds from then on. For rows that can be overwritten or removed, a new column must have been NULL in all rows that were
read. Alternatively, a full refresh can recompute the rows of an upsert sink in the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from sinkql.logical.expression import Cast, Expression, Literal, Reference
from sinkql.logical.numeric_type import widens
from sinkql.logical.type import UINT8, Type
from sinkql.physical.graph import Graph, inputs_of, with_inputs
from sinkql.physical.identity import meaning_of
from sinkql.physical.job import Job
from sinkql.physical.operator import (
    Column,
    Flatten,
    Map,
    Operator,
    Output,
    Read,
    Repeat,
    Stateful,
    Union,
    Use,
    Write,
    columns_of,
)

Unread = tuple[tuple[str, str], ...]
"""Columns of sources, which are named as in offsets."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """The changes of a table's columns; `unread` are source columns that must be NULL in all rows read earlier.

    `renamed` maps earlier names to present ones, None for a dropped column. `widened` has columns with their earlier
    and present types. `again` is the reason for a full refresh, None for an evolution in place.
    """

    added: tuple[str, ...] = ()
    renamed: Mapping[str, str | None] = field(default_factory=dict)
    widened: tuple[tuple[str, Type, Type], ...] = ()
    unread: Unread = ()
    again: str | None = None


class InPlaceError(Exception):
    """The table cannot become that of the changed job; the text is the reason."""


def evolution(old: Job, new: Job, *, same: bool = False) -> Evolution:
    """Return how the table of a job becomes that of a changed job of the same sink; raise InPlaceError.

    If `same`, existing columns must keep their meaning even if a change from now on would be enough.
    """
    before, after = old.write, new.write
    only_come = before.change == after.change == "append" and not (old.stateful() or new.stateful())
    exact = after.mode == "upsert" or after.final or not only_come
    if _kind(before) != _kind(after):
        raise InPlaceError("the kind of its changes differs")
    old_columns, new_columns = _by_name(before), _by_name(after)
    graph = new.graph if new.stateful() else _with_earlier_reads(new.graph, old)
    renamed = _find_renamed(old, after, graph)
    widened = _find_widened(before, after, renamed)
    remaining = [(name, now_called) for name in old_columns if (now_called := renamed.get(name, name)) is not None]
    names = [name for _, name in remaining]
    graph = Graph(_without_casts(graph.root, {name: type_ for name, type_, _ in widened}), graph.shared)
    if (exact or same) and meaning_of(old.graph, [name for name, _ in remaining]) != meaning_of(graph, names):
        raise InPlaceError("rows that it has written are computed differently")
    if not new.arrangements() <= old.arrangements():
        raise InPlaceError("the state that it keeps of rows that it has read differs")
    added = tuple(name for name in new_columns if name not in names)
    unread = tuple(origin for name in added for origin in _origins(new, after.input, name)) if exact else ()
    return Evolution(added, renamed, widened, tuple(dict.fromkeys(unread)))


def anew(old: Job, new: Job, why: str) -> Evolution:
    """Return how the table of a job takes the rows of a full refresh of a changed job, which `why` requires.

    Raises InPlaceError, with both reasons, if that is not possible.
    """
    before, after = old.write, new.write
    if before.mode != "upsert" or after.mode != "upsert":
        raise InPlaceError(why)
    if after.final:
        raise InPlaceError(f"{why}, and rows that it has written cannot be retracted")
    if (before.connector, before.key) != (after.connector, after.key):
        raise InPlaceError(f"{why}, and its key changes")
    if not new.snapshot:
        raise InPlaceError(f"{why}, and its rows cannot be recomputed, since it started WITH (SNAPSHOT = false)")
    old_columns, new_columns = _by_name(before), _by_name(after)
    renamed: dict[str, str | None] = {name: None for name in old_columns if name not in new_columns}
    widened = _find_widened(before, after, renamed)
    return Evolution(tuple(name for name in new_columns if name not in old_columns), renamed, widened, again=why)


def _kind(write: Write) -> tuple[object, ...]:
    return write.connector, write.mode, write.changelog, write.key, write.proven


def _by_name(write: Write) -> dict[str, Column]:
    return {column.name: column for column in write.columns}


def can_widen_column(old: Type, new: Type) -> bool:
    """Return whether a table may change a column's type to a wider type, which holds all its values."""
    if widens(old.name, new.name) and new != UINT8:  # tables store uint8 as a decimal
        return True
    if old.precision is None or new.precision is None:
        return False
    return old.scale == new.scale and old.precision < new.precision


def _find_renamed(old: Job, after: Write, now: Graph) -> dict[str, str | None]:
    """Return the new names of renamed columns, None for a dropped column."""
    old_columns, new_columns = _by_name(old.write), _by_name(after)
    added = {name: meaning_of(now, [name]) for name in new_columns if name not in old_columns}
    renamed: dict[str, str | None] = {}
    for name in old_columns:
        if name in new_columns:
            continue
        meaning = meaning_of(old.graph, [name])
        renamed[name] = next(
            (
                new_name
                for new_name, new_meaning in added.items()
                if new_meaning == meaning and new_name not in renamed.values()
            ),
            None,
        )
    return renamed


def _find_widened(before: Write, after: Write, renamed: Mapping[str, str | None]) -> tuple[tuple[str, Type, Type], ...]:
    """Return the columns with wider types; raise InPlaceError for other changes, and for partition columns."""
    new_columns = _by_name(after)
    partition_columns = {term["column"] for term in after.options.get("partition_by", ())}
    widened = []
    for name, old in _by_name(before).items():
        new_name = renamed.get(name, name)
        if new_name is None:
            continue
        new = new_columns[new_name]
        if old.type == new.type:
            continue
        if not can_widen_column(old.type, new.type):
            raise InPlaceError(f'column "{new.name}" changes from {old.type} to {new.type}')
        if new.name in partition_columns:
            raise InPlaceError(f'column "{new.name}", by which it is partitioned, has another type')
        widened.append((new.name, old.type, new.type))
    return tuple(widened)


def _with_earlier_reads(graph: Graph, old: Job) -> Graph:
    """Return a graph whose reads have the earlier columns and types."""

    def narrowed(operator: Operator) -> Operator:
        if isinstance(operator, Read):
            return _earlier_read(operator, old)
        return with_inputs(operator, [narrowed(input_) for input_ in inputs_of(operator)])

    return Graph(narrowed(graph.root), {name: narrowed(operator) for name, operator in graph.shared.items()})


def _earlier_read(read: Read, old: Job) -> Read:
    old_columns = {
        column.name: column for old_read in old.reads() if old_read.source == read.source for column in old_read.columns
    }
    columns = {column.name: _earlier_column(column, old_columns.get(column.name)) for column in read.columns}
    if old_columns.keys() <= columns.keys():
        return msgspec.structs.replace(read, columns=tuple(columns.values()))
    # a source only loses columns that it finds by name, so its other columns are read as before
    return msgspec.structs.replace(read, columns=tuple((old_columns | columns).values()))


def _earlier_column(column: Column, before: Column | None) -> Column:
    """Return a column with its earlier type, if that was narrower."""
    if before is None or not can_widen_column(before.type, column.type):
        return column
    return msgspec.structs.replace(column, type=before.type)


def _without_casts(operator: Operator, types: Mapping[str, Type]) -> Operator:
    """Return columns as before the last projection widened their types."""
    if not isinstance(operator, Map):
        return operator
    outputs = tuple(_without_cast(output, types.get(output.name)) for output in operator.outputs)
    return msgspec.structs.replace(operator, outputs=outputs)


def _without_cast(output: Output, type_: Type | None) -> Output:
    cast = output.expression
    if not isinstance(cast, Cast) or cast.operand.type != type_:
        return output
    return Output(output.name, cast.operand)


def _origins(job: Job, operator: Operator, name: str) -> Unread:
    """Return the source columns that are NULL when a column is; raise InPlaceError if the value has other inputs."""
    match operator:
        case Read():
            return ((operator.source, name),)
        case Map(outputs=()):
            return _origins(job, operator.input, name)
        case Map():
            (output,) = (output for output in operator.outputs if output.name == name)
            origin = _origin(output.expression)
            if isinstance(origin, Reference):
                return _origins(job, operator.input, origin.name)
            if isinstance(origin, Literal):
                return ()
        case Union():
            index = [column.name for column in columns_of(operator)].index(name)
            inputs = ((input_, columns_of(input_)[index].name) for input_ in operator.inputs)
            return tuple(origin for input_, column in inputs for origin in _origins(job, input_, column))
        case Use():
            return _origins(job, job.shared[operator.name], name)
        case Flatten() | Repeat() | Stateful():
            pass
    raise InPlaceError(f'existing rows have a value in column "{name}"')


def _origin(expression: Expression) -> Reference | Literal | None:
    """Return the column or the NULL of an expression that only casts."""
    match expression:
        case Reference() | Literal(text=None):
            return expression
        case Cast():
            return _origin(expression.operand)
        case _:
            return None
