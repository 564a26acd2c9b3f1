"""CREATE CONNECTION … TO MYSQL, CREATE SOURCE … FROM MYSQL and the facts of its server → what each table reads."""

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
from sinkql.connector_api.source_options import log_elsewhere, log_retention
from sinkql.connector_api.types import parse_type
from sinkql.connectors.mysql.facts import Column, Server, Table, found_of, listed
from sinkql.connectors.mysql.options import (
    CONNECTION_OWNER,
    SOURCE_OWNER,
    TABLE_OWNER,
    ColumnOptions,
    MySqlOptions,
    SourceOptions,
    TableOptions,
)
from sinkql.connectors.mysql.type import AS_TEXT, declared, sql_type
from sinkql.errors import SinkqlError, Span, UnaskedError

PLACE: tuple[str, ...] = ()
"""What of a connection cannot change: a server may move, and is known by its transactions."""

_LATER = {
    "AWS PRIVATELINK": "Leave it out, and write the address of the endpoint as HOST.",
    "AWS CONNECTION": "Leave it out, and write PASSWORD = SECRET name.",
}
_EXAMPLE = "database.table.column"


def plan_connection(statement: ast.CreateConnection, planning: PlanningContext) -> Mapping[str, Any]:
    """Return host, port, who connects, and how it is encrypted; raises SQ2550 to SQ2553."""
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
    for each in statement.options:
        if each.name in _LATER:
            message = f"{each.name} of MySQL connections is not supported yet"
            raise SinkqlError("SQ2903", message, each.span, hint=_LATER[each.name])
    written, otherwise = statement.options, statement.kind_span
    check_host(written, options.host, otherwise)
    check_port(written, options.port, usual=3306, otherwise=otherwise)
    check_certificate(written, otherwise)
    on = "verify_identity, or required"
    check_encryption(written, options.ssl_mode, off="disabled", on=on, otherwise=otherwise)


# --- sources ----------------------------------------------------------------------------------------------------------


def ask(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess | None) -> logical.Facts:
    """Return what the server says of itself and its tables, where it may be asked."""
    name, _, _ = _bound(statement, {}, planning)
    connection = planning.connection(name, "MYSQL")
    if access is None:
        return {}
    from sinkql.connectors.mysql.purify import find  # PyMySQL, only where a server is asked

    try:
        return find(connection, access)
    except SinkqlError as error:
        if error.span is None:
            error.span = name.span
        raise


