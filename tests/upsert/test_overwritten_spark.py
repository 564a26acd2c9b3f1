"""The streams of `test_overwritten` in Spark: unchanged values, deleted rows and truncations, through real commits."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sinkql.runtime.spark.engine import SparkEngine
from support import overwriting
from support.overwriting import CLEARED, Line, add, gone, omit_some, row, some
from upsert.test_overwritten import catch_up, check, open_loop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> SparkEngine:
    """Return an engine that pickles the module by value, because Spark's workers cannot import it."""
    from pyspark.cloudpickle import register_pickle_by_value

    register_pickle_by_value(overwriting)
    return SparkEngine(lambda: spark, buckets=2)


def test_in_spark_too_a_row_that_is_overwritten_in_its_batch_fails_no_expression(
    tmp_path: Path, engine: SparkEngine
) -> None:
    loop = open_loop(tmp_path, "divided", engine=engine)
    loop.start(epoch=1)
    lines = [row(1, 2, "a"), row(2, 0, "b"), row(2, 5, "b"), row(3, 0, "c"), gone(3)]
    add(tmp_path / "stream", lines)
    catch_up(loop)
    check(tmp_path, "divided", lines)


@pytest.mark.share(2)
@pytest.mark.parametrize(("kind", "holes"), [("grouped", True), ("filtered", False)])
def test_in_spark_too_the_table_is_what_the_sql_gives(
    kind: str, holes: bool, tmp_path: Path, engine: SparkEngine
) -> None:
    rng = random.Random(f"spark{kind}")
    loop = open_loop(tmp_path, kind, rows=40, holes=holes, engine=engine)
    loop.start(epoch=1)
    lines: list[Line] = []
    for size in (12, 25):
        new = omit_some(rng, lines, size) if holes else some(rng, size)
        new += [CLEARED, row(1, 2, "a")] if CLEARED not in new else []
        add(tmp_path / "stream", new)
        lines += new
        catch_up(loop)
        check(tmp_path, kind, lines)
