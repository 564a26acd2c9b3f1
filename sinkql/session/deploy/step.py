"""The steps of a deployment, each the change of one item, and the statements that apply them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sinkql import ast, logical, physical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.replan import Definitions
from sinkql.physical.evolution import Evolution
from sinkql.planner.dependency import in_order
from sinkql.planner.name import as_name
from sinkql.session.deploy.alteration import alterations
from sinkql.statement.plan import StatementCatalog

Transition = Callable[[physical.Job, physical.Job], Evolution]
"""Return how a sink's table changes to fit another job. Raise InPlaceError if it cannot."""
Action = Literal["create", "alter", "replace", "drop"]

MARKS: dict[Action, str] = {"create": "+", "alter": "~", "replace": "-/+", "drop": "-"}
"""The mark before a printed step."""


@dataclass(frozen=True, slots=True)
class Step:
    """The change of one item. `kind` is that of DROP, or SETTING or COMMENT; `name` is the full name.

    `reason` gives the cause and `effect` the consequence for data. `changes` has the lines of a diff. An `early` drop
    precedes all other steps, because an item that it uses is created again or another sink takes its destination.
    `statement` is the CREATE of the scripts. `was` is the full name before a rename. `refused` is the code of the error
    that applying the step would raise.
    """

    action: Action
    kind: str
    name: str
    reason: str
    effect: str = ""
    changes: tuple[str, ...] = ()
    early: bool = False
    statement: ast.Create | None = None
    value: str | None = None
    comment: ast.CommentOn | None = None
    was: str | None = None
    refused: str | None = None

    @property
    def redefines(self) -> bool:
        """Return whether the item gets a new definition. One change of the catalog stores all of them."""
        return self.action == "alter" and self.kind in ("VIEW", "MATERIALIZED VIEW", "SOURCE", "TABLE")


def new_definitions(steps: Iterable[Step], present: MemoryCatalog, wanted: MemoryCatalog) -> Definitions:
    """Return the new definitions of items, which keep their facts."""
    return {
        step.name: (_entry(step, wanted).statement, _entry(step, present).facts) for step in steps if step.redefines
    }


def relation_of(sink: str, plans: MemoryCatalog) -> str:
    """Return the relation that a sink reads."""
    item = plans.item(sink)
    assert isinstance(item, logical.Sink)
    return item.relation


def dropped_first(steps: Iterable[Step], dependents: Callable[[str], Iterable[str]]) -> list[Step]:
    """Return the steps whose items are dropped first, dependents before the items that they use."""
    dropped = {step.name: step for step in steps if step.action == "replace" or (step.action == "drop" and step.early)}
    return [dropped[name] for name in in_order({name: dependents(name) for name in dropped})]


def statements_of(
    steps: Sequence[Step], catalog: StatementCatalog, after: MemoryCatalog
) -> Iterator[tuple[Step, ast.Statement | None]]:
    """Yield the statements that change a catalog to the items `after` the deployment, in order, with their steps.

    None stands for one change that stores the new definitions of all redefined steps. The caller runs each
    statement before it asks for the next one.
    """
    for step in dropped_first(steps, catalog.dependents):
        yield step, _drop(step, catalog)
    is_redefined = False
    for step in steps:
        if step.action in ("create", "replace"):
            yield step, _create(step, after)
        elif step.action == "drop":
            if not step.early:
                yield step, _drop(step, catalog)
        elif not step.redefines:
            for statement in _alter(step, catalog, after):
                yield step, statement
        elif not is_redefined:
            is_redefined = True
            yield step, None


def _drop(step: Step, catalog: StatementCatalog) -> ast.Drop:
    return ast.Drop(_entry(step, catalog.reader()).kind, (as_name(step.name),))


def _create(step: Step, after: MemoryCatalog) -> ast.Create:
    """Return the planned statement, for a secret with the value of the script."""
    statement = _entry(step, after).statement
    if isinstance(statement, ast.CreateSecret) and isinstance(step.statement, ast.CreateSecret):
        return replace(statement, value=step.statement.value)
    return statement


def _alter(step: Step, catalog: StatementCatalog, after: MemoryCatalog) -> Iterator[ast.Statement]:
    if step.comment is not None:
        yield step.comment
    elif step.value is not None:
        yield ast.AlterSystem(ast.Ident(step.name), ast.Text(step.value))
    elif isinstance(step.statement, ast.CreateSecret):
        yield ast.Alter("SECRET", as_name(step.name), ast.SetSecret(step.statement.value))
    else:
        yield from alterations(_entry(step, catalog.plans).statement, _entry(step, after).statement)


def _entry(step: Step, catalog: logical.CatalogReader) -> logical.Entry:
    entry = catalog.entry(step.name)
    assert entry is not None
    return entry
