"""CREATE CONNECTION → its kind and the connector's options."""

from __future__ import annotations

from sinkql import ast, logical
from sinkql.errors import SinkqlError, nearest
from sinkql.planner.scope import Scope

_LATER = (
    "AWS GLUE SCHEMA REGISTRY", "AWS PRIVATELINK", "CONFLUENT SCHEMA REGISTRY", "GCP", "KAFKA", "MYSQL", "POSTGRES",
    "SQL SERVER", "SSH TUNNEL",
)  # fmt: skip


def plan_connection(full_name: str, statement: ast.CreateConnection, scope: Scope) -> logical.Connection:
    """Let the connector of the connection's kind bind its options; raises SQ2502 for a kind that nobody offers."""
    kind = scope.registry.connections.get(statement.kind)
    if kind is None:
        raise _unknown(statement, tuple(scope.registry.connections))
    return logical.Connection(full_name, kind.name, kind.plan(statement, scope))


def _unknown(statement: ast.CreateConnection, known: tuple[str, ...]) -> SinkqlError:
    choices = f"The kinds are {', '.join(sorted(known))}."
    if statement.kind in _LATER:
        return SinkqlError(
            "SQ2903", f"connections to {statement.kind} are not supported yet", statement.kind_span, hint=choices
        )
    near = nearest(statement.kind, (*known, *_LATER))
    return SinkqlError(
        "SQ2502",
        f"there are no connections to {statement.kind}",
        statement.kind_span,
        hint=f"Did you mean {near}?" if near else choices,
    )
