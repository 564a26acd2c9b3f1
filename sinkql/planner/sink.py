"""CREATE SINK → what is written where, how and when; `rule` says what must hold of it."""

from __future__ import annotations

from sinkql import ast, logical
from sinkql.connector.plan import SinkKind
from sinkql.errors import SinkqlError
from sinkql.planner.later_form import check_sink
from sinkql.planner.name import cluster_name
from sinkql.planner.rule import (
    check_changes,
    check_key,
    check_key_types,
    check_mode_and_key,
    check_unique,
    exported_relation,
    given_mode,
)
from sinkql.planner.scope import Scope


def plan_sink(full_name: str, statement: ast.CreateSink, facts: logical.Facts, scope: Scope) -> logical.Sink:
    """Check the rules of sinks in their order; the connector's own options and types come between them."""
    check_sink(statement)
    kind = _kind(statement, scope)
    mode = given_mode(statement)
    relation, shape = exported_relation(statement, scope)
    check_key(statement, shape)
    check_key_types(statement, shape)
    proven = check_unique(statement, shape)
    check_mode_and_key(statement, mode, shape, proven=proven, notice=scope.notice)
    check_changes(statement, mode, shape)
    planned = kind.plan(statement, shape, facts, scope)
    connection = scope.connection(statement.connection, kind.name)
    aws = None
    if statement.aws_connection is not None:
        aws = scope.connection(statement.aws_connection, "AWS").name
    cluster = cluster_name(scope.catalog, statement.cluster, statement.kind_span)
    scope.use(cluster)
    sink = logical.Sink(
        name=full_name,
        relation=relation,
        kind=kind.name,
        connection=connection.name,
        aws_connection=aws,
        cluster=cluster,
        mode=logical.SinkMode(mode.mode),
        changelog=mode.mode == "append" and mode.changelog,
        key=tuple(column.value for column in statement.key.columns) if statement.key else (),
        enforced=statement.key is None or statement.key.enforced,
        commit_interval=planned.commit_interval,
        options=planned.options,
        shape=shape,
    )
    if kind.check is not None:
        kind.check(statement, sink, scope)
    return sink


def _kind(statement: ast.CreateSink, scope: Scope) -> SinkKind:
    kind = scope.registry.sinks.get(statement.kind)
    if kind is None:
        raise SinkqlError(
            "SQ2321",
            f"there are no sinks into {statement.kind}",
            statement.kind_span,
            hint=f"The kinds are {', '.join(sorted(scope.registry.sinks))}.",
        )
    if kind.name == "ICEBERG CATALOG" and scope.catalog.setting("enable_iceberg_sink") == "false":
        raise SinkqlError(
            "SQ2320",
            "sinks into Iceberg are switched off",
            statement.kind_span,
            hint="Run ALTER SYSTEM SET enable_iceberg_sink = true; before it.",
        )
    return kind
