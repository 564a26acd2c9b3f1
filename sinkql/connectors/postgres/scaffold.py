"""Turn the address of a database into the connection and the source that `sinkql init` writes."""

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
from sinkql.connectors.postgres.publication import quoted
from sinkql.connectors.postgres.type import ServerTable
from sinkql.errors import SinkqlError
from sinkql.printer.clause import ident, text

_NEW = "sinkql"
"""The publication to propose if the database has none."""
_SSL = ("disable", "require", "verify-ca", "verify-full")
_LISTED = 20


def scaffold_connection(address: Address) -> ConnectionScaffold:
    """Return the connection of an address; raise SQ4039 if the address has no database or several hosts."""
    host, port = address.hosts[0]
    if not address.path or len(address.hosts) > 1:
        why = "has no database" if not address.path else "has several hosts"
        hint = "Write postgres://user@host:5432/database."
        raise SinkqlError("SQ4039", f"the address {why}", hint=hint)
    options = [option("HOST", host), option("PORT", port or 5432), option("DATABASE", address.path)]
    options.append(option("USER", address.user or "postgres"))
    mode = address.options.get("sslmode")
    if mode in _SSL:
        options.append(f"SSL MODE {mode.replace('-', '_')}")
    return ConnectionScaffold("POSTGRES", "pg", tuple(options), "PASSWORD", "PGPASSWORD")


def scaffold_sources(
    planned: logical.Connection, wanted: ScaffoldRequest, access: OutsideAccess
) -> Iterator[SourceScaffold]:
    """Yield a source of the publication with the most tables, or of a new publication."""
    from sinkql.connectors.postgres.client import Login  # psycopg is loaded only to connect
    from sinkql.connectors.postgres.facts import find_partitioned, find_unpublished, list_publications

    login = Login.planned(planned, access)
    with login.connect() as connection:
        names = list_publications(connection)
        name = names[0] if names else _NEW
        left = find_unpublished(connection, name) if names else []
        roots = find_partitioned(connection, name) if names else []
    notes = []
    if names[1:]:
        notes.append(f"Other publications of the database: {', '.join(names[1:])}.")
    if roots:
        listed = ", ".join(quoted(schema) + "." + quoted(table) for schema, table in roots)
        notes.append(f"The publication has each partition of {listed} as a separate table.")
        notes.append("To publish partitioned tables as one table, run on the server")
        notes.append(f"ALTER PUBLICATION {quoted(name)} SET (publish_via_partition_root = true);")
    if left:
        more = f" and {len(left) - _LISTED} more" if len(left) > _LISTED else ""
        written = ", ".join(quoted(schema) + "." + quoted(table) for schema, table in left[:_LISTED])
        notes.append(f"The publication does not have {written}{more}. To add one, run on the server")
        first = ".".join(map(quoted, left[0]))
        notes.append(f"ALTER PUBLICATION {quoted(name)} ADD TABLE {first};")
    database = login.options.database
    clauses = f"FROM POSTGRES CONNECTION {wanted.connection} (PUBLICATION {text(name)})"
    yield SourceScaffold(relation_name(f"{database}_source"), database, (clauses,), tuple(notes), whole=True)


def table_options(table: logical.SourceTable) -> str:
    """Return the clause that reads columns of unsupported types as text."""
    server = codec.convert(table.options["server"], ServerTable)
    columns = [ident(ast.Ident(column.name)) for column in server.columns if column.sql_type is None]
    return f" WITH (TEXT COLUMNS ({', '.join(columns)}))" if columns else ""


def sample(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess | None) -> logical.Facts:
    """Return the facts of all tables of the database, published or not."""
    from sinkql.connectors.postgres.client import Login
    from sinkql.connectors.postgres.facts import find_all

    if statement.connection is None or access is None:
        return {}
    connection = planning.connection(statement.connection, "POSTGRES")
    return find_all(Login.planned(connection, access))
