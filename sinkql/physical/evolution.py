"""Two jobs of one sink → how the table that the first one wrote becomes the table of the second, or why it cannot.

In place what is in the table stays as it is, and nothing is read again. So the columns that are there must mean the
same, under whatever names, and with the types that they had or wider ones, or go; new columns are NULL in all rows that
are there. Where rows only come, that is how it is from now on; where they are overwritten, or come and go, no row that
was read may have anything but NULL there. Rows of an upsert sink can be computed again instead, in the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from sinkql.logical.expression import Cast, Expression, Literal, Reference
from sinkql.logical.numeric_type import widens
from sinkql.logical.type import parse_type
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
"""Columns of sources, these by the names that offsets have."""


@dataclass(frozen=True, slots=True)
class Evolution:
    """What becomes of a table's columns; `unread` are the columns of sources that must be NULL in all that was read.

    `renamed` has the present names by those from before, None for a column that goes. `widened` have their types from
    before and their types now. `again` says why all rows are computed again, if they are.
    """

    added: tuple[str, ...] = ()
    renamed: Mapping[str, str | None] = field(default_factory=dict)
    widened: tuple[tuple[str, str, str], ...] = ()
    unread: Unread = ()
    again: str | None = None


class InPlaceError(Exception):
    """The table cannot become the other job's; the text says why."""


def evolution(old: Job, new: Job, *, same: bool = False) -> Evolution:
    """Return how the table of a job becomes that of another one of the same sink; raises InPlaceError.

    With `same`, the columns that are there must mean the same also where it would do that they do from now on.
    """
    before, after = old.write, new.write
    only_come = before.change == after.change == "append" and not (old.stateful() or new.stateful())
    exact = after.mode == "upsert" or after.final or not only_come
    if _kind(before) != _kind(after):
        raise InPlaceError("its rows change in another way")
    had, has = _by_name(before), _by_name(after)
    now = new.graph if new.stateful() else _narrowed(new.graph, old)
    renamed = _renamed(old, after, now)
    widened = _widened(before, after, renamed)
    stay = [(name, now_called) for name in had if (now_called := renamed.get(name, name)) is not None]
    names = [name for _, name in stay]
    now = Graph(_without_casts(now.root, {name: type_ for name, type_, _ in widened}), now.shared)
    if (exact or same) and meaning_of(old.graph, [name for name, _ in stay]) != meaning_of(now, names):
        raise InPlaceError("rows that it has written come about in another way")
    if not new.arrangements() <= old.arrangements():
        raise InPlaceError("what it keeps of rows that it has read is other than before")
    added = tuple(name for name in has if name not in names)
    unread = tuple(each for name in added for each in _origins(new, after.input, name)) if exact else ()
    return Evolution(added, renamed, widened, tuple(dict.fromkeys(unread)))


def anew(old: Job, new: Job, why: str) -> Evolution:
    """Return how the table of a job takes the rows of another one, which are computed again because of `why`.

    Raises InPlaceError, with both reasons, where it cannot.
    """
    before, after = old.write, new.write
    if before.mode != "upsert" or after.mode != "upsert":
        raise InPlaceError(why)
    if after.final:
        raise InPlaceError(f"{why}, and what it has written cannot be taken back")
    if (before.connector, before.key) != (after.connector, after.key):
        raise InPlaceError(f"{why}, and its key changes")
    if not new.snapshot:
        raise InPlaceError(f"{why}, and its rows cannot be computed again, as it began WITH (SNAPSHOT = false)")
    had, has = _by_name(before), _by_name(after)
    renamed: dict[str, str | None] = {name: None for name in had if name not in has}
    widened = _widened(before, after, renamed)
    return Evolution(tuple(name for name in has if name not in had), renamed, widened, again=why)


def _kind(write: Write) -> tuple[object, ...]:
    return write.connector, write.mode, write.changelog, write.key, write.proven


def _by_name(write: Write) -> dict[str, Column]:
    return {column.name: column for column in write.columns}


def can_widen_column(old: str, new: str) -> bool:
    """Tell whether a type holds just the values of another one and more, and a table may change from one to the other.

    Types are canonical texts.
    """
    if widens(old, new) and new != "uint8":  # which tables store as a decimal
        return True
    one, other = parse_type(old), parse_type(new)
    if one.precision is None or other.precision is None:
        return False
    return one.scale == other.scale and one.precision < other.precision


