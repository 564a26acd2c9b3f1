"""Indexes of a materialized view → what its job keeps, and which sides of joins look up there.

Rows that are kept by a key, for joins to look up → what goes into the tasks that keep them.

A job → the sides of joins that keep rows of a view which has indexes, and why: what EXPLAIN says of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from sinkql import logical, physical
from sinkql.logical import Reference
from sinkql.logical.expression import Expression, children, with_children
from sinkql.logical.type import parse_type
from sinkql.lowering.materialized_view import view_id
from sinkql.lowering.task_input import COUNT, Measure, TaskInput, Value, identity, row_hash, value_columns
from sinkql.planner.name import short_name

_NAME_LENGTH = 8
_KEY, _ROW = "$k", "$x"
"""How columns are called that are computed for a key, and those that have what the view's rows have."""


@dataclass(frozen=True, slots=True)
class ViewIndexes:
    """An index of a view that is read from its log: its arrangement, and its key over the columns of the log."""

    arrangement: str
    key: tuple[Expression, ...]


def indexes_of(view: str, catalog: logical.CatalogReader) -> tuple[ViewIndexes, ...]:
    """Return the indexes of a view that keeps a log, each once, as those of one key are one."""
    known, item = view_id(view, catalog), catalog.item(view)
    if known is None or not isinstance(item, logical.View):
        return ()
    columns = tuple(physical.Column(each.name, str(each.type), each.nullable) for each in item.shape.columns)
    found: dict[str, ViewIndexes] = {}
    for name in catalog.dependents(view):
        index = catalog.item(name)
        if isinstance(index, logical.Index):
            arrangement = f"index_{physical.arranged_as(known, columns, index.key)[:_NAME_LENGTH]}"
            found[arrangement] = ViewIndexes(arrangement, index.key)
    return tuple(found[each] for each in sorted(found))


def use_indexes(index: ViewIndexes, log: physical.Read) -> physical.Arrange:
    """Return what keeps the rows of a view's log by an index's key."""
    names = [each.name if isinstance(each, Reference) else f"{_KEY}{place}" for place, each in enumerate(index.key)]
    computed = [
        physical.Output(name, each)
        for name, each in zip(names, index.key, strict=True)
        if not isinstance(each, Reference)
    ]
    kept = tuple(each.name for each in log.columns)
    body = physical.Map(log, (*map(_same, log.columns), *computed)) if computed else log
    return physical.Arrange(body, index.arrangement, tuple(names), kept)


Indexes = Callable[[physical.Read], tuple[ViewIndexes, ...]]
"""The indexes of a view that reads its log."""


def with_index(side: physical.Side, indexes: Indexes) -> physical.Side:
    """Return a side of a join that looks up in an index of the view whose log it reads, if there is one by its key."""
    log = log_of(side.input)
    if log is None or side.keeps == "latest" or side.replicated or not side.key or len(set(side.key)) < len(side.key):
        return side
    key = {name: _traced(side.input, name) for name in side.key}
    kept = {name: _traced(side.input, name) for name in side.kept}
    if not all(isinstance(each, Reference) for each in kept.values()):
        return side
    wanted = [_meaning(each, log) for each in key.values()]
    for known in indexes(log):
        if [_meaning(each, log) for each in known.key] == wanted:
            return _looking_up(side, log, known, kept)
    return side


def _meaning(expression: Expression, log: physical.Read) -> str:
    return physical.arranged_as("", log.columns, [expression])


def _looking_up(
    side: physical.Side, log: physical.Read, known: ViewIndexes, kept: dict[str, Expression]
) -> physical.Side:
    if side.keeps == "counts":
        index = physical.Index(log.source, known.arrangement, side.key, (), {})
        return msgspec.structs.replace(side, arrangement=known.arrangement, index=index)
    at = {column.name: place for place, column in enumerate(log.columns)}
    places = {name: at[each.name] for name, each in kept.items() if isinstance(each, Reference)}
    body, columns = _with_rows(side.input)
    index = physical.Index(log.source, known.arrangement, side.key, columns, places)
    return msgspec.structs.replace(side, arrangement=known.arrangement, input=body, index=index)


def _with_rows(operator: physical.Operator) -> tuple[physical.Operator, tuple[str, ...]]:
    """Return projections of a log with all that the log has besides, and how its columns are called there."""
    if not isinstance(operator, physical.Map):
        return operator, tuple(column.name for column in physical.columns_of(operator))
    below, names = _with_rows(operator.input)
    if not operator.outputs:
        return msgspec.structs.replace(operator, input=below), names
    own = {column.name: column for column in physical.columns_of(below)}
    columns = tuple(f"{_ROW}{place}" for place in range(len(names)))
    more = (_renamed(own[name], column) for name, column in zip(names, columns, strict=True))
    return physical.Map(below, (*operator.outputs, *more), operator.where), columns


