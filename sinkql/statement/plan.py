"""Plan a statement as an operation, against the items of a catalog.

All names are resolved here, and all rules that need neither rows nor other systems are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar

from sinkql import ast, logical
from sinkql.catalog.memory import MemoryCatalog, WithBroken
from sinkql.catalog.replan import means_the_same
from sinkql.catalog.row import Stored
from sinkql.catalog.secret.value import SecretValue, secret_input
from sinkql.connector_api.options import bind
from sinkql.connector_api.registry import Registry
from sinkql.errors import Notice, SinkqlError, Span, UnfitNameError
from sinkql.lowering.materialized_view import check_index
from sinkql.machine import clock
from sinkql.planner import Planned, plan, plan_change
from sinkql.planner import plan_drop as plan_dropping
from sinkql.planner.edit.alter import find_published, plan_alter
from sinkql.planner.edit.drop import check_targets
from sinkql.planner.edit.qualify import qualify
from sinkql.planner.edit.rename import find_altered, find_commented, plan_rename
from sinkql.planner.item.connection import validation
from sinkql.planner.item.secret import without_literal
from sinkql.planner.item.setting import plan_setting
from sinkql.planner.item.sink import expand
from sinkql.planner.item.statement import definition_diff, existing_item, is_built_in, item_name, kind_of
from sinkql.planner.name import RELATION_KINDS, find, find_shown
from sinkql.planner.unsupported import unsupported_alter
from sinkql.printer import to_sql
from sinkql.statement import operation as operations

T = TypeVar("T")


class StatementCatalog(Protocol):
    """The items that a statement is planned against: a catalog, or items in memory."""

    @property
    def plans(self) -> MemoryCatalog:
        """Return the items that can be planned, and the settings."""

    @property
    def registry(self) -> Registry:
        """Return the connectors."""

    def reader(self) -> WithBroken:
        """Return all items, including broken ones."""

    def dependents(self, full_name: str) -> tuple[str, ...]:
        """Return the full names of the items that use an item directly, or are in it."""

    def stored(self, full_name: str) -> Stored | None:
        """Return the stored form of an item. Return None if it is built in."""

    def secret(self, full_name: str) -> SecretValue:
        """Return the value of a secret."""


def plan_statement(statement: ast.Statement, catalog: StatementCatalog) -> operations.Operation:
    """Return the operation of a statement. Raise the errors that need neither rows nor other systems.

    BEGIN, COMMIT and ROLLBACK have no operation: see `sinkql.planner.edit.transaction`.
    """
    match statement:
        case ast.Drop():
            return plan_drop(statement, catalog)
        case ast.Alter():
            return _plan_alter(statement, catalog)
        case ast.CommentOn():
            entry, column = find_commented(statement, catalog.reader())
            return operations.SetComment(
                entry.name, column, statement.text.value if statement.text is not None else None
            )
        case ast.AlterSystem() | ast.SetVariable():
            setting = plan_setting(statement)
            return operations.ChangeSettings(setting.values, setting.notices, isinstance(statement, ast.AlterSystem))
        case ast.Transaction():
            raise AssertionError("transactions surround operations")
        case ast.CreateSinks():
            return operations.CreateSinks(expand(statement, catalog.plans))
        case ast.OptimizeSink():
            return operations.CompactSink(statement, find(catalog.plans, statement.name, "SINK").name)
        case ast.ReplayErrors():
            return operations.ReplayRecords(statement, find(catalog.plans, statement.name, "SOURCE"))
        case ast.Subscribe():
            return _plan_subscribe(statement, catalog)
        case ast.Insert() | ast.Update() | ast.Delete():
            return operations.ChangeRows(
                statement, plan_change(statement, catalog.plans, clock.now().replace(tzinfo=None))
            )
        case ast.ValidateConnection():
            return operations.CheckConnection(statement, *validation(statement, catalog.plans, catalog.registry))
        case ast.ShowCreate():
            return operations.ShowDefinition(statement, find_shown(catalog.reader(), statement))
        case ast.Select() | ast.Show() | ast.ShowVariable() | ast.Explain():
            return operations.ReadRows(statement)
        case (
            ast.CreateSecret()
            | ast.CreateConnection()
            | ast.CreateCluster()
            | ast.CreateSource()
            | ast.CreateView()
            | ast.CreateSink()
            | ast.CreateDatabase()
            | ast.CreateSchema()
            | ast.CreateTable()
            | ast.CreateTableFrom()
            | ast.CreateProgress()
            | ast.CreateIndex()
        ):
            return plan_create(statement, catalog)


# --- items that are created -----------------------------------------------------------------------------------------


def plan_create(
    statement: ast.Create, catalog: StatementCatalog
) -> operations.CreateItem | operations.ReplaceItem | operations.SkipStatement:
    """Return the operation of CREATE. Raise SQ2002 or SQ2014 if the name belongs to a different item."""
    name = item_name(statement, catalog.plans)
    entry = catalog.reader().entry(name)
    stored = catalog.stored(name) if entry is not None else None
    if entry is None or stored is None:
        if not statement.if_not_exists or not is_built_in(statement, catalog.plans.entry(name)):
            return operations.CreateItem(statement, name)
        kind, difference, has_rows = kind_of(statement), "", False
    else:
        kind, has_rows = stored.kind, isinstance(entry.statement, ast.CreateTable)
        difference = _difference(statement, stored, catalog) if kind == kind_of(statement) else ""
        if difference and isinstance(statement, ast.CreateView) and statement.or_replace:
            return operations.ReplaceItem(statement, stored)
    notice = existing_item(statement, name, kind, difference, catalog.reader(), rows=has_rows)
    return operations.SkipStatement(f"CREATE {kind_of(statement)}", (notice,), (name,))


def plan_item(statement: ast.Create, facts: logical.Facts, catalog: StatementCatalog) -> Planned:
    """Return the plan of a new item with its facts. Raise SQ2342 and SQ2372 besides the errors of planning."""
    planned = plan(statement, facts, catalog.plans, catalog.registry)
    catalog.plans.check_destination(statement, planned)
    if isinstance(statement, ast.CreateIndex) and isinstance(planned.item, logical.Index):
        check_index(planned.item, statement.relation.span, catalog.plans)
    return planned


def plan_replacement(operation: operations.ReplaceItem, catalog: StatementCatalog) -> tuple[Planned, ast.Create]:
    """Return the new plan of a view, whose errors refer to the statement's text, and its new definition."""
    name, plans = operation.stored.name, catalog.plans.copy()
    if plans.entry(name) is not None:
        plans.remove(name)
    planned = plan(operation.statement, operation.stored.facts, plans, catalog.registry)
    return planned, qualify(operation.statement, catalog.plans)


