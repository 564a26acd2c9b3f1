"""The same joins in Spark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from operators import pipeline as pipeline_module
from operators.joined import (
    CASES,
    CHAIN,
    TYPED,
    TYPES,
    WITH_ITSELF,
    Case,
    batch,
    chain,
    changes,
    of_type,
    typed,
    with_itself,
)
from operators.nested import nested
from operators.pipeline import Pipeline
from sinkql import physical
from sinkql.runtime.local.murmur3 import hashes_of
from sinkql.runtime.spark.engine import SparkEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Return the session; pickle the module by value, because Spark's workers cannot import it."""
    from pyspark.cloudpickle import register_pickle_by_value

    register_pickle_by_value(pipeline_module)
    return spark


IN_SPARK = (
    "full",
    "anti with the latest",
    "full of the latest with the latest",
    "left with a replicated side",
    "left beside a replicated side",
    "right",
    "semi of rows that only come",
    "by two columns",
)


@pytest.mark.share(4)
@pytest.mark.parametrize("name", IN_SPARK)
def test_in_spark_too_a_join_is_what_its_sql_gives(name: str, tmp_path: Path, session: SparkSession) -> None:
    rng, case = random.Random(name), CASES[name]
    pipeline = Pipeline(tmp_path, case.view, engine=SparkEngine(lambda: session, buckets=2))
    for size in (12, 8):
        pipeline.batch(**batch(rng, [pipeline.inputs[name] for name in "lr"], case, size))
        assert pipeline.expected(case.sql) == pipeline.got()


@pytest.mark.parametrize("seed", [1, 4])
def test_in_spark_too_joins_in_one_task_are_what_their_sql_gives(
    seed: int, tmp_path: Path, session: SparkSession
) -> None:
    rng = random.Random(f"nested {seed}")
    tree, part = nested(rng, "pqt")
    pipeline = Pipeline(tmp_path, part.operator, engine=SparkEngine(lambda: session, buckets=2))
    for size in (12, 8):
        pipeline.batch(**tree.batch(pipeline.inputs, size))
        assert pipeline.expected(part.sql) == pipeline.got()


def test_in_spark_too_sides_that_keep_the_same_rows_keep_them_once(tmp_path: Path, session: SparkSession) -> None:
    rng = random.Random("itself")
    pipeline = Pipeline(tmp_path, with_itself("retract"), engine=SparkEngine(lambda: session, buckets=2))
    for size in (9, 8):
        pipeline.batch(l=changes(rng, pipeline.inputs["l"], size, "retract"))
        assert pipeline.expected(WITH_ITSELF) == pipeline.got()


def test_in_spark_too_a_join_beside_a_replicated_side_stands_behind_other_rows(
    tmp_path: Path, session: SparkSession
) -> None:
    case = CASES["inner beside a replicated side"]
    left, right = (
        msgspec.structs.replace(each, arrangement=f"k-{each.arrangement}") for each in (case.view.left, case.view.right)
    )
    again = msgspec.structs.replace(case.view, arrangement="k", left=left, right=right)
    view = physical.Union((case.view, again), "retract")
    pipeline = Pipeline(tmp_path, view, engine=SparkEngine(lambda: session, buckets=2))
    rng = random.Random("behind")
    for size in (12, 8):
        pipeline.batch(**batch(rng, [pipeline.inputs[name] for name in "lr"], case, size))
        assert pipeline.expected(f"{case.sql} UNION ALL {case.sql}") == pipeline.got()
    pipeline.batch(l=[((1, 1, "a"), 1)], r=[])  # one bucket gets no rows
    assert pipeline.expected(f"{case.sql} UNION ALL {case.sql}") == pipeline.got()


def test_in_spark_too_keys_of_every_type_meet_as_values(tmp_path: Path, session: SparkSession) -> None:
    engine = SparkEngine(lambda: session, buckets=2)
    for number, type_ in enumerate(TYPES):
        pipeline = Pipeline(tmp_path / str(number), of_type(type_), engine=engine)
        left, right = typed(type_)
        pipeline.batch(l=left, r=right)
        assert pipeline.expected(TYPED) == pipeline.got(), type_


def test_in_spark_too_a_task_knows_its_bucket_wherever_it_stands(tmp_path: Path, session: SparkSession) -> None:
    rng = random.Random("chain")
    pipeline = Pipeline(tmp_path, chain(), engine=SparkEngine(lambda: session, buckets=3))
    for size in (12, 0, 8):
        pipeline.batch(**batch(rng, [pipeline.inputs[name] for name in "lr"], Case("full"), size))
        assert pipeline.expected(CHAIN) == pipeline.got()


def test_the_hashes_of_buckets_are_those_that_spark_puts_there(session: SparkSession) -> None:
    for buckets in (1, 2, 7, 32):
        hashes = ", ".join(f"({each}L)" for each in hashes_of(buckets))
        found = session.sql(f"SELECT pmod(hash(h), {buckets}) AS b FROM VALUES {hashes} AS t(h)").collect()
        assert [row.b for row in found] == list(range(buckets))
