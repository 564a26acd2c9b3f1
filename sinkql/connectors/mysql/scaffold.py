"""Turn the address of a server into the connection and the source that `sinkql init` writes."""

from __future__ import annotations

from collections.abc import Iterator

from sinkql import ast, codec, logical
from sinkql.connector_api.planning import OutsideAccess, PlanningContext
from sinkql.connector_api.scaffold import (
    Address,
    ConnectionScaffold,
    ScaffoldRequest,
    SourceScaffold,
    option,
    relation_name,
)
from sinkql.connectors.mysql.facts import Table
from sinkql.connectors.mysql.options import MySqlConnection
from sinkql.errors import SinkqlError
from sinkql.printer.clause import ident

_SSL = {"REQUIRED": "required", "VERIFY_CA": "verify_ca", "VERIFY_IDENTITY": "verify_identity"}


def scaffold_connection(address: Address) -> ConnectionScaffold:
    """Return the connection of an address, whose path selects the database; raise SQ4039 for several hosts."""
    host, port = address.hosts[0]
    if len(address.hosts) > 1:
        raise SinkqlError("SQ4039", "the address has several hosts", hint="Write mysql://user@host:3306.")
    options = [option("HOST", host), option("PORT", port or 3306), option("USER", address.user or "root")]
    mode = _SSL.get(address.options.get("ssl-mode", "").upper())
    if mode is not None:
        options.append(f"SSL MODE {mode}")
    return ConnectionScaffold("MYSQL", "my", tuple(options), "PASSWORD", "MYSQL_PWD", address.path)


def scaffold_sources(
    planned: logical.Connection, wanted: ScaffoldRequest, access: OutsideAccess
) -> Iterator[SourceScaffold]:
    """Yield a source of all tables that the user may read."""
    clauses = f"FROM MYSQL CONNECTION {wanted.connection}"
    yield SourceScaffold(
        relation_name("mysql_source"), MySqlConnection.from_plan(planned.options).host, (clauses,), whole=True
    )


def table_options(table: logical.SourceTable) -> str:
    """Return the clause that leaves out columns of unsupported types."""
    server = codec.convert(table.options["server"], Table, strict=False)
    columns = [ident(ast.Ident(column.name)) for column in server.columns if column.problem is not None]
    return f" WITH (EXCLUDE COLUMNS ({', '.join(columns)}))" if columns else ""


def sample(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess | None) -> logical.Facts:
    """Return the facts of all tables that the user may read, even if the server does not log their changes."""
    from sinkql.connectors.mysql.purify import find_all  # PyMySQL is loaded only to connect

    if statement.connection is None or access is None:
        return {}
    return find_all(planning.connection(statement.connection, "MYSQL"), access)
