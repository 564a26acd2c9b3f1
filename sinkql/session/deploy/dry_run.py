"""Run steps on a copy of the catalog in memory, and ask external systems whether they would refuse a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from sinkql import ast, logical, physical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.replan import redefine
from sinkql.errors import SinkqlError
from sinkql.lowering.job import lower
from sinkql.physical.evolution import Evolution
from sinkql.planner.name import short_name, sql_name
from sinkql.planner.scope import Scope
from sinkql.session.deploy.step import Step, Transition, new_definitions, relation_of, statements_of
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.item.create import validate_connection, validate_state
from sinkql.session.item.destination import place_of
from sinkql.session.item.plan_history import earlier_plans
from sinkql.session.item.target_table import drop_target
from sinkql.statement.in_memory import InMemoryItems


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a step would be refused now. `rows` means that the sink's table has rows that the sink did not write."""

    reason: str
    code: str
    rows: bool = False


def _refusal(error: SinkqlError, of: str = "", *, rows: bool = False) -> Refusal:
    detail = f" ({error.detail.splitlines()[0]})" if error.detail else ""
    hint = f". {error.hint}" if error.hint else ""
    return Refusal(f"{of}{error.message}{detail}{hint}", error.code, rows=rows)


@dataclass(frozen=True, slots=True)
class Outside:
    """The checks of external systems for the steps between two states of a catalog."""

    catalog: Catalog
    before: MemoryCatalog
    after: MemoryCatalog
    access: CatalogAccess
    dropped: frozenset[str]
    """The full names of items that are dropped first."""
    transition: Transition

    def refusal(self, step: Step) -> Refusal | None:
        """Return the refusal of a step, None if it would succeed."""
        if step.action == "drop":
            return None
        match step.kind, step.action:
            case "SINK", "replace":
                return self._add_fix(step.name, self._sink(step.name, self.after))
            case "SINK", "create":
                return self._sink(step.name, self.after)
            case "SINK", "alter":
                return self._altered_sink(step.name)
            case "CONNECTION", _:
                return self._connection(step)
            case "CLUSTER", _:
                return self._cluster(step)
            case "SOURCE", ("create" | "replace"):
                return self._source(step.name)
            case _:
                return None

    def _sink(self, name: str, plans: MemoryCatalog) -> Refusal | None:
        error = self._target_error(name, plans)
        if error is None:
            return None
        error_with_rows = self._target_error(name, plans, keep=True)
        return _refusal(error, rows=True) if error_with_rows is None else _refusal(error_with_rows)

    def _add_fix(self, name: str, refusal: Refusal | None) -> Refusal | None:
        """Add a fix to a refusal whose cause is an empty table that the sink created."""
        if refusal is None or refusal.rows or place_of(name, self.before) != place_of(name, self.after):
            return refusal
        try:
            target = drop_target(name, self.before, self.catalog)
            if target is None or not target.drop(dry=True):
                return refusal
        except SinkqlError:
            return refusal
        fix = f"The sink created the table, which has no rows: DROP SINK {sql_name(name)} WITH TABLE; drops both"
        return replace(refusal, reason=f"{refusal.reason} {fix}, and apply then creates them again.")

    def _altered_sink(self, name: str) -> Refusal | None:
        """Check a sink that continues in its table, whose rows it wrote and whose columns follow the change."""
        old, new = lower(name, self.before), lower(name, self.after)
        if old.plan != new.plan:
            has_new_relation = relation_of(name, self.before) != relation_of(name, self.after)
            continues = has_new_relation and new.write.mode != "upsert"
            change = Evolution() if continues else self.transition(old, new)
            new = msgspec.structs.replace(new, follows=earlier_plans(old, change))
        error = self._target_error(name, self.after, keep=True, job=new)
        return _refusal(error) if error is not None else None

    def _target_error(
        self, name: str, plans: MemoryCatalog, *, keep: bool = False, job: physical.Job | None = None
    ) -> SinkqlError | None:
        statement, sink = (
            logical.get_statement(plans, name, ast.CreateSink),
            logical.get_item(plans, name, logical.Sink),
        )
        find_facts = self.catalog.registry.sinks[sink.kind].facts
        if keep:
            sink = replace(sink, options={**sink.options, "existing_rows": "keep"})
        try:
            if find_facts is not None:
                find_facts(statement, sink, self.access, job=job)
        except SinkqlError as error:
            return error
        return None

    def _connection(self, step: Step) -> Refusal | None:
        statement = logical.get_statement(self.after, step.name, ast.CreateConnection)
        connection = logical.get_item(self.after, step.name, logical.Connection)
        try:
            validate_connection(statement, connection, self.after, self.catalog.registry, self.access)
        except SinkqlError as error:
            return _refusal(error)
        return self._dependent_sinks(step.name) if step.action == "alter" else None

    def _cluster(self, step: Step) -> Refusal | None:
        statement = logical.get_statement(self.after, step.name, ast.CreateCluster)
        cluster = logical.get_item(self.after, step.name, logical.Cluster)
        try:
            validate_state(statement, cluster, self.access)
        except SinkqlError as error:
            return _refusal(error)
        return self._dependent_sinks(step.name) if step.action == "alter" else None

    def _dependent_sinks(self, name: str) -> Refusal | None:
        """Check the sinks of a connection or cluster that changes."""
        for sink in self._sinks(name):
            error = self._target_error(sink, self.before, keep=True, job=lower(sink, self.before))
            if error is not None:
                return _refusal(error, f'sink "{short_name(sink)}": ')
        return None

    def _sinks(self, name: str) -> Iterator[str]:
        for user in self.before.all_users(name):
            entry = self.before.entry(user)
            if entry is not None and entry.kind == "SINK" and user not in self.dropped:
                yield user

    def _source(self, name: str) -> Refusal | None:
        entry = logical.get_entry(self.after, name)
        if not isinstance(entry.statement, ast.CreateSource):
            return None  # a subsource; the check of its source covers it
        find_facts = self.catalog.registry.sources[entry.statement.kind].facts
        try:
            if find_facts is not None:
                find_facts(entry.statement, Scope(self.after, self.catalog.registry), self.access)
        except SinkqlError as error:
            return _refusal(error)
        return None


@dataclass(frozen=True, slots=True)
class DryRunFailure:
    """The full names of items that cannot be altered in place, and the reason."""

    names: tuple[str, ...]
    reason: str


def dry_run(steps: tuple[Step, ...], before: MemoryCatalog, after: MemoryCatalog) -> DryRunFailure | None:
    """Run all steps in memory. Return why an item cannot be altered; raise the errors of other statements."""

    def facts_of(statement: ast.Create, name: str) -> logical.Facts:
        entry = after.entry(name)
        return entry.facts if entry is not None else {}

    items = InMemoryItems(before.copy(), facts_of)
    for step, statement in statements_of(steps, items, after):
        try:
            if statement is None:
                redefine(items.plans, new_definitions(steps, items.plans, after))
            else:
                items.run(statement)
        except SinkqlError as error:
            if statement is None:
                names = tuple(step.name for step in steps if step.redefines)
                return DryRunFailure(names, error.detail or error.message)
            if isinstance(statement, ast.Alter):
                return DryRunFailure((step.name,), error.message)
            raise
    return None
