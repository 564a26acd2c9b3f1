"""CREATE SOURCE → the reader's options and the shape of its rows, as its connector plans them."""

from __future__ import annotations

from sinkql import ast, logical
from sinkql.errors import SinkqlError, nearest
from sinkql.planner.name import cluster_name, find
from sinkql.planner.scope import Scope

_LATER = ("KAFKA", "MYSQL", "POSTGRES", "SQL SERVER", "WEBHOOK")


def plan_source(full_name: str, statement: ast.CreateSource, facts: logical.Facts, scope: Scope) -> logical.Source:
    """Plan cluster and connection, and let the connector do the rest; raises SQ2410 for an unknown kind."""
    kind = scope.registry.sources.get(statement.kind)
    if kind is None:
        raise _unknown(statement, tuple(scope.registry.sources))
    if statement.cluster is not None:
        scope.use(cluster_name(scope.catalog, statement.cluster, statement.span))
    connection = None
    if statement.connection is not None:
        connection = find(scope.catalog, statement.connection, "CONNECTION").name
        scope.use(connection)
    planned = kind.plan(statement, facts, scope)
    return logical.Source(full_name, kind.name, planned.options, planned.shape, connection)


def _unknown(statement: ast.CreateSource, known: tuple[str, ...]) -> SinkqlError:
    choices = f"The kinds are {', '.join(sorted(known))}."
    if statement.kind in _LATER:
        return SinkqlError(
            "SQ2922", f"sources from {statement.kind} are not supported yet", statement.kind_span, hint=choices
        )
    near = nearest(statement.kind, (*known, *_LATER))
    return SinkqlError(
        "SQ2410",
        f"there are no sources from {statement.kind}",
        statement.kind_span,
        hint=f"Did you mean {near}?" if near else choices,
    )
