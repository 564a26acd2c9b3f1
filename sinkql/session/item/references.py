"""ALTER SOURCE … ADD TABLE, DROP TABLE and REFRESH REFERENCES → the source's server is asked again, and its tables."""

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
    """Change which tables of its server a source has here; sinks go on with what they read.

    Raises SQ2983 for sources of other kinds, what asking the server raises, and what is wrong with a table.
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
    """Drop tables of the source, and leave them out of its statement."""
    names = []
    for name in action.names:
        if action.if_exists and not catalog.plans.has(catalog.plans.resolve(name)):
            continue
        found = find(catalog.plans, name, "SOURCE", "TABLE")
        if found.name not in catalog.dependents(entry.name):
            message = f'"{short_name(found.name)}" is no table of source "{short_name(entry.name)}"'
            raise SinkqlError("SQ2468", message, name.span, hint="Name one that SHOW SUBSOURCES lists.")
        names.append(found)
    for each in names:
        dropped = ast.Drop(each.kind, (as_name(each.name, action.span),), cascade=action.cascade, span=action.span)
        drop(dropped, catalog)
    catalog.refresh()
    kept = _listed(entry, present, catalog.plans)
    after = replace(present, subsources=ast.Subsources(kept) if kept else None)
    catalog.change(extending({entry.name: (after, entry.facts)}, (), catalog.reader()))
    return Result(_TAG, names=(entry.name,))


def _extend(
    entry: logical.Entry,
    present: ast.CreateSource,
    statement: ast.Alter,
    action: ast.AddReferences | ast.RefreshReferences,
    catalog: Catalog,
) -> Result:
    """Ask the server again, and take in new columns and tables."""
    before = catalog.plans.item(entry.name)
    assert isinstance(before, logical.Source)
    wanted = respan(present, action.span)
    found = sampled(wanted, Scope(catalog.plans, catalog.registry), CatalogAccess(catalog))
    if isinstance(action, ast.AddReferences):
        listed = respan(_listed(entry, present, catalog.plans), action.span)
        wanted = replace(wanted, subsources=ast.Subsources((*listed, *action.references), span=action.span))
    facts: logical.Facts = {**entry.facts, **found}
    notices: tuple[Notice, ...] = ()
    if isinstance(action, ast.RefreshReferences) and not _references(wanted):
        facts, notices = _without_what_cannot_be_read(entry.name, wanted, facts, before, catalog)
    after = catalog.plans.copy()
    redefine(after, {entry.name: (wanted, facts)})
    source = after.item(entry.name)
    assert isinstance(source, logical.Source)
    added = tuple(_new(wanted, source, before, action, after))
    following = dependent_plans([entry.name], catalog, after, action.span)
    changes = {entry.name: (wanted, facts), **following}
    check = stored_plan([entry.name], catalog.plans, after)
    catalog.change(extending(changes, added, catalog.reader(), check=check))
    return Result(_TAG, notices, names=(entry.name, *(own_name(each) for each in added)))


def _references(statement: ast.CreateSource) -> bool:
    """Tell whether a source takes no tables, or those that it names: neither becomes more by itself."""
    return statement.subsources is None or bool(statement.subsources.references)


def _without_what_cannot_be_read(
    name: str, wanted: ast.CreateSource, facts: logical.Facts, before: logical.Source, catalog: Catalog
) -> tuple[logical.Facts, tuple[Notice, ...]]:
    """Return facts by which later tables are taken that can be read, and notices of the others.

    One table that cannot be read, or has a name that is taken, must not keep all others out.
    """
    taken = {table.name for table in before.tables if not table.aside}
    plans = catalog.plans.copy()
    redefine(plans, {name: (wanted, taking(facts, taken))})
    source = plans.item(name)
    assert isinstance(source, logical.Source)
    notices = []
    every = {table.name for table in source.tables}
    for table in source.tables:
        if not table.aside or any(
            _reads(plans.entry(each), name, table.name, plans) for each in plans.dependents(name)
        ):
            continue
        trying = taking(facts, {*(taken & every), table.name})
        one = catalog.plans.copy()
        try:
            redefine(one, {name: (wanted, trying)})
            found = one.item(name)
            assert isinstance(found, logical.Source)
            for each in subsources(replace(wanted, name=as_name(name)), found):
                if each.reference is not None and tuple(part.value for part in each.reference.parts) == table.name:
                    plans.add(each, {})
        except SinkqlError as error:
            notices.append(_left_out(table, name, error, wanted))
        else:
            taken.add(table.name)
    return taking(facts, taken), tuple(notices)


def _left_out(table: logical.SourceTable, source: str, error: SinkqlError, wanted: ast.CreateSource) -> Notice:
    called = ".".join(ident(ast.Ident(part)) for part in table.name)
    new = ident(ast.Ident("_".join(table.name[-2:])))
    hint = f"{error.hint} Then run ALTER SOURCE … REFRESH REFERENCES again."
    if isinstance(error, TakenNameError):
        hint = f"CREATE TABLE {new} FROM SOURCE {short_name(source)} (REFERENCE {called}); reads it under another name."
    return Notice("SQ2478", f"table {called} is left out: {error.message}", wanted.span, hint=hint)


def _new(
    wanted: ast.CreateSource,
    source: logical.Source,
    before: logical.Source,
    action: ast.AddReferences | ast.RefreshReferences,
    after: MemoryCatalog,
) -> list[ast.CreateTableFrom]:
    """Return the tables that the statement has now and the catalog has not: those that are added, or new upstream."""
    known = {table.name for table in before.tables if not table.aside}
    every = wanted.subsources is not None and not wanted.subsources.references
    found = []
    for each in subsources(wanted, source):
        assert each.reference is not None
        upstream = tuple(part.value for part in each.reference.parts)
        if isinstance(action, ast.AddReferences) or (every and upstream not in known):
            if _reads(after.entry(own_name(each)), source.name, upstream, after):
                continue
            after.add(each, {})
            found.append(each)
    return found


def _reads(entry: logical.Entry | None, source: str, upstream: tuple[str, ...], catalog: logical.CatalogReader) -> bool:
    """Tell whether an item reads a table of a source."""
    if entry is None or not isinstance(entry.statement, ast.CreateTableFrom) or entry.statement.reference is None:
        return False
    read = tuple(part.value for part in entry.statement.reference.parts)
    return entry.name in catalog.dependents(source) and upstream[-len(read) :] == read


def _listed(entry: logical.Entry, present: ast.CreateSource, plans: MemoryCatalog) -> tuple[ast.Reference, ...]:
    """Return the subsources that there are, as FOR TABLES lists them."""
    if present.subsources is None:
        return ()
    entries = (plans.entry(name) for name in plans.dependents(entry.name))
    found = []
    for each in entries:
        if each is not None and isinstance(each.statement, ast.CreateTableFrom) and each.statement.subsource:
            assert each.statement.reference is not None
            found.append(ast.Reference(each.statement.reference, as_name(each.name)))
    return tuple(found)
