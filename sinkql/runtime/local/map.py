"""Compute a Map's expressions in Python; raise an error that names an expression only Spark can compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql import evaluate, physical
from sinkql.connector_api.types import arrow_type, python_values
from sinkql.errors import SinkqlError
from sinkql.logical.expression import Reference
from sinkql.lowering.placement import called, missing
from sinkql.runtime.batch import failure

_ELSEWHERE = "Leave it out of the test, or test it with a session and Spark."
Row = tuple[Any, ...]


def python_rows(table: pa.Table) -> list[Row]:
    """Return rows as Python values; raises SQ2663 for dates and times in years outside of Python's range."""
    try:
        return list(zip(*map(python_values, table.columns), strict=True))
    except (OverflowError, ValueError):
        raise SinkqlError(
            "SQ2663", "only Spark computes with dates and times outside the years 1 to 9999", hint=_ELSEWHERE
        ) from None


def mapped(job: physical.Job, map_: physical.Map, below: pa.Table) -> pa.Table:
    """Return the rows of a Map, with the internal columns; raises SQ3201 and SQ2663.

    A filtered row of an upsert relation deletes its key, and nothing is computed for such a key.
    """
    overwrites = physical.change_of(map_) == "upsert"
    if map_.where is not None:
        deletes = overwrites and not physical.forgets(map_)
        below = _tombstoned(job, map_.where, below) if deletes else _filtered(job, map_.where, below)
    if not map_.outputs:
        return below
    alive = _alive(below) if overwrites else np.ones(len(below), np.bool_)
    rows = python_rows(below.filter(pa.array(alive))) if not all(map(_plain, map_.outputs)) else []
    places = pa.array(np.cumsum(alive) - 1, mask=~alive)
    fields = [pa.field(output.name, arrow_type(output.type)) for output in map_.outputs]
    arrays = [
        below.column(output.column).cast(field.type)
        if _plain(output)
        else pa.array(values(job, output, below, rows), field.type).take(places)
        for output, field in zip(map_.outputs, fields, strict=True)
    ]
    internal = [name for name in below.column_names if name in (physical.DIFF, physical.SEQ)]
    schema = pa.schema([*fields, *(below.schema.field(name) for name in internal)])
    return pa.table([*arrays, *map(below.column, internal)], schema=schema)


def _filtered(job: physical.Job, where: physical.Output, below: pa.Table) -> pa.Table:
    mask = [value is True for value in values(job, where, below, python_rows(below))]
    return below.filter(pa.array(mask, pa.bool_()))


def _tombstoned(job: physical.Job, where: physical.Output, below: pa.Table) -> pa.Table:
    """Return all rows; filtered rows, and rows deleted before, are marked as deleted."""
    alive = _alive(below)
    live = python_rows(below.filter(pa.array(alive)))
    alive[np.flatnonzero(alive)] = [value is True for value in values(job, where, below, live)]
    place = below.column_names.index(physical.DIFF)
    return below.set_column(place, physical.DIFF, pa.array(np.where(alive, 1, -1), pa.int64()))


def _alive(below: pa.Table) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = below.column(physical.DIFF).to_numpy() > 0
    return mask


def _plain(output: physical.Output) -> bool:
    return isinstance(output.expression, Reference)


def values(job: physical.Job, output: physical.Output, below: pa.Table, rows: Sequence[Row] | None = None) -> list[Any]:
    """Return an expression's values over rows, by default the rows of `below`; raises SQ3201 and SQ2663."""
    function = evaluate.function_of(output.expression, below.column_names)
    if function is None:
        unknown = missing(output.expression, below.column_names)
        raise failure.at_expression(
            SinkqlError("SQ2663", f"only Spark computes {unknown}", hint=_ELSEWHERE), job, output
        )
    results = []
    for row in python_rows(below) if rows is None else rows:
        try:
            results.append(function(row))
        except evaluate.NotEvaluableError:
            message = f"only Spark can evaluate {called(output.expression)} exactly"
            raise failure.row_error(job, output, message, _shown(below, row), code="SQ2663", hint=_ELSEWHERE) from None
        except SinkqlError as error:
            raise failure.row_error(job, output, error.message, _shown(below, row)) from None
    return results


def _shown(below: pa.Table, row: Row) -> Mapping[str, Any]:
    return {name: value for name, value in zip(below.column_names, row, strict=True) if not name.startswith("$")}
