"""Every supported vector gives on Spark what Postgres gives, and raises where Postgres raises."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from expressions import batch, compare, vectors
from sinkql import logical
from sinkql.errors import SinkqlError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
_ERROR = {"error": True}


@pytest.mark.parametrize("group", sorted({vector["group"] for vector in vectors.load()}))
def test_supported_vectors_give_what_postgres_gives(spark: SparkSession, group: str) -> None:
    def run(vector: dict[str, Any]) -> list[str]:
        plan = vectors.planned(vector)
        if isinstance(plan, SinkqlError):
            return []
        runner = _run_group if vector.get("mode") == "group" else _run_rows
        return [f"{vector['id']} {vector['sql']} {difference}" for difference in runner(spark, vector, plan.relation)]

    wanted = [each for each in vectors.load() if each["group"] == group and each["status"] == "exact"]
    with ThreadPoolExecutor(4) as threads:  # what a query waits for is seldom the processor
        found = threads.map(run, [each for each in wanted if each.get("mode") != "query"])
    wrong = [difference for differences in found for difference in differences]
    assert not wrong, "\n".join(wrong)


def _run_rows(spark: SparkSession, vector: dict[str, Any], relation: logical.Relation) -> list[str]:
    rows, expected = vector["rows"], vector["expected"]
    loud = set(vector.get("may_error", ()))
    alone = {index for index, value in enumerate(expected) if value == _ERROR or index in loud}
    together = [index for index in range(len(rows)) if index not in alone]
    results: dict[int, Any] = {}
    if together:
        found = _values(spark, vector, relation, [rows[index] for index in together])
        if isinstance(found, _Raised):  # one of them raises and should not: which?
            alone |= set(together)
        else:
            results = dict(zip(together, found, strict=True))
    for index in sorted(alone):
        found = _values(spark, vector, relation, [rows[index]])
        results[index] = found if isinstance(found, _Raised) else found[0]
    type_ = relation.shape.columns[-1].type.name
    return [
        f"row {rows[index]}: expected {expected[index]!r}, got {value!r}"
        for index, value in results.items()
        if not _right(value, expected[index], type_, vector.get("compare"), loud=index in loud)
    ]


def _right(value: Any, expected: Any, type_: str, rule: str | None, *, loud: bool) -> bool:
    if isinstance(value, _Raised):
        return loud or expected == _ERROR
    return expected != _ERROR and compare.equal(value, expected, type_, rule)


class _Raised(str):
    """The message of an error that Spark raised."""


def _values(
    spark: SparkSession, vector: dict[str, Any], relation: logical.Relation, rows: Sequence[Sequence[str | None]]
) -> list[Any] | _Raised:
    column = relation.shape.columns[-1]
    query = batch.sql(relation, batch.rows(vector["columns"], rows))
    try:
        found = spark.sql(f"SELECT {batch.shown(column.type.name, column.name)} FROM ({query})").collect()
    except (PySparkException, Py4JJavaError) as error:  # parse_json raises the latter
        return _Raised(str(error)[:300])
    return [row[0] for row in found]


def _run_group(spark: SparkSession, vector: dict[str, Any], relation: logical.Relation) -> list[str]:
    column = relation.shape.columns[-1]
    place = list(vector["columns"]).index("g")
    differences = []
    alone = _ERROR in vector["expected"]  # an error in one group ends the query of all
    found = {} if alone else _groups(spark, vector, relation, vector["rows"])
    for group, expected in zip(vector["groups"], vector["expected"], strict=True):
        if alone:
            found = _groups(spark, vector, relation, [row for row in vector["rows"] if row[place] == str(group)])
        value = found if isinstance(found, _Raised) else found[str(group)]
        if not _right(value, expected, column.type.name, vector.get("compare"), loud=False):
            differences.append(f"group {group}: expected {expected!r}, got {value!r}")
    return differences


def _groups(
    spark: SparkSession, vector: dict[str, Any], relation: logical.Relation, rows: Sequence[Sequence[str | None]]
) -> dict[str, Any] | _Raised:
    column = relation.shape.columns[-1]
    query = batch.sql(relation, batch.rows(vector["columns"], rows))
    try:
        found = spark.sql(f"SELECT g, {batch.shown(column.type.name, column.name)} FROM ({query})").collect()
    except PySparkException as error:
        return _Raised(str(error)[:300])
    return {str(row[0]): row[1] for row in found}
