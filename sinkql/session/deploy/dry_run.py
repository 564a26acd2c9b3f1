"""A step → what refuses it outside of the catalog, asked as applying it will ask.

Steps, tried on a copy of the catalog's plans in the order in which they are run → the first that cannot be done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import msgspec

from sinkql import ast, logical, physical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.replan import redefine
from sinkql.connector_api.registry import Registry
from sinkql.errors import SinkqlError
from sinkql.lowering.job import lower
from sinkql.physical.evolution import Evolution
from sinkql.planner.edit.alter import plan_alter
from sinkql.planner.name import short_name, sql_name
from sinkql.planner.scope import Scope
from sinkql.session.deploy.alteration import alterations
from sinkql.session.deploy.step import Step, Transition, dropped_first, redefined
from sinkql.session.item.connector_access import CatalogAccess
from sinkql.session.item.create import validate_connection, validate_state
from sinkql.session.item.destination import place_of
from sinkql.session.item.plan_history import earlier_plans
from sinkql.session.item.target_table import drop_target


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why applying a step is refused as things are; `rows` tells that it is for rows of others in a sink's table."""

    reason: str
    code: str
    rows: bool = False


def _refused(error: SinkqlError, of: str = "", *, rows: bool = False) -> Refusal:
    detail = f" ({error.detail.splitlines()[0]})" if error.detail else ""
    hint = f". {error.hint}" if error.hint else ""
    return Refusal(f"{of}{error.message}{detail}{hint}", error.code, rows=rows)


@dataclass(frozen=True, slots=True)
class Outside:
    """Ask the outside about the steps from one state of a catalog to another."""

    catalog: Catalog
    before: MemoryCatalog
    after: MemoryCatalog
    access: CatalogAccess
    gone: frozenset[str]
    """Full names of what is dropped before all else."""
    transition: Transition

    def refusal(self, step: Step) -> Refusal | None:
        """Return what refuses a step; None where nothing does."""
        if step.action == "drop":
            return None
        match step.kind, step.action:
            case "SINK", "replace":
                return self._offer(step.name, self._sink(step.name, self.after))
            case "SINK", "create":
                return self._sink(step.name, self.after)
            case "SINK", "alter":
                return self._kept(step.name)
            case "CONNECTION", _:
                return self._connection(step)
            case "CLUSTER", _:
                return self._cluster(step)
            case "SOURCE", ("create" | "replace"):
                return self._source(step.name)
            case _:
                return None

    def _sink(self, name: str, plans: MemoryCatalog) -> Refusal | None:
        found = self._asked(name, plans)
        if found is None:
            return None
        kept = self._asked(name, plans, keep=True)
        return _refused(found, rows=True) if kept is None else _refused(kept)

    def _offer(self, name: str, refusal: Refusal | None) -> Refusal | None:
        """Add the way out of a refusal where the table that is in the way is the sink's own, and has no rows."""
        if refusal is None or refusal.rows or place_of(name, self.before) != place_of(name, self.after):
            return refusal
        try:
            target = drop_target(name, self.before, self.catalog)
            if target is None or not target.drop(dry=True):
                return refusal
        except SinkqlError:
            return refusal
        way = f"The sink has made the table, which has no rows: DROP SINK {sql_name(name)} WITH TABLE; drops both"
        return replace(refusal, reason=f"{refusal.reason} {way}, and apply then creates them again.")

    def _kept(self, name: str) -> Refusal | None:
        """Ask about a sink that goes on: the rows in its table are its own, and its columns follow."""
        old, new = lower(name, self.before), lower(name, self.after)
        if old.plan != new.plan:
            moved = self._relation(name, self.before) != self._relation(name, self.after)
            going_on = moved and new.write.mode != "upsert"
            change = Evolution() if going_on else self.transition(old, new)
            new = msgspec.structs.replace(new, follows=earlier_plans(old, change))
        found = self._asked(name, self.after, keep=True, job=new)
        return _refused(found) if found is not None else None

    def _relation(self, name: str, plans: MemoryCatalog) -> str:
        sink = plans.item(name)
        assert isinstance(sink, logical.Sink)
        return sink.relation

    def _asked(
        self, name: str, plans: MemoryCatalog, *, keep: bool = False, job: physical.Job | None = None
    ) -> SinkqlError | None:
        entry, sink = plans.entry(name), plans.item(name)
        assert entry is not None
        assert isinstance(entry.statement, ast.CreateSink)
        assert isinstance(sink, logical.Sink)
        find = self.catalog.registry.sinks[sink.kind].facts
        if keep:
            sink = replace(sink, options={**sink.options, "existing_rows": "keep"})
        try:
            if find is not None:
                find(entry.statement, sink, self.access, job=job)
        except SinkqlError as error:
            return error
        return None

    def _connection(self, step: Step) -> Refusal | None:
        entry, connection = self.after.entry(step.name), self.after.item(step.name)
        assert entry is not None
        assert isinstance(entry.statement, ast.CreateConnection)
        assert isinstance(connection, logical.Connection)
        try:
            validate_connection(entry.statement, connection, self.after, self.catalog.registry, self.access)
        except SinkqlError as error:
            return _refused(error)
        return self._users(step.name) if step.action == "alter" else None

    def _cluster(self, step: Step) -> Refusal | None:
        entry, cluster = self.after.entry(step.name), self.after.item(step.name)
        assert entry is not None
        assert isinstance(entry.statement, ast.CreateCluster)
        assert isinstance(cluster, logical.Cluster)
        try:
            validate_state(entry.statement, cluster, self.access)
        except SinkqlError as error:
            return _refused(error)
        return self._users(step.name) if step.action == "alter" else None

    def _users(self, name: str) -> Refusal | None:
        """Ask about the sinks of a connection or cluster that changes under them."""
        for sink in self._sinks(name):
            found = self._asked(sink, self.before, keep=True, job=lower(sink, self.before))
            if found is not None:
                return _refused(found, f'sink "{short_name(sink)}": ')
        return None

    def _sinks(self, name: str) -> Iterator[str]:
        for user in self.before.all_users(name):
            entry = self.before.entry(user)
            if entry is not None and entry.kind == "SINK" and user not in self.gone:
                yield user

    def _source(self, name: str) -> Refusal | None:
        entry = self.after.entry(name)
        assert entry is not None
        if not isinstance(entry.statement, ast.CreateSource):
            return None  # a subsource, of which its source tells
        find = self.catalog.registry.sources[entry.statement.kind].facts
        try:
            if find is not None:
                find(entry.statement, Scope(self.after, self.catalog.registry), self.access)
        except SinkqlError as error:
            return _refused(error)
        return None


