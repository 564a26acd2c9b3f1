"""Compute the plan hash: jobs with equal hashes produce equal rows, whatever their spelling and release.

The hash covers everything that decides rows: sources with their options and columns, operators, expressions with the
meaning versions of their functions, keys and modes. Columns below the sink are identified by position, so names and
views that only rename have no effect. The hash leaves out unused columns, unless a used column follows them in a
source. It also leaves out all text, spans, inferred nullability, intervals, limits, clusters, connections, and readers'
options under the name `tuning`.

A sink's table stores the hash; a sink with another hash does not continue in it. The golden file
`tests/planner/plans.txt` pins the hashes of many plans.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sinkql.logical.expression import Call, Case, Cast, Expression, Literal, Reference, allow_deep_trees, walk
from sinkql.logical.type import encoded
from sinkql.physical.column_pruning import Needed, sided
from sinkql.physical.graph import Graph, Inline, Shared
from sinkql.physical.operator import (
    Aggregate,
    AggregateCall,
    Arrange,
    Bound,
    Column,
    Flatten,
    Join,
    Map,
    Normalize,
    Operator,
    Pick,
    Rank,
    Read,
    Recompute,
    Repeat,
    Side,
    Union,
    Use,
    Write,
    columns_of,
)
from sinkql.physical.window import Order, WindowCall

_Places = dict[str, int]


def plan_of(write: Write, shared: Shared) -> str:
    """Return the hash of everything that decides the rows that are written."""
    allow_deep_trees()
    below = Needed().of(Inline(shared).of(write.input), [column.name for column in write.columns])
    places = _places(below)
    columns = [[column.name, column.type, column.nullable, places[column.name]] for column in write.columns]
    modes = [write.mode, write.change, write.changelog, write.proven]
    return _hash(["write", write.connector, modes, list(write.key), columns, _Meaning().of(below)])[:16]


def meaning_of(graph: Graph, names: Sequence[str]) -> str:
    """Return the hash of everything that decides the values of some columns, whatever their names."""
    allow_deep_trees()
    return _Meaning().of(Needed().chosen(Inline(graph.shared).of(graph.root), names))


def arranged_as(view: str, columns: Sequence[Column], key: Sequence[Expression]) -> str:
    """Return the hash of an index's contents: a view's rows, with columns of these types, by a key."""
    allow_deep_trees()
    places = {column.name: place for place, column in enumerate(columns)}
    types = [[column.type, column.nullable] for column in columns]
    return _hash(["index", view, types, [_expression(part, places) for part in key]])


def deciding(options: Mapping[str, Any], columns: Collection[str] | None = None) -> dict[str, Any]:
    """Return a reader's options, also nested ones, without options that do not affect rows.

    Options under `by column` are limited to `columns`, and left out if none remains. Without `columns`, all are
    included.
    """
    decisive: dict[str, Any] = {}
    for name, value in options.items():
        if name == "by column" and columns is not None:
            of_columns = {column: option for column, option in value.items() if column in columns}
            decisive |= {name: of_columns} if of_columns else {}
        elif name != "tuning":
            decisive[name] = deciding(value, columns) if isinstance(value, dict) else value
    return decisive


def _hash(data: list[Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(data, enc_hook=encoded, order="sorted")).hexdigest()


@dataclass(frozen=True, slots=True)
class _Meaning:
    """The hashes of inlined operators, computed once for each operator."""

    _cache: dict[int, tuple[Operator, str]] = field(default_factory=dict)

    def of(self, operator: Operator) -> str:
        """Return the hash of an operator's rows."""
        cached = self._cache.get(id(operator))
        if cached is None:  # the cache holds the operator, so no other object gets its id
            cached = self._cache[id(operator)] = (operator, self._hash(operator))
        return cached[1]

    def side(self, side: Side) -> list[Any]:
        """Return the hashed content of a side of a join."""
        places = _places(side.input)
        key, stored = ([places[name] for name in names] for names in (side.key, side.kept))
        return ["side", key, stored, side.keeps, side.replicated, self.of(side.input)]

    def _hash(self, operator: Operator) -> str:
        if isinstance(operator, Map) and operator.where is None:
            outputs = [output.expression for output in operator.outputs]
            if _same_columns(outputs, operator.input):
                return self.of(operator.input)
        return _hash(self._content(operator))

    def _content(self, operator: Operator) -> list[Any]:
        match operator:
            case Read():
                columns = [[column.name, column.type, column.nullable] for column in operator.columns]
                options = deciding(operator.options, {column.name for column in operator.columns})
                changes = [operator.change, list(operator.key)] if operator.change == "upsert" else operator.change
                return ["read", operator.source, operator.connector, options, columns, changes]
            case Map():
                places = _places(operator.input)
                where = None if operator.where is None else _expression(operator.where.expression, places)
                outputs = [_expression(output.expression, places) for output in operator.outputs]
                return ["map", where, outputs, self.of(operator.input)]
            case Union():
                return ["union", operator.change, [self.of(input_) for input_ in operator.inputs]]
            case Use() | Arrange():
                raise AssertionError(operator)
            case Join():
                sides = [self.side(side) for side in (operator.left, operator.right)]
                return ["join", operator.kind, list(operator.safe), *sides, *_comparison_of(operator)]
            case Flatten():
                array = _expression(operator.array.expression, _places(operator.input))
                more = [operator.ordinality is not None, operator.outer]
                return ["flatten", array, operator.element, more, self.of(operator.input)]
            case Repeat():
                times = _expression(operator.times.expression, _places(operator.input))
                return ["repeat", times, self.of(operator.input)]
            case Aggregate() | Pick() | Normalize() | Rank() | Recompute() | Bound():
                return [*_stateful_content(operator, _places(operator.input)), self.of(operator.input)]


