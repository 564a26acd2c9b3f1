"""Apply operations to items in memory, without a catalog file, network or Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from sinkql import ast, logical
from sinkql.catalog.memory import MemoryCatalog, WithBroken
from sinkql.catalog.replan import Definitions, identity, redefine
from sinkql.catalog.row import Stored
from sinkql.catalog.secret.value import SecretValue, secret_input
from sinkql.connector_api.registry import Registry
from sinkql.errors import Notice
from sinkql.planner import Planned
from sinkql.planner.edit.qualify import qualify
from sinkql.planner.item.secret import without_literal
from sinkql.planner.item.statement import implied, own_name
from sinkql.printer import to_sql
from sinkql.statement import operation as operations
from sinkql.statement.plan import errors_of_rows, plan_item, plan_replacement, plan_statement, run_each
from sinkql.statement.references import definition_without_dropped, plan_extension, tables_to_drop

FactsOf = Callable[[ast.Create, str], logical.Facts]
"""Return the facts of a new item by its statement and full name."""


class RowsNotice(Notice):
    """The notice that a statement changes rows only when it is executed."""


class InMemoryItems:
    """Items in memory, and the facts of new ones. It implements `sinkql.statement.plan.StatementCatalog`.

    A statement that fails changes nothing.
    """

    def __init__(self, plans: MemoryCatalog, facts_of: FactsOf) -> None:
        self.plans = plans
        self._facts_of = facts_of

    @property
    def registry(self) -> Registry:
        return self.plans.registry

    def reader(self) -> WithBroken:
        return WithBroken(self.plans)

    def dependents(self, full_name: str) -> tuple[str, ...]:
        return self.plans.dependents(full_name)

    def stored(self, full_name: str) -> Stored | None:
        """Return the form in which a catalog would store an item."""
        entry = self.reader().entry(full_name)
        if entry is None or not entry.id.startswith("u"):
            return None
        statement = without_literal(entry.statement)
        redacted = to_sql(statement, redacted=self.plans.words)
        return Stored(entry.id, entry.name, entry.kind, to_sql(statement), redacted, entry.facts)

    def secret(self, full_name: str) -> SecretValue:
        entry = self.plans.entry(full_name)
        assert entry is not None
        assert isinstance(entry.statement, ast.CreateSecret)
        return secret_input(entry.statement.value).value or SecretValue("")

    def run(self, statement: ast.Statement) -> tuple[Notice, ...]:
        """Run a statement other than BEGIN, COMMIT and ROLLBACK, and return its notices."""
        with errors_of_rows(statement):
            return self.apply(plan_statement(statement, self))

    def apply(self, operation: operations.Operation) -> tuple[Notice, ...]:
        """Apply an operation and return its notices. Operations on rows and sinks change nothing."""
        match operation:
            case operations.SkipStatement(notices=notices):
                return notices
            case operations.CreateItem():
                return self.create(operation)[0].notices
            case operations.ReplaceItem():
                planned, definition = plan_replacement(operation, self)
                self._redefine({operation.stored.name: (definition, operation.stored.facts)})
                return planned.notices
            case operations.CreateSinks():
                with self._all_or_nothing():
                    return tuple(notice for notices in run_each(operation, self.run) for notice in notices)
            case operations.DropItems():
                self.forget(operation.names)
                return operation.notices
            case operations.AlterItem():
                self._redefine(operation.changes)
                return operation.notices
            case operations.RenameItems():
                self._redefine(operation.changes)
            case operations.ChangeReferences():
                return self._change_references(operation)
            case operations.ChangeSettings():
                for name, value in operation.values:
                    self.plans.set(name, value)
                return operation.notices
            case operations.ReadRows():
                from sinkql.statement.read import check_read  # loads sqlglot, which only queries need

                check_read(operation, self.plans)
            case operations.ChangeRows(statement=statement):
                return (RowsNotice("SQ2434", "rows change only when the script is executed", statement.span),)
            case (
                operations.SetOwner()
                | operations.SetComment()
                | operations.PublishBranch()
                | operations.AcceptLoss()
                | operations.CompactSink()
                | operations.ReplayRecords()
                | operations.CheckConnection()
                | operations.FollowRelation()
                | operations.ShowDefinition()
            ):
                pass
        return ()

    def forget(self, names: Iterable[str]) -> None:
        """Remove items, including broken ones."""
        for name in names:
            self.plans.forget(name)

    def create(self, operation: operations.CreateItem) -> tuple[Planned, tuple[ast.Create, ...]]:
        """Create an item and the items that it implies. Return its plan and their statements."""
        statement = operation.statement
        facts = {**self._identity(statement), **self._facts_of(statement, operation.name)}
        planned = plan_item(statement, facts, self)
        definition = qualify(statement, self.plans)
        implied_statements = implied(definition, planned.item)
        with self._all_or_nothing() if implied_statements else nullcontext():  # a copy takes time
            self.plans.keep(planned, definition, facts)
            for new in implied_statements:
                self.plans.add(new, {**self._identity(new), **self._facts_of(new, own_name(new))})
        return planned, implied_statements

    def _identity(self, statement: ast.Create) -> dict[str, str]:
        if not isinstance(statement, ast.CreateSource | ast.CreateTable | ast.CreateTableFrom):
            return {}
        return identity(qualify(statement, self.plans), self.plans.identities())

    def _change_references(self, operation: operations.ChangeReferences) -> tuple[Notice, ...]:
        action, entry = operation.action, operation.entry
        if not isinstance(action, ast.DropReferences):
            source = plan_extension(operation, action, self, None)
            self.plans.take(source.after)
            return source.notices
        with self._all_or_nothing():
            for statement in tables_to_drop(operation, action, self):
                self.run(statement)
            self._redefine({entry.name: (definition_without_dropped(operation, self.plans), entry.facts)})
        return ()

    def _redefine(self, changes: Definitions) -> None:
        """Replace definitions. Secrets keep their values, which stored definitions do not contain."""
        values = {entry.id: statement.value for entry, statement in self._secrets()}
        for name, (definition, _) in changes.items():
            entry = self.plans.entry(name)
            if entry is not None and isinstance(definition, ast.CreateSecret):
                values[entry.id] = definition.value
        redefine(self.plans, changes)
        for entry, statement in self._secrets():
            with_value = replace(statement, value=values[entry.id])
            self.plans.keep(Planned(logical.Secret(entry.name)), with_value, entry.facts, entry.id)

    def _secrets(self) -> list[tuple[logical.Entry, ast.CreateSecret]]:
        entries = (self.plans.entry(name) for name in self.plans.names("SECRET"))
        return [
            (entry, entry.statement)
            for entry in entries
            if entry is not None and isinstance(entry.statement, ast.CreateSecret)
        ]

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Restore the items if the block fails."""
        before = self.plans.copy()
        try:
            yield
        except BaseException:
            self.plans.take(before)
            raise
