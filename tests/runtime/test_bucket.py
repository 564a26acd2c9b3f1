"""Rows go to the same buckets as in Spark's shuffle, so that the index finds each key in the next batch."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sinkql.connector_api.types import arrow_type
from sinkql.logical.type import TEXT, parse_type
from sinkql.lowering.spark.task_input import spark_steps
from sinkql.lowering.task_input import TaskInput, Value, identity
from sinkql.runtime.local.murmur3 import bucket_numbers
from sinkql.runtime.local.task_input import prepared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXACT = Context(prec=38)
pytestmark = pytest.mark.spark

_BUCKETS = 7
_ROWS = 300
_NAN = float("nan")
_TYPES = (
    "boolean", "smallint", "integer", "bigint", "uint2", "uint4", "uint8", "numeric(10,2)", "numeric(18,0)",
    "numeric(38,9)", "date", "time", "timestamp", "timestamptz", "text", "uuid", "jsonb", "interval", "int4range",
    "bytea", "real", "double precision", "integer[]", "text[]", "boolean[]", "double precision[]", "numeric(38,9)[]",
    "time[]", "bytea[]", "integer[][]", "integer list", "map[text=>bigint]", "record(a integer, b text)",
    "record(a real, b record(c date, d integer[]))[]",
)  # fmt: skip
"""All types that a key can have, apart from lengths."""
_NUMERICS = {"numeric(10,2)": (10, 2), "numeric(18,0)": (18, 0), "numeric(38,9)": (38, 9), "uint8": (19, 0)}


def _value(type_: str, pick: random.Random) -> Any:
    bits = {"smallint": 16, "integer": 32, "bigint": 64}
    if pick.random() < 0.1:
        return None
    parsed = parse_type(type_)
    if parsed.element is not None:
        return [_value(str(parsed.element), pick) for _ in range(pick.randrange(4))]
    if parsed.name == "record":
        return {field.name: _value(str(field.type), pick) for field in parsed.fields}
    if type_ in _NUMERICS:
        digits, scale = _NUMERICS[type_]
        number = pick.choice((0, 1, 127, 128, 255, 256, 10**digits - 1, pick.randrange(10**digits)))
        return Decimal(number if type_ == "uint8" or pick.random() < 0.5 else -number).scaleb(-scale, _EXACT)
    if type_ in bits:
        return pick.choice((0, -1, (1 << bits[type_] - 1) - 1, -(1 << bits[type_] - 1), pick.getrandbits(15)))
    match type_:
        case "boolean":
            return pick.random() < 0.5
        case "uint2" | "uint4":
            return pick.getrandbits(8 * int(type_[-1]))
        case "date":
            return date(1, 1, 1) + timedelta(pick.randrange(3_000_000))
        case "time":
            return (datetime.min + timedelta(microseconds=pick.randrange(86_400_000_000))).time()
        case "timestamp":
            return datetime(1970, 1, 1) + timedelta(microseconds=pick.randrange(-(10**16), 10**17))
        case "timestamptz":
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=pick.randrange(-(10**16), 10**17))
        case "real" | "double precision":
            return pick.choice((0.0, -0.0, 1.5, _NAN, float("inf"), pick.randrange(1 << 20) / 64))
        case "bytea":
            return pick.randbytes(pick.randrange(12))
        case _:
            return "".join(pick.choice("aé€𝄞\x00z") for _ in range(pick.randrange(20)))


def test_buckets_are_those_of_spark(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812  # its customary name

    from sinkql.runtime.spark.arrow import to_spark

    pick, types = random.Random(5), _TYPES
    columns = [pa.array([_value(type_, pick) for _ in range(_ROWS)], arrow_type(parse_type(type_))) for type_ in types]
    rows = pa.table(columns, names=types)
    frame = spark.createDataFrame(to_spark(rows))
    for keys in (*([each] for each in types), list(types), ["text", "bigint"]):
        number = F.pmod(F.hash(*[F.col(f"`{each}`") for each in keys]), F.lit(_BUCKETS))
        expected = [row[0] for row in frame.select(number).collect()]
        own = [rows.column(each).combine_chunks() for each in keys]
        assert bucket_numbers(own, list(map(parse_type, keys)), _BUCKETS).tolist() == expected, keys
        shuffled = frame.repartition(_BUCKETS, *keys).select(F.spark_partition_id(), number).collect()
        assert all(place == bucket for place, bucket in shuffled)
    part = rows.column("text").combine_chunks().slice(100, 50)
    assert bucket_numbers([part], [TEXT], _BUCKETS).tolist() == [
        row[0] for row in frame.select(F.pmod(F.hash("text"), F.lit(_BUCKETS))).collect()[100:150]
    ]


def test_keys_have_the_identity_that_spark_gives_them(spark: SparkSession) -> None:
    from sinkql.runtime.spark.arrow import to_spark

    pick, types = random.Random(6), _TYPES
    columns = [pa.array([_value(type_, pick) for _ in range(_ROWS)], arrow_type(parse_type(type_))) for type_ in types]
    own = {"$diff": pa.array([1] * _ROWS, pa.int64()), "$seq": pa.array(range(_ROWS), pa.int64())}
    rows = pa.table([*columns, *own.values()], names=[*types, *own])
    frame = spark.createDataFrame(to_spark(rows))
    for keys in (*([each] for each in types), list(types), ["text", "bigint"]):
        values = tuple(Value(f"$k{place}", each, parse_type(each)) for place, each in enumerate(keys))
        hashes = identity(values)
        group = (*(each.name for each in hashes), *(each.name for each in values))
        steps = TaskInput(hashes, values, group, (), append=False, columns=(), ordered=True)
        found = frame.selectExpr(*spark_steps(steps).select).collect()
        mine = prepared(steps, rows)
        for name in ("$h1", "$h2"):
            assert mine.column(name).to_pylist() == [row[name] for row in found], keys
