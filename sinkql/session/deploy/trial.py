"""Steps, tried on a copy of the catalog's plans in the order in which they are run → the first that cannot be done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sinkql import ast
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.replan import redefine
from sinkql.connector_api.registry import Registry
from sinkql.errors import SinkqlError
from sinkql.planner.edit.alter import plan_alter
from sinkql.session.deploy.alteration import alterations
from sinkql.session.deploy.step import Step, dropped_first, redefined


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
