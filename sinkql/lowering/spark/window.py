"""Ranks and windows of a query that runs once → Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence

from sinkql import logical
from sinkql.errors import SinkqlError
from sinkql.lowering.spark.expression import order_sql, spark_sql
from sinkql.lowering.spark.sql import quoted, spark_type

_NUMBER = "`$number`"
_VIEW = "Create a view with it, and select from the table that a sink writes."


def rank_sql(rank: logical.Rank, below: str) -> str:
    """Return the first rows of each partition of the rows that a SELECT gives."""
    number = _NUMBER if rank.number is None else quoted(rank.number)
    over = f"{rank.function}() OVER ({_over(rank.partition, _sorted(rank.order) or '1')})"
    shown = ", ".join(quoted(column.name) for column in rank.shape.columns)
    ranked = f"SELECT *, CAST({over} AS BIGINT) AS {number} FROM ({below})"
    last = "" if rank.last is None else f" AND {number} <= {rank.last}"
    return f"SELECT {shown} FROM ({ranked}) WHERE {number} >= {rank.first}{last}"


def window_sql(window: logical.Window, below: str) -> str:
    """Return the rows that a SELECT gives with window functions behind them; SQ2934 for what Spark has not."""
    calls = ", ".join(f"{_call(each, window.partition)} AS {quoted(each.name)}" for each in window.calls)
    return f"SELECT *, {calls} FROM ({below})"


def _call(call: logical.WindowCall, partition: Sequence[logical.Expression]) -> str:
    arguments = [spark_sql(each) for each in call.arguments]
    if call.function == "count" and not arguments:
        arguments = ["*"]
    elif call.function == "sum":
        arguments = [f"CAST({each} AS {spark_type(call.type)})" for each in arguments]
    if call.function in ("lag", "lead", "nth_value", "ntile") and not call.constants:
        message = f"{call.function}() with a number that differs by row is not supported in a query that runs once"
        raise SinkqlError("SQ2934", message, hint=_VIEW)
    arguments[1:1] = call.constants
    order = _sorted(call.order)
    # functions of places need some order: all rows are peers in this one
    needless = call.function in ("count", "sum", "min", "max", "first_value", "last_value", "nth_value")
    if not order and not needless:
        order = "1" if call.function not in ("rank", "dense_rank", "percent_rank", "cume_dist") else "NULL"
    over = _over(partition, order)
    frame = _frame(call)
    return f"CAST({call.function}({', '.join(arguments)}) OVER ({over}{frame}) AS {spark_type(call.type)})"


def _over(partition: Sequence[logical.Expression], order: str) -> str:
    by = f"PARTITION BY {', '.join(map(spark_sql, partition))} " if partition else ""
    return by + (f"ORDER BY {order}" if order else "")


def _sorted(order: Sequence[logical.Sort]) -> str:
    return ", ".join(
        f"{order_sql(each.expression)} {'DESC' if each.descending else 'ASC'} "
        f"NULLS {'FIRST' if each.nulls_first else 'LAST'}"
        for each in order
    )


def _frame(call: logical.WindowCall) -> str:
    frame = call.frame
    if frame is None:
        return ""
    if frame.unit == "groups" or frame.exclude != "no others":
        what = "GROUPS" if frame.unit == "groups" else f"EXCLUDE {frame.exclude.upper()}"
        raise SinkqlError("SQ2934", f"a frame with {what} is not supported in a query that runs once", hint=_VIEW)
    start = _bound(frame.start, "PRECEDING")
    return f" {frame.unit.upper()} BETWEEN {start} AND {_bound(frame.end, 'FOLLOWING')}"


def _bound(bound: logical.FrameBound, end: str) -> str:
    offset = bound.offset
    if offset is None:
        return f"UNBOUNDED {end}"
    if not offset:
        return "CURRENT ROW"
    text = str(offset)
    side = "PRECEDING" if "-" in text else "FOLLOWING"
    text = text.replace("-", "")
    if " " in text:
        months, days, micros = text.split()
        seconds = f"{int(micros) // 1_000_000}.{int(micros) % 1_000_000:06}"
        text = f"make_interval(0, {months}, 0, {days}, 0, 0, {seconds})"
    return f"{text} {side}"
