"""Set-returning functions of jsonb return Postgres 18's rows, in the evaluator and in Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from expressions import vectors
from sinkql import ast, evaluate
from sinkql.errors import SinkqlError, Span
from sinkql.lowering.spark.query import QuerySql
from sinkql.planner.query.plan import OneShotQuery, plan_one_shot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWERS = Path(__file__).with_name("postgres_json_sets.jsonl")
"""A function, a document, and its rows in order or the error's message."""
_CATALOG = vectors.table({})
Run = Callable[[OneShotQuery], Sequence[tuple[Any, ...]]]


def _lines() -> list[str]:
    return _ANSWERS.read_text(encoding="utf-8").splitlines()


def _names() -> list[str]:
    return list(dict.fromkeys(json.loads(line)[0] for line in _lines()))


def test_evaluated_rows_are_those_of_postgres() -> None:
    def run(once: OneShotQuery) -> Sequence[tuple[Any, ...]]:
        found = evaluate.rows_of(once.relation, _CATALOG)
        assert found is not None
        return list(found(lambda _: []))

    _check(run, SinkqlError, _names())


@pytest.mark.spark
@pytest.mark.share(6)
@pytest.mark.parametrize("name", _names())
def test_in_spark_rows_are_those_of_postgres(spark: SparkSession, name: str) -> None:
    from pyspark.errors import PySparkException

    _check(lambda once: spark.sql(QuerySql(_CATALOG).once(once)).collect(), PySparkException, [name])


def _check(run: Run, failure: type[Exception], names: Sequence[str]) -> None:
    answers = {(name, document): expected for name, document, expected in map(json.loads, _lines())}
    for name in names:
        own = {document: expected for (function, document), expected in answers.items() if function == name}
        known = {document: expected for document, expected in own.items() if isinstance(expected, list)}
        got: list[list[list[Any]]] = [[] for _ in known]
        for number, _, *values in sorted(run(_query(name, list(known))), key=lambda row: row[:2]):
            got[number].append(values)
        assert got == list(known.values()), name
        for document, expected in own.items():
            if isinstance(expected, str):
                with pytest.raises(failure, match=expected):
                    run(_query(name, [document]))


def _query(name: str, documents: Sequence[str | None]) -> OneShotQuery:
    columns = "k, v" if "each" in name else "v"
    values = ", ".join(f"({number}, {_literal(each)})" for number, each in enumerate(documents))
    text = f"SELECT i, n, {columns} FROM (VALUES {values}) AS t (i, j), {name}(j) WITH ORDINALITY AS e ({columns}, n)"
    return plan_one_shot(ast.Query(text, Span(0, len(text))), _CATALOG, datetime(2024, 1, 1))


def _literal(document: str | None) -> str:
    return "NULL::jsonb" if document is None else "'{}'::jsonb".format(document.replace("'", "''"))
