"""Rows of keys and calls → a column a call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.runtime.state.arithmetic import SumOverflowError
from sinkql.runtime.state.arrangement import Ints, grouped
from sinkql.runtime.state.run import one_chunk
from sinkql.runtime.state.window.registry import CountError, function_of
from sinkql.runtime.state.window.rows import Rows, in_order, told_apart


def computed(
    table: pa.Table, owner: Ints, hashes: Ints, count: int, calls: Sequence[physical.WindowCall], *, collected: bool
) -> list[pa.Array]:
    """Return what each call gives, one value for each row of the table, or for each of `count` keys if `collected`.

    `owner` is the number of the key of each row, `hashes` tell rows apart that an order does not. Raises SQ3211,
    and SQ3201 for a number of rows or parts that is less than 1.
    """
    sorted_: dict[tuple[physical.Order, ...], tuple[Rows, Ints]] = {}
    found = []
    for call in calls:
        if call.order not in sorted_:
            sorted_[call.order] = in_order(table, owner, hashes, count, call.order)
        rows, places = sorted_[call.order]
        given = _distinct(rows, call) if call.distinct else rows
        try:
            values = _typed(function_of(call, grouped=collected)(given, call), arrow_type(call.type))
        except SumOverflowError as error:
            raise SinkqlError(
                "SQ3211",
                f'sum out of range in "{call.name}"',
                hint="Cast the argument to numeric, or to a numeric with fewer fraction digits.",
            ) from error
        except CountError as error:
            message = f'{call.function}() of "{call.name}" takes a number of 1 or more, found less'
            raise SinkqlError("SQ3201", message, hint="Write greatest(…, 1), or leave such rows out.") from error
        if not collected:
            back = np.empty(len(places), np.int64)
            back[places] = np.arange(len(places))
            values = values.take(pa.array(back))
        found.append(values)
    return found


def _typed(values: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    values = one_chunk(values)
    if values.type == type_:
        return values
    try:
        return values.cast(type_)
    except pa.ArrowInvalid as error:
        raise SumOverflowError from error


def _distinct(rows: Rows, call: physical.WindowCall) -> Rows:
    """Return the first of the rows of a key whose arguments are alike."""
    order, starts = grouped(*(told_apart(rows.column(name)) for name in call.columns), rows.owner)
    kept = np.zeros(len(rows), np.bool_)
    kept[order[starts]] = True
    return rows.where(pa.array(kept))
