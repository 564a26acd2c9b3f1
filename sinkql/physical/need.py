"""An operator and the columns that are wanted of it → the operators that those come from, without all the others.

It says what decides the wanted columns: what nobody asks for is left out, projections one on top of the other are one.
No job is run so. Sources keep the columns up to the last one that is needed, since a place in them may have a meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from sinkql.logical.expression import Expression, Reference, walk
from sinkql.logical.type import parse_type
from sinkql.physical.operator import Aggregate, Column, Map, Normalize, Operator, Output, Pick, Read, Union, columns_of


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
            below = {each.name for each in operator.group} | {each.column for each in operator.calls if each.column}
            return msgspec.structs.replace(operator, input=needed(operator.input, below))
        case Pick() | Normalize():
            # any of them may decide which row it is, and all are kept
            below = {column.name for column in columns_of(operator.input)}
            return msgspec.structs.replace(operator, input=needed(operator.input, below))


def _map(operator: Map, wanted: set[str]) -> Operator:
    outputs = tuple(each for each in operator.outputs if each.name in wanted)
    conditions = [operator.where.expression] if operator.where is not None else []
    used = {name for each in (*(output.expression for output in outputs), *conditions) for name in _references(each)}
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


def _references(expression: Expression) -> set[str]:
    return {node.name for node in walk(expression) if isinstance(node, Reference)}
