"""Translate a planned relation into one Spark SQL query over a table t."""

from __future__ import annotations

from collections.abc import Sequence

from sinkql import logical
from sinkql.connector_api.types import parse_type
from sinkql.lowering.spark.expression import spark_sql
from sinkql.lowering.spark.sql import spark_type
from sinkql.lowering.spark.window import collect_sql

# how the wire text of a value is decoded
_DECODED = {
    "time": "unix_micros(CAST(concat('1970-01-01 ', {0}) AS TIMESTAMP))",
    "bytea": "unhex(substring({0}, 3))",
    "text": "{0}",
    "uuid": "{0}",
    "jsonb": "{0}",
}


def sql(relation: logical.Relation, table: str) -> str:
    """Return the query; every source reads `table`."""
    match relation:
        case logical.Get():
            return f"SELECT * FROM {table}"
        case logical.Project():
            outputs = ", ".join(_named(output) for output in relation.outputs)
            return f"SELECT {outputs} FROM ({sql(relation.input, table)})"
        case logical.Filter():
            return f"SELECT * FROM ({sql(relation.input, table)}) WHERE {spark_sql(relation.predicate)}"
        case logical.Aggregate():
            columns = [_named(output) for output in relation.group]
            columns += [f"{_call(call)} AS `{call.name}`" for call in relation.calls]
            keys = ", ".join(spark_sql(output.expression) for output in relation.group)
            grouping = f" GROUP BY {keys}" if keys else ""
            return f"SELECT {', '.join(columns)} FROM ({sql(relation.input, table)}){grouping}"
        case logical.Union():
            return " UNION ALL ".join(f"({sql(each, table)})" for each in relation.inputs)
        case logical.Collect():
            return collect_sql(relation, sql(relation.input, table))
        case _:
            raise AssertionError(relation)


def _named(output: logical.Output) -> str:
    return f"{spark_sql(output.expression)} AS `{output.name}`"


def _call(call: logical.AggregateCall) -> str:
    """Return a call of an aggregate; the sum of a numeric(p,s) is a numeric(38,s), as the contract says."""
    argument = "*" if call.argument is None else spark_sql(call.argument)
    found = f"{call.function}({'DISTINCT ' if call.distinct else ''}{argument})"
    return f"CAST({found} AS {spark_type(call.type)})" if call.function == "sum" else found


def rows(columns: dict[str, str], values: Sequence[Sequence[str | None]]) -> str:
    """Return a table of rows in wire text, with the columns' types."""
    names = list(columns)
    lines = ", ".join(f"({', '.join(_literal(value) for value in row)})" for row in values)
    decoded = ", ".join(f"{_decoded(f'`${name}`', columns[name])} AS `{name}`" for name in names)
    texts = ", ".join(f"CAST(`${name}` AS {_wire(columns[name])}) AS `${name}`" for name in names)
    heads = ", ".join(f"`${name}`" for name in names)
    return f"(SELECT {decoded} FROM (SELECT {texts} FROM VALUES {lines} AS v({heads})))"


def _decoded(name: str, type_: str) -> str:
    spark = spark_type(parse_type(type_))
    return _DECODED.get(type_, "CAST({0} AS " + spark + ")").format(name)


def _wire(type_: str) -> str:
    """Return the SQL type of a wire value: for an array, an array of its elements' texts."""
    return "STRING" if parse_type(type_).element is None else "ARRAY<STRING>"


def _literal(value: str | Sequence[str | None] | None) -> str:
    if value is None:
        return "NULL"
    if not isinstance(value, str):
        return f"array({', '.join(map(_literal, value))})"
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
    return f"'{escaped}'"


def shown(type_: str, name: str) -> str:
    """Return the SQL of a column for comparison; times are shown as text, because Python has a smaller range."""
    if type_ == "time":
        return f"substring(CAST(timestamp_micros(`{name}`) AS STRING), 12)"
    return f"CAST(`{name}` AS STRING)" if type_ in ("timestamp", "timestamptz", "date") else f"`{name}`"