@dataclass(frozen=True, slots=True)
class DryRunFailure:
    """The full names of items that cannot be altered in place, and why."""

    names: tuple[str, ...]
    reason: str


def dry_run(
    steps: tuple[Step, ...], before: MemoryCatalog, after: MemoryCatalog, registry: Registry
) -> DryRunFailure | None:
    """Do all steps in memory. Returns why altering does not do; raises what making an item raises."""
    plans = before.copy()
    _remove(dropped_first(steps, plans.dependents), plans)
    done = False
    for step in steps:
        entry = after.entry(step.name)
        if step.kind == "SETTING" and step.value is not None:
            plans.set(step.name, step.value)  # plans of items may depend on it
            continue
        if step.kind == "COMMENT" or (step.action == "drop" and step.early):
            continue
        if step.action == "drop":
            _remove([step], plans)
        elif step.action in ("create", "replace"):
            assert entry is not None
            plans.add(entry.statement, entry.facts)
        elif step.redefines:
            failure = None if done else _redefine(redefined(steps), plans, after)
            done = True
            if failure is not None:
                return failure
        else:
            try:
                _alter(step, plans, after, registry)
            except SinkqlError as error:
                return DryRunFailure((step.name,), error.message)
    return None


def _remove(steps: Iterable[Step], plans: MemoryCatalog) -> None:
    for step in steps:
        plans.forget(step.name)


def _redefine(steps: list[Step], plans: MemoryCatalog, after: MemoryCatalog) -> DryRunFailure | None:
    changes = {}
    for step in steps:
        wanted, present = after.entry(step.name), plans.entry(step.name)
        assert wanted is not None
        assert present is not None
        changes[step.name] = (wanted.statement, present.facts)
    try:
        redefine(plans, changes)
    except SinkqlError as error:
        return DryRunFailure(tuple(changes), error.detail or error.message)
    return None


def _alter(step: Step, plans: MemoryCatalog, after: MemoryCatalog, registry: Registry) -> None:
    present, wanted = plans.entry(step.name), after.entry(step.name)
    assert present is not None
    assert wanted is not None
    if isinstance(wanted.statement, ast.CreateSecret):
        return
    for statement in alterations(present.statement, wanted.statement):
        redefine(plans, plan_alter(statement, plans, registry).changes)
