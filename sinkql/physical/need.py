"""An operator and the columns that are wanted of it → the operators that those come from, without all the others.

`needed` says what decides the wanted columns: what nobody asks for is left out, projections one on top of the other are
one. No job is run so, but for what is `narrowed`. Sources keep the columns up to the last one that is needed, since a
place in them may have a meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from sinkql.logical.expression import Expression, Reference, walk
from sinkql.logical.type import parse_type
from sinkql.physical.operator import (
    Aggregate,
    Bound,
    Column,
    Flatten,
    Join,
    Map,
    Normalize,
    Operator,
    Output,
    Pick,
    Rank,
    Read,
    Recompute,
    Repeat,
    Side,
    Stateful,
    Union,
    Use,
    columns_of,
    key_of,
)
from sinkql.physical.operator import walk as walk_operators


def needed(operator: Operator, names: Iterable[str]) -> Operator:
    """Return what gives the columns `names`; it may give some more."""
    wanted = set(names)
    match operator:
        case Read():
            places = [place for place, column in enumerate(operator.columns, 1) if column.name in wanted]
            return msgspec.structs.replace(operator, columns=operator.columns[: max(places, default=0)])
        case Map():
            return _map(operator, wanted)
        case Union():
            places = [place for place, column in enumerate(columns_of(operator)) if column.name in wanted]
            return Union(tuple(_places(each, places) for each in operator.inputs), operator.change)
        case Aggregate():
            return msgspec.structs.replace(operator, input=needed(operator.input, _grouped(operator)))
        case Pick():
            # any of them may decide which row it is
            below = {column.name for column in columns_of(operator.input)}
            return msgspec.structs.replace(operator, input=needed(operator.input, below))
        case Normalize():
            # all that it keeps decides which rows it knows, whoever asks for it
            return msgspec.structs.replace(
                operator, input=needed(operator.input, [each.name for each in operator.columns])
            )
        case Use():
            return operator
        case Flatten():
            used = _computed((), operator.array) | wanted
            return msgspec.structs.replace(operator, input=needed(operator.input, used))
        case Repeat():
            used = _computed((), operator.times) | wanted
            return msgspec.structs.replace(operator, input=needed(operator.input, used))
        case Join():
            sides = [
                msgspec.structs.replace(side, input=needed(side.input, _sided(side)))
                for side in (operator.left, operator.right)
            ]
            return msgspec.structs.replace(operator, left=sides[0], right=sides[1])
        case Rank() | Recompute() | Bound():
            return msgspec.structs.replace(operator, input=needed(operator.input, taken(operator)))


def narrowed(operator: Operator, names: Iterable[str]) -> Operator:
    """Return an operator of which the columns `names` are used, where what keeps rows by key keeps no others."""
    wanted = set(names)
    match operator:
        case Read():
            return operator
        case Map():
            return _narrowed_map(operator, wanted)
        case Union():
            inputs = tuple(_narrowed_whole(each) for each in operator.inputs)
            return msgspec.structs.replace(operator, inputs=inputs)
        case Aggregate():
            return msgspec.structs.replace(operator, input=narrowed(operator.input, _grouped(operator)))
        case Normalize():
            columns = [column.name for column in columns_of(operator.input)]
            kept = tuple(name for name in columns if name in wanted or name in operator.key)
            given = narrowed(operator.input, kept)
            left = len(columns_of(given)) > len(kept)
            return msgspec.structs.replace(operator, input=given, kept=kept if left else ())
        case Join():
            sides = [_narrowed_side(side, wanted) for side in (operator.left, operator.right)]
            return msgspec.structs.replace(operator, left=sides[0], right=sides[1])
        case Use():
            return operator
        case Flatten():
            used = _computed((), operator.array) | wanted
            return msgspec.structs.replace(operator, input=narrowed(operator.input, used))
        case Repeat():
            used = _computed((), operator.times) | wanted
            return msgspec.structs.replace(operator, input=narrowed(operator.input, used))
        case Bound():
            # rows without any column would be none
            kept = tuple(name for name in operator.kept if name in wanted) or operator.kept[:1]
            bound, below = msgspec.structs.replace(operator, kept=kept), operator.input
            if isinstance(below, Map):
                outputs = tuple(each for each in below.outputs if each.name in taken(bound))
                below = msgspec.structs.replace(below, outputs=outputs)
            return msgspec.structs.replace(bound, input=narrowed(below, taken(bound)))
        case Pick() | Rank() | Recompute():  # any column may decide what it gives
            return msgspec.structs.replace(operator, input=_narrowed_whole(operator.input))


def columns_read(operator: Operator, names: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return by source the columns that are used of it where `names` are of an operator."""
    found: dict[str, frozenset[str]] = {}
    _collect(operator, frozenset(names), found)
    return found


