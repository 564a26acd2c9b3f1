"""Plan the subsources of a source with several tables, and the tables that CREATE TABLE … FROM SOURCE reads."""

from __future__ import annotations

from collections.abc import Iterator

from sinkql import ast, logical
from sinkql.connector_api.planning import SourceKind
from sinkql.errors import SinkqlError, Span, TakenNameError, nearest, one_of
from sinkql.planner.name import find, in_full, qualified_name, short_name, sql_name
from sinkql.planner.scope import Scope
from sinkql.planner.unsupported import check_table_from
from sinkql.printer.clause import ident
from sinkql.printer.clause import name as print_name


def plan_table_from(full_name: str, statement: ast.CreateTableFrom, scope: Scope) -> logical.Source:
    """Plan a table of a source, which is read as a separate source.

    Raises SQ2460 for a source without tables, SQ2461 for a missing table, SQ2463 if no table is named.
    """
    assert statement.source is not None, "a table of pushed rows has no source"
    entry = find(scope.catalog, statement.source, "SOURCE")
    source = logical.get_item(scope.catalog, entry.name, logical.Source)
    kind = scope.registry.sources[source.kind]
    check_table_from(statement, options=kind.table is not None)
    scope.use(entry.name)
    short = short_name(entry.name, scope.catalog)
    if not source.tables:
        raise SinkqlError(
            "SQ2460",
            f'source "{short}" has no tables: read its rows directly',
            statement.source.span,
            hint=f"Read the source, or create a view: CREATE VIEW {sql_name(full_name, scope.catalog)} AS "
            f"SELECT * FROM {sql_name(entry.name, scope.catalog)};",
        )
    if statement.reference is None:
        raise SinkqlError(
            "SQ2463",
            "the statement does not name the source's table to read",
            statement.source.span,
            hint=f"Write FROM SOURCE {short} (REFERENCE {_table_sql(source.tables[0])}). {_tables_hint(source)}",
        )
    table = table_of(source, statement, kind)
    return logical.Source(full_name, source.kind, table.options, table.shape, source.connection, common=source.common)


def table_of(source: logical.Source, statement: ast.CreateTableFrom, kind: SourceKind) -> logical.SourceTable:
    """Return the table of a source that a statement reads; raise SQ2461, SQ2467, and errors of the connector."""
    assert statement.reference is not None
    table = _find_table(source, statement.reference, statement.reference.span)
    return table if kind.table is None else kind.table(source, table, statement)


def subsources(statement: ast.CreateSource, source: logical.Source) -> tuple[ast.CreateTableFrom, ...]:
    """Return the statements that create the subsources of a source, whose statement has full names.

    Subsources are in the schema of their source, unless their names have another schema. Raises SQ2460 and SQ2461.
    """
    if statement.subsources is None:
        return ()
    if not source.tables:
        raise SinkqlError(
            "SQ2460",
            f"sources from {statement.kind} have no tables",
            statement.subsources.span,
            hint="Leave out FOR.",
        )
    statements: list[ast.CreateTableFrom] = []
    names = {statement.name.parts}
    for table, name, span in _select_tables(statement.subsources, source):
        full = in_full(name, statement.name)
        if table.name[-1] in (".", ".."):
            hint = "Rename the table on its server, or exclude it on the server."
            raise SinkqlError("SQ1018", f'"{table.name[-1]}" is not allowed as the name of a table', span, hint=hint)
        if full.parts in names:
            raise _duplicate_name_error(table, name, statement, span)
        names.add(full.parts)
        upstream = ast.Name(tuple(ast.Ident(part, span) for part in table.name), span)
        statements.append(ast.CreateTableFrom(full, statement.name, upstream, subsource=True, span=span))
    return tuple(statements)


def _duplicate_name_error(
    table: logical.SourceTable, name: ast.Name, statement: ast.CreateSource, span: Span
) -> SinkqlError:
    source, last = statement.name, name.parts[-1].value
    renamed = f"{_table_sql(table)} AS {ident(ast.Ident('_'.join(table.name[-2:])))}"
    what, hint = "another subsource", f"Give it another name: {renamed}."
    if statement.subsources is not None and not statement.subsources.references:
        hint = f"Name the tables, and give one of them another name: FOR TABLES (…, {renamed})."
    if last == source.parts[-1].value:
        what, hint = "the source itself", f"Give the source another name, such as {ident(ast.Ident(f'{last}_source'))}."
    return TakenNameError("SQ2465", f'subsource "{last}" has the name of {what}', span, hint=hint)


