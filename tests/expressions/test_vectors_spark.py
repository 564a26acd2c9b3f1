"""Every supported vector gives Postgres's result in Spark, and raises if Postgres raises."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from expressions import batch, compare, vectors
from expressions.tried import FAILED, PYTHON, outcomes
from sinkql import logical
from sinkql.errors import SinkqlError
from sinkql.lowering.spark.expression import spark_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
_ERROR = {"error": True}
_PARTS = 4
"""The parts of a group of vectors; each change tries one part of each group."""
_TOGETHER = 24
"""The most vectors that one query computes."""


@pytest.mark.share(_PARTS)
@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("group", sorted({vector["group"] for vector in vectors.load()}))
def test_supported_vectors_give_what_postgres_gives(spark: SparkSession, group: str, part: int) -> None:
    wanted = [each for each in vectors.load() if each["group"] == group and each["status"] == "exact"]
    alike: dict[str, list[_Planned]] = {}
    groups = []
    for vector in wanted:
        if vector.get("mode") == "query":
            continue
        plan = vectors.planned(vector)
        if isinstance(plan, SinkqlError):
            continue
        if vector.get("mode") == "group":
            groups.append(_Planned(vector, plan.relation))
        else:
            alike.setdefault(repr(vector["columns"]), []).append(_Planned(vector, plan.relation))
    together = [each for some in alike.values() for each in _batched(some)]
    with ThreadPoolExecutor(4) as threads:  # most of a query's time is not spent on the processor
        wrong = [found for each in threads.map(partial(_run_group, spark), groups[part::_PARTS]) for found in each]
        wrong += [found for each in threads.map(partial(_run_rows, spark), together[part::_PARTS]) for found in each]
    assert not wrong, "\n".join(wrong)


def _batched(alike: Sequence[_Planned]) -> list[Sequence[_Planned]]:
    return [alike[start : start + _TOGETHER] for start in range(0, len(alike), _TOGETHER)]


@dataclass(frozen=True, slots=True)
class _Planned:
    """A vector and its plan."""

    vector: dict[str, Any]
    relation: logical.Relation

    @property
    def expression(self) -> logical.Expression:
        assert isinstance(self.relation, logical.Project)
        return self.relation.outputs[-1].expression


def _said(planned: _Planned, differences: list[str]) -> list[str]:
    return [f"{planned.vector['id']} {planned.vector['sql']} {each}" for each in differences]


def _run_rows(spark: SparkSession, alike: Sequence[_Planned]) -> list[str]:
    """Compare vectors over the same columns: Spark computes all of them in one query over the rows of all.

    Expressions that call Python run alone over their own rows, and rows that must fail run one by one.
    """
    columns = alike[0].vector["columns"]
    rows = list({repr(row): row for each in alike for row in each.vector["rows"]}.values())
    ours: list[_Planned] = []
    python: list[_Planned] = []
    for each in alike:
        (python if PYTHON in spark_sql(each.expression) else ours).append(each)
    found = outcomes(spark, columns, rows, [each.expression for each in ours])
    places = {repr(row): place for place, row in enumerate(rows)}
    wrong = []
    for planned, values in zip(ours, found, strict=True):
        its = [values[places[repr(row)]] for row in planned.vector["rows"]]
        wrong += _said(planned, _differences(planned, its))
    for planned in python:
        wrong += _said(planned, _differences(planned, _with_python(spark, planned)))
    return wrong


def _with_python(spark: SparkSession, planned: _Planned) -> list[Any]:
    rows, expected = planned.vector["rows"], planned.vector["expected"]
    loud = {*planned.vector.get("may_error", ())}
    alone = {place for place, value in enumerate(expected) if value == _ERROR or place in loud}
    together = [place for place in range(len(rows)) if place not in alone]
    found = _values(spark, planned, [rows[place] for place in together]) if together else []
    if found is FAILED:  # one row fails unexpectedly: find it
        found, together, alone = [], [], set(range(len(rows)))
    results = dict(zip(together, found, strict=True))
    for place in alone:
        values = _values(spark, planned, [rows[place]])
        results[place] = FAILED if values is FAILED else values[0]
    return [results[place] for place in range(len(rows))]


def _values(spark: SparkSession, planned: _Planned, rows: Sequence[Sequence[str | None]]) -> Any:
    column = planned.relation.shape.columns[-1]
    query = batch.sql(planned.relation, batch.rows(planned.vector["columns"], rows))
    try:
        found = spark.sql(f"SELECT {batch.shown(column.type.name, column.name)} FROM ({query})").collect()
    except (PySparkException, Py4JJavaError):  # parse_json raises Py4JJavaError
        return FAILED
    return [row[0] for row in found]


def _differences(planned: _Planned, values: Sequence[Any]) -> list[str]:
    vector = planned.vector
    loud = set(vector.get("may_error", ()))
    type_ = planned.expression.type.name
    return [
        f"row {row}: expected {expected!r}, got {value!r}"
        for place, (row, expected, value) in enumerate(zip(vector["rows"], vector["expected"], values, strict=True))
        if not _right(value, expected, type_, vector.get("compare"), loud=place in loud)
    ]


def _right(value: Any, expected: Any, type_: str, rule: str | None, *, loud: bool) -> bool:
    if value is FAILED:
        return loud or expected == _ERROR
    return expected != _ERROR and compare.equal(value, expected, type_, rule)


def _run_group(spark: SparkSession, planned: _Planned) -> list[str]:
    vector = planned.vector
    place = list(vector["columns"]).index("g")
    differences = []
    alone = _ERROR in vector["expected"]  # an error in one group ends the query of all groups
    found = {} if alone else _groups(spark, planned, vector["rows"])
    for group, expected in zip(vector["groups"], vector["expected"], strict=True):
        if alone:
            found = _groups(spark, planned, [row for row in vector["rows"] if row[place] == str(group)])
        value = FAILED if found is FAILED else found[str(group)]
        if not _right(value, expected, planned.relation.shape.columns[-1].type.name, vector.get("compare"), loud=False):
            differences.append(f"group {group}: expected {expected!r}, got {value!r}")
    return _said(planned, differences)


def _groups(spark: SparkSession, planned: _Planned, rows: Sequence[Sequence[str | None]]) -> Any:
    column = planned.relation.shape.columns[-1]
    query = batch.sql(planned.relation, batch.rows(planned.vector["columns"], rows))
    try:
        found = spark.sql(f"SELECT g, {batch.shown(column.type.name, column.name)} FROM ({query})").collect()
    except PySparkException:
        return FAILED
    return {str(row[0]): row[1] for row in found}
