"""CREATE SINK → what is written where, how and when; `rule` says what must hold of it."""

from __future__ import annotations

from dataclasses import replace

from sinkql import ast, logical
from sinkql.connector_api.planning import SinkKind
from sinkql.connector_api.sink_options import check_pace
from sinkql.errors import SinkqlError, Span, one_of
from sinkql.planner.item.sink_rules import (
    check_changes,
    check_key,
    check_key_types,
    check_mode_and_key,
    check_start,
    check_unique,
    effective_mode,
    exported_relation,
)
from sinkql.planner.name import cluster_name
from sinkql.planner.scope import Scope, kinds_hint


def plan_sink(full_name: str, statement: ast.CreateSink, facts: logical.Facts, scope: Scope) -> logical.Sink:
    """Check the rules of sinks in their order; the connector's own options and types come between them."""
    kind = _kind(statement, scope)
    _check_clauses(statement, kind)
    mode = effective_mode(statement, messages=kind.messages)
    relation, shape = exported_relation(statement, scope)
    check_key(statement, shape)
    check_key_types(statement, shape)
    proven = check_unique(statement, shape)
    check_mode_and_key(statement, mode, shape, proven=proven, notice=scope.notice, messages=kind.messages)
    check_changes(statement, mode, shape)
    planned = kind.plan(statement, shape, facts, scope)
    check_pace(statement, planned.common)
    check_start(statement, mode, relation, scope, snapshot=planned.common.snapshot, proven=proven, final=kind.final)
    connection = scope.connection(statement.connection, kind.name)
    store = _store(statement.using, scope) if statement.using is not None else None
    cluster = cluster_name(scope.catalog, statement.cluster, statement.kind_span)
    scope.use(cluster)
    sink = logical.Sink(
        name=full_name,
        relation=relation,
        kind=kind.name,
        connection=connection.name,
        store=store,
        cluster=cluster,
        mode=logical.SinkMode(mode.mode),
        changelog=mode.mode == "append" and mode.changelog,
        key=tuple(column.value for column in statement.key.columns) if statement.key else (),
        enforced=statement.key is None or statement.key.enforced,
        commit_interval=planned.common.commit_interval,
        max_rows_per_commit=planned.common.max_rows_per_commit,
        buckets=planned.common.buckets,
        snapshot=planned.common.snapshot,
        options=planned.options,
        shape=shape,
        final=kind.final,
    )
    if kind.check is not None:
        kind.check(statement, sink, scope)
    return replace(sink, destination=kind.destination(sink)) if kind.destination is not None else sink


def _check_clauses(statement: ast.CreateSink, kind: SinkKind) -> None:
    """Refuse clauses that sinks of the kind do not take (SQ2332)."""
    mode = statement.mode
    if mode is not None and mode.mode not in kind.modes:
        word = "ENVELOPE" if kind.messages else "MODE"
        written = one_of([f"{word} {each.upper()}" for each in kind.modes])
        given = "NONE" if mode.mode == "append" and not mode.changelog else mode.mode.upper()
        raise _no_clause(kind, f"ENVELOPE {given}", mode.span, f"Write {written}.")
    if mode is not None and kind.messages and mode.word == "MODE":
        raise _no_clause(kind, "MODE", mode.span, f"Write ENVELOPE {mode.mode.upper()}.")
    if statement.key_format is not None and not kind.messages:
        raise _no_clause(kind, "KEY FORMAT", statement.key_format.span, "Leave it out.")
    if statement.format is not None and statement.format.name not in kind.formats and not kind.messages:
        formats = [f"FORMAT {each}" for each in kind.formats]
        hint = f"Write {one_of(formats)}, or leave it out." if formats else "Leave it out."
        raise _no_clause(kind, f"FORMAT {statement.format.name}", statement.format.span, hint)
    if statement.headers is not None and not kind.messages:
        raise _no_clause(kind, "HEADERS", statement.headers.span, "Leave it out.")
    for option in statement.with_options:
        if option.name == "ON ERROR":
            raise _no_clause(kind, "ON ERROR", option.name_span, _NO_ON_ERROR)
    if statement.partition_by and not kind.partitions:
        raise _no_clause(kind, "PARTITION BY", statement.partition_by[0].span, "Leave it out.")
    if statement.sort_by and not kind.partitions:
        raise _no_clause(kind, "SORT BY", statement.sort_by[0].span, "Leave it out.")


_NO_ON_ERROR = (
    "Without a row that fails, the table would not be what the view says, so the sink stops there. Guard the "
    "expression in the view, as in CASE WHEN x ~ '^[0-9]{1,9}$' THEN x::integer END."
)


def _no_clause(kind: SinkKind, clause: str, span: Span, hint: str) -> SinkqlError:
    return SinkqlError("SQ2332", f"{kind.owner} do not take {clause}", span, hint=hint)


def _store(using: ast.Using, scope: Scope) -> str:
    """Return the full name of the connection that a sink's files are reached with; SQ2331 if it is not a store."""
    stores = scope.registry.stores()
    if using.kind not in stores:
        raise SinkqlError(
            "SQ2331",
            f"files cannot be stored by connections to {using.kind}",
            using.span,
            hint=kinds_hint(using.kind, stores),
        )
    return scope.connection(using.connection, using.kind).name


def _kind(statement: ast.CreateSink, scope: Scope) -> SinkKind:
    kind = scope.registry.sinks.get(statement.kind)
    if kind is not None:
        return kind
    known = tuple(scope.registry.sinks)
    raise SinkqlError(
        "SQ2321",
        f"no connector writes to {statement.kind}",
        statement.kind_span,
        hint=kinds_hint(statement.kind, known, scope.registry.expected("SINK")),
    )
