"""EXPLAIN → the text or JSON of a stage: syntax, meaning, job, or the job's Spark SQL."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import msgspec

from sinkql import ast, logical, physical
from sinkql.catalog.store import Catalog
from sinkql.codegen import lower, lower_sink
from sinkql.errors import SinkqlError
from sinkql.explain import spark_sql, to_text
from sinkql.planner import plan
from sinkql.planner.later import later
from sinkql.planner.name import find
from sinkql.session.result import Result

Explained = ast.Statement | logical.Item | physical.Job
_QUERY = "explained_query"


def explain(statement: ast.Explain, catalog: Catalog) -> Result:
    """Give a stage of what EXPLAIN names, as one column of lines."""
    text = _text(statement, catalog)
    rows = tuple((line,) for line in text.splitlines())
    return Result("EXPLAIN", columns=("plan",), rows=rows)


def _text(statement: ast.Explain, catalog: Catalog) -> str:
    value = _explained(statement, catalog)
    if statement.stage == "SPARK SQL":
        if not isinstance(value, physical.Job):
            raise _no_job(statement)
        return spark_sql(value)
    return to_text(value) if statement.output == "TEXT" else json.dumps(_data(value), indent=2)


def _explained(statement: ast.Explain, catalog: Catalog) -> Explained:
    explainee = statement.explainee
    if isinstance(explainee, ast.ItemRef):
        entry = find(catalog.plans, explainee.name, explainee.kind)
        if statement.stage == "RAW":
            return entry.statement
        item = catalog.plans.item(entry.name)
        assert item is not None
        if isinstance(item, logical.Sink) and statement.stage != "OPTIMIZED":
            return lower(entry.name, catalog.plans)
        return item
    if isinstance(explainee, ast.Query):
        explainee = ast.CreateView(ast.Name((ast.Ident(_QUERY),)), explainee)
    if statement.stage == "RAW":
        return explainee
    if isinstance(explainee, ast.Subscribe):
        raise later(explainee)
    item = plan(explainee, {}, catalog.plans, catalog.registry).item
    if isinstance(item, logical.Sink) and statement.stage != "OPTIMIZED":
        return lower_sink(item, catalog.plans)
    return item


def _no_job(statement: ast.Explain) -> SinkqlError:
    return SinkqlError(
        "SQ2954",
        "EXPLAIN SPARK SQL of what is no sink is not supported yet",
        statement.explainee.span,
        hint="Name a sink that reads it, as in EXPLAIN SPARK SQL FOR SINK name.",
    )


def _data(value: Explained) -> Any:
    if isinstance(value, physical.Job):
        return msgspec.to_builtins(value)
    return msgspec.to_builtins(asdict(value), enc_hook=str)