@dataclass(frozen=True, slots=True)
class Holding:
    """The hashes of arrangements: equal hashes mean equal contents, in any job."""

    inline: Inline
    _needed: Needed = field(default_factory=Needed)
    _meaning: _Meaning = field(default_factory=_Meaning)

    def by(self, operator: Operator) -> str:
        """Return the hash of an operator's state, which covers all its inputs."""
        return self._meaning.of(
            self._needed.of(self.inline.of(operator), [column.name for column in columns_of(operator)])
        )

    def by_buckets(self, operator: Operator, key: Sequence[str]) -> str:
        """Return the hash of an operator's state whose rows are in the buckets of a sink with this key."""
        places = _places(operator)
        return _hash(["in buckets by", [places[name] for name in key], self.by(operator)])

    def by_side(self, side: Side, other: Side, safe: Sequence[bool], order: str | None = None) -> str:
        """Return the hash of the rows that a side of a join keeps; the opposite side decides the distribution.

        Rows with NULL in a key column are kept if the column is `safe`. Rows are sorted by the column `order`, if it is
        set.
        """
        below = self._needed.of(self.inline.of(side.input), sided(side))
        content = self._meaning.side(msgspec.structs.replace(side, input=below))
        if order is not None:
            content = [*content, "by", _places(below)[order]]
        types = {column.name: column for column in columns_of(below)}
        loose = [not equal and types[name].nullable for name, equal in zip(side.key, safe, strict=True)]
        return _hash([*content, loose, "spread"] if side.key and other.replicated else [*content, loose])


def _stateful_content(operator: Aggregate | Pick | Normalize | Rank | Recompute | Bound, places: _Places) -> list[Any]:
    """Return the hashed content of a stateful operator, without its input."""
    match operator:
        case Aggregate():
            calls = [_call(call, places) for call in operator.calls]
            return ["aggregate", [places[column.name] for column in operator.group], calls, operator.input_change]
        case Pick():
            return ["pick", [places[name] for name in operator.key]]
        case Rank():
            by = [places[name] for name in operator.partition], _order_content(operator.order, places)
            numbers = [operator.function, operator.first, operator.last, operator.number is not None, operator.parts]
            return ["rank", *by, numbers]
        case Recompute():
            key, calls = [places[name] for name in operator.key], [_window(call, places) for call in operator.calls]
            return ["recompute", key, calls, operator.grouped]
        case Bound():
            bounds = [None if name is None else places[name] for name in (operator.begin, operator.end)]
            return ["bound", bounds, [places[name] for name in operator.kept]]
        case Normalize():
            key, stored = ([places[name] for name in names] for names in (operator.key, operator.kept))
            # a source may have new columns that are not used
            return ["normalize", key, *([stored] if 0 < len(stored) < len(places) else [])]


def _comparison_of(join: Join) -> list[Any]:
    """Return the comparison of a join without keys."""
    if join.compared is None:
        return []
    left, right = _places(join.left.input)[join.compared.left], _places(join.right.input)[join.compared.right]
    return [[left, join.compared.comparison, right]]


def _call(call: AggregateCall, places: _Places) -> list[Any]:
    column = None if call.column is None else places[call.column]
    return [call.function, call.version, column, call.distinct, call.type]


def _order_content(order: Sequence[Order], places: _Places) -> list[Any]:
    return [[places[term.column], term.descending, term.nulls_first] for term in order]


def _window(call: WindowCall, places: _Places) -> list[Any]:
    columns = [places[column] for column in call.columns]
    frame = None if call.frame is None else msgspec.to_builtins(call.frame)
    order = _order_content(call.order, places)
    return [call.function, call.version, columns, order, frame, call.distinct, list(call.constants), call.type]


def _same_columns(outputs: list[Expression], below: Operator) -> bool:
    """Return whether all columns are passed on in their order, whatever their names."""
    names = [column.name for column in columns_of(below)]
    return names == [output.name if isinstance(output, Reference) else None for output in outputs]


def _places(operator: Operator) -> _Places:
    return {column.name: place for place, column in enumerate(columns_of(operator))}


def _expression(expression: Expression, places: _Places) -> list[Any]:
    """Return the tree's nodes in prefix order; each node's content gives the number of its children."""
    nodes: list[Any] = []
    for node in walk(expression):
        match node:
            case Reference():
                nodes.append(["column", places[node.name]])
            case Literal():
                nodes.append(["literal", node.type, node.text])
            case Cast():
                nodes.append(["cast", node.type, node.version])
            case Case():
                nodes.append(["case", len(node.branches), node.otherwise is not None])
            case Call():
                nodes.append(["call", node.function, node.version, len(node.arguments), node.type])
    return nodes
