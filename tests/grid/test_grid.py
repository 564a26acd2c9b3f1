"""Both engines equal Postgres on the edge values of all types, in every place of every function and cast."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from grid import cells, edges
from grid.engine import engine
from grid.exceptions import AT_ONCE, DOCUMENTED
from grid.postgres_values import Oracle, oracle
from grid.templates import FOUND, Template, failing, templates
from grid.trees import Trees
from sinkql import logical
from sinkql.errors import SinkqlError
from sinkql.logical.expression import walk
from sinkql.logical.function import CASTS, FUNCTIONS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.postgres import Postgres

_OF_AGGREGATES = {
    "$sum(double precision,double precision)",
    "$avg(double precision,double precision,bigint)",
    "$root(numeric)",
    "$key(text)",
    "$single(bigint,any)",
}
"""Functions that only plans of aggregates and subqueries contain."""
_OF_ROWS = {each for each in FUNCTIONS if each.startswith(("$flat(", "$series(", "$jsonb_"))}
"""Functions that can only be used in FROM."""
_FEW_ROWS, _SOME_ROWS = 24, 96
_SHARE, _INTERPRETED_SHARE = 48, 15
"""Each change tests one of this many templates, with generated code or interpreted; `make soak` tests all."""
_FAILING_SHARE = 64
"""Each change tests one of this many templates with a failing column."""
_TREES, _MANY_TREES, _AT_ONCE = 60, 100_000, 1000
_SAMPLED, _INTERPRETED = 40, 1_000_000
"""Spark generates code for one of this many groups of expressions, and interprets the rest."""


@pytest.fixture(scope="module")
def judging(postgres: Postgres) -> Iterator[Oracle]:
    with oracle(postgres.address()) as found:
        yield found


def test_every_function_and_cast_has_a_template() -> None:
    calls, casts = set[str](), set[tuple[str, str]]()
    for template in templates():
        for node in walk(cells.planned(template)):
            if isinstance(node, logical.Call):
                calls.add(node.function)
            elif isinstance(node, logical.Cast):
                casts.add((node.operand.type.name, node.type.name))
    assert sorted(FUNCTIONS.keys() - calls - _OF_AGGREGATES - _OF_ROWS) == []
    assert sorted((one, other) for one, other in CASTS.keys() - casts if one != other) == []


def test_the_place_of_a_subscript_ends_with_its_bracket() -> None:
    seen = 0
    for tree in (each for each in templates() if "[" in each.text):
        for node in walk(cells.planned(tree)):
            if isinstance(node, logical.Call) and node.function.startswith("["):
                assert node.span is not None
                written = tree.sql[node.span.start : node.span.end].rstrip(")")
                assert written.endswith("]")
                seen += 1
    assert seen > 15


@pytest.mark.server
def test_columns_without_a_name_have_that_of_postgres(judging: Oracle) -> None:
    wrong = []
    for template in [each for each in templates()[::_INTERPRETED_SHARE] if each.oracle == each.sql]:
        text = f"SELECT {template.sql} FROM grid LIMIT 0"
        found = judging.connection.execute(text.encode()).description
        assert found is not None
        if (ours := cells.named(template)) != found[0].name:
            wrong.append((template.sql, ours, found[0].name))
    assert wrong == []


@pytest.mark.server
def test_evaluator_gives_what_postgres_gives(judging: Oracle) -> None:
    report = cells.compare(templates()[1::_INTERPRETED_SHARE], _numbers(_FEW_ROWS), judging, None)
    assert report.wrong == []
    assert report.counts["evaluator: value"] > 2_000
    assert report.counts["columns: value"] > 200


@pytest.mark.spark
@pytest.mark.server
def test_share_of_the_grid_is_the_same_in_spark(spark: SparkSession, judging: Oracle, tmp_path: Path) -> None:
    with engine(spark, tmp_path) as found:
        found_once = [each for each in templates() if each.text in FOUND]
        assert len(found_once) == len(FOUND)
        shared = dict.fromkeys((*found_once, *templates()[::_SHARE]))
        report = cells.compare(tuple(shared), _numbers(_FEW_ROWS), judging, found)
    assert report.wrong == []
    assert report.counts["Spark: value"] > 2_000


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.server
def test_all_of_the_grid_is_the_same_in_spark(spark: SparkSession, judging: Oracle, tmp_path: Path) -> None:
    with engine(spark, tmp_path) as found:
        rows = sorted({*_numbers(_SOME_ROWS), *_beside_null()})
        report = cells.compare(templates(), rows, judging, found)
    assert report.wrong == []


@pytest.mark.spark
@pytest.mark.server
def test_null_beside_every_value_is_the_same_in_spark(spark: SparkSession, judging: Oracle, tmp_path: Path) -> None:
    with engine(spark, tmp_path, _INTERPRETED, 1) as found:
        report = cells.compare(templates()[3::_INTERPRETED_SHARE], _beside_null(), judging, found)
    assert report.wrong == []
    assert report.counts["Spark: value"] > 5_000


@pytest.mark.spark
@pytest.mark.server
def test_what_fails_beside_a_null_is_what_postgres_says(spark: SparkSession, judging: Oracle, tmp_path: Path) -> None:
    with engine(spark, tmp_path, _INTERPRETED, 1) as found:
        report = cells.compare(failing()[5::_FAILING_SHARE], _failing_rows(), judging, found)
    assert report.wrong == []
    assert report.counts["Spark: value"] > 50


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.server
def test_all_that_fails_beside_a_null_is_what_postgres_says(
    spark: SparkSession, judging: Oracle, tmp_path: Path
) -> None:
    with engine(spark, tmp_path, _SAMPLED) as found:
        report = cells.compare(failing(), _failing_rows(), judging, found)
    assert report.wrong == []


@pytest.mark.soak
@pytest.mark.server
def test_all_rows_are_the_same_in_the_evaluator(judging: Oracle) -> None:
    report = cells.compare(templates(), range(edges.ROWS), judging, None)
    assert report.wrong == []
    loud = {each.name for each in DOCUMENTED if not each.of_spark}
    assert sorted(loud - report.met) == [], "a documented difference no longer occurs"


@pytest.mark.server
def test_random_expressions_are_those_of_postgres(judging: Oracle) -> None:
    report = cells.compare(_trees(1, _TREES), _numbers(_FEW_ROWS // 2), judging, None)
    assert report.wrong == []
    assert report.counts[AT_ONCE] < _TREES / 20


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.server
@pytest.mark.parametrize("seed", range(2, 2 + _MANY_TREES // _AT_ONCE))
def test_many_random_expressions_are_the_same_in_spark(
    spark: SparkSession, judging: Oracle, tmp_path: Path, seed: int
) -> None:
    with engine(spark, tmp_path, _SAMPLED, seed) as found:
        report = cells.compare(_trees(seed, _AT_ONCE), _numbers(_FEW_ROWS // 2), judging, found)
    print(f"seed {seed}: {dict(report.counts)}, {dict(found.counts)}")
    assert report.wrong == []
    assert report.counts[AT_ONCE] < _AT_ONCE / 20


def _numbers(count: int) -> list[int]:
    return sorted(random.Random(count).sample(range(edges.ROWS), count))


def _beside_null() -> list[int]:
    """Return rows on which a first column has each value beside NULL in a second one, and the reverse."""
    return sorted({*range(edges.ACROSS), *range(0, edges.ROWS, edges.ACROSS)})


def _failing_rows() -> list[int]:
    """Return rows on which a failing operand is beside NULL in each place, and a few more."""
    rows, names = edges.rows(), list(edges.COLUMNS)
    at = {name: names.index(name) for name in ("i0", "i1", "i2")}
    found = {3, 100, 250}
    for failed in ("i0", "i2"):
        for null in at.keys() - {failed}:
            wanted = (each[at[failed]] == 0 and each[at[null]] is None for each in rows)
            found.add(next(number for number, each in enumerate(wanted) if each))
    return sorted(found)


def _trees(seed: int, count: int) -> Iterator[Template]:
    trees, depths = Trees(seed), random.Random(seed)
    while count:
        tree = trees.any(depths.randint(1, 4))
        with suppress(SinkqlError):  # the planner computes constants, and one may fail
            cells.planned(tree)
            count -= 1
            yield tree
