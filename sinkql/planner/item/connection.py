"""CREATE CONNECTION → its kind and the connector's options."""

from __future__ import annotations

from collections.abc import Callable

from sinkql import ast, logical
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connector_api.registry import Registry
from sinkql.errors import SinkqlError
from sinkql.planner.name import find
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


def validation(
    statement: ast.ValidateConnection, catalog: logical.CatalogReader, registry: Registry
) -> tuple[logical.Connection, Callable[[logical.Connection, OutsideAccess], None]]:
    """Return the connection that VALIDATE names, and what asks its other side; SQ2984 where nothing can be asked."""
    connection = catalog.item(find(catalog, statement.name, "CONNECTION").name)
    assert isinstance(connection, logical.Connection)
    check = registry.connections[connection.kind].validate
    if check is None:
        raise SinkqlError(
            "SQ2984",
            f"VALIDATE CONNECTION of a connection to {connection.kind} is not supported yet",
            statement.name.span,
            hint="Create a sink or a source that uses it; that tests the connection.",
        )
    return connection, check
