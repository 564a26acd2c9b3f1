"""What a deployment does, as data: one step an item, printed, saved and run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from sinkql import ast, physical
from sinkql.physical.evolution import Evolution
from sinkql.planner.dependency import in_order

Transition = Callable[[physical.Job, physical.Job], Evolution]
"""Return how the table of a sink's job becomes that of another; raises InPlaceError where it cannot."""
Action = Literal["create", "alter", "replace", "drop"]

MARKS: dict[Action, str] = {"create": "+", "alter": "~", "replace": "-/+", "drop": "-"}
"""What stands before a step where it is printed."""


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of one item: its kind as in DROP and its full name; settings are of the kind SETTING, and
    comments of the kind COMMENT, with the name of what they are on.

    `reason` says why, `effect` what that does to data. `changes` are lines of a difference. `early` drops come before
    all else, since something they use is created again, or another sink is to write where they do. `statement` is the
    item's CREATE as the scripts have it. `was` is the full name that the item has before it is renamed, and
    `refused` the code of the error that applying the step would end with.
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
        """Tell whether the item gets a new definition; all that do get theirs in one go."""
        return self.action == "alter" and self.kind in ("VIEW", "MATERIALIZED VIEW", "SOURCE", "TABLE")


def redefined(steps: Iterable[Step]) -> list[Step]:
    """Return the steps that give new definitions."""
    return [step for step in steps if step.redefines]


def dropped_first(steps: Iterable[Step], dependents: Callable[[str], Iterable[str]]) -> list[Step]:
    """Return the steps whose items go before anything else is done, what uses an item before the item."""
    gone = {step.name: step for step in steps if step.action == "replace" or (step.action == "drop" and step.early)}
    return [gone[name] for name in in_order({name: dependents(name) for name in gone})]
