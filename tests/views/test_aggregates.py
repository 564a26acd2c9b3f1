"""Aggregates, window functions and functions in FROM agree with Postgres over changing edge values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sinkql.planner.function.call import AGGREGATES, WINDOW_FUNCTIONS
from sinkql.planner.function.set_returning import HANDLERS
from sinkql.runtime.batch.engine import Engine
from views import harness
from views.aggregates import RELATION, batches, queries, together
from views.harness import View, Views
from views.postgres_rows import JudgedContent
from views.random_case import Oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHARE = 12
"""One of this many queries runs with each change; `make soak` runs all of them."""
_IN_SPARK = ("groups 3", "windows 1")
_BUCKETS = 2


@pytest.fixture(scope="module")
def in_spark(spark: SparkSession) -> Iterator[Engine]:
    """Yield a Spark engine. Its workers cannot import this folder, so its code is pickled by value."""
    from pyspark.cloudpickle import register_pickle_by_value, unregister_pickle_by_value

    from sinkql.runtime.spark.engine import SparkEngine

    register_pickle_by_value(harness)
    yield SparkEngine(lambda: spark, buckets=_BUCKETS)
    unregister_pickle_by_value(harness)


def test_every_aggregate_and_function_of_rows_has_a_template() -> None:
    tried = {name for sql, _ in queries().values() for name in re.findall(r"\b([a-z_]+)\(", sql)}
    assert sorted({*AGGREGATES, *WINDOW_FUNCTIONS, *HANDLERS} - tried) == []


def _hold(
    asked: Mapping[str, tuple[str, str]],
    names: Sequence[str],
    folder: Path,
    oracle: Oracle,
    other: Engine | None = None,
    *,
    at_once: bool = False,
) -> None:
    views = {f"v{number}": View(*asked[name]) for number, name in enumerate(names)}
    content = JudgedContent([RELATION], oracle)
    held = Views(folder, [RELATION], views, content=content, buckets=_BUCKETS, other=other)
    try:
        changes = list(batches())
        for each in [{"e": [change for some in changes for change in some["e"]]}] if at_once else changes:
            held.batch(each)
    finally:
        held.close()


@pytest.mark.server
def test_share_of_the_aggregates_is_as_in_postgres(tmp_path: Path, oracle: Oracle) -> None:
    _hold(queries(), list(queries())[::_SHARE], tmp_path, oracle)


@pytest.mark.soak
@pytest.mark.server
@pytest.mark.parametrize("name", queries())
def test_aggregates_are_as_in_postgres(name: str, tmp_path: Path, oracle: Oracle) -> None:
    _hold(queries(), [name], tmp_path, oracle)


@pytest.mark.spark
@pytest.mark.server
def test_share_of_the_aggregates_is_the_same_in_spark(tmp_path: Path, oracle: Oracle, in_spark: Engine) -> None:
    _hold(together(), _IN_SPARK, tmp_path, oracle, in_spark, at_once=True)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.server
@pytest.mark.parametrize("name", together())
def test_aggregates_are_the_same_in_spark(name: str, tmp_path: Path, oracle: Oracle, in_spark: Engine) -> None:
    _hold(together(), [name], tmp_path, oracle, in_spark)
