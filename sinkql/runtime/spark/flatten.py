"""What each row is several times, or not at all → its rows, as Spark computes them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its customary name

from sinkql import physical
from sinkql.lowering.spark.expression import spark_sql
from sinkql.lowering.spark.sql import quoted
from sinkql.physical import DIFF

_PLACE = "$place"


def flattened(operator: physical.Flatten, rows: DataFrame) -> DataFrame:
    """Return what a Flatten gives of these rows, with their `$diff`."""
    given = [F.col(quoted(name)) for name in rows.columns]
    array = F.expr(spark_sql(operator.array.expression))
    explode = F.posexplode_outer if operator.outer else F.posexplode
    found = rows.select(*given, explode(array).alias(_PLACE, operator.name))
    names = [each.name for each in physical.columns_of(operator)]
    number = [] if operator.ordinality is None else [operator.ordinality]
    columns = [F.col(quoted(name)) for name in names if name not in number]
    numbers = [(F.col(quoted(_PLACE)) + 1).cast("bigint").alias(name) for name in number]
    return found.select(*columns, *numbers, *[F.col(quoted(name)) for name in (DIFF,) if name in rows.columns])


def repeated(operator: physical.Repeat, rows: DataFrame) -> DataFrame:
    """Return what a Repeat gives of these rows."""
    diff = F.col(quoted(DIFF)) * F.expr(spark_sql(operator.times.expression))
    return rows.withColumn(DIFF, diff).where(F.col(quoted(DIFF)) != 0)
