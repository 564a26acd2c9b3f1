"""Plan ALTER SOURCE … ADD TABLE, DROP TABLE and REFRESH REFERENCES, which change the tables of a source."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sinkql import ast, logical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.replan import redefine
from sinkql.connector_api.planning import OutsideAccess
from sinkql.errors import Notice, SinkqlError, TakenNameError
from sinkql.planner.edit.alter import respan
from sinkql.planner.item.source import sampled, taking
from sinkql.planner.item.statement import own_name
from sinkql.planner.name import as_name, find, short_name
from sinkql.planner.scope import Scope
from sinkql.planner.subsource import subsources
from sinkql.printer.clause import ident
from sinkql.statement.operation import ChangeReferences
from sinkql.statement.plan import StatementCatalog


@dataclass(frozen=True, slots=True)
class ExtendedSource:
    """A source with other tables: its definition and facts, the tables to add, and the items `after` the change."""

    definition: ast.CreateSource
    facts: logical.Facts
    added: tuple[ast.CreateTableFrom, ...]
    notices: tuple[Notice, ...]
    after: MemoryCatalog

    @property
    def names(self) -> tuple[str, ...]:
        """Return the full names of the added tables."""
        return tuple(own_name(table) for table in self.added)


def tables_to_drop(
    operation: ChangeReferences, action: ast.DropReferences, catalog: StatementCatalog
) -> tuple[ast.Drop, ...]:
    """Return the DROP statements for tables of the source. Raise SQ2468 for a table of another source."""
    source, statements = operation.entry.name, []
    for name in action.names:
        if action.if_exists and not catalog.plans.has(catalog.plans.resolve(name)):
            continue
        table = find(catalog.plans, name, "SOURCE", "TABLE")
        if table.name not in catalog.dependents(source):
            message = f'"{short_name(table.name)}" is not a table of source "{short_name(source)}"'
            raise SinkqlError("SQ2468", message, name.span, hint="Use a name that SHOW SUBSOURCES lists.")
        dropped = as_name(table.name, action.span)
        statements.append(ast.Drop(table.kind, (dropped,), cascade=action.cascade, span=action.span))
    return tuple(statements)


def definition_without_dropped(operation: ChangeReferences, plans: MemoryCatalog) -> ast.CreateSource:
    """Return the definition of a source that lists its remaining tables."""
    references = _present_references(operation, plans)
    return replace(operation.definition, subsources=ast.Subsources(references) if references else None)


def plan_extension(
    operation: ChangeReferences,
    action: ast.AddReferences | ast.RefreshReferences,
    catalog: StatementCatalog,
    access: OutsideAccess | None,
) -> ExtendedSource:
    """Return the source with the present tables of its server, and with new tables.

    Without access, raise UnaskedError if only the server knows them. Raise the errors of the server and of a table.
    """
    entry, plans = operation.entry, catalog.plans
    before = _source(entry.name, plans)
    wanted = respan(operation.definition, action.span)
    sample = sampled(wanted, Scope(plans, catalog.registry), access)
    if isinstance(action, ast.AddReferences):
        listed = respan(_present_references(operation, plans), action.span)
        wanted = replace(wanted, subsources=ast.Subsources((*listed, *action.references), span=action.span))
    facts: logical.Facts = {**entry.facts, **sample}
    notices: tuple[Notice, ...] = ()
    if isinstance(action, ast.RefreshReferences) and not _has_fixed_tables(wanted):
        facts, notices = _without_unreadable_tables(entry.name, wanted, facts, before, plans)
    after = plans.copy()
    redefine(after, {entry.name: (wanted, facts)})
    added = tuple(_new_tables(wanted, _source(entry.name, after), before, action, after))
    return ExtendedSource(wanted, facts, added, notices, after)


def _source(name: str, plans: MemoryCatalog) -> logical.Source:
    source = plans.item(name)
    assert isinstance(source, logical.Source)
    return source


def _has_fixed_tables(statement: ast.CreateSource) -> bool:
    """Return whether a source reads no tables or lists them, so that a refresh adds none."""
    return statement.subsources is None or bool(statement.subsources.references)


def _without_unreadable_tables(
    name: str, wanted: ast.CreateSource, facts: logical.Facts, before: logical.Source, present: MemoryCatalog
) -> tuple[logical.Facts, tuple[Notice, ...]]:
    """Return facts with the new tables that SinkQL can read, and a notice for each unreadable table.

    A table that cannot be read, or whose name exists, must not exclude the rest.
    """
    table_names = {table.name for table in before.tables if not table.aside}
    plans = present.copy()
    redefine(plans, {name: (wanted, taking(facts, table_names))})
    source = _source(name, plans)
    notices = []
    upstream_names = {table.name for table in source.tables}
    for table in source.tables:
        if not table.aside or any(
            _reads(plans.entry(user), name, table.name, plans) for user in plans.dependents(name)
        ):
            continue
        candidate_facts = taking(facts, {*(table_names & upstream_names), table.name})
        candidate = present.copy()
        try:
            redefine(candidate, {name: (wanted, candidate_facts)})
            for new in subsources(replace(wanted, name=as_name(name)), _source(name, candidate)):
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
        assert table.reference is not None
        upstream = tuple(part.value for part in table.reference.parts)
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


def _present_references(operation: ChangeReferences, plans: MemoryCatalog) -> tuple[ast.Reference, ...]:
    """Return the existing subsources as FOR TABLES lists them."""
    if operation.definition.subsources is None:
        return ()
    entries = (plans.entry(name) for name in plans.dependents(operation.entry.name))
    references = []
    for table in entries:
        if table is not None and isinstance(table.statement, ast.CreateTableFrom) and table.statement.subsource:
            assert table.statement.reference is not None
            references.append(ast.Reference(table.statement.reference, as_name(table.name)))
    return tuple(references)
