"""Print a stage for EXPLAIN as text, JSON or a graph: syntax, logical plan, physical plan, or Spark SQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Literal

import msgspec

from sinkql import ast, logical, physical
from sinkql.connector_api.registry import Registry
from sinkql.errors import SinkqlError, one_of
from sinkql.explain import Held, Plan, to_dot, to_text, without_literals
from sinkql.lowering.index import unused_indexes
from sinkql.lowering.job import lower, lower_relation, lower_sink, lower_view
from sinkql.lowering.materialized_view import (
    ViewLogs,
    decide_job,
    inlined_views,
    timeline_of_sink,
    view_id,
)
from sinkql.lowering.placement import placed
from sinkql.lowering.spark.query import job_sql
from sinkql.planner import plan
from sinkql.planner.name import find

_QUERY = "explained_query"
_STAGES = ("RAW", "OPTIMIZED", "PHYSICAL", "SPARK SQL")
_SCHEMAS: Mapping[str, Literal["key", "value"]] = {"KEY SCHEMA": "key", "VALUE SCHEMA": "value"}
_USE = "Use RAW PLAN, OPTIMIZED PLAN, PHYSICAL PLAN or SPARK SQL, AS TEXT, AS JSON or AS DOT."


def explained(
    statement: ast.Explain,
    plans: logical.CatalogReader,
    registry: Registry,
    facts: logical.Facts,
    held: Callable[[str], Held] = lambda sink: {},
) -> str:
    """Return a stage of the item or statement that EXPLAIN names; raise SQ2970 for an unsupported stage, or SQ2367.

    `held` returns the contents of a sink's state, by its full name.
    """
    if statement.stage in _SCHEMAS:
        return json.dumps(_schema(statement, plans, registry, facts), indent=2, ensure_ascii=False)
    if statement.stage not in _STAGES:
        raise SinkqlError("SQ2970", f"EXPLAIN {statement.stage} is not supported yet", statement.span, hint=_USE)
    value = _explained(statement, plans, registry, facts)
    state = _state(statement, plans, held)
    notes = _notes(statement, plans, value)
    if statement.output == "DOT":
        return to_dot(value, state, notes)
    if statement.stage == "SPARK SQL":
        assert isinstance(value, physical.Job | physical.Graph | physical.Operator)
        text = job_sql(value)
        return json.dumps({"spark_sql": text}, indent=2) if statement.output == "JSON" else text
    if statement.output == "JSON":
        return json.dumps(without_literals(_data(value)), indent=2)
    return to_text(value, state, notes)


def _notes(statement: ast.Explain, plans: logical.CatalogReader, value: Plan) -> list[str]:
    """Return the notes of a physical plan: where a job's batches run, whether a materialized view is a job, and so on.

    The last ones are views whose log is not read, and indexes that are not used.
    """
    explainee = statement.explainee
    lines = [f"batches: {placed(value)}"] if isinstance(value, physical.Job) else []
    if statement.stage != "PHYSICAL" or not isinstance(explainee, ast.ItemRef):
        return lines
    entry = find(plans, explainee.name, explainee.kind)
    if entry.kind == "MATERIALIZED VIEW":
        decision = decide_job(entry.name, plans)
        lines.append(f"{'is a job' if decision.is_job else 'is inlined into its readers'}: {decision.reason}")
    if _has_job(entry.name, plans):
        lines += [*inlined_views(entry.name, plans), *unused_indexes(lower(entry.name, plans), plans)]
    return lines


def _state(statement: ast.Explain, plans: logical.CatalogReader, held: Callable[[str], Held]) -> Held | None:
    """Return the state for WITH (STATE), None without it; raise SQ2970 if the plan has no state."""
    if not statement.options:
        return None
    option = statement.options[0]
    if len(statement.options) > 1 or option.name.upper() != "STATE" or option.value is not None:
        message = f"EXPLAIN WITH ({option.name}) is not supported"
        raise SinkqlError("SQ2970", message, option.name_span, hint="Write WITH (STATE), or leave it out.")
    explainee = statement.explainee
    entry = find(plans, explainee.name, explainee.kind) if isinstance(explainee, ast.ItemRef) else None
    if entry is None or not _has_job(entry.name, plans) or statement.stage != "PHYSICAL" or statement.output == "JSON":
        message = "EXPLAIN WITH (STATE) is only supported for the physical plan of a sink, as text or as a graph"
        hint = "Write EXPLAIN PHYSICAL PLAN WITH (STATE) FOR SINK name."
        if entry is not None and entry.kind == "MATERIALIZED VIEW" and statement.stage == "PHYSICAL":
            hint = (
                "The state of this view is kept by its sinks: write EXPLAIN PHYSICAL PLAN WITH (STATE) FOR SINK name."
            )
        raise SinkqlError("SQ2970", message, option.name_span, hint=hint)
    return held(entry.name)


def _has_job(name: str, plans: logical.CatalogReader) -> bool:
    """Return whether an item has a job: a sink, or a view with a log."""
    return isinstance(plans.item(name), logical.Sink) or view_id(name, plans) is not None


def _explained(statement: ast.Explain, plans: logical.CatalogReader, registry: Registry, facts: logical.Facts) -> Plan:
    explainee = statement.explainee
    assert explainee is not None  # only ANALYZE CLUSTER has none, and it is refused
    if isinstance(explainee, ast.Subscribe):
        hint = "Write EXPLAIN MATERIALIZED VIEW and its name."
        raise SinkqlError("SQ2963", "EXPLAIN of SUBSCRIBE is not supported yet", explainee.span, hint=hint)
    if isinstance(explainee, ast.ItemRef):
        entry = find(plans, explainee.name, explainee.kind)
        if statement.stage == "RAW":
            return entry.statement
        item = plans.item(entry.name)
        assert item is not None
        work = lower(entry.name, plans) if _has_job(entry.name, plans) else item
        return item if statement.stage == "OPTIMIZED" else _work(work, plans)
    if isinstance(explainee, ast.Query):
        explainee = ast.CreateView(ast.Name((ast.Ident(_QUERY),)), explainee)
    if statement.stage == "RAW":
        return explainee
    item = plan(explainee, facts, plans, registry).item
    if statement.stage == "OPTIMIZED":
        return item
    if isinstance(item, logical.Sink):
        logs = ViewLogs(plans, (item.relation,), whole=item.snapshot)
        job = lower_sink(item, plans, logs=logs.read)
        return msgspec.structs.replace(job, timeline=timeline_of_sink(logs, plans))
    return _work(item, plans)


def _schema(statement: ast.Explain, plans: logical.CatalogReader, registry: Registry, facts: logical.Facts) -> Any:
    """Return the schema of the messages that a sink writes; raise SQ2367 if it has none."""
    explainee, part = statement.explainee, _SCHEMAS[statement.stage]
    item: logical.Item | None = None
    if isinstance(explainee, ast.ItemRef):
        item = plans.item(find(plans, explainee.name, explainee.kind).name)
    elif isinstance(explainee, ast.CreateSink):
        item = plan(explainee, facts, plans, registry).item
    if not isinstance(item, logical.Sink):
        hint = f"Write EXPLAIN {statement.stage} FOR SINK name, or FOR CREATE SINK …."
        raise SinkqlError("SQ2367", f"only sinks have a {statement.stage}", statement.span, hint=hint)
    kind = registry.sinks[item.kind]
    encoded = kind.find_encoding(lower_sink(item, plans).write, part) if kind.find_encoding is not None else None
    if encoded is None:
        why = f"the sink has no {part.upper()}" if kind.find_encoding is not None else f"{kind.owner} write no messages"
        writers = one_of([f"INTO {name}" for name, sink in registry.sinks.items() if sink.find_encoding is not None])
        raise SinkqlError("SQ2367", why, statement.span, hint=f"Sinks {writers} write messages, keys with KEY (…).")
    format_, options, columns = encoded
    writing = registry.messages[format_].writing
    if writing is None or writing.schema is None:
        formats = [
            name
            for name, message in registry.messages.items()
            if message.writing is not None and message.writing.schema
        ]
        hint = f"Write {one_of([f'FORMAT {name}' for name in formats])}."
        raise SinkqlError("SQ2367", f"FORMAT {format_} has no schema", statement.span, hint=hint)
    return writing.schema(options, columns)


def _work(plan_: logical.Item | physical.Job, plans: logical.CatalogReader) -> Plan:
    """Return the physical plan of a source or a view; other items are returned unchanged."""
    match plan_:
        case logical.Source():
            return lower_relation(plan_, plans)
        case logical.View():
            graph, _ = lower_view(plan_, plans)
            return graph if graph.shared else graph.root
        case _:
            return plan_


def _data(value: Plan) -> Any:
    if isinstance(value, msgspec.Struct):
        return physical.to_data(value)
    return msgspec.to_builtins(asdict(value), enc_hook=str)
