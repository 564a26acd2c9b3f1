"""A deployment → its effects on the catalog, step by step."""

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
    """Do the steps, all or none. Raises SQ5209 if the catalog has moved, and what statements raise."""
    check_fresh(deployment, session.catalog)
    session.run_statement(ast.Transaction("BEGIN"))
    try:
        doing = _Doing(deployment, session.catalog, session.run_statement)
        doing.rename()
        for step in dropped_first(deployment.steps, session.catalog.dependents):
            doing.drop(step)
        for step in deployment.steps:
            doing.make(step)
    except BaseException:
        session.run_statement(ast.Transaction("ROLLBACK"))
        raise
    session.run_statement(ast.Transaction("COMMIT"))


class _Doing:
    def __init__(self, deployment: Deployment, catalog: Catalog, run: Callable[[ast.Statement], object]) -> None:
        self._after = deployment.described.catalog
        self._steps = deployment.steps
        self._catalog = catalog
        self._run = run
        self._updated = False

    def drop(self, step: Step) -> None:
        """Drop what is there under the step's name."""
        entry = self._catalog.reader().entry(step.name)
        assert entry is not None
        self._run(ast.Drop(entry.kind, (as_name(step.name),)))

    def rename(self) -> None:
        """Give sinks their new names, all at once: a name may be one that another sink has."""
        names = {step.was: step.name for step in self._steps if step.was is not None}
        if names:
            reader = self._catalog.reader()
            self._catalog.change(redefining(dict(rename_sinks(names, reader)), reader))

    def make(self, step: Step) -> None:
        """Do what is left of a step after the early drops."""
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
        entry = self._after.entry(step.name)
        assert entry is not None
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
                entry = self._catalog.plans.entry(step.name)
                assert entry is not None
                for statement in alterations(entry.statement, self._planned(step)):
                    self._run(statement)
            case _:
                self._update()

    def _update(self) -> None:
        """Put all definitions of sources and views that change in the place of the old ones, in one go."""
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
                going_on = dependent_plans(definitions, self._catalog, after, Span(0, 0), moved=self._moved())
                check = stored_plan(definitions, self._catalog.plans, after)
                self._catalog.change(redefining({**definitions, **going_on}, self._catalog.reader(), check=check))
            except ChangedError:
                continue
            return

    def _moved(self) -> frozenset[str]:
        """Return the sinks that read another relation afterwards."""
        names = (step.name for step in self._steps if step.kind == "SINK" and step.action == "alter")
        return frozenset(
            name for name in names if self._relation(name, self._catalog.plans) != self._relation(name, self._after)
        )

    def _relation(self, name: str, plans: MemoryCatalog) -> str:
        sink = plans.item(name)
        assert isinstance(sink, logical.Sink)
        return sink.relation

    def _facts(self, name: str) -> logical.Facts:
        entry = self._catalog.plans.entry(name)
        assert entry is not None
        return entry.facts


def _with_value(planned: ast.Create, step: Step) -> ast.Create:
    """Return a statement that has full names; of a secret with the value that the script gives."""
    if isinstance(planned, ast.CreateSecret) and isinstance(step.statement, ast.CreateSecret):
        return replace(planned, value=step.statement.value)
    return planned
