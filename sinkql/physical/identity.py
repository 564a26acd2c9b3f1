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
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sinkql.logical.expression import Call, Case, Cast, Expression, Literal, Reference, allow_deep_trees, walk
from sinkql.physical.need import chosen, needed
from sinkql.physical.operator import (
    Aggregate,
    AggregateCall,
    Bound,
    Flatten,
    Join,
    Map,
    Normalize,
    Operator,
    Order,
    Pick,
    Rank,
    Read,
    Recompute,
    Repeat,
    Side,
    Union,
    Use,
    WindowCall,
    Write,
    columns_of,
)

_Places = dict[str, int]


def plan_of(write: Write) -> str:
    """Return the hash of all that decides the rows that are written."""
    allow_deep_trees()
    data = msgspec.json.encode(_write(write), order="sorted")
    return hashlib.sha256(data).hexdigest()[:16]


def meaning_of(operator: Operator, names: Sequence[str]) -> str:
    """Return the hash of all that decides the values of some columns, whatever they and others are called."""
    allow_deep_trees()
    return hashlib.sha256(msgspec.json.encode(_operator(chosen(operator, names)), order="sorted")).hexdigest()


def deciding(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reader's options without those that decide no rows, also in options of its parts."""
    return {
        name: deciding(value) if isinstance(value, dict) else value
        for name, value in options.items()
        if name != "tuning"
    }


def _write(write: Write) -> list[Any]:
    below = needed(write.input, [each.name for each in write.columns])
    places = _places(below)
    columns = [[each.name, each.type, each.nullable, places[each.name]] for each in write.columns]
    modes = [write.mode, write.change, write.changelog, write.proven]
    return ["write", write.connector, modes, list(write.key), columns, _operator(below)]


def _operator(operator: Operator) -> list[Any]:
    match operator:
        case Read():
            columns = [[each.name, each.type, each.nullable] for each in operator.columns]
            options = deciding(operator.options)
            changes = [operator.change, list(operator.key)] if operator.change == "upsert" else operator.change
            return ["read", operator.source, operator.connector, options, columns, changes]
        case Map():
            return _map(operator)
        case Union():
            return ["union", operator.change, [_operator(each) for each in operator.inputs]]
        case Aggregate():
            places = _places(operator.input)
            calls = [_call(each, places) for each in operator.calls]
            groups = [places[each.name] for each in operator.group]
            below = _operator(operator.input)
            return ["aggregate", operator.arrangement, groups, calls, operator.input_change, below]
        case Pick():
            places = _places(operator.input)
            return ["pick", operator.arrangement, [places[name] for name in operator.key], _operator(operator.input)]
        case Use():
            return ["use", operator.name]
        case Flatten():
            array = _expression(operator.array.expression, _places(operator.input))
            more = [operator.ordinality is not None, operator.outer]
            return ["flatten", array, operator.element, more, _operator(operator.input)]
        case Repeat():
            return [
                "repeat",
                _expression(operator.times.expression, _places(operator.input)),
                _operator(operator.input),
            ]
        case Join():
            sides = [_side(each) for each in (operator.left, operator.right)]
            return ["join", operator.arrangement, operator.kind, list(operator.safe), *sides]
        case Rank():
            places = _places(operator.input)
            by = [places[each] for each in operator.partition], _ordered(operator.order, places)
            numbers = [operator.function, operator.first, operator.last, operator.number is not None, operator.parts]
            return ["rank", operator.arrangement, *by, numbers, _operator(operator.input)]
        case Recompute():
            places = _places(operator.input)
            key, calls = [places[each] for each in operator.key], [_window(each, places) for each in operator.calls]
            return ["recompute", operator.arrangement, key, calls, operator.grouped, _operator(operator.input)]
        case Bound():
            places = _places(operator.input)
            bounds = [None if each is None else places[each] for each in (operator.begin, operator.end)]
            kept = [places[each] for each in operator.kept]
            return ["bound", operator.arrangement, bounds, kept, _operator(operator.input)]
        case Normalize():
            places = _places(operator.input)
            key, kept = ([places[name] for name in names] for names in (operator.key, operator.kept))
            # a source may have got columns since that nobody asks for
            some = [kept] if 0 < len(kept) < len(places) else []
            return ["normalize", operator.arrangement, key, *some, _operator(operator.input)]


def _call(call: AggregateCall, places: _Places) -> list[Any]:
    column = None if call.column is None else places[call.column]
    return [call.function, call.version, column, call.distinct, call.type]


def _side(side: Side) -> list[Any]:
    places = _places(side.input)
    key, kept = ([places[each] for each in names] for names in (side.key, side.kept))
    return [side.arrangement, key, kept, side.keeps, side.replicated, _operator(side.input)]


def _ordered(order: Sequence[Order], places: _Places) -> list[Any]:
    return [[places[each.column], each.descending, each.nulls_first] for each in order]


def _window(call: WindowCall, places: _Places) -> list[Any]:
    columns = [places[each] for each in call.columns]
    frame = None if call.frame is None else msgspec.to_builtins(call.frame)
    order = _ordered(call.order, places)
    return [call.function, call.version, columns, order, frame, call.distinct, list(call.constants), call.type]


def _map(operator: Map) -> list[Any]:
    places = _places(operator.input)
    below = _operator(operator.input)
    where = None if operator.where is None else _expression(operator.where.expression, places)
    outputs = [each.expression for each in operator.outputs]
    if where is None and _same_columns(outputs, operator.input):
        return below
    return ["map", where, [_expression(each, places) for each in outputs], below]


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
