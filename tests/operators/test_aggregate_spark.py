"""The same aggregates in Spark: the expressions before the task, and the rows that Spark passes to it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from operators import pipeline as pipeline_module
from operators.pipeline import Pipeline, source
from operators.test_aggregate import EVENT, VIEWS, changes, everything, plain_total
from sinkql import physical
from sinkql.lowering.spark.task_input import spark_steps
from sinkql.runtime.spark.engine import SparkEngine
from sinkql.runtime.state.operator import stateful

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.share(12)]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Return the session; pickle the module by value, because Spark's workers cannot import it."""
    from pyspark.cloudpickle import register_pickle_by_value

    register_pickle_by_value(pipeline_module)
    return spark


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
@pytest.mark.parametrize("change", ["append", "retract"])
def test_in_spark_too_a_view_is_what_its_sql_gives(
    view: Any, change: physical.Change, tmp_path: Path, session: SparkSession
) -> None:
    rng = random.Random(f"spark{view.__name__}{change}")
    engine = SparkEngine(lambda: session, buckets=2)
    pipeline = Pipeline(tmp_path, view(source("e", change, **EVENT), change), engine=engine)
    # without input, only a view without GROUP BY has a row
    for size in (0, 30, 20) if view in (everything, plain_total) else (30, 20):
        pipeline.batch(e=changes(rng, pipeline.inputs["e"], size, retract=change == "retract"))
    assert pipeline.expected(VIEWS[view]) == pipeline.got()


def test_groups_with_nulls_in_different_columns_do_not_hash_alike(session: SparkSession) -> None:
    read = source("e", "append", a="text", b="text")
    steps = spark_steps(stateful(physical.Aggregate(read, "d", read.columns, (), "append")).preparation)
    rows = session.createDataFrame([(None, "x"), ("x", None), (None, None)], "a STRING, b STRING")
    hashes = rows.selectExpr(*steps.select).select("`$h1`").collect()
    assert len({row[0] for row in hashes}) == 3
