"""The same normalization views in Spark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from operators import pipeline as pipeline_module
from operators.overwritten import VIEWS, changes, view
from operators.pipeline import Pipeline
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


@pytest.mark.share(4)
@pytest.mark.parametrize("name", ["computed", "of some keys", "without key", "grouped", "united"])
def test_in_spark_too_a_view_is_what_its_sql_gives(name: str, tmp_path: Path, session: SparkSession) -> None:
    rng = random.Random(f"spark{name}")
    pipeline = Pipeline(tmp_path, view(VIEWS[name]), engine=SparkEngine(lambda: session, buckets=2))
    for size in (30, 0, 20):
        pipeline.batch(e=changes(rng, pipeline.inputs["e"], size))
        assert pipeline.expected(VIEWS[name]) == pipeline.got()
