"""Plan CREATE CONNECTION … TO MYSQL, CREATE SOURCE … FROM MYSQL and its tables from the facts of the server."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from sinkql import ast, codec, logical, physical
from sinkql.connector_api.cdc import CapturedTable, LogRetention, source_options, table_options
from sinkql.connector_api.database_options import (
    OPTIONS,
    ColumnChoice,
    TableColumnChoice,
    check_certificate,
    check_clauses,
    check_encryption,
    check_host,
    check_port,
    connection_of,
)
from sinkql.connector_api.options import bind, secret_data
from sinkql.connector_api.planning import OutsideAccess, PlanningContext, SourcePlan
from sinkql.connector_api.source_options import log_in_cluster_state, log_retention
from sinkql.connector_api.types import parse_type
from sinkql.connectors.mysql.facts import Column, Server, Table, listed, server_facts
from sinkql.connectors.mysql.options import (
    CONNECTION_OWNER,
    SOURCE_OWNER,
    TABLE_OWNER,
    ColumnOptions,
    MySqlOptions,
    SourceOptions,
    TableOptions,
)
from sinkql.connectors.mysql.type import AS_TEXT, parse_declaration, sql_type
from sinkql.errors import SinkqlError, Span, UnaskedError

PLACE: tuple[str, ...] = ()
"""The options that cannot change: none, because a server may move and is recognized by its transactions."""

_LATER = {
    "AWS PRIVATELINK": "Leave it out, and use the address of the endpoint as HOST.",
    "AWS CONNECTION": "Leave it out, and set PASSWORD = SECRET name.",
}
_EXAMPLE = "database.table.column"


def plan_connection(statement: ast.CreateConnection, planning: PlanningContext) -> Mapping[str, Any]:
    """Return the planned options of a connection; raise SQ2550 to SQ2553."""
    options = bind(
        statement.options, MySqlOptions, owner=CONNECTION_OWNER, span=statement.kind_span, secret=planning.secret
    )
    _check(statement, options)
    texts = {
        "user": options.user,
        "password": options.password,
        "ssl_certificate": options.ssl_certificate,
        "ssl_key": options.ssl_key,
        "ssl_certificate_authority": options.ssl_certificate_authority,
    }
    planned: dict[str, Any] = {"host": options.host, "port": options.port, "ssl_mode": options.ssl_mode}
    if options.ssh_tunnel is not None:
        planned["ssh_tunnel"] = {"connection": planning.connection(options.ssh_tunnel, "SSH TUNNEL").name}
    return planned | {name: secret_data(text) for name, text in texts.items() if text is not None}


def _check(statement: ast.CreateConnection, options: MySqlOptions) -> None:
    for option in statement.options:
        if option.name in _LATER:
            message = f"{option.name} of MySQL connections is not supported yet"
            raise SinkqlError("SQ2903", message, option.span, hint=_LATER[option.name])
    written, otherwise = statement.options, statement.kind_span
    check_host(written, options.host, otherwise)
    check_port(written, options.port, usual=3306, otherwise=otherwise)
    check_certificate(written, otherwise)
    on = "verify_identity, or required"
    check_encryption(written, options.ssl_mode, off="disabled", on=on, otherwise=otherwise)


# --- sources ----------------------------------------------------------------------------------------------------------


def ask(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess | None) -> logical.Facts:
    """Return the facts of the server, if it may be asked."""
    name, _, _ = _check_statement(statement, {}, planning)
    connection = planning.connection(name, "MYSQL")
    if access is None:
        return {}
    from sinkql.connectors.mysql.purify import find  # PyMySQL is loaded only to connect

    try:
        return find(connection, access)
    except SinkqlError as error:
        if error.span is None:
            error.span = name.span
        raise


def plan(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan a source with all tables that the user may read. Raise SQ2801 without the facts."""
    name, capture_options, retention = _check_statement(statement, facts, planning)
    planning.connection(name, "MYSQL")
    facts_found = server_facts(facts)
    if facts_found is None:
        raise UnaskedError(
            "SQ2801",
            "the tables of a server are known only when the source is created",
            statement.kind_span,
            hint="Run the script with sinkql exec or sinkql plan, which ask the server.",
        )
    tuning = {"ignore_cascades": capture_options.ignore_cascades}
    server = msgspec.to_builtins(Server(facts_found.mariadb, facts_found.version))
    source_specific = {"tuning": {**tuning, "server": server}}
    planned = source_options(
        facts.get("source_id"), planning.catalog.locate(statement.name), source_specific, retention
    )
    chosen = ColumnChoice.from_options(statement.options)
    tables = tuple(_source_table(table, chosen) for table in facts_found.tables)
    chosen.check(_EXAMPLE)
    return SourcePlan(planned, logical.Shape(()), tables)


def _source_table(table: Table, chosen: ColumnChoice) -> logical.SourceTable:
    """Return a table of a source; problems of its columns are reported when a statement uses the table."""
    name = (table.database, table.name)
    columns = chosen.of_table(name, [column.name for column in table.columns], table.key)
    options = {
        "server": msgspec.to_builtins(table),
        "as_text": sorted(columns.as_text),
        "excluded": sorted(columns.excluded),
    }
    return logical.SourceTable(name, options, _shape_of(table, columns))


