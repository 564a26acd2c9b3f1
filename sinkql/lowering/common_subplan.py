"""The operators of one job → the same, in which what is equal and keeps state stands once, and state has its names.

Joins on one key, one above the other → one exchange of all their sides, and one task a bucket.

Rows that have a value of the key are in one bucket after each of the joins, so the joins below need no exchange of
their own, and keep nothing but what their sides do: what they give is joined again where it is asked for.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec.structs import replace

from sinkql import physical
from sinkql.logical import Call, Reference
from sinkql.lowering import index
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


_COALESCE = "coalesce(any…)"


def fuse_joins(graph: physical.Graph) -> physical.Graph:
    """Return the graph in which a join on the key of another one above it is done in that one's tasks."""
    return physical.Graph(_of(graph.root), {name: _of(each) for name, each in graph.shared.items()})


def columns_within(side: physical.Side) -> tuple[tuple[int, ...], ...]:
    """Return, for each column that a side within gives, the places of columns of its join: the first that is not NULL.

    Raises ValueError where it is another expression.
    """
    places = {column.name: place for place, column in enumerate(physical.joined_in(side).columns)}
    found = []
    for name in side.kept:
        names = _named(side.input, name)
        if names is None:
            raise ValueError(f'column "{name}" is computed above a join that is done in the same tasks')
        found.append(tuple(places[each] for each in names))
    return tuple(found)


def same_key(side: physical.Side, safe: Sequence[bool]) -> tuple[int, ...] | None:
    """Return which column of the key of the join that a side stands on each of its own key is; None for another key.

    Equal values of a key are in one bucket, and NULL is one wherever the join below has it for a value of its key.
    """
    below = side.input
    while isinstance(below, physical.Map):
        if below.where is not None:
            return None
        below = below.input
    if not isinstance(below, physical.Join) or below.left.replicated or below.right.replicated or not below.safe:
        return None
    types = {column.name: column.type for column in physical.columns_of(below.left.input)}
    own = {column.name: column.type for column in physical.columns_of(side.input)}
    found = []
    for name, equal in zip(side.key, safe, strict=True):
        names = _named(side.input, name)
        at = None if names is None else _place(below, names)
        if at is None or below.safe[at] != equal or types[below.left.key[at]] != own[name]:
            return None
        found.append(at)
    return tuple(found) if sorted(found) == list(range(len(below.safe))) else None


def _of(operator: physical.Operator) -> physical.Operator:
    found = physical.with_inputs(operator, [_of(each) for each in physical.inputs_of(operator)])
    if not isinstance(found, physical.Join) or found.left.replicated or found.right.replicated:
        return found
    return replace(found, left=_side(found.left, found.safe), right=_side(found.right, found.safe))


def _side(side: physical.Side, safe: Sequence[bool]) -> physical.Side:
    """Return a side within the tasks of its join, if it can be."""
    order = same_key(side, safe)
    if order is None or any(_named(side.input, name) is None for name in side.kept):
        return side
    return replace(side, within=True, arrangement="", input=_ordered(side.input, order))


def _ordered(operator: physical.Operator, order: Sequence[int]) -> physical.Operator:
    """Return a join below projections with the columns of its key in another order."""
    if isinstance(operator, physical.Map):
        return replace(operator, input=_ordered(operator.input, order))
    assert isinstance(operator, physical.Join)
    left, right = (
        replace(
            side,
            key=tuple(side.key[place] for place in order),
            input=_ordered(side.input, order) if side.within else side.input,
        )
        for side in (operator.left, operator.right)
    )
    return replace(operator, left=left, right=right, safe=tuple(operator.safe[place] for place in order))


def _named(operator: physical.Operator, name: str) -> tuple[str, ...] | None:
    """Return the columns of a join below projections of which the first that is not NULL is a column of theirs.

    None where it is another expression.
    """
    if not isinstance(operator, physical.Map):
        return (name,)
    if not operator.outputs:
        return _named(operator.input, name)
    (output,) = (each for each in operator.outputs if each.name == name)
    match output.expression:
        case Reference() as one:
            parts = [one]
        case Call(function=function, arguments=arguments) if function == _COALESCE:
            parts = [each for each in arguments if isinstance(each, Reference)]
            if len(parts) < len(arguments):
                return None
        case _:
            return None
    types = {column.name: column.type for column in physical.columns_of(operator.input)}
    if any(types[each.name] != output.type for each in parts):
        return None
    found = [_named(operator.input, each.name) for each in parts]
    return tuple(column for names in found if names is not None for column in names) if None not in found else None


def _place(join: physical.Join, names: Sequence[str]) -> int | None:
    """Return which column of a join's key these columns coalesced are, in every row that the join gives."""
    for place in range(len(join.safe)):
        if all(_holds(join, place, each) for each in names) and _covers(join, place, set(names)):
            return place
    return None


def _holds(join: physical.Join, place: int, name: str) -> bool:
    """Tell whether a column has the value of a join's key in each row, or NULL."""
    for side in (join.left, join.right):
        if name in side.kept:
            if side.key[place] == name:
                return True
            below = _named(side.input, name) if side.within else None
            return below is not None and all(_holds(physical.joined_in(side), place, each) for each in below)
    return False


def _covers(join: physical.Join, place: int, names: set[str]) -> bool:
    """Tell whether one of these columns, each of which has the key or NULL, has the key where that is not NULL."""
    left, right = (_covered(side, place, names & set(side.kept)) for side in (join.left, join.right))
    match join.kind:
        case "inner":
            return left or right
        case "left" | "semi" | "anti":
            return left
        case "right":
            return right
        case "full":
            return left and right


def _covered(side: physical.Side, place: int, names: set[str]) -> bool:
    if not side.within or side.key[place] in names:
        return side.key[place] in names
    below = {each for name in names for each in _named(side.input, name) or ()}
    return _covers(physical.joined_in(side), place, below)
