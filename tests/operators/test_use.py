"""A common subplan is computed once per batch, in both engines."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from operators import pipeline as pipeline_module
from operators.pipeline import Change, Pipeline, call, output, source
from sinkql import physical
from sinkql.logical.type import BIGINT
from sinkql.runtime.spark.engine import SparkEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SQL = """
    WITH c AS (SELECT g, count(*)::BIGINT AS n FROM e GROUP BY g)
    SELECT g, n FROM c UNION ALL SELECT max(g) AS g, n FROM c GROUP BY n UNION ALL SELECT g, n + 1 FROM c WHERE n > 1
"""
_BUCKETS = 2


def _view() -> tuple[physical.Operator, dict[str, physical.Operator]]:
    read = source("e", "retract", g="bigint", x="bigint")
    counted = physical.Aggregate(
        physical.Map(read, (output(read, "g", "g"),)),
        "counted",
        (physical.Column("g", BIGINT),),
        (call("n", "count", None, "bigint"),),
        "retract",
    )
    use = physical.Use("c", counted.columns, "retract")
    greatest = physical.Aggregate(
        physical.Map(use, (output(use, "n", "n"), output(use, "$a", "g"))),
        "greatest",
        (physical.Column("n", BIGINT),),
        (call("g", "max", "$a", "bigint"),),
        "retract",
    )
    swapped = physical.Map(greatest, (output(greatest, "g", "g"), output(greatest, "n", "n")))
    filtered = physical.Map(use, (output(use, "g", "g"), output(use, "n", "n + 1")), output(use, "", "n > 1"))
    return physical.Union((use, swapped, filtered), "retract"), {"c": counted}


def _changes(random_: random.Random, there: Counter[tuple[object, ...]]) -> list[Change]:
    gone = random_.sample(sorted(there.elements(), key=repr), min(4, there.total()))
    rows = ((random_.choice([None, 1, 2, 3, 4, 5, 6]), random_.randrange(9)) for _ in range(9))
    return [*((row, 1) for row in rows), *((row, -1) for row in gone)]


def _check(pipeline: Pipeline, batches: int) -> None:
    random_ = random.Random(3)
    for number in range(1, batches + 1):
        pipeline.offer(e=_changes(random_, pipeline.inputs["e"]))
        pipeline.commit(*pipeline.attempt(f"commit{number}"))
        assert pipeline.expected(_SQL) == pipeline.got()
        for name in ("counted", "greatest"):
            runs = list((pipeline.folder / "state" / name).glob(f"*/1-commit{number}-*.arrow"))
            own = [path.parent.name for path in runs if "-m" not in path.name]
            assert own, name
            assert len(own) == len(set(own)), runs  # one attempt per bucket, in the task of a single use


def test_here_it_is_computed_once_a_batch(tmp_path: Path) -> None:
    view, shared = _view()
    _check(Pipeline(tmp_path, view, buckets=_BUCKETS, shared=shared), 6)


@pytest.mark.spark
def test_in_spark_it_is_computed_once_a_batch_and_given_up_after_it(tmp_path: Path, spark: SparkSession) -> None:
    from pyspark.cloudpickle import register_pickle_by_value

    register_pickle_by_value(pipeline_module)
    view, shared = _view()
    engine = SparkEngine(lambda: spark, buckets=_BUCKETS)
    kept = spark.sparkContext._jsc.getPersistentRDDs().size()
    _check(Pipeline(tmp_path, view, engine=engine, shared=shared), 3)
    assert kept == spark.sparkContext._jsc.getPersistentRDDs().size()
