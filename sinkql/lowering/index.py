"""Lower the indexes of a materialized view: its job keeps them, and sides of joins look up rows in them.

Also defines the input of the tasks that keep an index, and explains joins that do not use an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from sinkql import logical, physical
from sinkql.logical import Reference
from sinkql.logical.expression import Expression, children, with_children
from sinkql.lowering.materialized_view import view_id
from sinkql.planner.name import short_name

_NAME_LENGTH = 8
_KEY, _ROW = "$k", "$x"
"""The names of columns that are computed for a key, and of columns that contain the view's rows."""


@dataclass(frozen=True, slots=True)
class ViewIndexes:
    """An index of a view that is read from its log: its arrangement, and its key over the log's columns."""

    arrangement: str
    key: tuple[Expression, ...]


def indexes_of(view: str, catalog: logical.CatalogReader) -> tuple[ViewIndexes, ...]:
    """Return the distinct indexes of a view that keeps a log; indexes with equal keys are one."""
    id_, item = view_id(view, catalog), catalog.item(view)
    if id_ is None or not isinstance(item, logical.View):
        return ()
    columns = tuple(physical.Column(column.name, column.type, column.nullable) for column in item.shape.columns)
    indexes: dict[str, ViewIndexes] = {}
    for name in catalog.dependents(view):
        index = catalog.item(name)
        if isinstance(index, logical.Index):
            arrangement = f"index_{physical.arranged_as(id_, columns, index.key)[:_NAME_LENGTH]}"
            indexes[arrangement] = ViewIndexes(arrangement, index.key)
    return tuple(indexes[arrangement] for arrangement in sorted(indexes))


def use_indexes(index: ViewIndexes, log: physical.Read) -> physical.Arrange:
    """Return the operator that keeps the rows of a view's log by an index's key."""
    names = [part.name if isinstance(part, Reference) else f"{_KEY}{place}" for place, part in enumerate(index.key)]
    computed = [
        physical.Output(name, part)
        for name, part in zip(names, index.key, strict=True)
        if not isinstance(part, Reference)
    ]
    columns = tuple(column.name for column in log.columns)
    body = physical.Map(log, (*map(_pass_column, log.columns), *computed)) if computed else log
    return physical.Arrange(body, index.arrangement, tuple(names), columns)


Indexes = Callable[[physical.Read], tuple[ViewIndexes, ...]]
"""A function that returns the indexes of a view whose log is read."""


def with_index(side: physical.Side, indexes: Indexes) -> physical.Side:
    """Return a side of a join that uses an index of the view whose log it reads, if an index has its key."""
    log = log_of(side.input)
    if log is None or side.keeps == "latest" or side.replicated or not side.key or len(set(side.key)) < len(side.key):
        return side
    key = {name: _trace(side.input, name) for name in side.key}
    outputs = {name: _trace(side.input, name) for name in side.kept}
    if not all(isinstance(expression, Reference) for expression in outputs.values()):
        return side
    wanted = [_meaning(expression, log) for expression in key.values()]
    for index in indexes(log):
        if [_meaning(expression, log) for expression in index.key] == wanted:
            return _use_index(side, log, index, outputs)
    return side


def _meaning(expression: Expression, log: physical.Read) -> str:
    return physical.arranged_as("", log.columns, [expression])


def _use_index(
    side: physical.Side, log: physical.Read, view_index: ViewIndexes, outputs: dict[str, Expression]
) -> physical.Side:
    if side.keeps == "counts":
        index = physical.Index(log.source, view_index.arrangement, side.key, (), {})
        return msgspec.structs.replace(side, arrangement=view_index.arrangement, index=index)
    positions = {column.name: place for place, column in enumerate(log.columns)}
    places = {name: positions[column.name] for name, column in outputs.items() if isinstance(column, Reference)}
    body, columns = _with_rows(side.input)
    index = physical.Index(log.source, view_index.arrangement, side.key, columns, places)
    return msgspec.structs.replace(side, arrangement=view_index.arrangement, input=body, index=index)


def _with_rows(operator: physical.Operator) -> tuple[physical.Operator, tuple[str, ...]]:
    """Return projections of a log with all columns of the log, and the names of these columns."""
    if not isinstance(operator, physical.Map):
        return operator, tuple(column.name for column in physical.columns_of(operator))
    below, names = _with_rows(operator.input)
    if not operator.outputs:
        return msgspec.structs.replace(operator, input=below), names
    by_name = {column.name: column for column in physical.columns_of(below)}
    columns = tuple(f"{_ROW}{place}" for place in range(len(names)))
    row_columns = (_rename(by_name[name], column) for name, column in zip(names, columns, strict=True))
    return physical.Map(below, (*operator.outputs, *row_columns), operator.where), columns


