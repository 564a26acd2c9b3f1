"""A database's address → a connection, and a source of a publication, as `sinkql init` writes them."""

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
"""The publication that is proposed where there is none."""
_SSL = ("disable", "require", "verify-ca", "verify-full")
_LISTED = 20


def draft_connection(address: Address) -> ConnectionScaffold:
    """Return the connection of an address; raises SQ4039 where it has no database."""
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


def draft_sources(
    planned: logical.Connection, wanted: ScaffoldRequest, access: OutsideAccess
) -> Iterator[SourceScaffold]:
    """Yield a source of the publication that has the most tables; of a new one where there is none."""
    from sinkql.connectors.postgres.client import Login  # psycopg, only where a server is asked
    from sinkql.connectors.postgres.facts import partitioned, publications, unpublished

    with Login.planned(planned, access).connect() as connection:
        found = publications(connection)
        name = found[0] if found else _NEW
        left = unpublished(connection, name) if found else []
        roots = partitioned(connection, name) if found else []
    notes = []
    if found[1:]:
        notes.append(f"Other publications of the database: {', '.join(found[1:])}.")
    if roots:
        listed = ", ".join(quoted(schema) + "." + quoted(table) for schema, table in roots)
        notes.append(f"The publication has each partition of {listed} as a table of its own.")
        notes.append("To have partitioned tables as one, run on the server")
        notes.append(f"ALTER PUBLICATION {quoted(name)} SET (publish_via_partition_root = true);")
    if left:
        more = f" and {len(left) - _LISTED} more" if len(left) > _LISTED else ""
        written = ", ".join(quoted(schema) + "." + quoted(table) for schema, table in left[:_LISTED])
        notes.append(f"The publication does not have {written}{more}. To read one, run on the server")
        first = ".".join(map(quoted, left[0]))
        notes.append(f"ALTER PUBLICATION {quoted(name)} ADD TABLE {first};")
    database = planned.options["database"]
    clauses = f"FROM POSTGRES CONNECTION {wanted.connection} (PUBLICATION {text(name)})"
    yield SourceScaffold(relation_name(f"{database}_source"), database, (clauses,), tuple(notes), whole=True)


def table_options(table: logical.SourceTable) -> str:
    """Return the clause that reads columns as text whose types are not supported."""
    server = codec.convert(table.options["server"], ServerTable)
    columns = [ident(ast.Ident(each.name)) for each in server.columns if each.sql_type is None]
    return f" WITH (TEXT COLUMNS ({', '.join(columns)}))" if columns else ""


def sample(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess | None) -> logical.Facts:
    """Return the facts of all tables of the database, published or not."""
    from sinkql.connectors.postgres.client import Login
    from sinkql.connectors.postgres.facts import find_all

    if statement.connection is None or access is None:
        return {}
    connection = planning.connection(statement.connection, "POSTGRES")
    return find_all(Login.planned(connection, access))