def resolve_indexes(graph: physical.Graph) -> physical.Graph:
    """Return a graph whose logs are read where they have the indexes that sides look up in.

    A side whose key has come into another order, for its join is done with one above it, keeps its rows itself.
    """
    found = physical.Graph(_kept(graph.root), {name: _kept(each) for name, each in graph.shared.items()})
    wanted: dict[str, set[str]] = {}
    for operator in found.operators():
        for side in operator.leaves if isinstance(operator, physical.Join) else ():
            if side.index is not None:
                wanted.setdefault(side.index.source, set()).add(side.index.arrangement)
    if not wanted:
        return found
    shared = {name: _wanting(each, wanted) for name, each in found.shared.items()}
    return physical.Graph(_wanting(found.root, wanted), shared)


def _wanting(operator: physical.Operator, wanted: dict[str, set[str]]) -> physical.Operator:
    """Return operators over logs that are read where they have the indexes that are looked up in."""
    if isinstance(operator, physical.Read) and operator.source in wanted:
        tuning = {**operator.options.get("tuning", {}), "indexes": sorted(wanted[operator.source])}
        options = {**operator.options, "tuning": tuning}
        return msgspec.structs.replace(operator, options=options)
    return physical.with_inputs(operator, [_wanting(each, wanted) for each in physical.inputs_of(operator)])


def _kept(operator: physical.Operator) -> physical.Operator:
    found = physical.with_inputs(operator, [_kept(each) for each in physical.inputs_of(operator)])
    if not isinstance(found, physical.Join):
        return found
    left, right = (
        side
        if side.index is None or side.index.key == side.key
        else msgspec.structs.replace(side, index=None, arrangement="")
        for side in (found.left, found.right)
    )
    return msgspec.structs.replace(found, left=left, right=right)


def log_of(operator: physical.Operator) -> physical.Read | None:
    """Return the log that an operator is, or projects; None of anything else, as of one that filters."""
    while isinstance(operator, physical.Map):
        if operator.where is not None:
            return None
        operator = operator.input
    return operator if isinstance(operator, physical.Read) and operator.connector == physical.VIEW else None


def _traced(operator: physical.Operator, name: str) -> Expression:
    """Return what a column of projections of a log is, over the columns of the log."""
    if not isinstance(operator, physical.Map):
        (column,) = (each for each in physical.columns_of(operator) if each.name == name)
        return Reference(name, parse_type(column.type), column.nullable)
    if not operator.outputs:
        return _traced(operator.input, name)
    (output,) = (each for each in operator.outputs if each.name == name)
    return _replaced(output.expression, operator.input)


def _replaced(expression: Expression, below: physical.Operator) -> Expression:
    if isinstance(expression, Reference):
        return _traced(below, expression.name)
    return with_children(expression, tuple(_replaced(each, below) for each in children(expression)))


def _same(column: physical.Column) -> physical.Output:
    return _renamed(column, column.name)


def _renamed(column: physical.Column, name: str) -> physical.Output:
    return physical.Output(name, Reference(column.name, parse_type(column.type), column.nullable))


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


def unused_indexes(job: physical.Job, catalog: logical.CatalogReader) -> list[str]:
    """Return lines that say in which indexes of views a job does not look up, though it joins the views, and why."""
    joins = (each for each in job.graph.running() if isinstance(each, physical.Join))
    return list(dict.fromkeys(line for join in joins for side in join.leaves for line in _lines(side, job, catalog)))


def _lines(side: physical.Side, job: physical.Job, catalog: logical.CatalogReader) -> Iterator[str]:
    view = _joined(side.input)
    if view is None or side.index is not None or not indexes_of(view, catalog):
        return
    yield f"keeps rows of materialized view {short_name(view)}, which has an index: {_why(side, view, job, catalog)}"


def _why(side: physical.Side, view: str, job: physical.Job, catalog: logical.CatalogReader) -> str:
    item = catalog.item(view)
    assert isinstance(item, logical.View)
    if item.cluster != job.cluster:
        return f"that is in cluster {short_name(item.cluster)}"
    if log_of(side.input) is None:
        return "they are filtered before the join"
    return "it is by other expressions than they are joined on, or in another order"


def _joined(operator: physical.Operator) -> str | None:
    """Return the view whose log an operator projects or filters."""
    while isinstance(operator, physical.Map):
        operator = operator.input
    return operator.name if isinstance(operator, physical.Read) and operator.connector == physical.VIEW else None