def run_each(operation: operations.CreateSinks, run: Callable[[ast.Statement], T]) -> list[T]:
    """Run the statements in order. Add a hint to the error of a table whose name does not fit."""
    results = []
    for statement in operation.statements:
        try:
            results.append(run(statement))
        except UnfitNameError as error:
            table = statement.relation.parts[-1].value
            error.hint = (
                f'Create the sink of "{table}" separately with another TABLE. '
                "List the remaining tables in FOR TABLES (…)."
            )
            raise
    return results


def _difference(statement: ast.Create, stored: Stored, catalog: StatementCatalog) -> str:
    """Return a diff of the definitions: stored lines with a minus, new lines with a plus. Empty if they agree."""
    if isinstance(statement, ast.CreateView):
        statement = replace(statement, or_replace=False)
    new = without_literal(qualify(statement, catalog.plans))
    if to_sql(new) == stored.create_sql:
        return "its value changes" if _has_other_value(statement, stored.name, catalog) else ""
    redacted = to_sql(new, redacted=catalog.registry.keywords)
    has_hidden_change = (redacted, stored.redacted_sql) != (to_sql(new), stored.create_sql)
    if not has_hidden_change and means_the_same(new, stored.name, catalog.plans):
        return ""
    return definition_diff(stored.redacted_sql, redacted)


def _has_other_value(statement: ast.Create, name: str, catalog: StatementCatalog) -> bool:
    if not isinstance(statement, ast.CreateSecret):
        return False
    value = secret_input(statement.value).value
    return value is not None and catalog.secret(name) != value


# --- items that are changed and dropped -----------------------------------------------------------------------------


def plan_drop(statement: ast.Drop, catalog: StatementCatalog) -> operations.DropItems:
    """Return the operation of DROP. Raise SQ2374 besides the errors of `sinkql.planner.plan_drop`."""
    dropping = plan_dropping(statement, catalog.reader(), catalog.dependents)
    check_targets(statement, dropping.names, catalog.plans, catalog.registry)
    return operations.DropItems(statement, dropping.names, dropping.notices)


