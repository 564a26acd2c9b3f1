"""Operators of which some are used several times: what stands below each, wherever it is written down.

A sink above an operator with state whose rows have a key of the sink in one task → co-partitioned: its tasks write.

They have the rows of a key by the same columns as the sink, or by more. Rows go to the buckets that they have in the
sink, so there is no second exchange between the operator and the sink.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from sinkql.logical.expression import Reference
from sinkql.physical.operator import (
    Aggregate,
    Flatten,
    Join,
    Map,
    Normalize,
    OneInput,
    Operator,
    Pick,
    Rank,
    Read,
    Recompute,
    Repeat,
    Stateful,
    Union,
    Use,
    columns_of,
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


@dataclass(frozen=True, slots=True)
class Copartitioned:
    """The operator, and which of its columns are the sink's key and the sink's columns, in the sink's order.

    There are no `columns` where something is computed, filtered or left out between: then a row that goes and one that
    comes may have become the same.
    """

    operator: Aggregate | Pick | Normalize | Rank | Recompute
    key: tuple[str, ...]
    columns: tuple[str, ...]


def copartitioned(body: Operator, columns: Sequence[str], key: Sequence[str]) -> Copartitioned | None:
    """Return the operator whose tasks write the columns of a sink by its key; None where rows must meet once more."""
    names: dict[str, str | None] = {name: name for name in columns}
    whole = True
    while isinstance(body, Map):
        below = _handed_on(body)
        names = {name: None if at is None else below.get(at) for name, at in names.items()}
        whole = whole and body.where is None
        body = body.input
    if not isinstance(body, Aggregate | Pick | Normalize | Rank | Recompute):
        return None
    own = tuple(at for name in key if (at := names[name]) is not None)
    if not own or len(own) < len(key) or not set(own) <= set(_by(body)):
        return None
    handed = tuple(at for at in names.values() if at is not None)
    whole = whole and len(handed) == len(names) and sorted(handed) == sorted(each.name for each in columns_of(body))
    return Copartitioned(body, own, handed if whole else ())


def _by(operator: Aggregate | Pick | Normalize | Rank | Recompute) -> Sequence[str]:
    """Return the columns of which equal values are in one bucket."""
    match operator:
        case Aggregate():
            return [each.name for each in operator.group]
        case Pick() | Normalize() | Recompute():
            return operator.key
        case Rank():
            return operator.partition


def _handed_on(map_: Map) -> dict[str, str]:
    """Return the columns that are ones below as they are, with these."""
    types = {each.name: each.type for each in columns_of(map_.input)}
    if not map_.outputs:
        return {name: name for name in types}
    named = [(each, each.expression.name) for each in map_.outputs if isinstance(each.expression, Reference)]
    return {each.name: name for each, name in named if types[name] == each.type}