def plan_table(
    source: logical.Source, table: logical.SourceTable, statement: ast.CreateTableFrom
) -> logical.SourceTable:
    """Plan one of the source's tables; raise an error if it cannot be read."""
    span = statement.reference.span if statement.reference is not None else statement.span
    bind(statement.with_options, TableOptions, owner=TABLE_OWNER, span=span, ignore=OPTIONS)
    server = codec.convert(table.options["server"], Table, strict=False)
    chosen = ColumnChoice.from_options(statement.with_options, table.name)
    more = chosen.of_table(table.name, [column.name for column in server.columns], server.key)
    chosen.check(_EXAMPLE)
    columns = TableColumnChoice(
        more.as_text | frozenset(table.options["as_text"]), more.excluded | frozenset(table.options["excluded"])
    )
    _check_table(source, server, span)
    _check_texts(server, columns, span)
    for column in server.columns:
        if column.name not in columns.excluded and _column_type(column, columns) is None:
            way = ".".join((*table.name, column.name)) if statement.subsource else column.name
            option = f"EXCLUDE COLUMNS ({way})"
            where = f"Add {option} to the options of the source" if statement.subsource else f"Write WITH ({option})"
            raise SinkqlError(
                "SQ2814",
                f'column "{column.name}" of table "{".".join(table.name)}" has type {column.problem or column.type}, '
                "which is not supported",
                span,
                hint=f"{where} to leave it out.",
            )
    captured = _captured_table(server, columns)
    return logical.SourceTable(table.name, table_options(source.options, captured), _shape_of(server, columns))


def _check_table(source: logical.Source, table: Table, span: Span) -> None:
    """Raise SQ2830 for a table without transactions, and SQ2831 for a table that foreign keys change."""
    name = f"{table.database}.{table.name}"
    if table.problem is not None:
        raise SinkqlError("SQ2830", f'table "{name}" {table.problem}', span, hint=table.hint)
    if table.cascades and not source.options["tuning"]["options"]["ignore_cascades"]:
        raise SinkqlError(
            "SQ2831",
            f'foreign key {listed(table.cascades)} changes rows of table "{name}", and the server does not log these '
            "changes",
            span,
            hint="Give the foreign key ON DELETE RESTRICT ON UPDATE RESTRICT on the server, or write "
            "WITH (IGNORE CASCADES = true) if it never changes rows.",
        )


def _check_texts(table: Table, columns: TableColumnChoice, span: Span) -> None:
    """Raise SQ2832 for a column of TEXT COLUMNS if the log lacks the text that the server prints."""
    for column in table.columns:
        type_ = None if column.name in columns.excluded else sql_type(parse_declaration(column.type))
        if column.name in columns.as_text and type_ not in (None, "text") and _column_type(column, columns) != "text":
            raise SinkqlError(
                "SQ2832",
                f'column "{column.name}" of table "{table.database}.{table.name}" has type {column.type}, which cannot '
                "be read as text",
                span,
                hint=f"Leave it out of TEXT COLUMNS to read it as {type_}.",
            )


def _column_type(column: Column, columns: TableColumnChoice) -> str | None:
    """Return the SQL type of a column; None if it cannot be read."""
    kind = parse_declaration(column.type)
    return "text" if column.name in columns.as_text and kind.kind in AS_TEXT else sql_type(kind)


def _captured_table(table: Table, columns: TableColumnChoice) -> CapturedTable:
    included = [column for column in table.columns if column.name not in columns.excluded]
    typed = tuple(
        physical.Column(column.name, parse_type(_column_type(column, columns) or ""), column.nullable)
        for column in included
    )
    name = (table.database, table.name)
    id_ = "t" + hashlib.sha256("\0".join(name).encode()).hexdigest()[:16]
    return CapturedTable(
        id_, name, typed, table.key, options={"declared": {column.name: column.type for column in included}}
    )


def _shape_of(table: Table, columns: TableColumnChoice) -> logical.Shape:
    shape_columns = []
    for column in table.columns:
        type_ = None if column.name in columns.excluded else _column_type(column, columns)
        if type_ is not None:
            shape_columns.append(logical.Column(column.name, parse_type(type_), column.nullable))
    names = {column.name for column in shape_columns}
    keys = dict.fromkeys(frozenset(key) for key in (table.key, *table.unique) if key and names.issuperset(key))
    return logical.Shape(
        tuple(shape_columns), tuple(keys), logical.Change.UPSERT if table.key else logical.Change.RETRACT
    )


def _check_statement(
    statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext
) -> tuple[ast.Name, SourceOptions, LogRetention]:
    """Check a statement without the server, and return its connection, options and retention."""
    check_clauses(statement, SOURCE_OWNER)
    bind(statement.options, ColumnOptions, owner=SOURCE_OWNER, span=statement.kind_span, ignore=OPTIONS)
    ColumnChoice.from_options(statement.options)
    capture_options = bind(statement.with_options, SourceOptions, owner=SOURCE_OWNER, span=statement.kind_span)
    retention = log_retention(
        capture_options,
        statement.with_options,
        statement.kind_span,
        planning,
        usual="log",
        elsewhere=log_in_cluster_state(statement, facts, planning),
    )
    return connection_of(statement, SOURCE_OWNER, "FROM MYSQL CONNECTION name"), capture_options, retention
