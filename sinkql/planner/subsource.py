"""A source of several tables → its subsources; CREATE SUBSOURCE and CREATE TABLE … FROM SOURCE → what they read."""

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
    """Plan a table of a source, which is read as a source of its own.

    Raises SQ2460 for a source without tables, SQ2461 for a table that it has not, SQ2463 where none is named.
    """
    assert statement.source is not None, "rows that are pushed are of a source of their own"
    entry = find(scope.catalog, statement.source, "SOURCE")
    source = scope.catalog.item(entry.name)
    assert isinstance(source, logical.Source)
    kind = scope.registry.sources[source.kind]
    check_table_from(statement, options=kind.table is not None)
    scope.use(entry.name)
    short = short_name(entry.name, scope.catalog)
    if not source.tables:
        raise SinkqlError(
            "SQ2460",
            f'source "{short}" has no tables: it has rows of its own',
            statement.source.span,
            hint=f"Read it itself, or create a view: CREATE VIEW {sql_name(full_name, scope.catalog)} AS "
            f"SELECT * FROM {sql_name(entry.name, scope.catalog)};",
        )
    if statement.reference is None:
        raise SinkqlError(
            "SQ2463",
            "the table does not say which table of the source it reads",
            statement.source.span,
            hint=f"Write FROM SOURCE {short} (REFERENCE {_text(source.tables[0])}). {_tables(source)}",
        )
    found = table_of(source, statement, kind)
    return logical.Source(full_name, source.kind, found.options, found.shape, source.connection, common=source.common)


def table_of(source: logical.Source, statement: ast.CreateTableFrom, kind: SourceKind) -> logical.SourceTable:
    """Return the table of a source that a statement reads; raises SQ2461, SQ2467, and what is wrong with it."""
    assert statement.reference is not None
    found = _table(source, statement.reference, statement.reference.span)
    return found if kind.table is None else kind.table(source, found, statement)


def subsources(statement: ast.CreateSource, source: logical.Source) -> tuple[ast.CreateTableFrom, ...]:
    """Return what makes the subsources of a source, whose statement has full names.

    They are in its schema, unless they have names with another. Raises SQ2460 and SQ2461.
    """
    if statement.subsources is None:
        return ()
    if not source.tables:
        raise SinkqlError(
            "SQ2460",
            f"sources from {statement.kind} have no tables, but rows of their own",
            statement.subsources.span,
            hint="Leave out FOR.",
        )
    found: list[ast.CreateTableFrom] = []
    taken = {statement.name.parts}
    for table, name, span in _chosen(statement.subsources, source):
        full = in_full(name, statement.name)
        if table.name[-1] in (".", ".."):
            hint = "Rename the table on its server, or have the server not send it."
            raise SinkqlError("SQ1018", f'"{table.name[-1]}" is not allowed as the name of a table', span, hint=hint)
        if full.parts in taken:
            raise _taken_twice(table, name, statement, span)
        taken.add(full.parts)
        upstream = ast.Name(tuple(ast.Ident(part, span) for part in table.name), span)
        found.append(ast.CreateTableFrom(full, statement.name, upstream, subsource=True, span=span))
    return tuple(found)


def _taken_twice(table: logical.SourceTable, name: ast.Name, statement: ast.CreateSource, span: Span) -> SinkqlError:
    source, last = statement.name, name.parts[-1].value
    renamed = f"{_text(table)} AS {ident(ast.Ident('_'.join(table.name[-2:])))}"
    what, hint = "another one", f"Give it another name: {renamed}."
    if statement.subsources is not None and not statement.subsources.references:
        hint = f"Name the tables, and give one of them another name: FOR TABLES (…, {renamed})."
    if last == source.parts[-1].value:
        what, hint = "the source itself", f"Give the source another name, such as {ident(ast.Ident(f'{last}_source'))}."
    return TakenNameError("SQ2465", f'subsource "{last}" has the name of {what}', span, hint=hint)


