"""Compute a Map's expressions over Arrow columns, or in Python for each row.

An expression that only Spark can compute raises an error that names it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql import evaluate, physical
from sinkql.connector_api.types import arrow_type, python_values
from sinkql.errors import SinkqlError
from sinkql.logical.expression import Reference
from sinkql.lowering.placement import called, missing
from sinkql.runtime.batch import failure
from sinkql.runtime.local.arrow_form import RowsNeededError, arrow_form

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


class TooManyRowsError(Exception):
    """More rows must be computed one by one than is worth it."""


@dataclass(slots=True)
class RowBudget:
    """How many more rows may be computed one by one; None for any number."""

    left: int | None = None

    def spend(self, rows: int) -> None:
        """Count rows; raises TooManyRowsError."""
        if self.left is not None:
            self.left -= rows
            if self.left < 0:
                raise TooManyRowsError


def mapped(job: physical.Job, map_: physical.Map, below: pa.Table, budget: RowBudget | None = None) -> pa.Table:
    """Return the rows of a Map, with the internal columns; raises SQ3201, SQ2663 and TooManyRowsError.

    A filtered row of an upsert relation deletes its key, and nothing is computed for such a key.
    """
    overwrites = physical.change_of(map_) == "upsert"
    if map_.where is not None:
        deletes = overwrites and not physical.forgets(map_)
        rows = _Rows(job, below, budget)
        below = _tombstoned(rows, map_.where) if deletes else below.filter(rows.are_true(map_.where))
    if not map_.outputs:
        return below
    alive = _alive(below) if overwrites else None
    rows = _Rows(job, below if alive is None else below.filter(pa.array(alive)), budget)
    places = None if alive is None else pa.array(np.cumsum(alive) - 1, mask=~alive)
    fields = [pa.field(output.name, arrow_type(output.type)) for output in map_.outputs]
    arrays = []
    for output, field in zip(map_.outputs, fields, strict=True):
        if isinstance(output.expression, Reference):
            arrays.append(below.column(output.column).cast(field.type))
        else:
            computed = rows.array(output)
            arrays.append(computed if places is None else computed.take(places))
    internal = [name for name in below.column_names if name in (physical.DIFF, physical.SEQ)]
    schema = pa.schema([*fields, *(below.schema.field(name) for name in internal)])
    return pa.table([*arrays, *map(below.column, internal)], schema=schema)


@dataclass(slots=True)
class _Rows:
    """Rows over which expressions are computed. They become Python values only if one has no Arrow form."""

    job: physical.Job
    table: pa.Table
    budget: RowBudget | None
    _python: list[Row] | None = None

    def array(self, output: physical.Output) -> pa.Array:
        """Return an expression's values."""
        compute = arrow_form(output.expression)
        if compute is not None:
            with suppress(RowsNeededError):
                return compute(self.table)
        if self._python is None:
            if self.budget is not None:
                self.budget.spend(len(self.table))
            self._python = python_rows(self.table)
        return pa.array(values(self.job, output, self.table, self._python), arrow_type(output.type))

    def are_true(self, where: physical.Output) -> pa.Array:
        """Return for which rows a condition is true."""
        return pc.fill_null(self.array(where), False)


def _tombstoned(rows: _Rows, where: physical.Output) -> pa.Table:
    """Return all rows; filtered rows, and rows deleted before, are marked as deleted."""
    below = rows.table
    alive = _alive(below)
    live = _Rows(rows.job, below.filter(pa.array(alive)), rows.budget)
    alive[np.flatnonzero(alive)] = live.are_true(where).to_numpy(zero_copy_only=False)
    place = below.column_names.index(physical.DIFF)
    return below.set_column(place, physical.DIFF, pa.array(np.where(alive, 1, -1), pa.int64()))


def _alive(below: pa.Table) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = below.column(physical.DIFF).to_numpy() > 0
    return mask


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
            raise failure.row_error(job, output, error.message, _shown(below, row)) from error
    return results


def _shown(below: pa.Table, row: Row) -> Mapping[str, Any]:
    return {name: value for name, value in zip(below.column_names, row, strict=True) if not name.startswith("$")}
