"""A Collect → Spark SQL: values are numbered in the order of their call, and gathered by these numbers."""

from __future__ import annotations

from sinkql import logical
from sinkql.lowering.spark.expression import spark_sql
from sinkql.lowering.spark.text import quoted, spark_type

_GATHERED = ("string_agg", "array_agg")


def collect_sql(collect: logical.Collect, below: str) -> str:
    """Return the query over the text of the one below."""
    by = [spark_sql(each.expression) for each in collect.group]
    places = [number for number, call in enumerate(collect.calls) if call.function in _GATHERED]
    numbers = [column for number in places for column in _numbers(number, collect.calls[number], by)]
    groups = [f"{text} AS {quoted(each.name)}" for text, each in zip(by, collect.group, strict=True)]
    calls = [f"{_call(number, each)} AS {quoted(each.name)}" for number, each in enumerate(collect.calls)]
    sql = f"SELECT {', '.join([*groups, *calls])} FROM (SELECT {', '.join(['*', *numbers])} FROM ({below}))"
    return f"{sql} GROUP BY {', '.join(by)}" if by else sql


def _numbers(number: int, call: logical.WindowCall, by: list[str]) -> list[str]:
    """Return the columns that number the rows of a group, and those of one value."""
    value = spark_sql(call.arguments[0])
    terms = [
        f"{spark_sql(each.expression)} {'DESC' if each.descending else 'ASC'} NULLS"
        f" {'FIRST' if each.nulls_first else 'LAST'}"
        for each in call.order
    ]
    order = ", ".join([*terms, value])
    found = [f"row_number() OVER ({_partition(by)}ORDER BY {order}) AS `$n{number}`"]
    if call.distinct:
        found.append(f"row_number() OVER ({_partition([*by, value])}ORDER BY {order}) AS `$d{number}`")
    return found


def _partition(by: list[str]) -> str:
    return f"PARTITION BY {', '.join(by)} " if by else ""


def _call(number: int, call: logical.WindowCall) -> str:
    type_ = spark_type(call.type)
    if call.function not in _GATHERED:
        argument = spark_sql(call.arguments[0]) if call.arguments else "*"
        if call.function == "sum":
            argument = f"CAST({argument} AS {type_})"  # as wide as the result before it adds up
        return f"CAST({call.function}({'DISTINCT ' if call.distinct else ''}{argument}) AS {type_})"
    value = spark_sql(call.arguments[0])
    tests = [f"`$d{number}` = 1"] if call.distinct else []
    tests += [f"{value} IS NOT NULL"] if call.function == "string_agg" else []
    entry = f"struct(`$n{number}` AS n, {value} AS v)"
    kept = f"CASE WHEN {' AND '.join(tests)} THEN {entry} END" if tests else entry
    values = f"transform(sort_array(collect_list({kept})), e -> e.v)"
    if call.function == "array_agg":
        return f"CASE WHEN count(*) > 0 THEN {values} END"
    between = spark_sql(logical.literal(call.constants[0], logical.Type("text")))
    return f"CASE WHEN count({value}) > 0 THEN array_join({values}, {between}) END"
