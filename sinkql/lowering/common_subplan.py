"""The operators of one job → the same, in which what is equal and keeps state stands once, and state has its names."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sinkql import physical
from sinkql.lowering import index
from sinkql.lowering.together import fuse_joins
from sinkql.physical.graph import Inline
from sinkql.physical.identity import Holding

_NAME_LENGTH = 8
_BELOW = physical.Use("", (), "append")


def deduplicate(graph: physical.Graph, names: Sequence[str], key: Sequence[str] = ()) -> physical.Graph:
    """Return the graph of a job that writes the columns `names`, by a key if rows of one overwrite each other.

    Equal operators stand once, narrowed and named.
    """
    found = index.resolve_indexes(fuse_joins(physical.narrowed(share_subplans(graph), names)))
    return named(found, physical.copartitioned(found.root, names, key))


def share_subplans(graph: physical.Graph) -> physical.Graph:
    """Return a graph in which operators that are equal, and keep state, stand once."""
    if not graph.shared and sum(isinstance(each, physical.Stateful) for each in physical.walk(graph.root)) < 2:
        return graph
    same = _Same(graph.shared)
    same.count(graph.root)
    root = same.rebuilt(graph.root)
    return physical.Graph(root, same.found)


def named(graph: physical.Graph, writing: physical.Copartitioned | None = None) -> physical.Graph:
    """Return the graph with state named by the hash of what it holds, of an operator that writes also of where.

    Of sides of joins that keep the same one writes, and the others read that; other operators have a name each.
    """
    naming = _Naming(Holding(Inline(graph.shared)), writing)
    shared = {name: naming.of(each) for name, each in graph.shared.items()}
    return physical.Graph(naming.of(graph.root), shared)


@dataclass(frozen=True, slots=True)
class _Naming:
    holding: Holding
    writing: physical.Copartitioned | None
    taken: set[str] = field(default_factory=set)
    sides: dict[str, str] = field(default_factory=dict)

    def of(self, operator: physical.Operator) -> physical.Operator:
        found = physical.with_inputs(operator, [self.of(each) for each in physical.inputs_of(operator)])
        if isinstance(operator, physical.Join) and isinstance(found, physical.Join):
            order = None if operator.compared is None else operator.compared.left
            left, right = (
                self._side(side, self.holding.by_side(before, other, operator.safe, by), alone=other.replicated)
                for before, other, side, by in (
                    (operator.left, operator.right, found.left, order),
                    (operator.right, operator.left, found.right, None),
                )
            )
            found = msgspec.structs.replace(found, left=left, right=right)
        if isinstance(operator, physical.Stateful):
            found = msgspec.structs.replace(found, arrangement=self._name(self._held(operator)))
        return found

    def _held(self, operator: physical.Operator) -> str:
        if self.writing is not None and operator is self.writing.operator:
            return self.holding.by_buckets(operator, self.writing.key)
        return self.holding.by(operator)

    def _side(self, side: physical.Side, held: str, *, alone: bool) -> physical.Side:
        """Return a side with the name of what it keeps, or of what another one keeps: the same rows by the same key."""
        if side.within or side.index is not None:
            return side
        if alone or side.replicated:
            return msgspec.structs.replace(side, arrangement=self._name(held))
        if held in self.sides:
            return msgspec.structs.replace(side, arrangement=self.sides[held], reads=True)
        self.sides[held] = self._name(held)
        return msgspec.structs.replace(side, arrangement=self.sides[held])

    def _name(self, held: str) -> str:
        name, number = held[:_NAME_LENGTH], 1
        while name in self.taken:
            number += 1
            name = f"{held[:_NAME_LENGTH]}_{number}"
        self.taken.add(name)
        return name


@dataclass(slots=True)
class _Same:
    """Operators by what they do: how often each is used, and what it has become in `found`."""

    shared: physical.Shared
    found: dict[str, physical.Operator] = field(default_factory=dict)
    _keys: dict[int, tuple[physical.Operator, str]] = field(default_factory=dict)
    _uses: Counter[str] = field(default_factory=Counter)
    _names: dict[str, str] = field(default_factory=dict)
    _stateful: dict[str, bool] = field(default_factory=dict)
    _rebuilt: dict[str, physical.Operator] = field(default_factory=dict)

    def count(self, operator: physical.Operator) -> None:
        """Count how often an operator and all below it are used."""
        if isinstance(operator, physical.Use):
            self._names.setdefault(self._key(operator), operator.name)
            return self.count(self.shared[operator.name])
        key = self._key(operator)
        self._uses[key] += 1
        if self._uses[key] > 1:
            return None
        for each in physical.inputs_of(operator):
            self.count(each)
        return None

    def rebuilt(self, operator: physical.Operator) -> physical.Operator:
        """Return the operator, or its Use where there are several of it."""
        if isinstance(operator, physical.Use):
            return self.rebuilt(self.shared[operator.name])
        key = self._key(operator)
        if key not in self._rebuilt:
            body = physical.with_inputs(operator, [self.rebuilt(each) for each in physical.inputs_of(operator)])
            self._rebuilt[key] = self._used(key, body) if self._several(operator) else body
        return self._rebuilt[key]

    def _used(self, key: str, body: physical.Operator) -> physical.Use:
        name = unused(self._names.get(key, "shared"), self.found)
        self.found[name] = body
        return physical.Use(name, physical.columns_of(body), physical.change_of(body))

    def _several(self, operator: physical.Operator) -> bool:
        return self._uses[self._key(operator)] > 1 and self._keeps(operator)

    def _keeps(self, operator: physical.Operator) -> bool:
        """Tell whether there is state in an operator that is not in what is used several times below it."""
        if isinstance(operator, physical.Use):
            return self._keeps(self.shared[operator.name])
        key = self._key(operator)
        if key not in self._stateful:
            below = (each for each in map(self._behind, physical.inputs_of(operator)) if not self._several(each))
            self._stateful[key] = isinstance(operator, physical.Stateful) or any(map(self._keeps, below))
        return self._stateful[key]

    def _behind(self, operator: physical.Operator) -> physical.Operator:
        return self._behind(self.shared[operator.name]) if isinstance(operator, physical.Use) else operator

    def _key(self, operator: physical.Operator) -> str:
        """Return the hash of all that an operator does, whatever its state is called and wherever it was written."""
        if isinstance(operator, physical.Use):
            return self._key(self.shared[operator.name])
        known = self._keys.get(id(operator))
        if known is None:  # the operator is kept: no other one has its id then
            inputs = physical.inputs_of(operator)
            said = physical.to_data(physical.with_inputs(operator, [_BELOW] * len(inputs)))
            data = msgspec.json.encode([_bare(said), [self._key(each) for each in inputs]], order="sorted")
            known = self._keys[id(operator)] = (operator, hashlib.sha256(data).hexdigest())
        return known[1]


def unused(name: str, taken: physical.Shared) -> str:
    """Return a name like this one that nothing has."""
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def _bare(data: Any) -> Any:  # Any: what JSON has
    if isinstance(data, dict):
        return {name: _bare(value) for name, value in data.items() if name not in ("arrangement", "origin")}
    if isinstance(data, list | tuple):
        return [_bare(each) for each in data]
    return data
