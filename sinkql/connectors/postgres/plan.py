"""Plan CREATE SOURCE … FROM POSTGRES and its tables from the facts of the publication."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sinkql import ast, codec, logical, physical
from sinkql.connector_api.cdc import CapturedTable, LogRetention, source_options, table_options
from sinkql.connector_api.database_options import EXCLUDE, TEXT, ColumnChoice, check_clauses, connection_of
from sinkql.connector_api.options import bind, option_span
from sinkql.connector_api.planning import OutsideAccess, PlanningContext, SourcePlan
from sinkql.connector_api.source_options import CaptureOptions, log_in_cluster_state, log_retention
from sinkql.connectors.postgres.connection import SOURCE_OWNER, TABLE_OWNER, PublicationOptions, TableOptions
from sinkql.connectors.postgres.publication import Problem, PublicationFacts, publication_facts, quoted
from sinkql.connectors.postgres.type import ServerTable, json_lists, table_json
from sinkql.errors import Notice, SinkqlError, UnaskedError

_LISTED = 5
_GENERATED = 180000
"""The first version that can send generated columns."""


def ask(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess | None) -> logical.Facts:
    """Return the facts of the publication, if the server may be asked."""
    options, name, _ = _check_statement(statement, {}, planning)
    if access is None:
        return {}
    connection = planning.connection(name, "POSTGRES")
    from sinkql.connectors.postgres.client import Login  # psycopg is loaded only to connect
    from sinkql.connectors.postgres.facts import find

    try:
        return find(Login.planned(connection, access), options.publication)
    except SinkqlError as error:
        if error.span is None:
            error.span = option_span(statement.options, error.option or "", name.span)
        raise


def plan(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan a source with all tables and columns of the publication.

    Raises SQ2801 without the facts.
    """
    options, _, retention = _check_statement(statement, facts, planning)
    publication = publication_facts(facts)
    if publication is None:
        raise UnaskedError(
            "SQ2801",
            "the tables of a publication are known only when the source is created",
            statement.kind_span,
            hint="Run the script with sinkql exec or sinkql plan, which ask the server.",
        )
    tuning = {"system": publication.system, "version": publication.version}
    source_specific = {"publication": options.publication, "tuning": tuning}
    planned = source_options(
        facts.get("source_id"), planning.catalog.locate(statement.name), source_specific, retention
    )
    _check_references(statement, publication, options.publication)
    chosen = ColumnChoice.from_options(statement.options)
    tables = tuple(_choose_columns(chosen, table) for table in publication.tables)
    chosen.check("schema.table.column")
    _notice_long_values(statement, tables, planning)
    _notice_generated(statement, publication, options.publication, planning)
    troubled = [
        table
        for table in tables
        if _full_name(table) in publication.problems and _is_named(statement.subsources, table)
    ]
    return SourcePlan(
        planned, logical.Shape(()), tuple(_source_table(table, publication, troubled) for table in tables)
    )


def plan_table(
    source: logical.Source, table: logical.SourceTable, statement: ast.CreateTableFrom
) -> logical.SourceTable:
    """Plan one of the source's tables; raise an error if it cannot be read."""
    span = statement.reference.span if statement.reference is not None else statement.span
    bind(statement.with_options, TableOptions, owner=TABLE_OWNER, span=span, ignore=(TEXT, EXCLUDE))
    if "problem" in table.options:
        problem = codec.convert(table.options["problem"], Problem)
        raise SinkqlError(problem.code, problem.message, span, hint=problem.hint)
    chosen = ColumnChoice.from_options(statement.with_options, table.name)
    server = _choose_columns(chosen, codec.convert(table.options["server"], ServerTable))
    chosen.check("schema.table.column")
    for column in server.columns:
        if column.sql_type is None:
            full = [quoted(part) for part in (*table.name, column.name)]
            way = ".".join(full) if statement.subsource else full[-1]
            where = "Add {} to the options of the source" if statement.subsource else "Write WITH ({})"
            text, out = (where.format(f"{what} COLUMNS ({way})") for what in ("TEXT", "EXCLUDE"))
            raise SinkqlError(
                "SQ2814",
                f'column "{column.name}" of table "{".".join(table.name)}" has type {column.type.name}, which is not '
                "supported",
                span,
                hint=f"{text} to read it as text. {out} to leave it out.",
            )
    return logical.SourceTable(table.name, table_options(source.options, _captured_table(server)), _shape_of(server))


def _captured_table(table: ServerTable) -> CapturedTable:
    columns = tuple(
        physical.Column(column.name, column.sql_type, column.nullable) for column in table.columns if column.sql_type
    )
    name = (table.schema, table.name)
    return CapturedTable(f"t{table.oid}", name, columns, table.key, _may_omit_values(table), table_json(table))


def _may_omit_values(table: ServerTable) -> bool:
    """Return whether the server may leave unchanged values out of a change."""
    return table.identity != "full" and any(column.long for column in table.columns)


def _shape_of(table: ServerTable) -> logical.Shape:
    columns = tuple(logical.Column(c.name, c.sql_type, c.nullable) for c in table.columns if c.sql_type is not None)
    names = {column.name for column in columns}
    keys = dict.fromkeys(frozenset(key) for key in (table.key, *table.unique) if key and names.issuperset(key))
    return logical.Shape(columns, tuple(keys), logical.Change.UPSERT if table.key else logical.Change.RETRACT)


