"""CREATE SOURCE → the reader's options and the shape of its rows, as its connector plans them."""

from __future__ import annotations

from sinkql import ast, logical
from sinkql.errors import SinkqlError
from sinkql.planner.later_form import check_source
from sinkql.planner.name import cluster_name, find
from sinkql.planner.scope import Scope


def plan_source(full_name: str, statement: ast.CreateSource, facts: logical.Facts, scope: Scope) -> logical.Source:
    """Plan cluster and connection, and let the connector do the rest; raises SQ2450 for an unknown kind."""
    check_source(statement)
    kind = scope.registry.sources.get(statement.kind)
    if kind is None or kind.name == "TABLE":
        raise SinkqlError(
            "SQ2450",
            f"there are no sources from {statement.kind}",
            statement.kind_span,
            hint=f"The kinds are {', '.join(sorted(scope.registry.sources.keys() - {'TABLE'}))}.",
        )
    if statement.cluster is not None:
        scope.use(cluster_name(scope.catalog, statement.cluster, statement.span))
    connection = None
    if statement.connection is not None:
        connection = find(scope.catalog, statement.connection, "CONNECTION").name
        scope.use(connection)
    planned = kind.plan(statement, facts, scope)
    return logical.Source(full_name, kind.name, planned.options, planned.shape, connection)
