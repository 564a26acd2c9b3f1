"""CREATE SOURCE … FROM POSTGRES and the facts of its publication → the tables that it has, and what each reads."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sinkql import ast, codec, logical, physical
from sinkql.connector_api.cdc import CapturedTable, LogRetention, source_options, table_options
from sinkql.connector_api.database_options import EXCLUDE, TEXT, ColumnChoice, check_clauses, connection_of
from sinkql.connector_api.options import bind, option_span
from sinkql.connector_api.planning import OutsideAccess, PlanningContext, SourcePlan
from sinkql.connector_api.source_options import CaptureOptions, log_elsewhere, log_retention
from sinkql.connectors.postgres.connection import SOURCE_OWNER, TABLE_OWNER, PublicationOptions, TableOptions
from sinkql.connectors.postgres.publication import Found, Problem, found_of, quoted
from sinkql.connectors.postgres.type import ServerTable, json_lists, table_json
from sinkql.errors import Notice, SinkqlError, UnaskedError

_LISTED = 5
_GENERATED = 180000
"""The first version that sends generated columns."""


def ask(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess | None) -> logical.Facts:
    """Return what the server says of the publication, where it may be asked."""
    options, name, _ = _checked(statement, {}, planning)
    if access is None:
        return {}
    connection = planning.connection(name, "POSTGRES")
    from sinkql.connectors.postgres.client import Login  # psycopg, only where a server is asked
    from sinkql.connectors.postgres.facts import find

    try:
        return find(Login.planned(connection, access), options.publication)
    except SinkqlError as error:
        if error.span is None:
            error.span = option_span(statement.options, error.option or "", name.span)
        raise


def plan(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan a source: its tables are those of the publication, with all columns that are sent.

    Raises SQ2801 without the facts.
    """
    options, _, kept = _checked(statement, facts, planning)
    found = found_of(facts)
    if found is None:
        raise UnaskedError(
            "SQ2801",
            "the tables of a publication are known only where the source is created",
            statement.kind_span,
            hint="Run the script with sinkql exec, or with sinkql plan: they ask the server.",
        )
    tuning = {"system": found.system, "version": found.version}
    own = {"publication": options.publication, "tuning": tuning}
    planned = source_options(facts.get("source_id"), planning.catalog.locate(statement.name), own, kept)
    _check_references(statement, found, options.publication)
    chosen = ColumnChoice.of(statement.options)
    tables = tuple(_as_chosen(chosen, each) for each in found.tables)
    chosen.check("schema.table.column")
    _tell_long_values(statement, tables, planning)
    _tell_generated(statement, found, options.publication, planning)
    troubled = [each for each in tables if _called(each) in found.problems and _named(statement.subsources, each)]
    return SourcePlan(planned, logical.Shape(()), tuple(_source_table(each, found, troubled) for each in tables))


def plan_table(
    source: logical.Source, table: logical.SourceTable, statement: ast.CreateTableFrom
) -> logical.SourceTable:
    """Plan one of the source's tables that somebody reads; raises what is wrong with it."""
    span = statement.reference.span if statement.reference is not None else statement.span
    bind(statement.with_options, TableOptions, owner=TABLE_OWNER, span=span, ignore=(TEXT, EXCLUDE))
    if "problem" in table.options:
        problem = codec.convert(table.options["problem"], Problem)
        raise SinkqlError(problem.code, problem.message, span, hint=problem.hint)
    chosen = ColumnChoice.of(statement.with_options, table.name)
    server = _as_chosen(chosen, codec.convert(table.options["server"], ServerTable))
    chosen.check("schema.table.column")
    for each in server.columns:
        if each.sql_type is None:
            full = [quoted(part) for part in (*table.name, each.name)]
            way = ".".join(full) if statement.subsource else full[-1]
            where = "Add {} to the options of the source" if statement.subsource else "Write WITH ({})"
            text, out = (where.format(f"{what} COLUMNS ({way})") for what in ("TEXT", "EXCLUDE"))
            raise SinkqlError(
                "SQ2814",
                f'column "{each.name}" of table "{".".join(table.name)}" has type {each.type.name}, which is not '
                "supported",
                span,
                hint=f"{text}, which reads it as text. {out}, which leaves it out.",
            )
    return logical.SourceTable(table.name, table_options(source.options, _captured(server)), _shape(server))


def _captured(table: ServerTable) -> CapturedTable:
    columns = tuple(physical.Column(each.name, each.sql_type, each.nullable) for each in table.columns if each.sql_type)
    name = (table.schema, table.name)
    return CapturedTable(f"t{table.oid}", name, columns, table.key, _holes(table), table_json(table))


def _holes(table: ServerTable) -> bool:
    """Tell whether the server may leave values out of a change."""
    return table.identity != "full" and any(each.long for each in table.columns)


def _shape(table: ServerTable) -> logical.Shape:
    columns = tuple(logical.Column(c.name, c.sql_type, c.nullable) for c in table.columns if c.sql_type is not None)
    names = {each.name for each in columns}
    keys = dict.fromkeys(frozenset(key) for key in (table.key, *table.unique) if key and names.issuperset(key))
    return logical.Shape(columns, tuple(keys), logical.Change.UPSERT if table.key else logical.Change.RETRACT)


