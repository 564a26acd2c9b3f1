"""Apply a deployment to the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sinkql import ast
from sinkql.catalog.catalog import Catalog, ChangedError
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.operation import redefining
from sinkql.catalog.replan import redefine
from sinkql.errors import Span
from sinkql.session.deploy.deployment import Deployment, check_fresh
from sinkql.session.deploy.rename import rename_sinks
from sinkql.session.deploy.step import Step, new_definitions, relation_of, statements_of
from sinkql.session.item.plan_history import dependent_plans, stored_plan

if TYPE_CHECKING:
    from sinkql.session.session import Session


def apply(deployment: Deployment, session: Session) -> None:
    """Apply the steps in one transaction. Raise SQ5209 if the catalog has changed, and the errors of statements."""
    check_fresh(deployment, session.catalog)
    session.run_statement(ast.Transaction("BEGIN"))
    try:
        _rename(deployment.steps, session.catalog)
        after = deployment.described.catalog
        for _, statement in statements_of(deployment.steps, session.catalog, after):
            if statement is None:
                _redefine(deployment.steps, session.catalog, after)
            else:
                session.run_statement(statement)
    except BaseException:
        session.run_statement(ast.Transaction("ROLLBACK"))
        raise
    session.run_statement(ast.Transaction("COMMIT"))


def _rename(steps: Iterable[Step], catalog: Catalog) -> None:
    """Rename all sinks in one change, because sinks may swap names."""
    names = {step.was: step.name for step in steps if step.was is not None}
    if names:
        reader = catalog.reader()
        catalog.change(redefining(dict(rename_sinks(names, reader)), reader))


def _redefine(steps: tuple[Step, ...], catalog: Catalog, wanted: MemoryCatalog) -> None:
    """Store the new definitions of all sources and views in one change."""
    while True:
        catalog.refresh()
        try:
            definitions = new_definitions(steps, catalog.plans, wanted)
            after = catalog.plans.copy()
            redefine(after, definitions)
            moved = _moved_sinks(steps, catalog.plans, wanted)
            followers = dependent_plans(definitions, catalog, after, Span(0, 0), moved=moved)
            check = stored_plan(definitions, catalog.plans, after)
            catalog.change(redefining({**definitions, **followers}, catalog.reader(), check=check))
        except ChangedError:
            continue
        return


def _moved_sinks(steps: Iterable[Step], present: MemoryCatalog, wanted: MemoryCatalog) -> frozenset[str]:
    """Return the sinks whose relation changes."""
    names = (step.name for step in steps if step.kind == "SINK" and step.action == "alter")
    return frozenset(name for name in names if relation_of(name, present) != relation_of(name, wanted))