def resolve_indexes(graph: physical.Graph) -> physical.Graph:
    """Return a graph whose logs are read with the indexes that sides use.

    A side whose key is reordered, because its join is fused with one above, keeps its rows instead of using an index.
    """
    resolved = physical.Graph(
        _drop_reordered(graph.root), {name: _drop_reordered(operator) for name, operator in graph.shared.items()}
    )
    wanted: dict[str, set[str]] = {}
    for operator in resolved.operators():
        for side in operator.leaves if isinstance(operator, physical.Join) else ():
            if side.index is not None:
                wanted.setdefault(side.index.source, set()).add(side.index.arrangement)
    if not wanted:
        return resolved
    shared = {name: _with_indexed_logs(operator, wanted) for name, operator in resolved.shared.items()}
    return physical.Graph(_with_indexed_logs(resolved.root, wanted), shared)


def _with_indexed_logs(operator: physical.Operator, wanted: dict[str, set[str]]) -> physical.Operator:
    """Return operators over logs that are read with the indexes that are used."""
    if isinstance(operator, physical.Read) and operator.source in wanted:
        tuning = {**operator.options.get("tuning", {}), "indexes": sorted(wanted[operator.source])}
        options = {**operator.options, "tuning": tuning}
        return msgspec.structs.replace(operator, options=options)
    return physical.with_inputs(
        operator, [_with_indexed_logs(input_, wanted) for input_ in physical.inputs_of(operator)]
    )


def _drop_reordered(operator: physical.Operator) -> physical.Operator:
    rebuilt = physical.with_inputs(operator, [_drop_reordered(input_) for input_ in physical.inputs_of(operator)])
    if not isinstance(rebuilt, physical.Join):
        return rebuilt
    left, right = (
        side
        if side.index is None or side.index.key == side.key
        else msgspec.structs.replace(side, index=None, arrangement="")
        for side in (rebuilt.left, rebuilt.right)
    )
    return msgspec.structs.replace(rebuilt, left=left, right=right)


def log_of(operator: physical.Operator) -> physical.Read | None:
    """Return the log that an operator reads or projects, None for other operators, including filters."""
    while isinstance(operator, physical.Map):
        if operator.where is not None:
            return None
        operator = operator.input
    return operator if isinstance(operator, physical.Read) and operator.connector == physical.VIEW else None


def _trace(operator: physical.Operator, name: str) -> Expression:
    """Return a column of projections of a log as an expression over the log's columns."""
    if not isinstance(operator, physical.Map):
        (column,) = (column for column in physical.columns_of(operator) if column.name == name)
        return Reference(name, column.type, column.nullable)
    if not operator.outputs:
        return _trace(operator.input, name)
    (output,) = (output for output in operator.outputs if output.name == name)
    return _substitute(output.expression, operator.input)


def _substitute(expression: Expression, below: physical.Operator) -> Expression:
    if isinstance(expression, Reference):
        return _trace(below, expression.name)
    return with_children(expression, tuple(_substitute(child, below) for child in children(expression)))


def _pass_column(column: physical.Column) -> physical.Output:
    return _rename(column, column.name)


def _rename(column: physical.Column, name: str) -> physical.Output:
    return physical.Output(name, Reference(column.name, column.type, column.nullable))


def unused_indexes(job: physical.Job, catalog: logical.CatalogReader) -> list[str]:
    """Return lines on indexes of views that a job joins without using the index, and why."""
    joins = (node for node in job.graph.running() if isinstance(node, physical.Join))
    return list(dict.fromkeys(line for join in joins for side in join.leaves for line in _lines(side, job, catalog)))


def _lines(side: physical.Side, job: physical.Job, catalog: logical.CatalogReader) -> Iterator[str]:
    view = _view_below(side.input)
    if view is None or side.index is not None or not indexes_of(view, catalog):
        return
    yield f"keeps rows of materialized view {short_name(view)}, which has an index: {_why(side, view, job, catalog)}"


def _why(side: physical.Side, view: str, job: physical.Job, catalog: logical.CatalogReader) -> str:
    item = logical.get_item(catalog, view, logical.View)
    if item.cluster != job.cluster:
        return f"that is in cluster {short_name(item.cluster)}"
    if log_of(side.input) is None:
        return "they are filtered before the join"
    return "it is by other expressions than they are joined on, or in another order"


def _view_below(operator: physical.Operator) -> str | None:
    """Return the view whose log an operator projects or filters."""
    while isinstance(operator, physical.Map):
        operator = operator.input
    return operator.name if isinstance(operator, physical.Read) and operator.connector == physical.VIEW else None
