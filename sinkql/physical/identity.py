"""What a job means → a hash: two jobs of one hash give the same rows, in whatever words and by whichever release.

Into it goes what decides rows: sources with their options and columns, operators, expressions as trees of functions
with their meaning versions, keys and modes. Columns below the sink are known by their places, so that their names, and
views that only rename, are left out; so are columns that nothing asks for, unless they stand before one in a source;
all text (of statements and of any engine's SQL), where expressions stand, what is inferred (nullability), intervals,
limits, clusters, connections, and readers' options under the name `tuning`.

A table that a sink has written remembers the hash; a sink with another one does not go on in it. The golden file
`tests/planner/plans.txt` pins the hashes of many plans.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sinkql.logical.expression import Call, Case, Cast, Expression, Literal, Reference, allow_deep_trees, walk
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
    """Return the hash of all that decides the rows that are written."""
    allow_deep_trees()
    below = Needed().of(Inline(shared).of(write.input), [each.name for each in write.columns])
    places = _places(below)
    columns = [[each.name, each.type, each.nullable, places[each.name]] for each in write.columns]
    modes = [write.mode, write.change, write.changelog, write.proven]
    return _hash(["write", write.connector, modes, list(write.key), columns, _Meaning().of(below)])[:16]


def meaning_of(graph: Graph, names: Sequence[str]) -> str:
    """Return the hash of all that decides the values of some columns, whatever they and others are called."""
    allow_deep_trees()
    return _Meaning().of(Needed().chosen(Inline(graph.shared).of(graph.root), names))


def arranged_as(view: str, columns: Sequence[Column], key: Sequence[Expression]) -> str:
    """Return the hash of what an index of a view holds: its rows, of columns of these types, by a key."""
    allow_deep_trees()
    places = {column.name: place for place, column in enumerate(columns)}
    types = [[column.type, column.nullable] for column in columns]
    return _hash(["index", view, types, [_expression(each, places) for each in key]])


def deciding(options: Mapping[str, Any], columns: Collection[str] | None = None) -> dict[str, Any]:
    """Return a reader's options without those that decide no rows, also in options of its parts.

    Of what stands under `by column` that of these columns decides, of all without `columns`; of none it is left out.
    """
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name == "by column" and columns is not None:
            own = {column: said for column, said in value.items() if column in columns}
            found |= {name: own} if own else {}
        elif name != "tuning":
            found[name] = deciding(value, columns) if isinstance(value, dict) else value
    return found


def _hash(data: list[Any]) -> str:
    return hashlib.sha256(msgspec.json.encode(data, order="sorted")).hexdigest()


@dataclass(frozen=True, slots=True)
class _Meaning:
    """Hash operators that stand in line, each once."""

    _known: dict[int, tuple[Operator, str]] = field(default_factory=dict)

    def of(self, operator: Operator) -> str:
        """Return the hash of what an operator gives."""
        known = self._known.get(id(operator))
        if known is None:  # the operator is kept: no other one has its id then
            known = self._known[id(operator)] = (operator, self._hash(operator))
        return known[1]

    def side(self, side: Side) -> list[Any]:
        """Return what a side of a join says of its rows."""
        places = _places(side.input)
        key, kept = ([places[each] for each in names] for names in (side.key, side.kept))
        return ["side", key, kept, side.keeps, side.replicated, self.of(side.input)]

    def _hash(self, operator: Operator) -> str:
        if isinstance(operator, Map) and operator.where is None:
            outputs = [each.expression for each in operator.outputs]
            if _same_columns(outputs, operator.input):
                return self.of(operator.input)
        return _hash(self._said(operator))

    def _said(self, operator: Operator) -> list[Any]:
        match operator:
            case Read():
                columns = [[each.name, each.type, each.nullable] for each in operator.columns]
                options = deciding(operator.options, {each.name for each in operator.columns})
                changes = [operator.change, list(operator.key)] if operator.change == "upsert" else operator.change
                return ["read", operator.source, operator.connector, options, columns, changes]
            case Map():
                places = _places(operator.input)
                where = None if operator.where is None else _expression(operator.where.expression, places)
                outputs = [_expression(each.expression, places) for each in operator.outputs]
                return ["map", where, outputs, self.of(operator.input)]
            case Union():
                return ["union", operator.change, [self.of(each) for each in operator.inputs]]
            case Use() | Arrange():
                raise AssertionError(operator)
            case Join():
                sides = [self.side(each) for each in (operator.left, operator.right)]
                return ["join", operator.kind, list(operator.safe), *sides, *_compared(operator)]
            case Flatten():
                array = _expression(operator.array.expression, _places(operator.input))
                more = [operator.ordinality is not None, operator.outer]
                return ["flatten", array, operator.element, more, self.of(operator.input)]
            case Repeat():
                times = _expression(operator.times.expression, _places(operator.input))
                return ["repeat", times, self.of(operator.input)]
            case Aggregate() | Pick() | Normalize() | Rank() | Recompute() | Bound():
                return [*_kept(operator, _places(operator.input)), self.of(operator.input)]


@dataclass(frozen=True, slots=True)
class Holding:
    """Say what operators with state hold: equal hashes, equal contents, in whatever job."""

    inline: Inline
    _needed: Needed = field(default_factory=Needed)
    _meaning: _Meaning = field(default_factory=_Meaning)

    def by(self, operator: Operator) -> str:
        """Return the hash of an operator's own state: of what it is, and of all that it stands on."""
        return self._meaning.of(self._needed.of(self.inline.of(operator), [each.name for each in columns_of(operator)]))

    def by_buckets(self, operator: Operator, key: Sequence[str]) -> str:
        """Return the hash of an operator's own state whose rows are in the buckets that a sink by this key has."""
        places = _places(operator)
        return _hash(["in buckets by", [places[each] for each in key], self.by(operator)])

    def by_side(self, side: Side, other: Side, safe: Sequence[bool], order: str | None = None) -> str:
        """Return the hash of the rows that a side of a join keeps, beside another one that says where.

        Those with NULL in a column of the key are kept where that is `safe`. They are in the `order` of a column, if it
        names one.
        """
        below = self._needed.of(self.inline.of(side.input), sided(side))
        said = self._meaning.side(msgspec.structs.replace(side, input=below))
        if order is not None:
            said = [*said, "by", _places(below)[order]]
        types = {column.name: column for column in columns_of(below)}
        loose = [not equal and types[name].nullable for name, equal in zip(side.key, safe, strict=True)]
        return _hash([*said, loose, "spread"] if side.key and other.replicated else [*said, loose])


