"""Floating-point numbers become numerics with 15 digits of a double and 6 of a real, rounded as in Postgres."""

from __future__ import annotations

import struct
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from expressions import vectors
from sinkql import evaluate
from sinkql.logical.expression import single
from sinkql.lowering.spark.expression import spark_sql
from sinkql.runtime.spark.arrow import to_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.postgres import Postgres

COLUMNS = {"x": "double precision", "y": "real"}
CALLS = ("x::numeric", "x::numeric(38,20)", "x::numeric(30,2)", "y::numeric", "y::numeric(38,20)")


def _doubles(count: int) -> list[float]:
    """Return numbers whose 16th and last digit is a 5, and numbers of all magnitudes that numerics hold."""
    random = Random(15)
    found = [721.5400323407825, 0.0, -0.0, 0.1, 1e15, 1e16, 123456789012345.5, 1234567890123455.0, 9.5e-7, 0.5, 2.5]
    while len(found) < count:
        digits = random.randrange(10**14, 10**15)
        scale = random.randrange(-3, 22)
        match random.randrange(3):
            case 0:
                found.append(float(f"{digits}5e{-scale}"))
            case 1:
                found.append(random.choice((-1, 1)) * digits / 2 ** random.randrange(60))
            case _:
                found.append(random.uniform(-1, 1) * 10.0 ** random.randrange(-8, 17))
    return [each for each in found if abs(each) < 10**17]


def _rows(count: int) -> list[tuple[float, float]]:
    random = Random(6)
    singles = [struct.unpack("f", struct.pack("f", random.uniform(-1, 1) * 10.0 ** random.randrange(-8, 12)))[0]
               for _ in range(count // 2)]  # fmt: skip
    singles += [single(random.randrange(10**6, 10**7) * 10 / 2 ** random.randrange(2, 40)) for _ in range(count)]
    return list(zip(_doubles(count), singles, strict=False))


def _expected(postgres: Postgres, rows: list[tuple[float, float]]) -> list[tuple[Decimal, ...]]:
    """Return Postgres's values; its numeric is rounded to the ten fraction digits of SinkQL's."""
    shown = ", ".join(
        each.replace("::numeric", "::numeric(38,10)") if each[3:] == "numeric" else each for each in CALLS
    )
    with postgres.connect() as connection:
        return connection.execute(
            f"SELECT {shown} FROM unnest(%s::float8[], %s::real[]) WITH ORDINALITY AS u (x, y, n) ORDER BY n",
            ([x for x, _ in rows], [y for _, y in rows]),
        ).fetchall()


@pytest.mark.parametrize("count", [2000, pytest.param(200_000, marks=pytest.mark.soak)])
def test_evaluated_numerics_are_those_of_postgres(postgres: Postgres, count: int) -> None:
    rows = _rows(count)
    judged = _expected(postgres, rows)
    for place, call in enumerate(CALLS):
        value = evaluate.function_of(vectors.expression(call, COLUMNS), list(COLUMNS))
        assert value is not None
        assert [each[place] for each in judged] == [value(row) for row in rows], call


@pytest.mark.spark
@pytest.mark.parametrize("count", [2000, pytest.param(200_000, marks=pytest.mark.soak)])
def test_in_spark_numerics_are_those_of_postgres(spark: SparkSession, postgres: Postgres, count: int) -> None:
    rows = _rows(count)
    judged = _expected(postgres, rows)
    xs, ys = zip(*rows, strict=True)
    table = pa.table({"n": pa.array(range(len(rows))), "x": pa.array(xs), "y": pa.array(ys, pa.float32())})
    shown = [f"{spark_sql(vectors.expression(each, COLUMNS))} AS c{place}" for place, each in enumerate(CALLS)]
    frame = spark.createDataFrame(to_spark(table), "n bigint, x double, y float").repartition(2)
    found = [tuple(row)[1:] for row in frame.selectExpr("n", *shown).orderBy("n").collect()]
    wrong = [(row, want, got) for row, want, got in zip(rows, judged, found, strict=True) if want != got]
    assert not wrong, wrong[:3]
