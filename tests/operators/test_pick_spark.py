"""The same picks in Spark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from operators import pipeline as pipeline_module
from operators.pipeline import Pipeline
from operators.test_aggregate import EVENT, changes
from operators.test_pick import ARRAYS, FLOATS, check, check_floats, check_updates, pick
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


def test_in_spark_too_each_key_shows_one_of_its_rows(tmp_path: Path, session: SparkSession) -> None:
    rng = random.Random("spark")
    engine = SparkEngine(lambda: session, buckets=2)
    pipeline = Pipeline(tmp_path, pick(("g", "k"), **EVENT), engine=engine)
    for size in (40, 0, 20):
        pipeline.batch(e=changes(rng, pipeline.inputs["e"], size, retract=True))
        check(pipeline, 0, 1)


def test_in_spark_too_arrays_are_told_apart_as_values(tmp_path: Path, session: SparkSession) -> None:
    engine = SparkEngine(lambda: session, buckets=2)
    check_updates(Pipeline(tmp_path / "updates", pick(("k",), **ARRAYS), engine=engine))
    check_floats(Pipeline(tmp_path / "floats", pick(("k",), **FLOATS), engine=engine))
