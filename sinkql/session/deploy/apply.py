"""Apply a deployment to the catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog, ChangedError
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.operation import redefining
from sinkql.catalog.replan import redefine
from sinkql.errors import Span
from sinkql.planner.name import as_name
from sinkql.session.deploy.alteration import alterations
from sinkql.session.deploy.deployment import Deployment, check_fresh
from sinkql.session.deploy.rename import rename_sinks
from sinkql.session.deploy.step import Step, dropped_first, redefined
from sinkql.session.item.plan_history import dependent_plans, stored_plan

if TYPE_CHECKING:
    from sinkql.session.session import Session


def apply(deployment: Deployment, session: Session) -> None:
    """Apply the steps in one transaction. Raise SQ5209 if the catalog has changed, and the errors of statements."""
    check_fresh(deployment, session.catalog)
    session.run_statement(ast.Transaction("BEGIN"))
    try:
        application = _Application(deployment, session.catalog, session.run_statement)
        application.rename()
        for step in dropped_first(deployment.steps, session.catalog.dependents):
            application.drop(step)
        for step in deployment.steps:
            application.apply_step(step)
    except BaseException:
        session.run_statement(ast.Transaction("ROLLBACK"))
        raise
    session.run_statement(ast.Transaction("COMMIT"))


class _Application:
    def __init__(self, deployment: Deployment, catalog: Catalog, run: Callable[[ast.Statement], object]) -> None:
        self._after = deployment.described.catalog
        self._steps = deployment.steps
        self._catalog = catalog
        self._run = run
        self._updated = False

    def drop(self, step: Step) -> None:
        """Drop the present item of the step's name."""
        entry = logical.get_entry(self._catalog.reader(), step.name)
        self._run(ast.Drop(entry.kind, (as_name(step.name),)))

    def rename(self) -> None:
        """Rename all sinks in one change, because sinks may swap names."""
        names = {step.was: step.name for step in self._steps if step.was is not None}
        if names:
            reader = self._catalog.reader()
            self._catalog.change(redefining(dict(rename_sinks(names, reader)), reader))

    def apply_step(self, step: Step) -> None:
        """Apply a step after the early drops."""
        match step.action:
            case "create" | "replace":
                self._run(_with_value(self._planned(step), step))
            case "alter":
                self._alter(step)
            case "drop" if not step.early:
                self.drop(step)
            case "drop":
                pass

    def _planned(self, step: Step) -> ast.Create:
        entry = logical.get_entry(self._after, step.name)
        return entry.statement

    def _alter(self, step: Step) -> None:
        match step.statement:
            case None if step.comment is not None:
                self._run(step.comment)
            case None:
                assert step.value is not None
                self._run(ast.AlterSystem(ast.Ident(step.name), ast.Text(step.value)))
            case ast.CreateSecret(value=value):
                self._run(ast.Alter("SECRET", as_name(step.name), ast.SetSecret(value)))
            case ast.CreateConnection() | ast.CreateCluster() | ast.CreateSink():
                entry = logical.get_entry(self._catalog.plans, step.name)
                for statement in alterations(entry.statement, self._planned(step)):
                    self._run(statement)
            case _:
                self._redefine_all()

    def _redefine_all(self) -> None:
        """Store the new definitions of all sources and views in one change."""
        if self._updated:
            return
        self._updated = True
        steps = redefined(self._steps)
        while True:
            self._catalog.refresh()
            try:
                definitions = {step.name: (self._planned(step), self._facts(step.name)) for step in steps}
                after = self._catalog.plans.copy()
                redefine(after, definitions)
                followers = dependent_plans(definitions, self._catalog, after, Span(0, 0), moved=self._moved())
                check = stored_plan(definitions, self._catalog.plans, after)
                self._catalog.change(redefining({**definitions, **followers}, self._catalog.reader(), check=check))
            except ChangedError:
                continue
            return

    def _moved(self) -> frozenset[str]:
        """Return the sinks whose relation changes."""
        names = (step.name for step in self._steps if step.kind == "SINK" and step.action == "alter")
        return frozenset(
            name for name in names if self._relation(name, self._catalog.plans) != self._relation(name, self._after)
        )

    def _relation(self, name: str, plans: MemoryCatalog) -> str:
        sink = logical.get_item(plans, name, logical.Sink)
        return sink.relation

    def _facts(self, name: str) -> logical.Facts:
        entry = logical.get_entry(self._catalog.plans, name)
        return entry.facts


def _with_value(planned: ast.Create, step: Step) -> ast.Create:
    """Return the planned statement, for a secret with the value of the script."""
    if isinstance(planned, ast.CreateSecret) and isinstance(step.statement, ast.CreateSecret):
        return replace(planned, value=step.statement.value)
    return planned
