"""Run ALTER SOURCE … ADD TABLE, DROP TABLE and REFRESH REFERENCES, which change the tables of a source."""

from __future__ import annotations

from dataclasses import replace

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog, ChangedError
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.operation import extending
from sinkql.catalog.replan import redefine
from sinkql.errors import Notice, SinkqlError, TakenNameError
from sinkql.planner.edit.alter import respan
from sinkql.planner.item.source import sampled, taking
from sinkql.planner.item.statement import own_name
from sinkql.planner.name import as_name, find, short_name
from sinkql.planner.scope import Scope
from sinkql.planner.subsource import subsources
from sinkql.planner.unsupported import unsupported_alter
from sinkql.printer.clause import ident
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.item.drop import drop
from sinkql.session.item.plan_history import dependent_plans, stored_plan
from sinkql.session.result import Result

_TAG = "ALTER SOURCE"
References = ast.AddReferences | ast.DropReferences | ast.RefreshReferences


def alter_references(statement: ast.Alter, action: References, catalog: Catalog) -> Result:
    """Change the tables of a source. Sinks continue to read their tables.

    Raise SQ2983 for a source without tables, and the errors of the server and of a table.
    """
    while True:
        catalog.refresh()
        if statement.if_exists and not catalog.reader().has(catalog.plans.resolve(statement.name)):
            message = f'source "{statement.name.text}" does not exist, skipped'
            return Result(_TAG, (Notice("SQ2010", message, statement.name.span),), skipped=True)
        entry = find(catalog.plans, statement.name, "SOURCE")
        present = entry.statement
        if not isinstance(present, ast.CreateSource) or catalog.registry.sources[present.kind].table is None:
            raise unsupported_alter(statement)
        try:
            if isinstance(action, ast.DropReferences):
                return _drop(entry, present, action, catalog)
            return _extend(entry, present, statement, action, catalog)
        except ChangedError:
            continue


def _drop(entry: logical.Entry, present: ast.CreateSource, action: ast.DropReferences, catalog: Catalog) -> Result:
    """Drop tables of the source, and remove them from its statement."""
    dropped_entries = []
    for name in action.names:
        if action.if_exists and not catalog.plans.has(catalog.plans.resolve(name)):
            continue
        table = find(catalog.plans, name, "SOURCE", "TABLE")
        if table.name not in catalog.dependents(entry.name):
            message = f'"{short_name(table.name)}" is not a table of source "{short_name(entry.name)}"'
            raise SinkqlError("SQ2468", message, name.span, hint="Use a name that SHOW SUBSOURCES lists.")
        dropped_entries.append(table)
    for table in dropped_entries:
        drop_statement = ast.Drop(
            table.kind, (as_name(table.name, action.span),), cascade=action.cascade, span=action.span
        )
        drop(drop_statement, catalog)
    catalog.refresh()
    references = _present_references(entry, present, catalog.plans)
    after = replace(present, subsources=ast.Subsources(references) if references else None)
    catalog.change(extending({entry.name: (after, entry.facts)}, (), catalog.reader()))
    return Result(_TAG, names=(entry.name,))


def _extend(
    entry: logical.Entry,
    present: ast.CreateSource,
    statement: ast.Alter,
    action: ast.AddReferences | ast.RefreshReferences,
    catalog: Catalog,
) -> Result:
    """Ask the server for its present tables, and add new columns and tables to the source."""
    before = logical.get_item(catalog.plans, entry.name, logical.Source)
    wanted = respan(present, action.span)
    sample = sampled(wanted, Scope(catalog.plans, catalog.registry), CatalogAccess(catalog))
    if isinstance(action, ast.AddReferences):
        listed = respan(_present_references(entry, present, catalog.plans), action.span)
        wanted = replace(wanted, subsources=ast.Subsources((*listed, *action.references), span=action.span))
    facts: logical.Facts = {**entry.facts, **sample}
    notices: tuple[Notice, ...] = ()
    if isinstance(action, ast.RefreshReferences) and not _has_fixed_tables(wanted):
        facts, notices = _without_unreadable_tables(entry.name, wanted, facts, before, catalog)
    after = catalog.plans.copy()
    redefine(after, {entry.name: (wanted, facts)})
    source = logical.get_item(after, entry.name, logical.Source)
    added = tuple(_new_tables(wanted, source, before, action, after))
    following = dependent_plans([entry.name], catalog, after, action.span)
    changes = {entry.name: (wanted, facts), **following}
    check = stored_plan([entry.name], catalog.plans, after)
    catalog.change(extending(changes, added, catalog.reader(), check=check))
    return Result(_TAG, notices, names=(entry.name, *(own_name(table) for table in added)))