def _kept(operator: Aggregate | Pick | Normalize | Rank | Recompute | Bound, places: _Places) -> list[Any]:
    """Return what an operator with state does with its input."""
    match operator:
        case Aggregate():
            calls = [_call(each, places) for each in operator.calls]
            return ["aggregate", [places[each.name] for each in operator.group], calls, operator.input_change]
        case Pick():
            return ["pick", [places[name] for name in operator.key]]
        case Rank():
            by = [places[each] for each in operator.partition], _ordered(operator.order, places)
            numbers = [operator.function, operator.first, operator.last, operator.number is not None, operator.parts]
            return ["rank", *by, numbers]
        case Recompute():
            key, calls = [places[each] for each in operator.key], [_window(each, places) for each in operator.calls]
            return ["recompute", key, calls, operator.grouped]
        case Bound():
            bounds = [None if each is None else places[each] for each in (operator.begin, operator.end)]
            return ["bound", bounds, [places[each] for each in operator.kept]]
        case Normalize():
            key, kept = ([places[name] for name in names] for names in (operator.key, operator.kept))
            # a source may have got columns since that nobody asks for
            return ["normalize", key, *([kept] if 0 < len(kept) < len(places) else [])]


def _compared(join: Join) -> list[Any]:
    """Return what a join without keys compares."""
    if join.compared is None:
        return []
    left, right = _places(join.left.input)[join.compared.left], _places(join.right.input)[join.compared.right]
    return [[left, join.compared.comparison, right]]


def _call(call: AggregateCall, places: _Places) -> list[Any]:
    column = None if call.column is None else places[call.column]
    return [call.function, call.version, column, call.distinct, call.type]


def _ordered(order: Sequence[Order], places: _Places) -> list[Any]:
    return [[places[each.column], each.descending, each.nulls_first] for each in order]


def _window(call: WindowCall, places: _Places) -> list[Any]:
    columns = [places[each] for each in call.columns]
    frame = None if call.frame is None else msgspec.to_builtins(call.frame)
    order = _ordered(call.order, places)
    return [call.function, call.version, columns, order, frame, call.distinct, list(call.constants), call.type]


def _same_columns(outputs: list[Expression], below: Operator) -> bool:
    """Tell whether all columns come again in their order, whatever they are called."""
    names = [each.name for each in columns_of(below)]
    return names == [each.name if isinstance(each, Reference) else None for each in outputs]


def _places(operator: Operator) -> _Places:
    return {each.name: place for place, each in enumerate(columns_of(operator))}


def _expression(expression: Expression, places: _Places) -> list[Any]:
    """Return the tree's nodes, each before those below it: what a node says of itself says how many those are."""
    found: list[Any] = []
    for node in walk(expression):
        match node:
            case Reference():
                found.append(["column", places[node.name]])
            case Literal():
                found.append(["literal", str(node.type), node.text])
            case Cast():
                found.append(["cast", str(node.type), node.version])
            case Case():
                found.append(["case", len(node.branches), node.otherwise is not None])
            case Call():
                found.append(["call", node.function, node.version, len(node.arguments), str(node.type)])
    return found