def _collect(operator: Operator, wanted: frozenset[str], found: dict[str, frozenset[str]]) -> None:
    match operator:
        case Read():
            # rows without any column would be none
            own = wanted | frozenset(operator.key) or frozenset([operator.columns[0].name])
            found[operator.source] = found.get(operator.source, frozenset()) | own
        case Map():
            used = _computed(operator.outputs, operator.where)
            _collect(operator.input, frozenset(used if operator.outputs else used | wanted), found)
        case Aggregate():
            _collect(operator.input, frozenset(_grouped(operator)), found)
        case Normalize():
            _collect(operator.input, frozenset(each.name for each in operator.columns), found)
        case Join():
            for side in (operator.left, operator.right):
                _collect(side.input, frozenset(_sided(side)), found)
        case Use():
            return
        case Flatten():
            _collect(operator.input, frozenset(_computed((), operator.array) | wanted), found)
        case Repeat():
            _collect(operator.input, frozenset(_computed((), operator.times) | wanted), found)
        case Rank() | Recompute() | Bound():
            _collect(operator.input, frozenset(taken(operator)), found)
        case Union() | Stateful():
            for each in operator.inputs:
                _collect(each, frozenset(column.name for column in columns_of(each)), found)


def taken(operator: Rank | Recompute | Bound) -> set[str]:
    """Return the columns that an operator takes of its input."""
    match operator:
        case Bound():
            return {*operator.kept, *(each for each in (operator.begin, operator.end) if each is not None)}
        case Rank() | Recompute():  # any column may decide the order, or is given
            return {column.name for column in columns_of(operator.input)}


def _narrowed_side(side: Side, wanted: set[str]) -> Side:
    kept = tuple(name for name in side.kept if name in wanted)
    side = msgspec.structs.replace(side, kept=kept)
    return msgspec.structs.replace(side, input=narrowed(side.input, _sided(side)))


def _sided(side: Side) -> set[str]:
    return {*side.key, *side.kept}


def _narrowed_whole(operator: Operator) -> Operator:
    return narrowed(operator, [column.name for column in columns_of(operator)])


def _narrowed_map(operator: Map, wanted: set[str]) -> Operator:
    """Return a projection with the outputs that are used, and those that say which rows overwrite each other."""
    if all(not isinstance(below, Normalize | Join | Bound) for below in walk_operators(operator)):
        return operator
    wanted = wanted | set(key_of(operator))
    outputs = tuple(each for each in operator.outputs if each.name in wanted) or operator.outputs[:1]
    used = _computed(outputs, operator.where)
    below = narrowed(operator.input, used if outputs else used | wanted)
    return msgspec.structs.replace(operator, input=below, outputs=outputs)


def _map(operator: Map, wanted: set[str]) -> Operator:
    outputs = tuple(each for each in operator.outputs if each.name in wanted)
    used = _computed(outputs, operator.where)
    below = needed(operator.input, used if operator.outputs else used | wanted)
    if operator.where is not None or not isinstance(below, Map) or not _plain(outputs):
        return _projection(below, outputs, operator.where)
    if below.outputs:
        given = {each.name: each.expression for each in below.outputs}
        outputs = tuple(_output(each, given) for each in outputs)
    return _projection(below.input, outputs or below.outputs, below.where)


def _projection(below: Operator, outputs: tuple[Output, ...], where: Output | None) -> Operator:
    """Return a filter and a projection of `below`, without what does nothing."""
    names = [column.name for column in columns_of(below)]
    if names == [each.name for each in outputs] == [_reference(each) for each in outputs]:
        outputs = ()
    return Map(below, outputs, where) if outputs or where is not None else below


def chosen(operator: Operator, names: Sequence[str]) -> Operator:
    """Return just these columns, in this order."""
    columns = {column.name: column for column in columns_of(operator)}
    return needed(Map(operator, tuple(_same(columns[name]) for name in names)), names)


def _same(column: Column) -> Output:
    return Output(column.name, Reference(column.name, parse_type(column.type), column.nullable))


def _plain(outputs: Iterable[Output]) -> bool:
    return all(isinstance(each.expression, Reference) for each in outputs)


def _output(output: Output, given: dict[str, Expression]) -> Output:
    assert isinstance(output.expression, Reference)
    return Output(output.name, given[output.expression.name])


def _places(operator: Operator, places: Sequence[int]) -> Operator:
    """Return the columns of some places alone: those of a union's inputs belong together."""
    columns = columns_of(operator)
    return chosen(operator, [columns[place].name for place in places])


def _reference(output: Output) -> str | None:
    return output.expression.name if isinstance(output.expression, Reference) else None


def _computed(outputs: Iterable[Output], *others: Output | None) -> set[str]:
    """Return the columns that a projection takes, with its filter and whatever it computes besides."""
    expressions = [each.expression for each in (*outputs, *(other for other in others if other is not None))]
    return {name for each in expressions for name in _references(each)}


def _grouped(operator: Aggregate) -> set[str]:
    """Return the columns that an aggregate takes."""
    return {each.name for each in operator.group} | {each.column for each in operator.calls if each.column}


def _references(expression: Expression) -> set[str]:
    return {node.name for node in walk(expression) if isinstance(node, Reference)}
