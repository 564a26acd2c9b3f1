"""EXPLAIN → a stage as text, JSON or a graph: syntax, meaning, the work, or the work's Spark SQL."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import msgspec

from sinkql import ast, logical, physical
from sinkql.errors import SinkqlError
from sinkql.explain import Plan, to_dot, to_text, without_literals
from sinkql.extension.registry import Registry
from sinkql.lowering.job import lower, lower_relation, lower_sink
from sinkql.lowering.spark.job import job_sql
from sinkql.planner import plan
from sinkql.planner.name import find
from sinkql.planner.refuse.statement import later

_QUERY = "explained_query"
_STAGES = ("RAW", "OPTIMIZED", "PHYSICAL", "SPARK SQL")
_USE = "Use RAW PLAN, OPTIMIZED PLAN, PHYSICAL PLAN or SPARK SQL, AS TEXT, AS JSON or AS DOT."


def explained(statement: ast.Explain, plans: logical.CatalogReader, registry: Registry) -> str:
    """Return a stage of what EXPLAIN names; SQ2970 for a stage that there is not."""
    if statement.stage not in _STAGES:
        raise SinkqlError("SQ2970", f"EXPLAIN {statement.stage} is not supported yet", statement.span, hint=_USE)
    if statement.options:
        span = statement.options[0].name_span
        raise SinkqlError("SQ2970", "EXPLAIN … WITH (…) is not supported yet", span, hint="Leave it out.")
    value = _explained(statement, plans, registry)
    if statement.output == "DOT":
        return to_dot(value)
    if statement.stage == "SPARK SQL":
        assert isinstance(value, physical.Job | physical.Operator)
        text = job_sql(value)
        return json.dumps({"spark_sql": text}, indent=2) if statement.output == "JSON" else text
    return json.dumps(without_literals(_data(value)), indent=2) if statement.output == "JSON" else to_text(value)


def _explained(statement: ast.Explain, plans: logical.CatalogReader, registry: Registry) -> Plan:
    explainee = statement.explainee
    assert explainee is not None  # only ANALYZE CLUSTER, which is refused, has none
    if isinstance(explainee, ast.Subscribe):
        raise later(explainee)
    if isinstance(explainee, ast.ItemRef):
        entry = find(plans, explainee.name, explainee.kind)
        if statement.stage == "RAW":
            return entry.statement
        item = plans.item(entry.name)
        assert item is not None
        work = lower(entry.name, plans) if isinstance(item, logical.Sink) else item
        return item if statement.stage == "OPTIMIZED" else _work(work, plans)
    if isinstance(explainee, ast.Query):
        explainee = ast.CreateView(ast.Name((ast.Ident(_QUERY),)), explainee)
    if statement.stage == "RAW":
        return explainee
    item = plan(explainee, {}, plans, registry).item
    if statement.stage == "OPTIMIZED":
        return item
    return _work(lower_sink(item, plans) if isinstance(item, logical.Sink) else item, plans)


def _work(found: logical.Item | physical.Job, plans: logical.CatalogReader) -> Plan:
    """Return what a source or a view does; of what does no work by itself, what it means."""
    return lower_relation(found, plans) if isinstance(found, logical.Source | logical.View) else found


def _data(value: Plan) -> Any:
    if isinstance(value, msgspec.Struct):
        return physical.to_data(value)
    return msgspec.to_builtins(asdict(value), enc_hook=str)