def _select_tables(
    wanted: ast.Subsources, source: logical.Source
) -> Iterator[tuple[logical.SourceTable, ast.Name, Span]]:
    schemas = [schema.value for schema in wanted.schemas]
    for schema in wanted.schemas:
        if all(table.name[:-1][-1:] != (schema.value,) for table in source.tables):
            raise _missing_schema_error(schema, source)
    if not wanted.references:
        for table in source.tables:
            if not table.aside and (not schemas or table.name[-2] in schemas):
                yield table, ast.Name((ast.Ident(table.name[-1], wanted.span),), wanted.span), wanted.span
    for reference in wanted.references:
        table = _find_table(source, reference.upstream, reference.span)
        yield (
            table,
            reference.name or ast.Name((ast.Ident(table.name[-1], reference.span),), reference.span),
            reference.span,
        )


def _missing_schema_error(schema: ast.Ident, source: logical.Source) -> SinkqlError:
    schemas = sorted({table.name[-2] for table in source.tables if len(table.name) > 1})
    match = nearest(schema.value, schemas)
    choices = f"The schemas are {', '.join(schemas)}." if schemas else "Write FOR ALL TABLES."
    return SinkqlError(
        "SQ2466",
        f'source "{short_name(source.name)}" has no tables in a schema "{schema.value}"',
        schema.span,
        hint=f"Did you mean {match}?" if match else choices,
    )


def _find_table(source: logical.Source, reference: ast.Name, span: Span) -> logical.SourceTable:
    """Return the table that a reference names, with or without its schema."""
    parts = tuple(part.value for part in reference.parts)
    matches = [table for table in source.tables if table.name[-len(parts) :] == parts]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SinkqlError(
            "SQ2467",
            f'source "{short_name(source.name)}" has several tables "{reference.text}"',
            span,
            hint=f"Write {one_of([_table_sql(table) for table in matches])}.",
        )
    choices = {".".join(part): part for part in (table.name[-len(parts) :] for table in source.tables)}
    match = nearest(".".join(parts), list(choices))
    hint = _tables_hint(source)
    if match is not None:
        shown = ".".join(ident(ast.Ident(part)) for part in choices[match])
        hint = f"Did you mean {shown}?"
        if match != ".".join(parts) == match.casefold():
            hint = f"Write {shown}: names keep their capitals only in double quotes."
    raise SinkqlError("SQ2461", f'source "{short_name(source.name)}" has no table "{reference.text}"', span, hint=hint)


def _tables_hint(source: logical.Source) -> str:
    return f"Its tables are {', '.join(_table_sql(table) for table in source.tables)}."


def _table_sql(table: logical.SourceTable) -> str:
    return ".".join(ident(ast.Ident(part)) for part in table.name)


def stand_in(full_name: str, catalog: logical.CatalogReader) -> str:
    """Return the item that is read instead of a name: the only table of a source that is read, or the name itself."""
    item = catalog.item(full_name)
    if not isinstance(item, logical.Source) or not item.tables:
        return full_name
    entries = ((name, catalog.entry(name)) for name in catalog.dependents(full_name))
    tables = [name for name, entry in entries if entry and isinstance(entry.statement, ast.CreateTableFrom)]
    return tables[0] if len(tables) == 1 else full_name


def check_readable(
    item: logical.Item | None, name: ast.Name, catalog: logical.CatalogReader, *, once: bool = False
) -> None:
    """Raise SQ2462 for a source of tables, and SQ2469 for progress outside of a one-shot query."""
    if not isinstance(item, logical.Source):
        return
    if item.kind == logical.PROGRESS and not once:
        raise SinkqlError(
            "SQ2469",
            f'"{name.text}" is the progress of a source, which only one-shot queries can read',
            name.span,
            hint=f"Read source {short_name(item.options['source'], catalog)}, or query its progress with SELECT.",
        )
    if not item.tables:
        return
    statements = subsources(logical.get_statement(catalog, item.name, ast.CreateSource), item)
    first = _table_sql(item.tables[0])
    statement = f"CREATE TABLE name FROM SOURCE {print_name(name)} (REFERENCE {first});"
    hint = f"Run {statement} and read that table. {_tables_hint(item)}"
    if statements:
        names = (
            short_name(qualified_name(*(part.value for part in subsource.name.parts)), catalog)
            for subsource in statements
        )
        hint = f"Read one of its subsources: {', '.join(names)}."
    message = f'source "{name.text}" has several tables: read one of its tables'
    raise SinkqlError("SQ2462", message, name.span, hint=hint)
