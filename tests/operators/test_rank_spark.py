"""The same ranks and windows with Spark's hashes and rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from operators import pipeline as pipeline_module
from operators.pipeline import Pipeline
from operators.test_aggregate import changes
from operators.test_rank import check, rank, terms
from operators.test_recompute import BY, TOTAL, call, frame, recompute
from operators.test_recompute import check as check_windows
from sinkql import physical
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


def test_in_spark_too_the_first_rows_of_all_are_right(tmp_path: Path, session: SparkSession) -> None:
    rng = random.Random("spark")
    order = terms("n desc", "d", "z")
    operator = physical.Rank(
        rank(order, partition=(), last=4, parts=True), "whole", (), order, "row_number", 2, 4, "number"
    )
    pipeline = Pipeline(tmp_path, operator, engine=SparkEngine(lambda: session, buckets=2))
    for size in (30, 0, 15):
        pipeline.batch(e=changes(rng, pipeline.inputs["e"], size, retract=True))
        check(pipeline, operator)


def test_in_spark_too_windows_are_right(tmp_path: Path, session: SparkSession) -> None:
    rng = random.Random("spark")
    calls = (
        call("sum", "n", order=BY, frame=frame("groups", -1, 1, "ties"), type_="numeric(38,10)"),
        call("lag", "d", order=TOTAL, constants=("1",), type_="double precision"),
    )
    operator = recompute(*calls)
    pipeline = Pipeline(tmp_path, operator, engine=SparkEngine(lambda: session, buckets=2))
    for size in (30, 0, 15):
        pipeline.batch(e=changes(rng, pipeline.inputs["e"], size, retract=True))
        check_windows(pipeline, operator)
