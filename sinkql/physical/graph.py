"""Operators of which some are used several times: what stands below each, wherever it is written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from sinkql.physical.operator import (
    Flatten,
    Join,
    Map,
    OneInput,
    Operator,
    Read,
    Repeat,
    Stateful,
    Union,
    Use,
    walk,
)

Shared = Mapping[str, Operator]
"""Operators that are used several times, by name, each after those that it uses."""


class Graph(msgspec.Struct, frozen=True):
    """What gives the rows of one relation: the last operator, and those that are used several times."""

    root: Operator
    shared: dict[str, Operator] = {}

    def operators(self) -> list[Operator]:
        """Return all operators, inputs before those that use them."""
        return [each for below in (*self.shared.values(), self.root) for each in walk(below)]

    def running(self) -> list[Operator]:
        """Return the operators, without those that are done in the tasks of another one."""
        found = self.operators()
        sides = [side for each in found if isinstance(each, Join) for side in (each.left, each.right) if side.within]
        within = {id(each) for side in sides for each in _within(side.input)}
        return [each for each in found if id(each) not in within]

    def stateful(self) -> list[Stateful]:
        """Return the operators with state that have tasks of their own."""
        return [each for each in self.running() if isinstance(each, Stateful)]


def _within(operator: Operator) -> list[Operator]:
    """Return a join and the projections of it."""
    return [operator, *_within(operator.input)] if isinstance(operator, Map) else [operator]


def inputs_of(operator: Operator) -> tuple[Operator, ...]:
    """Return the operators that stand just below one, without what a Use stands for."""
    match operator:
        case Read() | Use():
            return ()
        case Map() | Flatten() | Repeat():
            return (operator.input,)
        case Union() | Stateful():
            return operator.inputs


def with_inputs(operator: Operator, inputs: Sequence[Operator]) -> Operator:
    """Return the operator over other inputs, as many as it has."""
    match operator:
        case Read() | Use():
            return operator
        case Union():
            return Union(tuple(inputs), operator.change)
        case Join():
            left, right = (
                msgspec.structs.replace(side, input=below)
                for side, below in zip((operator.left, operator.right), inputs, strict=True)
            )
            return msgspec.structs.replace(operator, left=left, right=right)
        case Map() | Flatten() | Repeat() | OneInput():
            (below,) = inputs
            return msgspec.structs.replace(operator, input=below)


@dataclass(frozen=True, slots=True)
class Inline:
    """Put what is shared in the place of each Use: one object however often it is used."""

    shared: Shared
    _known: dict[int, tuple[Operator, Operator]] = field(default_factory=dict)

    def of(self, operator: Operator) -> Operator:
        """Return the operator over what its uses stand for."""
        if isinstance(operator, Use):
            return self.of(self.shared[operator.name])
        known = self._known.get(id(operator))
        if known is None:  # the operator is kept: no other one has its id then
            found = with_inputs(operator, [self.of(each) for each in inputs_of(operator)])
            known = self._known[id(operator)] = (operator, found)
        return known[1]


def reads_below(operator: Operator, shared: Shared) -> tuple[Read, ...]:
    """Return the sources that an operator stands on."""
    found: list[Read] = []
    roots, seen = [operator], set[str]()
    while roots:
        for each in walk(roots.pop()):
            if isinstance(each, Read):
                found.append(each)
            if isinstance(each, Use) and each.name not in seen:
                seen.add(each.name)
                roots.append(shared[each.name])
    return tuple(found)
