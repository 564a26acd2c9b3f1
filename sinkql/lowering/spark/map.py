"""A Map → the Spark SQL of its steps."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql import physical
from sinkql.logical import Reference
from sinkql.lowering.spark.expression import spark_sql


@dataclass(frozen=True, slots=True)
class MapSteps:
    """Spark SQL: `$diff` becomes `diff`, rows stay `where` it is true, `outputs` are computed; each where there is one.

    `outputs` are texts by name.
    """

    diff: str | None
    where: str | None
    outputs: tuple[tuple[str, str], ...]


def map_steps(map_: physical.Map) -> MapSteps:
    """Return the steps: of an upsert relation's row that is left out the key is gone, of which nothing is computed."""
    where = spark_sql(map_.where.expression) if map_.where is not None else None
    if physical.change_of(map_) != "upsert":
        return MapSteps(None, where, tuple((each.name, spark_sql(each.expression)) for each in map_.outputs))
    outputs = tuple((each.name, _of_rows(each)) for each in map_.outputs)
    if where is None or physical.forgets(map_):
        return MapSteps(None, where, outputs)
    return MapSteps(f"CASE WHEN `$diff` < 0 THEN -1L WHEN {where} THEN 1L ELSE -1L END", None, outputs)


def _of_rows(output: physical.Output) -> str:
    text = spark_sql(output.expression)
    return text if isinstance(output.expression, Reference) else f"CASE WHEN `$diff` > 0 THEN {text} END"