def _renamed(old: Job, after: Write, now: Graph) -> dict[str, str | None]:
    """Return the new names of columns that have others, None for a column that goes."""
    had, has = _by_name(old.write), _by_name(after)
    come = {name: meaning_of(now, [name]) for name in has if name not in had}
    renamed: dict[str, str | None] = {}
    for name in had:
        if name in has:
            continue
        meaning = meaning_of(old.graph, [name])
        renamed[name] = next(
            (each for each, its in come.items() if its == meaning and each not in renamed.values()), None
        )
    return renamed


def _widened(before: Write, after: Write, renamed: Mapping[str, str | None]) -> tuple[tuple[str, str, str], ...]:
    """Return the columns that get wider types; raises InPlaceError for others, and where files lie by the values."""
    has = _by_name(after)
    parted = {term["column"] for term in after.options.get("partition_by", ())}
    found = []
    for name, old in _by_name(before).items():
        called = renamed.get(name, name)
        if called is None:
            continue
        new = has[called]
        if old.type == new.type:
            continue
        if not can_widen_column(old.type, new.type):
            raise InPlaceError(f'column "{new.name}" changes from {old.type} to {new.type}')
        if new.name in parted:
            raise InPlaceError(f'column "{new.name}", by which it is partitioned, has another type')
        found.append((new.name, old.type, new.type))
    return tuple(found)


def _narrowed(graph: Graph, old: Job) -> Graph:
    """Return what is read as it was read before, where columns of sources have wider types now, or are gone."""

    def narrowed(operator: Operator) -> Operator:
        if isinstance(operator, Read):
            return _read_as_before(operator, old)
        return with_inputs(operator, [narrowed(each) for each in inputs_of(operator)])

    return Graph(narrowed(graph.root), {name: narrowed(each) for name, each in graph.shared.items()})


def _read_as_before(read: Read, old: Job) -> Read:
    had = {column.name: column for each in old.reads() if each.source == read.source for column in each.columns}
    has = {column.name: _as_before(column, had.get(column.name)) for column in read.columns}
    if had.keys() <= has.keys():
        return msgspec.structs.replace(read, columns=tuple(has.values()))
    # a source only loses columns if it finds them by their names, and then what it reads of others is the same
    return msgspec.structs.replace(read, columns=tuple((had | has).values()))


def _as_before(column: Column, before: Column | None) -> Column:
    """Return a column with the type that it had, if that was a narrower one."""
    if before is None or not can_widen_column(before.type, column.type):
        return column
    return msgspec.structs.replace(column, type=before.type)


def _without_casts(operator: Operator, types: Mapping[str, str]) -> Operator:
    """Return columns as they were before the last projection only gave them wider types."""
    if not isinstance(operator, Map):
        return operator
    outputs = tuple(_without_cast(output, types.get(output.name)) for output in operator.outputs)
    return msgspec.structs.replace(operator, outputs=outputs)


def _without_cast(output: Output, type_: str | None) -> Output:
    cast = output.expression
    if not isinstance(cast, Cast) or str(cast.operand.type) != type_:
        return output
    return Output(output.name, cast.operand)


def _origins(job: Job, operator: Operator, name: str) -> Unread:
    """Return the columns of sources that are NULL where a column is; raises InPlaceError where others decide it."""
    match operator:
        case Read():
            return ((operator.source, name),)
        case Map(outputs=()):
            return _origins(job, operator.input, name)
        case Map():
            (output,) = (each for each in operator.outputs if each.name == name)
            origin = _origin(output.expression)
            if isinstance(origin, Reference):
                return _origins(job, operator.input, origin.name)
            if isinstance(origin, Literal):
                return ()
        case Union():
            place = [column.name for column in columns_of(operator)].index(name)
            inputs = ((each, columns_of(each)[place].name) for each in operator.inputs)
            return tuple(found for each, its in inputs for found in _origins(job, each, its))
        case Use():
            return _origins(job, job.shared[operator.name], name)
        case Flatten() | Repeat() | Stateful():
            pass
    raise InPlaceError(f'rows that are there have a value in column "{name}"')


def _origin(expression: Expression) -> Reference | Literal | None:
    """Return the column or the NULL of which an expression only changes the type."""
    match expression:
        case Reference() | Literal(text=None):
            return expression
        case Cast():
            return _origin(expression.operand)
        case _:
            return None
