"""The step of a deployment: the change of one item, which is printed, saved and applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from sinkql import ast, physical
from sinkql.physical.evolution import Evolution
from sinkql.planner.dependency import in_order

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


def redefined(steps: Iterable[Step]) -> list[Step]:
    """Return the steps that store new definitions."""
    return [step for step in steps if step.redefines]


def dropped_first(steps: Iterable[Step], dependents: Callable[[str], Iterable[str]]) -> list[Step]:
    """Return the steps whose items are dropped first, dependents before the items that they use."""
    dropped = {step.name: step for step in steps if step.action == "replace" or (step.action == "drop" and step.early)}
    return [dropped[name] for name in in_order({name: dependents(name) for name in dropped})]