def _check_references(statement: ast.CreateSource, found: Found, publication: str) -> None:
    """Raise SQ2811 for a partitioned table of which the publication has the partitions instead."""
    for each in statement.subsources.references if statement.subsources is not None else ():
        written = tuple(part.value for part in each.upstream.parts)
        root = next((name for name in found.partitioned if tuple(name.split("."))[-len(written) :] == written), None)
        if root is not None:
            raise SinkqlError(
                "SQ2811",
                f'publication "{publication}" has the partitions of table "{root}", and not the table',
                each.span,
                hint=f"Run ALTER PUBLICATION {quoted(publication)} SET (publish_via_partition_root = true); on the "
                f"server, or read partitions such as {found.partitioned[root]}.",
            )


def _source_table(table: ServerTable, found: Found, troubled: Sequence[ServerTable]) -> logical.SourceTable:
    """Return a table, with the problem that it has, which names the others that are wanted and have some."""
    options = {"server": json_lists(msgspec.to_builtins(table))}
    problem = found.problems.get(_called(table))
    if problem is not None:
        others = [f"{quoted(each.schema)}.{quoted(each.name)}" for each in troubled if each is not table]
        more = f" and {len(others) - _LISTED} more" if len(others) > _LISTED else ""
        hint = f"{problem.hint} Nor can {', '.join(others[:_LISTED])}{more} be read." if others else problem.hint
        options["problem"] = msgspec.to_builtins(msgspec.structs.replace(problem, hint=hint))
    return logical.SourceTable((table.schema, table.name), options, _shape(table))


def _called(table: ServerTable) -> str:
    return f"{table.schema}.{table.name}"


def _as_chosen(chosen: ColumnChoice, table: ServerTable) -> ServerTable:
    """Return a table as the options have it."""
    names = chosen.of_table((table.schema, table.name), [each.name for each in table.columns], table.key)
    kept = (each for each in table.columns if each.name not in names.excluded)
    columns = (msgspec.structs.replace(each, as_text=each.as_text or each.name in names.as_text) for each in kept)
    return msgspec.structs.replace(table, columns=tuple(columns))


# --- the statement ----------------------------------------------------------------------------------------------------


def _checked(
    statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext
) -> tuple[PublicationOptions, ast.Name, LogRetention]:
    """Return a statement's options and connection; raises what is wrong with it, whatever the server has."""
    check_clauses(statement, SOURCE_OWNER)
    options = bind(
        statement.options, PublicationOptions, owner=SOURCE_OWNER, span=statement.kind_span, ignore=(TEXT, EXCLUDE)
    )
    name = connection_of(statement, SOURCE_OWNER, "FROM POSTGRES CONNECTION name (PUBLICATION 'name')")
    planning.connection(name, "POSTGRES")
    ColumnChoice.of(statement.options)
    given = bind(statement.with_options, CaptureOptions, owner=SOURCE_OWNER, span=statement.kind_span)
    elsewhere = log_elsewhere(statement, facts, planning)
    return (
        options,
        name,
        log_retention(
            given, statement.with_options, statement.kind_span, planning, usual="server", elsewhere=elsewhere
        ),
    )


def _tell_long_values(statement: ast.CreateSource, tables: Sequence[ServerTable], planning: PlanningContext) -> None:
    """Leave a notice about the tables that are read, and whose sinks keep what the server does not send again."""
    named = [table for table in tables if _holes(table) and _named(statement.subsources, table)]
    if named:
        listed = ", ".join(f"{quoted(each.schema)}.{quoted(each.name)}" for each in named[:_LISTED])
        more = f" and {len(named) - _LISTED} more tables" if len(named) > _LISTED else ""
        first = f"{quoted(named[0].schema)}.{quoted(named[0].name)}"
        planning.notice(
            Notice(
                "SQ2817",
                f"the server does not send long values of {listed}{more} again when other columns change: sinks keep "
                "them",
                statement.kind_span,
                hint=f"ALTER TABLE {first} REPLICA IDENTITY FULL; on the server has it send whole rows.",
            )
        )


def _tell_generated(statement: ast.CreateSource, found: Found, publication: str, planning: PlanningContext) -> None:
    """Leave a notice about columns of the tables that are read which the server computes, and does not send."""
    read = [each for each in found.tables if _named(statement.subsources, each)]
    names = [
        f"{quoted(each.schema)}.{quoted(each.name)}.{quoted(column)}"
        for each in read
        for column in found.generated.get(_called(each), ())
    ]
    if not names:
        return
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    here = "compute them in a view here"
    stored = f"ALTER PUBLICATION {quoted(publication)} SET (publish_generated_columns = stored);"
    hint = (
        f"{stored} on the server has it send those that are STORED; then run ALTER SOURCE … REFRESH REFERENCES; here. "
        f"Or {here}."
        if found.version >= _GENERATED
        else f"{here[0].upper()}{here[1:]}, or have a trigger on the server put them into columns of their own."
    )
    listed = f"{', '.join(names[:_LISTED])}{more}"
    message = f"the server does not send generated columns, so the source has no {listed}"
    planning.notice(Notice("SQ2819", message, statement.kind_span, hint=hint))


def _named(wanted: ast.Subsources | None, table: ServerTable) -> bool:
    if wanted is None:
        return False
    names = [tuple(part.value for part in each.upstream.parts) for each in wanted.references]
    schemas = [each.value for each in wanted.schemas]
    every = not names and not schemas
    return every or table.schema in schemas or any((table.schema, table.name)[-len(each) :] == each for each in names)
