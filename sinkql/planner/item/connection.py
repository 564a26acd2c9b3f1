"""CREATE CONNECTION → its kind and the connector's options."""

from __future__ import annotations

from sinkql import ast, logical
from sinkql.errors import SinkqlError
from sinkql.planner.scope import Scope, kinds_hint


def plan_connection(full_name: str, statement: ast.CreateConnection, scope: Scope) -> logical.Connection:
    """Let the connector of the connection's kind bind its options.

    Raises SQ2502 for a kind that nobody offers, SQ2903 for one that is not supported yet.
    """
    known = scope.registry.connections
    kind = known.get(statement.kind)
    if kind is not None:
        return logical.Connection(full_name, kind.name, kind.plan(statement, scope))
    if ("CONNECTION", statement.kind) in scope.registry.later:
        raise SinkqlError(
            "SQ2903",
            f"connections to {statement.kind} are not supported yet",
            statement.kind_span,
            hint=f"The kinds are {', '.join(sorted(known))}.",
        )
    raise SinkqlError(
        "SQ2502",
        f"no connector connects to {statement.kind}",
        statement.kind_span,
        hint=kinds_hint(statement.kind, known, scope.registry.expected("CONNECTION")),
    )
