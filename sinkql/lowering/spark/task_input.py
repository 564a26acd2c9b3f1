"""Write the Spark SQL that prepares the input of stateful operators: the steps of a Map, and each side of a join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sinkql import physical
from sinkql.logical import Reference, Type
from sinkql.logical.numeric_type import FLOATS
from sinkql.lowering.join_input import AT, SIDE, PreparedSide, SidesPreparation
from sinkql.lowering.spark.expression import spark_sql
from sinkql.lowering.spark.sql import quoted, spark_type
from sinkql.lowering.task_input import Hash, Measure, TaskInput, Value


@dataclass(frozen=True, slots=True)
class SparkSteps:
    """Spark SQL: `selectExpr(*select)`, a shuffle by `$h1`, then `groupBy(*group).agg(*aggregates)` if not empty."""

    select: tuple[str, ...]
    group: tuple[str, ...]
    aggregates: tuple[str, ...]


def spark_steps(preparation: TaskInput) -> SparkSteps:
    """Return the steps before an operator's tasks as Spark SQL."""
    hashes = {hash_.name: hashed(hash_) if preparation.spreads(hash_) else "0L" for hash_ in preparation.hashes}
    select = [f"{text} AS {quoted(name)}" for name, text in hashes.items()]
    shown = plain if preparation.ordered else normal
    select += [f"{shown(value)} AS {quoted(value.name)}" for value in preparation.values]
    if not preparation.append:
        select.append("`$diff`")
    if preparation.ordered:
        select.append("`$seq`")
    types = {value.name: value.type for value in preparation.values}
    aggregates = (
        f"{_measure(measure, types.get(measure.value), append=preparation.append)} AS {quoted(measure.name)}"
        for measure in preparation.measures
    )
    return SparkSteps(tuple(select), tuple(map(quoted, preparation.group)), tuple(aggregates))


def hashed(hash_: Hash) -> str:
    """Return Spark's hash of values, by which rows are distributed."""
    parts = [_hashed(normal(value), value.type) for value in hash_.values]
    return f"xxhash64({', '.join([f'{hash_.domain}L', *parts])})"


def _hashed(text: str, type_: Type, depth: int = 0) -> str:
    """Return the hashed form of a value: xxhash64 skips NULLs, and hashes an array like a sequence of its elements."""
    if type_.name == "record":
        parts = (_hashed(f"{text}.{quoted(field.name)}", field.type, depth) for field in type_.fields)
        return f"{text} IS NULL, {', '.join(parts)}"
    if type_.element is None:
        return f"{text} IS NULL, {text}"
    element = f"`$e{depth}`"
    elements = f"transform({text}, {element} -> struct({_hashed(element, type_.element, depth + 1)}))"
    return f"{text} IS NULL, size({text}), {elements}"


def plain(value: Value) -> str:
    """Return the column unchanged: rows outside of all groups keep their values."""
    return quoted(value.column)


def normal(value: Value) -> str:
    """Return the column with -0 as 0 and a single NaN: equal values must hash and print alike."""
    name = quoted(value.column)
    if value.type.name not in FLOATS:
        return name
    spark = spark_type(value.type)
    nan, zero = f"CAST('NaN' AS {spark})", f"CAST(0 AS {spark})"
    return f"CASE WHEN isnan({name}) THEN {nan} WHEN {name} = 0 THEN {zero} ELSE {name} END"


def _measure(measure: Measure, type_: Type | None, *, append: bool) -> str:
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


def _sum(value: str, type_: Type | None, result: Type, *, append: bool) -> str:
    if result.name in FLOATS:
        return _float_sum(value)
    spark = f"DECIMAL(38,{result.scale})" if result.name == "numeric" else "BIGINT"
    # Spark's decimal sum has spare digits, and narrow decimals are several times faster
    narrow = append and type_ is not None and type_.name == result.name == "numeric"
    summand = value if narrow else f"CAST({value} AS {spark})"
    total = f"sum({summand})" if append else f"sum({summand} * `$diff`)"
    return f"coalesce(CAST({total} AS {spark}), CAST(0 AS {spark}))"


def _float_sum(value: str) -> str:
    total = f"sum(CAST({value} AS DOUBLE))"
    infinite = "CAST('Infinity' AS DOUBLE)"
    fail = "CAST(raise_error('value out of range: overflow') AS DOUBLE)"
    overflowed = f"abs({total}) = {infinite} AND max(abs(CAST({value} AS DOUBLE))) < {infinite}"
    return f"CASE WHEN {overflowed} THEN {fail} ELSE coalesce({total}, CAST(0 AS DOUBLE)) END"


@dataclass(frozen=True, slots=True)
class MapSteps:
    """Spark SQL: `diff` replaces `$diff`, `where` filters rows, `outputs` (texts by name) are computed; each if set."""

    diff: str | None
    where: str | None
    outputs: tuple[tuple[str, str], ...]


def map_steps(map_: physical.Map) -> MapSteps:
    """Return the steps; for a removed row of an upsert relation the key is enough, and nothing else is computed."""
    where = spark_sql(map_.where.expression) if map_.where is not None else None
    if physical.change_of(map_) != "upsert":
        return MapSteps(None, where, tuple((output.name, spark_sql(output.expression)) for output in map_.outputs))
    outputs = tuple((output.name, _of_rows(output)) for output in map_.outputs)
    if where is None or physical.forgets(map_):
        return MapSteps(None, where, outputs)
    return MapSteps(f"CASE WHEN `$diff` < 0 THEN -1L WHEN {where} THEN 1L ELSE -1L END", None, outputs)


def _of_rows(output: physical.Output) -> str:
    text = spark_sql(output.expression)
    return text if isinstance(output.expression, Reference) else f"CASE WHEN `$diff` > 0 THEN {text} END"


@dataclass(frozen=True, slots=True)
class SideSteps:
    """Spark SQL: `where(where)` if set, then `selectExpr(*select)`."""

    where: str | None
    select: tuple[str, ...]


def side_steps(preparation: SidesPreparation, side: PreparedSide, buckets: Sequence[int]) -> SideSteps:
    """Return the steps of a side as Spark SQL; `buckets` has a hash value for each bucket."""
    first, mark = hashed(side.hashes[0]), hashed(side.hashes[2])
    number = f"{side.number}L"
    loose = " OR ".join(f"{quoted(value.column)} IS NULL" for value in side.unsafe)
    everywhere = f"explode(array({', '.join(f'{bucket}L' for bucket in buckets)}))"
    if side.replicated and preparation.is_broadcast:
        first = everywhere
    elif loose and side.preserved:
        number = f"CASE WHEN {loose} THEN {side.number + preparation.unmatched}L ELSE {number} END"
        first = f"CASE WHEN {loose} THEN {mark} ELSE {first} END"
    by_name = {input_value.name: input_value for input_value in side.delivered}
    shown = plain if side.latest else normal
    columns = {SIDE: number, "$h1": first, "$h2": "0L", "$r": "0L"}
    for value in preparation.values:
        delivered = by_name.get(value.name)
        columns[value.name] = f"CAST(NULL AS {spark_type(value.type)})" if delivered is None else shown(delivered)
    columns[physical.DIFF] = "1L" if side.change == "append" else quoted(physical.DIFF)
    if preparation.place == AT:
        columns[AT] = everywhere if side.replicated else mark
    if preparation.latest:
        columns[physical.SEQ] = quoted(physical.SEQ) if side.latest else "CAST(NULL AS BIGINT)"
    where = None if side.preserved or not loose else f"NOT ({loose})"
    return SideSteps(where, tuple(f"{text} AS {quoted(name)}" for name, text in columns.items()))