def plan(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan a source: its tables are all that the connection's user may read. Raises SQ2801 without the facts."""
    name, given, kept = _bound(statement, facts, planning)
    planning.connection(name, "MYSQL")
    found = found_of(facts)
    if found is None:
        raise UnaskedError(
            "SQ2801",
            "the tables of a server are known only where the source is created",
            statement.kind_span,
            hint="Run the script with sinkql exec, or with sinkql plan: they ask the server.",
        )
    tuning = {"ignore_cascades": given.ignore_cascades}
    server = msgspec.to_builtins(Server(found.mariadb, found.version))
    own = {"tuning": {**tuning, "server": server}}
    planned = source_options(facts.get("source_id"), planning.catalog.locate(statement.name), own, kept)
    chosen = ColumnChoice.of(statement.options)
    tables = tuple(_source_table(each, chosen) for each in found.tables)
    chosen.check(_EXAMPLE)
    return SourcePlan(planned, logical.Shape(()), tables)


def _source_table(table: Table, chosen: ColumnChoice) -> logical.SourceTable:
    """Return a table as a source has it, with what is wrong with its columns left for whoever reads it."""
    name = (table.database, table.name)
    columns = chosen.of_table(name, [each.name for each in table.columns], table.key)
    options = {
        "server": msgspec.to_builtins(table),
        "as_text": sorted(columns.as_text),
        "excluded": sorted(columns.excluded),
    }
    return logical.SourceTable(name, options, _shape(table, columns))


def plan_table(
    source: logical.Source, table: logical.SourceTable, statement: ast.CreateTableFrom
) -> logical.SourceTable:
    """Plan one of the source's tables that somebody reads; raises what is wrong with it."""
    span = statement.reference.span if statement.reference is not None else statement.span
    bind(statement.with_options, TableOptions, owner=TABLE_OWNER, span=span, ignore=OPTIONS)
    server = codec.convert(table.options["server"], Table, strict=False)
    chosen = ColumnChoice.of(statement.with_options, table.name)
    more = chosen.of_table(table.name, [each.name for each in server.columns], server.key)
    chosen.check(_EXAMPLE)
    columns = TableColumnChoice(
        more.as_text | frozenset(table.options["as_text"]), more.excluded | frozenset(table.options["excluded"])
    )
    _check_table(source, server, span)
    _check_texts(server, columns, span)
    for each in server.columns:
        if each.name not in columns.excluded and _type(each, columns) is None:
            way = ".".join((*table.name, each.name)) if statement.subsource else each.name
            option = f"EXCLUDE COLUMNS ({way})"
            where = f"Add {option} to the options of the source" if statement.subsource else f"Write WITH ({option})"
            raise SinkqlError(
                "SQ2814",
                f'column "{each.name}" of table "{".".join(table.name)}" has type {each.problem or each.type}, which '
                "is not supported",
                span,
                hint=f"{where}, which leaves it out.",
            )
    captured = _captured(server, columns)
    return logical.SourceTable(table.name, table_options(source.options, captured), _shape(server, columns))


def _check_table(source: logical.Source, table: Table, span: Span) -> None:
    """Raise SQ2830 for a table that has no transactions, SQ2831 for one that foreign keys change."""
    name = f"{table.database}.{table.name}"
    if table.problem is not None:
        raise SinkqlError("SQ2830", f'table "{name}" {table.problem}', span, hint=table.hint)
    if table.cascades and not source.options["tuning"]["options"]["ignore_cascades"]:
        raise SinkqlError(
            "SQ2831",
            f'foreign key {listed(table.cascades)} changes rows of table "{name}", of which the server logs nothing',
            span,
            hint="Give the foreign key ON DELETE RESTRICT ON UPDATE RESTRICT on the server, or write "
            "WITH (IGNORE CASCADES = true) if no rows go that way.",
        )


def _check_texts(table: Table, columns: TableColumnChoice, span: Span) -> None:
    """Raise SQ2832 for a column of TEXT COLUMNS of which the log does not have the text that the server prints."""
    for each in table.columns:
        type_ = None if each.name in columns.excluded else sql_type(declared(each.type))
        if each.name in columns.as_text and type_ not in (None, "text") and _type(each, columns) != "text":
            raise SinkqlError(
                "SQ2832",
                f'column "{each.name}" of table "{table.database}.{table.name}" has type {each.type}, which cannot be '
                "read as text",
                span,
                hint=f"Leave it out of TEXT COLUMNS: it is read as {type_}.",
            )


def _type(column: Column, columns: TableColumnChoice) -> str | None:
    """Return the SQL type of a column, None for one that cannot be read."""
    kind = declared(column.type)
    return "text" if column.name in columns.as_text and kind.kind in AS_TEXT else sql_type(kind)


def _captured(table: Table, columns: TableColumnChoice) -> CapturedTable:
    kept = [each for each in table.columns if each.name not in columns.excluded]
    typed = tuple(physical.Column(each.name, parse_type(_type(each, columns) or ""), each.nullable) for each in kept)
    name = (table.database, table.name)
    id_ = "t" + hashlib.sha256("\0".join(name).encode()).hexdigest()[:16]
    return CapturedTable(id_, name, typed, table.key, options={"declared": {each.name: each.type for each in kept}})


def _shape(table: Table, columns: TableColumnChoice) -> logical.Shape:
    found = []
    for each in table.columns:
        type_ = None if each.name in columns.excluded else _type(each, columns)
        if type_ is not None:
            found.append(logical.Column(each.name, parse_type(type_), each.nullable))
    names = {each.name for each in found}
    keys = dict.fromkeys(frozenset(key) for key in (table.key, *table.unique) if key and names.issuperset(key))
    return logical.Shape(tuple(found), tuple(keys), logical.Change.UPSERT if table.key else logical.Change.RETRACT)


def _bound(
    statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext
) -> tuple[ast.Name, SourceOptions, LogRetention]:
    """Return the connection's name and what WITH (…) says; raises what is wrong with the statement itself."""
    check_clauses(statement, SOURCE_OWNER)
    bind(statement.options, ColumnOptions, owner=SOURCE_OWNER, span=statement.kind_span, ignore=OPTIONS)
    ColumnChoice.of(statement.options)
    given = bind(statement.with_options, SourceOptions, owner=SOURCE_OWNER, span=statement.kind_span)
    kept = log_retention(
        given,
        statement.with_options,
        statement.kind_span,
        planning,
        usual="log",
        elsewhere=log_elsewhere(statement, facts, planning),
    )
    return connection_of(statement, SOURCE_OWNER, "FROM MYSQL CONNECTION name"), given, kept