def _has_fixed_tables(statement: ast.CreateSource) -> bool:
    """Return whether a source reads no tables or lists them, so that a refresh adds none."""
    return statement.subsources is None or bool(statement.subsources.references)


def _without_unreadable_tables(
    name: str, wanted: ast.CreateSource, facts: logical.Facts, before: logical.Source, catalog: Catalog
) -> tuple[logical.Facts, tuple[Notice, ...]]:
    """Return facts with the new tables that SinkQL can read, and a notice for each unreadable table.

    A table that cannot be read, or whose name exists, must not exclude the rest.
    """
    table_names = {table.name for table in before.tables if not table.aside}
    plans = catalog.plans.copy()
    redefine(plans, {name: (wanted, taking(facts, table_names))})
    source = logical.get_item(plans, name, logical.Source)
    notices = []
    upstream_names = {table.name for table in source.tables}
    for table in source.tables:
        if not table.aside or any(
            _reads(plans.entry(user), name, table.name, plans) for user in plans.dependents(name)
        ):
            continue
        candidate_facts = taking(facts, {*(table_names & upstream_names), table.name})
        candidate = catalog.plans.copy()
        try:
            redefine(candidate, {name: (wanted, candidate_facts)})
            item = logical.get_item(candidate, name, logical.Source)
            for new in subsources(replace(wanted, name=as_name(name)), item):
                if new.reference is not None and tuple(part.value for part in new.reference.parts) == table.name:
                    plans.add(new, {})
        except SinkqlError as error:
            notices.append(_left_out_notice(table, name, error, wanted))
        else:
            table_names.add(table.name)
    return taking(facts, table_names), tuple(notices)


def _left_out_notice(table: logical.SourceTable, source: str, error: SinkqlError, wanted: ast.CreateSource) -> Notice:
    reference = ".".join(ident(ast.Ident(part)) for part in table.name)
    table_name = ident(ast.Ident("_".join(table.name[-2:])))
    hint = f"{error.hint} Then run ALTER SOURCE … REFRESH REFERENCES again."
    if isinstance(error, TakenNameError):
        create = f"CREATE TABLE {table_name} FROM SOURCE {short_name(source)} (REFERENCE {reference});"
        hint = f"{create} reads it under another name."
    return Notice("SQ2478", f"table {reference} is left out: {error.message}", wanted.span, hint=hint)


def _new_tables(
    wanted: ast.CreateSource,
    source: logical.Source,
    before: logical.Source,
    action: ast.AddReferences | ast.RefreshReferences,
    after: MemoryCatalog,
) -> list[ast.CreateTableFrom]:
    """Return the tables that the catalog lacks: tables that the statement adds, or new tables of the server."""
    earlier = {table.name for table in before.tables if not table.aside}
    takes_all = wanted.subsources is not None and not wanted.subsources.references
    added = []
    for table in subsources(wanted, source):
        upstream = tuple(part.value for part in table.reference.parts) if table.reference is not None else ()
        if isinstance(action, ast.AddReferences) or (takes_all and upstream not in earlier):
            if _reads(after.entry(own_name(table)), source.name, upstream, after):
                continue
            after.add(table, {})
            added.append(table)
    return added


def _reads(entry: logical.Entry | None, source: str, upstream: tuple[str, ...], catalog: logical.CatalogReader) -> bool:
    """Return whether an item reads a table of a source."""
    if entry is None or not isinstance(entry.statement, ast.CreateTableFrom) or entry.statement.reference is None:
        return False
    read = tuple(part.value for part in entry.statement.reference.parts)
    return entry.name in catalog.dependents(source) and upstream[-len(read) :] == read


def _present_references(
    entry: logical.Entry, present: ast.CreateSource, plans: MemoryCatalog
) -> tuple[ast.Reference, ...]:
    """Return the existing subsources as FOR TABLES lists them."""
    if present.subsources is None:
        return ()
    entries = (plans.entry(name) for name in plans.dependents(entry.name))
    references = []
    for table in entries:
        if table is None or not isinstance(table.statement, ast.CreateTableFrom):
            continue
        reference = table.statement.reference
        if table.statement.subsource and reference is not None:
            references.append(ast.Reference(reference, as_name(table.name)))
    return tuple(references)
