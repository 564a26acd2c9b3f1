"""Ranks, windows and ordered aggregates of a query for a single run as Spark SQL.

A Collect numbers the values in the order of their call, and gathers them by these numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from sinkql import logical
from sinkql.errors import SinkqlError
from sinkql.logical.type import TEXT
from sinkql.lowering.spark.expression import order_sql, spark_sql
from sinkql.lowering.spark.json import quoted_text
from sinkql.lowering.spark.sql import quoted, spark_type

_NUMBER = "`$number`"
_VIEW = "Create a view with it, and select from the table that a sink writes."


def rank_sql(rank: logical.Rank, below: str) -> str:
    """Return the first rows of each partition of a SELECT."""
    number = _NUMBER if rank.number is None else quoted(rank.number)
    over = f"{rank.function}() OVER ({_over(rank.partition, _sorted(rank.order) or '1')})"
    shown = ", ".join(quoted(column.name) for column in rank.shape.columns)
    ranked = f"SELECT *, CAST({over} AS BIGINT) AS {number} FROM ({below})"
    last = "" if rank.last is None else f" AND {number} <= {rank.last}"
    return f"SELECT {shown} FROM ({ranked}) WHERE {number} >= {rank.first}{last}"


def window_sql(window: logical.Window, below: str) -> str:
    """Return the rows of a SELECT with window functions as further columns; SQ2934 for a function missing in Spark."""
    calls = ", ".join(f"{_call(call, window.partition)} AS {quoted(call.name)}" for call in window.calls)
    return f"SELECT *, {calls} FROM ({below})"


def _call(call: logical.WindowCall, partition: Sequence[logical.Expression]) -> str:
    arguments = [spark_sql(argument) for argument in call.arguments]
    if call.function == "count" and not arguments:
        arguments = ["*"]
    elif call.function == "sum":
        arguments = [f"CAST({argument} AS {spark_type(call.type)})" for argument in arguments]
    if call.function in ("lag", "lead", "nth_value", "ntile") and not call.constants:
        message = f"{call.function}() with a number that differs by row is not supported in a query that runs once"
        raise SinkqlError("SQ2934", message, hint=_VIEW)
    arguments[1:1] = call.constants
    order = _sorted(call.order)
    # position functions need some order: in this one all rows are peers
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


_GATHERED = (
    "string_agg", "array_agg", "jsonb_agg", "jsonb_object_agg", "percentile_cont", "percentile_disc",
)  # fmt: skip


def collect_sql(collect: logical.Collect, below: str) -> str:
    """Return the query over the text of the query below."""
    by = [spark_sql(each.expression) for each in collect.group]
    places = [number for number, call in enumerate(collect.calls) if call.function in _GATHERED]
    numbers = [column for number in places for column in _numbers(number, collect.calls[number], by)]
    groups = [f"{text} AS {quoted(each.name)}" for text, each in zip(by, collect.group, strict=True)]
    calls = [f"{_collect_call(number, call)} AS {quoted(call.name)}" for number, call in enumerate(collect.calls)]
    sql = f"SELECT {', '.join([*groups, *calls])} FROM (SELECT {', '.join(['*', *numbers])} FROM ({below}))"
    return f"{sql} GROUP BY {', '.join(by)}" if by else sql


def _numbers(number: int, call: logical.WindowCall, by: list[str]) -> list[str]:
    """Return the columns that number the rows of a group, and the rows of each value or key."""
    values = list(map(spark_sql, call.arguments))
    order = ", ".join([*(_term(each) for each in call.order), values[0]])
    found = [f"row_number() OVER ({_partition(by)}ORDER BY {order}) AS `$n{number}`"]
    if call.distinct:
        found.append(f"row_number() OVER ({_partition([*by, *values])}ORDER BY {order}) AS `$d{number}`")
    if call.function == "jsonb_object_agg":  # of equal keys the last value counts
        last = ", ".join([*(_term(each, back=True) for each in call.order), f"{values[1]} DESC"])
        found.append(f"row_number() OVER ({_partition([*by, values[0]])}ORDER BY {last}) AS `$d{number}`")
    return found


def _term(term: logical.Sort, *, back: bool = False) -> str:
    descending, first = term.descending != back, term.nulls_first != back
    return f"{order_sql(term.expression)} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"


def _partition(by: list[str]) -> str:
    return f"PARTITION BY {', '.join(by)} " if by else ""


def _collect_call(number: int, call: logical.WindowCall) -> str:
    type_ = spark_type(call.type)
    if call.function == "mode":
        (term,) = call.order
        return f"mode() WITHIN GROUP (ORDER BY {spark_sql(term.expression)} {'DESC' if term.descending else 'ASC'})"
    if call.function not in _GATHERED:
        argument = spark_sql(call.arguments[0]) if call.arguments else "*"
        if call.function == "sum":
            argument = f"CAST({argument} AS {type_})"  # the result's type, before the sum
        return f"CAST({call.function}({'DISTINCT ' if call.distinct else ''}{argument}) AS {type_})"
    value, *more = map(spark_sql, call.arguments)
    tests = [f"`$d{number}` = 1"] if call.distinct or call.function == "jsonb_object_agg" else []
    tests += more if call.function == "array_agg" else [f"{value} IS NOT NULL"]
    if call.function == "jsonb_object_agg":
        return _object(value, more[0], tests)
    entry = f"struct(`$n{number}` AS n, {value} AS v)"
    values = f"transform(sort_array(collect_list({_if(tests, entry)})), `$e` -> `$e`.v)"
    return _of_some(tests, _given(call, values))


def _if(tests: list[str], value: str) -> str:
    return f"CASE WHEN {' AND '.join(tests)} THEN {value} END" if tests else value


def _of_some(tests: list[str], value: str) -> str:
    """Return a value of a group in which a row passes the tests, otherwise NULL."""
    return f"CASE WHEN count({_if(tests, '1')}) > 0 THEN {value} END"


def _given(call: logical.WindowCall, values: str) -> str:
    """Return the result of a call on its values in order."""
    match call.function:
        case "array_agg":
            return values
        case "jsonb_agg":
            return f"concat('[', array_join({values}, ', '), ']')"
        case "string_agg":
            return f"array_join({values}, {spark_sql(logical.literal(call.constants[0], TEXT))})"
        case function:
            of_one = _between if function == "percentile_cont" else _reached
            found = ", ".join(map(of_one, call.constants))
            found = f"array({found})" if call.type != call.arguments[0].type else found
            return f"transform(array({values}), `$l` -> {found})[0]"


def _between(fraction: str) -> str:
    place = f"{fraction}D * (size(`$l`) - 1)"
    low, high = (f"`$l`[CAST({name}({place}) AS INT)]" for name in ("floor", "ceil"))
    part = f"({place} - floor({place}))"
    return f"IF({part} = 0, {low}, {low} + {part} * ({high} - {low}))"


def _reached(fraction: str) -> str:
    return f"`$l`[greatest(1, CAST(ceil({fraction}D * size(`$l`)) AS INT)) - 1]"


def _object(key: str, value: str, tests: list[str]) -> str:
    """Return an object whose members are in jsonb order."""
    entry = f"struct(octet_length({key}) AS n, {key} AS k, {value} AS v)"
    shown = f"concat({quoted_text('`$e`.k')}, ': ', `$e`.v)"
    members = f"transform(sort_array(collect_list({_if(tests, entry)})), `$e` -> {shown})"
    return _of_some(tests, f"concat('{{', array_join({members}, ', '), '}}')")
