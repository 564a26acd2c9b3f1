"""A server's address → a connection, and a source of its tables, as `sinkql init` writes them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sinkql import ast, logical
from sinkql.connectors.mysql.catalog import Table
from sinkql.errors import SinkqlError
from sinkql.extension.address import Address, ConnectionDraft, SourceDraft, Wanted, option, relation_name
from sinkql.extension.plan import Access
from sinkql.printer.part import ident

_SSL = {"REQUIRED": "required", "VERIFY_CA": "verify_ca", "VERIFY_IDENTITY": "verify_identity"}


def draft_connection(address: Address) -> ConnectionDraft:
    """Return the connection of an address; raises SQ4039 where it has several hosts, or a database."""
    host, port = address.hosts[0]
    if len(address.hosts) > 1:
        raise SinkqlError("SQ4039", "the address has several hosts", hint="Write mysql://user@host:3306.")
    if address.path:
        hint = f"Write mysql://user@host:3306, and the names of tables after it, such as {address.path}.orders."
        raise SinkqlError("SQ4039", "the address of a MySQL server has no database", hint=hint)
    options = [option("HOST", host), option("PORT", port or 3306), option("USER", address.user or "root")]
    mode = _SSL.get(address.options.get("ssl-mode", "").upper())
    if mode is not None:
        options.append(f"SSL MODE {mode}")
    return ConnectionDraft("MYSQL", "my", tuple(options), "PASSWORD", "MYSQL_PWD")


def draft_sources(planned: logical.Connection, wanted: Wanted, access: Access) -> Iterator[SourceDraft]:
    """Yield a source of all tables that the user may read."""
    clauses = f"FROM MYSQL CONNECTION {wanted.connection}"
    yield SourceDraft(relation_name("mysql_source"), planned.options["host"], (clauses,), whole=True)


def table_options(table: logical.SourceTable) -> str:
    """Return the clause that leaves out columns whose types are not supported."""
    server = msgspec.convert(table.options["server"], Table, strict=False)
    columns = [ident(ast.Ident(each.name)) for each in server.columns if each.problem is not None]
    return f" WITH (EXCLUDE COLUMNS ({', '.join(columns)}))" if columns else ""
