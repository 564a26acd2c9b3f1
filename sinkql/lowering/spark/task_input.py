"""What goes into the tasks of an operator with state → the Spark SQL that prepares it."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql.connector_api.types import parse_type
from sinkql.logical import Type
from sinkql.lowering.spark.sql import quoted, spark_type
from sinkql.lowering.task_input import FLOATS, Hash, Measure, TaskInput, Value


@dataclass(frozen=True, slots=True)
class SparkSteps:
    """Spark SQL: `selectExpr(*select)`, a shuffle by `$h1`, `groupBy(*group).agg(*aggregates)` if there are any."""

    select: tuple[str, ...]
    group: tuple[str, ...]
    aggregates: tuple[str, ...]


def spark_steps(preparation: TaskInput) -> SparkSteps:
    """Return the steps before an operator's tasks as Spark SQL."""
    hashes = {each.name: hashed(each) if preparation.spreads(each) else "0L" for each in preparation.hashes}
    select = [f"{text} AS {quoted(name)}" for name, text in hashes.items()]
    shown = plain if preparation.ordered else normal
    select += [f"{shown(each)} AS {quoted(each.name)}" for each in preparation.values]
    if not preparation.append:
        select.append("`$diff`")
    if preparation.ordered:
        select.append("`$seq`")
    types = {each.name: each.type for each in preparation.values}
    aggregates = (
        f"{_measure(each, types.get(each.value, ''), append=preparation.append)} AS {quoted(each.name)}"
        for each in preparation.measures
    )
    return SparkSteps(tuple(select), tuple(map(quoted, preparation.group)), tuple(aggregates))


def hashed(hash_: Hash) -> str:
    """Return Spark's own hash of values, by which rows are spread."""
    parts = [_hashed(normal(each), parse_type(each.type)) for each in hash_.values]
    return f"xxhash64({', '.join([f'{hash_.domain}L', *parts])})"


def _hashed(text: str, type_: Type, depth: int = 0) -> str:
    """Return what is hashed of a value: xxhash64 passes over NULLs, and takes an array for its elements in a row."""
    if type_.name == "record":
        parts = (_hashed(f"{text}.{quoted(each.name)}", each.type, depth) for each in type_.fields)
        return f"{text} IS NULL, {', '.join(parts)}"
    if type_.element is None:
        return f"{text} IS NULL, {text}"
    element = f"`$e{depth}`"
    elements = f"transform({text}, {element} -> struct({_hashed(element, type_.element, depth + 1)}))"
    return f"{text} IS NULL, size({text}), {elements}"


def plain(value: Value) -> str:
    """Return the column as it is: rows that no group takes keep their values."""
    return quoted(value.column)


def normal(value: Value) -> str:
    """Return the column with one zero and one NaN: values that compare equal must hash and print alike."""
    name = quoted(value.column)
    if value.type not in FLOATS:
        return name
    spark = spark_type(parse_type(value.type))
    nan, zero = f"CAST('NaN' AS {spark})", f"CAST(0 AS {spark})"
    return f"CASE WHEN isnan({name}) THEN {nan} WHEN {name} = 0 THEN {zero} ELSE {name} END"


def _measure(measure: Measure, type_: str, *, append: bool) -> str:
    value = quoted(measure.value)
    match measure.kind:
        case "rows":
            return "count(*)" if append else "CAST(sum(`$diff`) AS BIGINT)"
        case "present":
            count = f"count({value})" if append else f"sum(CASE WHEN {value} IS NULL THEN 0L ELSE `$diff` END)"
            return f"CAST({count} AS BIGINT)"
        case "sum":
            return _sum(value, type_, measure.type, append=append)
        case "least":
            return f"min({value})"
        case "greatest":
            return f"max({value})"


def _sum(value: str, type_: str, result: str, *, append: bool) -> str:
    if result in FLOATS:
        return _float_sum(value)
    wide = parse_type(result)
    spark = f"DECIMAL(38,{wide.scale})" if wide.name == "numeric" else "BIGINT"
    # a decimal's own sum has digits to spare in Spark, and narrow ones are several times faster
    narrow = append and type_.startswith("numeric") and wide.name == "numeric"
    summand = value if narrow else f"CAST({value} AS {spark})"
    total = f"sum({summand})" if append else f"sum({summand} * `$diff`)"
    return f"coalesce(CAST({total} AS {spark}), CAST(0 AS {spark}))"


def _float_sum(value: str) -> str:
    total = f"sum(CAST({value} AS DOUBLE))"
    infinite = "CAST('Infinity' AS DOUBLE)"
    fail = "CAST(raise_error('value out of range: overflow') AS DOUBLE)"
    overflowed = f"abs({total}) = {infinite} AND max(abs(CAST({value} AS DOUBLE))) < {infinite}"
    return f"CASE WHEN {overflowed} THEN {fail} ELSE coalesce({total}, CAST(0 AS DOUBLE)) END"