def _plan_alter(statement: ast.Alter, catalog: StatementCatalog) -> operations.Operation:
    action, tag, reader = statement.action, f"ALTER {statement.kind}", catalog.reader()
    match action:
        case ast.Rename() | ast.Swap():
            renaming = plan_rename(statement, reader)
            return (
                operations.RenameItems(tag, renaming.changes)
                if renaming.changes
                else operations.SkipStatement(tag, renaming.notices)
            )
        case ast.Publish():
            sink, notices = find_published(statement, reader)
            return (
                operations.PublishBranch(statement, sink)
                if sink is not None
                else operations.SkipStatement(tag, notices)
            )
        case ast.SetOwner(role=role):
            return _on_entry(statement, reader, lambda entry: operations.SetOwner(tag, entry.name, role.value))
        case ast.Skip():
            return _on_entry(statement, reader, lambda entry: operations.AcceptLoss(statement, entry))
        case ast.AddReferences() | ast.DropReferences() | ast.RefreshReferences():
            return _plan_references(statement, action, catalog)
        case _:
            altering = plan_alter(statement, reader, catalog.registry)
            if altering.statement is None:
                return operations.SkipStatement(tag, altering.notices)
            return operations.AlterItem(
                statement, altering.name, altering.statement, altering.facts or {}, altering.notices, altering.follows
            )


def _on_entry(
    statement: ast.Alter, reader: logical.CatalogReader, operation: Callable[[logical.Entry], operations.Operation]
) -> operations.Operation:
    """Return the operation on the item of ALTER, or nothing to do if IF EXISTS found no item."""
    entry, notices = find_altered(statement, reader)
    return operation(entry) if entry is not None else operations.SkipStatement(f"ALTER {statement.kind}", notices)


def _plan_references(
    statement: ast.Alter,
    action: ast.AddReferences | ast.DropReferences | ast.RefreshReferences,
    catalog: StatementCatalog,
) -> operations.ChangeReferences | operations.SkipStatement:
    """Return the operation on a source with tables. Raise SQ2983 for a source without tables."""
    if statement.if_exists and not catalog.reader().has(catalog.plans.resolve(statement.name)):
        message = f'source "{statement.name.text}" does not exist, skipped'
        return operations.SkipStatement("ALTER SOURCE", (Notice("SQ2010", message, statement.name.span),))
    entry = find(catalog.plans, statement.name, "SOURCE")
    definition = entry.statement
    if not isinstance(definition, ast.CreateSource) or catalog.registry.sources[definition.kind].table is None:
        raise unsupported_alter(statement)
    return operations.ChangeReferences(statement, action, entry, definition)


# --- rows -----------------------------------------------------------------------------------------------------------


@contextmanager
def errors_of_rows(statement: ast.Statement) -> Iterator[None]:
    """Point errors of a query or of changed rows to the statement if they have no place in it."""
    try:
        yield
    except SinkqlError as error:
        if error.span is None and isinstance(statement, ast.Select | ast.RowChange):
            error.span = statement.span
        raise


def _plan_subscribe(statement: ast.Subscribe, catalog: StatementCatalog) -> operations.FollowRelation:
    options = bind(statement.options, operations.SubscribeOptions, owner="SUBSCRIBE", span=statement.span)
    parts = {"ENVELOPE or WITHIN": statement.output, "AS OF": statement.as_of, "UP TO": statement.up_to}
    for clause, part in parts.items():
        if part is not None:
            raise _unsupported_subscribe(
                f"SUBSCRIBE with {clause} is not supported yet", statement.span, "Leave it out."
            )
    if isinstance(statement.relation, ast.Query):
        hint = "Create a materialized view of the query WITH (COMMIT INTERVAL = '1s'), and subscribe to the view."
        raise _unsupported_subscribe("SUBSCRIBE to a query is not supported yet", statement.span, hint)
    entry = find(catalog.plans, statement.relation, *RELATION_KINDS)
    return operations.FollowRelation(statement, statement.relation, entry, options)


def _unsupported_subscribe(message: str, span: Span, hint: str) -> SinkqlError:
    return SinkqlError("SQ2963", message, span, hint=hint)
