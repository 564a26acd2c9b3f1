"""A Map's expressions → values in Python; an error that names what only Spark has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sinkql import evaluate, physical
from sinkql.errors import SinkqlError
from sinkql.extension.rows import python_values
from sinkql.extension.types import arrow_type
from sinkql.logical.expression import Call, Cast, Expression, Literal, Reference, walk
from sinkql.runtime.batch import failure

_ELSEWHERE = "Leave it out of the test, or test it with a session and Spark."
Row = tuple[Any, ...]


def python_rows(table: pa.Table) -> list[Row]:
    """Return rows as Python has them; raises SQ2663 for dates and times of years that it has not."""
    try:
        return list(zip(*map(python_values, table.columns), strict=True))
    except (OverflowError, ValueError):
        raise SinkqlError(
            "SQ2663", "only Spark computes with dates and times outside the years 1 to 9999", hint=_ELSEWHERE
        ) from None


def mapped(job: physical.Job, map_: physical.Map, below: pa.Table) -> pa.Table:
    """Return what a Map gives, with the last column, `$diff` or `$seq`, as it is; raises SQ3201 and SQ2663."""
    rows = python_rows(below) if any(not _plain(each) for each in _expressions(map_)) else []
    if map_.where is not None:
        keep = [value is True for value in _values(job, map_.where, below, rows)]
        below = below.filter(pa.array(keep, pa.bool_()))
        rows = [row for row, kept in zip(rows, keep, strict=True) if kept]
    if not map_.outputs:
        return below
    fields = [pa.field(each.name, arrow_type(each.type)) for each in map_.outputs]
    arrays = [
        _taken(output.expression, below).cast(field.type)
        if _plain(output)
        else pa.array(_values(job, output, below, rows), field.type)
        for output, field in zip(map_.outputs, fields, strict=True)
    ]
    return pa.table([*arrays, below.column(-1)], schema=pa.schema([*fields, below.schema[-1]]))


def _expressions(map_: physical.Map) -> Iterator[physical.Output]:
    if map_.where is not None:
        yield map_.where
    yield from map_.outputs


def _plain(output: physical.Output) -> bool:
    return isinstance(output.expression, Reference)


def _taken(expression: Expression, below: pa.Table) -> Any:  # Any: an array of pyarrow's, which publishes no types
    assert isinstance(expression, Reference)
    return below.column(expression.name)


def _values(job: physical.Job, output: physical.Output, below: pa.Table, rows: Sequence[Row]) -> list[Any]:
    function = evaluate.function_of(output.expression, below.column_names)
    if function is None:
        lacking = _lacking(output.expression, below.column_names)
        raise failure.placed(SinkqlError("SQ2663", f"only Spark computes {lacking}", hint=_ELSEWHERE), job, output)
    found = []
    for row in rows:
        try:
            found.append(function(row))
        except evaluate.UnsureError:
            message = f"only Spark is sure of {_called(output.expression)}"
            raise failure.of_row(job, output, message, _shown(below, row), code="SQ2663", hint=_ELSEWHERE) from None
        except SinkqlError as error:
            raise failure.of_row(job, output, error.message, _shown(below, row)) from None
    return found


def _shown(below: pa.Table, row: Row) -> Mapping[str, Any]:
    return {name: value for name, value in zip(below.column_names, row, strict=True) if not name.startswith("$")}


def _lacking(expression: Expression, columns: Sequence[str]) -> str:
    """Return what of an expression has no form: the innermost call or cast that is not evaluated."""
    for node in reversed(list(walk(expression))):
        if not isinstance(node, Reference | Literal) and evaluate.function_of(node, columns) is None:
            return _called(node)
    raise AssertionError(expression)


def _called(node: Expression) -> str:
    match node:
        case Call():
            return node.function
        case Cast():
            return f"a cast of {node.operand.type} to {node.type}"
        case _:
            return "this expression"
