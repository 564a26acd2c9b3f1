"""A stateful operator needs only one class: the engines run an operator that they do not know."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from operators import pipeline as pipeline_module
from operators import row_count
from operators.pipeline import Pipeline, columns, source
from operators.row_count import RowTally
from sinkql import physical
from sinkql.runtime.batch.engine import Engine
from sinkql.runtime.local.task import fusable
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import KINDS
from sinkql.state_store.directory import StateDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = columns(g="text", n="integer")


def read_counts(below: physical.Operator, name: str) -> physical.Operator:
    return cast(physical.Operator, RowTally(below, name, KEY))


def run(folder: Path, engine: Engine | None = None, *, batches: int = 5) -> Pipeline:
    """Run a union of row counts of two sources over inserts and deletes, and check it after each batch."""
    change = physical.Union(
        (
            read_counts(source("a", "append", g="text", n="integer"), "a1"),
            read_counts(source("b", "retract", g="text", n="integer"), "a2"),
        ),
        "retract",
    )
    pipeline = Pipeline(folder, change, engine=engine)
    rng = random.Random("read_counts")
    for _ in range(batches):
        rows = [((rng.choice(["x", "y", None]), rng.choice([1, 2, None])), 1) for _ in range(20)]
        gone = [(row, -1) for row, count in pipeline.inputs["b"].items() if count and rng.random() < 0.5]
        pipeline.batch(a=rows[:10], b=[*rows[10:], *gone])
        sides = " UNION ALL ".join(f"SELECT g, n, count(*) FROM {each} GROUP BY g, n" for each in "ab")
        assert pipeline.expected(sides) == pipeline.got()
    return pipeline


def test_an_operator_of_one_file_runs_is_merged_and_swept(tmp_path: Path) -> None:
    pipeline = run(tmp_path, batches=12)
    assert pipeline.job.stateful()
    assert fusable(pipeline.job.write) is None
    assert pipeline.merged > 0
    files = len(list(tmp_path.rglob("*.arrow")))
    assert state.sweep(StateDirectory(tmp_path), pipeline.manifests[-2:], epoch=1) > 0
    assert len(list(tmp_path.rglob("*.arrow"))) < files
    pipeline.batch(a=[(("x", 1), 1)])


@pytest.mark.spark
def test_in_spark_too(tmp_path: Path, spark: SparkSession) -> None:
    from pyspark.cloudpickle import register_pickle_by_value

    from sinkql.runtime.spark.engine import SparkEngine

    register_pickle_by_value(pipeline_module)
    register_pickle_by_value(row_count)
    run(tmp_path, SparkEngine(lambda: spark, buckets=2), batches=2)


def test_each_kind_of_the_physical_plan_has_its_class() -> None:
    bases = (physical.Stateful, physical.OneInput)
    kinds = {kind for base in bases for kind in base.__subclasses__() if kind.__module__.startswith(physical.__name__)}
    below = source("e", "retract", g="text", n="integer")
    stateful(physical.Pick(below, "p", ("g",)))
    assert kinds - set(bases) <= KINDS.keys()
