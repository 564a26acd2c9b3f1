"""Share equal stateful operators of a job, and name arrangements."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sinkql import physical
from sinkql.lowering import index
from sinkql.lowering.fused_join import fuse_joins
from sinkql.physical.graph import Inline
from sinkql.physical.identity import Holding

_NAME_LENGTH = 8
_BELOW = physical.Use("", (), "append")


def deduplicate(graph: physical.Graph, names: Sequence[str], key: Sequence[str] = ()) -> physical.Graph:
    """Return the graph of a job that writes the columns `names`, by a key if rows overwrite each other.

    Equal operators are shared, narrowed and named.
    """
    graph_ = index.resolve_indexes(fuse_joins(physical.narrowed(share_subplans(graph), names)))
    return named(graph_, physical.copartitioned(graph_.root, names, key))


def share_subplans(graph: physical.Graph) -> physical.Graph:
    """Return a graph in which equal stateful operators are shared."""
    if not graph.shared and sum(isinstance(node, physical.Stateful) for node in physical.walk(graph.root)) < 2:
        return graph
    same = _Same(graph.shared)
    same.count(graph.root)
    root = same.rebuilt(graph.root)
    return physical.Graph(root, same.subplans)


def named(graph: physical.Graph, writing: physical.Copartitioned | None = None) -> physical.Graph:
    """Return the graph with arrangements named by the hash of their contents; a writing operator's also by its key.

    Of several sides with equal contents, one writes the arrangement and the others read it. Other operators have
    separate names.
    """
    naming = _Naming(Holding(Inline(graph.shared)), writing)
    shared = {name: naming.of(operator) for name, operator in graph.shared.items()}
    return physical.Graph(naming.of(graph.root), shared)


@dataclass(frozen=True, slots=True)
class _Naming:
    holding: Holding
    writing: physical.Copartitioned | None
    used_names: set[str] = field(default_factory=set)
    sides: dict[str, str] = field(default_factory=dict)

    def of(self, operator: physical.Operator) -> physical.Operator:
        rebuilt = physical.with_inputs(operator, [self.of(input_) for input_ in physical.inputs_of(operator)])
        if isinstance(operator, physical.Join) and isinstance(rebuilt, physical.Join):
            order = None if operator.compared is None else operator.compared.left
            left, right = (
                self._side(side, self.holding.by_side(before, other, operator.safe, by), alone=other.replicated)
                for before, other, side, by in (
                    (operator.left, operator.right, rebuilt.left, order),
                    (operator.right, operator.left, rebuilt.right, None),
                )
            )
            rebuilt = msgspec.structs.replace(rebuilt, left=left, right=right)
        if isinstance(operator, physical.Stateful):
            rebuilt = msgspec.structs.replace(rebuilt, arrangement=self._name(self._content_hash(operator)))
        return rebuilt

    def _content_hash(self, operator: physical.Operator) -> str:
        if self.writing is not None and operator is self.writing.operator:
            return self.holding.by_buckets(operator, self.writing.key)
        return self.holding.by(operator)

    def _side(self, side: physical.Side, content: str, *, alone: bool) -> physical.Side:
        """Return a side with the name of its arrangement, or of the equal arrangement of another side."""
        if side.within or side.index is not None:
            return side
        if alone or side.replicated:
            return msgspec.structs.replace(side, arrangement=self._name(content))
        if content in self.sides:
            return msgspec.structs.replace(side, arrangement=self.sides[content], reads=True)
        self.sides[content] = self._name(content)
        return msgspec.structs.replace(side, arrangement=self.sides[content])

    def _name(self, content: str) -> str:
        name, number = content[:_NAME_LENGTH], 1
        while name in self.used_names:
            number += 1
            name = f"{content[:_NAME_LENGTH]}_{number}"
        self.used_names.add(name)
        return name


@dataclass(slots=True)
class _Same:
    """Operators by their hashes: how often each is used, and its rebuilt form in `found`."""

    shared: physical.Shared
    subplans: dict[str, physical.Operator] = field(default_factory=dict)
    _keys: dict[int, tuple[physical.Operator, str]] = field(default_factory=dict)
    _uses: Counter[str] = field(default_factory=Counter)
    _names: dict[str, str] = field(default_factory=dict)
    _stateful: dict[str, bool] = field(default_factory=dict)
    _rebuilt: dict[str, physical.Operator] = field(default_factory=dict)

    def count(self, operator: physical.Operator) -> None:
        """Count the uses of an operator and of all operators below."""
        if isinstance(operator, physical.Use):
            self._names.setdefault(self._key(operator), operator.name)
            return self.count(self.shared[operator.name])
        key = self._key(operator)
        self._uses[key] += 1
        if self._uses[key] > 1:
            return None
        for input_ in physical.inputs_of(operator):
            self.count(input_)
        return None

    def rebuilt(self, operator: physical.Operator) -> physical.Operator:
        """Return the operator, or a Use if it is shared."""
        if isinstance(operator, physical.Use):
            return self.rebuilt(self.shared[operator.name])
        key = self._key(operator)
        if key not in self._rebuilt:
            body = physical.with_inputs(operator, [self.rebuilt(input_) for input_ in physical.inputs_of(operator)])
            self._rebuilt[key] = self._used(key, body) if self._is_shared(operator) else body
        return self._rebuilt[key]

    def _used(self, key: str, body: physical.Operator) -> physical.Use:
        name = unused(self._names.get(key, "shared"), self.subplans)
        self.subplans[name] = body
        return physical.Use(name, physical.columns_of(body), physical.change_of(body))

    def _is_shared(self, operator: physical.Operator) -> bool:
        return self._uses[self._key(operator)] > 1 and self._has_state(operator)

    def _has_state(self, operator: physical.Operator) -> bool:
        """Return whether an operator has state outside of the shared operators below it."""
        if isinstance(operator, physical.Use):
            return self._has_state(self.shared[operator.name])
        key = self._key(operator)
        if key not in self._stateful:
            below = (
                input_ for input_ in map(self._target, physical.inputs_of(operator)) if not self._is_shared(input_)
            )
            self._stateful[key] = isinstance(operator, physical.Stateful) or any(map(self._has_state, below))
        return self._stateful[key]

    def _target(self, operator: physical.Operator) -> physical.Operator:
        return self._target(self.shared[operator.name]) if isinstance(operator, physical.Use) else operator

    def _key(self, operator: physical.Operator) -> str:
        """Return the hash of an operator, without names of arrangements and origins."""
        if isinstance(operator, physical.Use):
            return self._key(self.shared[operator.name])
        cached = self._keys.get(id(operator))
        if cached is None:  # the cache holds the operator, so no other object gets its id
            inputs = physical.inputs_of(operator)
            content = physical.to_data(physical.with_inputs(operator, [_BELOW] * len(inputs)))
            data = msgspec.json.encode(
                [_without_names(content), [self._key(input_) for input_ in inputs]], order="sorted"
            )
            cached = self._keys[id(operator)] = (operator, hashlib.sha256(data).hexdigest())
        return cached[1]


def unused(name: str, used_names: physical.Shared) -> str:
    """Return a name like this one that is not in use."""
    number, candidate = 1, name
    while candidate in used_names:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def _without_names(data: Any) -> Any:  # Any: what JSON has
    if isinstance(data, dict):
        return {name: _without_names(value) for name, value in data.items() if name not in ("arrangement", "origin")}
    if isinstance(data, list | tuple):
        return [_without_names(part) for part in data]
    return data