def _check_references(statement: ast.CreateSource, published: PublicationFacts, publication: str) -> None:
    """Raise SQ2811 for a partitioned table if the publication has its partitions instead."""
    for reference in statement.subsources.references if statement.subsources is not None else ():
        written = tuple(part.value for part in reference.upstream.parts)
        root = next(
            (name for name in published.partitioned if tuple(name.split("."))[-len(written) :] == written), None
        )
        if root is not None:
            raise SinkqlError(
                "SQ2811",
                f'publication "{publication}" has the partitions of table "{root}" instead of the table',
                reference.span,
                hint=f"Run ALTER PUBLICATION {quoted(publication)} SET (publish_via_partition_root = true); on the "
                f"server, or read partitions, for example {published.partitioned[root]}.",
            )


def _source_table(
    table: ServerTable, publication: PublicationFacts, troubled: Sequence[ServerTable]
) -> logical.SourceTable:
    """Return a table with its problem; the hint also names other tables with problems."""
    options = {"server": json_lists(msgspec.to_builtins(table))}
    problem = publication.problems.get(_full_name(table))
    if problem is not None:
        others = [f"{quoted(other.schema)}.{quoted(other.name)}" for other in troubled if other is not table]
        more = f" and {len(others) - _LISTED} more" if len(others) > _LISTED else ""
        hint = f"{problem.hint} {', '.join(others[:_LISTED])}{more} cannot be read either." if others else problem.hint
        options["problem"] = msgspec.to_builtins(msgspec.structs.replace(problem, hint=hint))
    return logical.SourceTable((table.schema, table.name), options, _shape_of(table))


def _full_name(table: ServerTable) -> str:
    return f"{table.schema}.{table.name}"


def _choose_columns(chosen: ColumnChoice, table: ServerTable) -> ServerTable:
    """Return a table with the columns that the options choose."""
    names = chosen.of_table((table.schema, table.name), [column.name for column in table.columns], table.key)
    included = (column for column in table.columns if column.name not in names.excluded)
    columns = (
        msgspec.structs.replace(column, as_text=column.as_text or column.name in names.as_text) for column in included
    )
    return msgspec.structs.replace(table, columns=tuple(columns))


# --- the statement ----------------------------------------------------------------------------------------------------


def _check_statement(
    statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext
) -> tuple[PublicationOptions, ast.Name, LogRetention]:
    """Check a statement without the server, and return its options, connection and retention."""
    check_clauses(statement, SOURCE_OWNER)
    options = bind(
        statement.options, PublicationOptions, owner=SOURCE_OWNER, span=statement.kind_span, ignore=(TEXT, EXCLUDE)
    )
    name = connection_of(statement, SOURCE_OWNER, "FROM POSTGRES CONNECTION name (PUBLICATION 'name')")
    planning.connection(name, "POSTGRES")
    ColumnChoice.from_options(statement.options)
    capture_options = bind(statement.with_options, CaptureOptions, owner=SOURCE_OWNER, span=statement.kind_span)
    elsewhere = log_in_cluster_state(statement, facts, planning)
    return (
        options,
        name,
        log_retention(
            capture_options, statement.with_options, statement.kind_span, planning, usual="server", elsewhere=elsewhere
        ),
    )


def _notice_long_values(statement: ast.CreateSource, tables: Sequence[ServerTable], planning: PlanningContext) -> None:
    """Add a notice about tables whose sinks store long values, because the server omits unchanged ones."""
    named = [table for table in tables if _may_omit_values(table) and _is_named(statement.subsources, table)]
    if named:
        listed = ", ".join(f"{quoted(table.schema)}.{quoted(table.name)}" for table in named[:_LISTED])
        more = f" and {len(named) - _LISTED} more tables" if len(named) > _LISTED else ""
        first = f"{quoted(named[0].schema)}.{quoted(named[0].name)}"
        planning.notice(
            Notice(
                "SQ2817",
                f"the server sends long values of {listed}{more} only when they change, so sinks store them",
                statement.kind_span,
                hint=f"Run ALTER TABLE {first} REPLICA IDENTITY FULL; on the server to receive complete rows.",
            )
        )


def _notice_generated(
    statement: ast.CreateSource, facts: PublicationFacts, publication: str, planning: PlanningContext
) -> None:
    """Add a notice about generated columns, which the server does not send."""
    read = [table for table in facts.tables if _is_named(statement.subsources, table)]
    names = [
        f"{quoted(table.schema)}.{quoted(table.name)}.{quoted(column)}"
        for table in read
        for column in facts.generated.get(_full_name(table), ())
    ]
    if not names:
        return
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    stored = f"ALTER PUBLICATION {quoted(publication)} SET (publish_generated_columns = stored);"
    hint = (
        f"Run {stored} on the server to send stored columns, and then ALTER SOURCE … REFRESH REFERENCES; in SinkQL. "
        "Or compute them in a view of SinkQL."
        if facts.version >= _GENERATED
        else "Compute them in a view of SinkQL, or store them in ordinary columns by a trigger on the server."
    )
    listed = f"{', '.join(names[:_LISTED])}{more}"
    message = f"the server does not send generated columns, so the source has no {listed}"
    planning.notice(Notice("SQ2819", message, statement.kind_span, hint=hint))


def _is_named(wanted: ast.Subsources | None, table: ServerTable) -> bool:
    if wanted is None:
        return False
    names = [tuple(part.value for part in reference.upstream.parts) for reference in wanted.references]
    schemas = [schema.value for schema in wanted.schemas]
    every = not names and not schemas
    return every or table.schema in schemas or any((table.schema, table.name)[-len(name) :] == name for name in names)