def _chosen(wanted: ast.Subsources, source: logical.Source) -> Iterator[tuple[logical.SourceTable, ast.Name, Span]]:
    schemas = [each.value for each in wanted.schemas]
    for schema in wanted.schemas:
        if all(table.name[:-1][-1:] != (schema.value,) for table in source.tables):
            raise _no_schema(schema, source)
    if not wanted.references:
        for table in source.tables:
            if not table.aside and (not schemas or table.name[-2] in schemas):
                yield table, ast.Name((ast.Ident(table.name[-1], wanted.span),), wanted.span), wanted.span
    for each in wanted.references:
        table = _table(source, each.upstream, each.span)
        yield table, each.name or ast.Name((ast.Ident(table.name[-1], each.span),), each.span), each.span


def _no_schema(schema: ast.Ident, source: logical.Source) -> SinkqlError:
    known = sorted({table.name[-2] for table in source.tables if len(table.name) > 1})
    near = nearest(schema.value, known)
    listed = f"The schemas are {', '.join(known)}." if known else "Write FOR ALL TABLES."
    return SinkqlError(
        "SQ2466",
        f'source "{short_name(source.name)}" has no tables in a schema "{schema.value}"',
        schema.span,
        hint=f"Did you mean {near}?" if near else listed,
    )


def _table(source: logical.Source, reference: ast.Name, span: Span) -> logical.SourceTable:
    """Return the table that a reference names, with its schema or without."""
    written = tuple(part.value for part in reference.parts)
    named = [table for table in source.tables if table.name[-len(written) :] == written]
    if len(named) == 1:
        return named[0]
    if named:
        raise SinkqlError(
            "SQ2467",
            f'source "{short_name(source.name)}" has several tables "{reference.text}"',
            span,
            hint=f"Write {one_of([_text(table) for table in named])}.",
        )
    choices = {".".join(part): part for part in (table.name[-len(written) :] for table in source.tables)}
    near = nearest(".".join(written), list(choices))
    hint = _tables(source)
    if near is not None:
        shown = ".".join(ident(ast.Ident(part)) for part in choices[near])
        hint = f"Did you mean {shown}?"
        if near != ".".join(written) == near.casefold():
            hint = f"Write {shown}: names keep their capitals in double quotes only."
    raise SinkqlError("SQ2461", f'source "{short_name(source.name)}" has no table "{reference.text}"', span, hint=hint)


def _tables(source: logical.Source) -> str:
    return f"Its tables are {', '.join(_text(table) for table in source.tables)}."


def _text(table: logical.SourceTable) -> str:
    return ".".join(ident(ast.Ident(part)) for part in table.name)


def stand_in(full_name: str, catalog: logical.CatalogReader) -> str:
    """Return the name of what is read where a name stands: of a source of one table that is read, that table."""
    item = catalog.item(full_name)
    if not isinstance(item, logical.Source) or not item.tables:
        return full_name
    entries = ((name, catalog.entry(name)) for name in catalog.dependents(full_name))
    tables = [name for name, entry in entries if entry and isinstance(entry.statement, ast.CreateTableFrom)]
    return tables[0] if len(tables) == 1 else full_name


def check_readable(
    item: logical.Item | None, name: ast.Name, catalog: logical.CatalogReader, *, once: bool = False
) -> None:
    """Raise SQ2462 for a source of tables, which has no rows of its own, SQ2469 for progress not read by a query."""
    if not isinstance(item, logical.Source):
        return
    if item.kind == logical.PROGRESS and not once:
        raise SinkqlError(
            "SQ2469",
            f'"{name.text}" tells how far a source is read, and has no rows that come and go',
            name.span,
            hint=f"Read source {short_name(item.options['source'], catalog)} itself: only queries read its progress.",
        )
    if not item.tables:
        return
    entry = catalog.entry(item.name)
    assert entry is not None
    assert isinstance(entry.statement, ast.CreateSource)
    made = subsources(entry.statement, item)
    first = _text(item.tables[0])
    made_of = f"CREATE TABLE name FROM SOURCE {print_name(name)} (REFERENCE {first});"
    hint = f"Run {made_of} and read that table. {_tables(item)}"
    if made:
        names = (short_name(qualified_name(*(part.value for part in each.name.parts)), catalog) for each in made)
        hint = f"Read one of its subsources: {', '.join(names)}."
    message = f'source "{name.text}" has several tables, and no rows of its own'
    raise SinkqlError("SQ2462", message, name.span, hint=hint)
