"""Define graphs of operators in which some are used several times.

A sink is co-partitioned if its input is a stateful operator whose tasks have all rows of a key of the sink. The
operator then hashes rows by the sink's key columns, or by more columns. Rows go to the buckets that they have in the
sink, so no second exchange is needed, and the operator's tasks write.
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
"""Operators that are used several times, by name, each after its inputs."""


class Graph(msgspec.Struct, frozen=True):
    """The operators that produce the rows of one relation: the last operator, and the operators with several uses."""

    root: Operator
    shared: dict[str, Operator] = {}

    def operators(self) -> list[Operator]:
        """Return all operators, inputs first."""
        return [node for below in (*self.shared.values(), self.root) for node in walk(below)]

    def running(self) -> list[Operator]:
        """Return the operators, except operators that run inside the tasks of another operator."""
        operators = self.operators()
        sides = [
            side for node in operators if isinstance(node, Join) for side in (node.left, node.right) if side.within
        ]
        within = {id(node) for side in sides for node in _nested_operators(side.input)}
        return [node for node in operators if id(node) not in within]

    def stateful(self) -> list[Stateful]:
        """Return the stateful operators that run in separate tasks."""
        return [node for node in self.running() if isinstance(node, Stateful)]


def _nested_operators(operator: Operator) -> list[Operator]:
    """Return a nested join and its projections."""
    return [operator, *_nested_operators(operator.input)] if isinstance(operator, Map) else [operator]


def inputs_of(operator: Operator) -> tuple[Operator, ...]:
    """Return the direct inputs of an operator; a Use has no inputs."""
    match operator:
        case Read() | Use():
            return ()
        case Map() | Flatten() | Repeat():
            return (operator.input,)
        case Union() | Stateful():
            return operator.inputs


def with_inputs(operator: Operator, inputs: Sequence[Operator]) -> Operator:
    """Return the operator over other inputs, of the same number."""
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
    """Replace each Use by the shared operator, as one object for all uses."""

    shared: Shared
    _cache: dict[int, tuple[Operator, Operator]] = field(default_factory=dict)

    def of(self, operator: Operator) -> Operator:
        """Return the operator with its uses replaced."""
        if isinstance(operator, Use):
            return self.of(self.shared[operator.name])
        cached = self._cache.get(id(operator))
        if cached is None:  # the cache holds the operator, so no other object gets its id
            inlined = with_inputs(operator, [self.of(input_) for input_ in inputs_of(operator)])
            cached = self._cache[id(operator)] = (operator, inlined)
        return cached[1]


def reads_below(operator: Operator, shared: Shared) -> tuple[Read, ...]:
    """Return the sources below an operator."""
    reads: list[Read] = []
    roots, seen = [operator], set[str]()
    while roots:
        for node in walk(roots.pop()):
            if isinstance(node, Read):
                reads.append(node)
            if isinstance(node, Use) and node.name not in seen:
                seen.add(node.name)
                roots.append(shared[node.name])
    return tuple(reads)


@dataclass(frozen=True, slots=True)
class Copartitioned:
    """The operator, and the names of its columns that are the sink's key and columns, in the sink's order.

    `columns` is empty if a projection computes, filters or drops something: then a removed and an added row may have
    become equal.
    """

    operator: Aggregate | Pick | Normalize | Rank | Recompute
    key: tuple[str, ...]
    columns: tuple[str, ...]


def copartitioned(body: Operator, columns: Sequence[str], key: Sequence[str]) -> Copartitioned | None:
    """Return the operator whose tasks write a sink's columns by its key, None if another exchange is needed."""
    names: dict[str, str | None] = {name: name for name in columns}
    unchanged = True
    while isinstance(body, Map):
        below = _passed_columns(body)
        names = {name: None if below_name is None else below.get(below_name) for name, below_name in names.items()}
        unchanged = unchanged and body.where is None
        body = body.input
    if not isinstance(body, Aggregate | Pick | Normalize | Rank | Recompute):
        return None
    key_columns = tuple(below_name for name in key if (below_name := names[name]) is not None)
    if not key_columns or len(key_columns) < len(key) or not set(key_columns) <= set(_bucket_columns(body)):
        return None
    passed = tuple(below_name for below_name in names.values() if below_name is not None)
    unchanged = (
        unchanged and len(passed) == len(names) and sorted(passed) == sorted(column.name for column in columns_of(body))
    )
    return Copartitioned(body, key_columns, passed if unchanged else ())


def _bucket_columns(operator: Aggregate | Pick | Normalize | Rank | Recompute) -> Sequence[str]:
    """Return the columns whose values decide the bucket."""
    match operator:
        case Aggregate():
            return [column.name for column in operator.group]
        case Pick() | Normalize() | Recompute():
            return operator.key
        case Rank():
            return operator.partition


def _passed_columns(map_: Map) -> dict[str, str]:
    """Return the columns that a projection passes unchanged, with the names below it."""
    types = {column.name: column.type for column in columns_of(map_.input)}
    if not map_.outputs:
        return {name: name for name in types}
    named = [(output, output.expression.name) for output in map_.outputs if isinstance(output.expression, Reference)]
    return {output.name: name for output, name in named if types[name] == output.type}
