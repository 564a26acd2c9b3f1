"""An operator and the columns that are wanted of it → the operators that those come from, without all the others.

`Needed` says what decides the wanted columns: what nobody asks for is left out, projections one on top of the other are
one. No job is run so. Sources keep the columns up to the last one that is needed, since a place in them may have a
meaning. Operators are in line: no Use stands for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from sinkql.logical.expression import Expression, Reference, walk
from sinkql.logical.type import parse_type
from sinkql.physical.operator import (
    Aggregate,
    Arrange,
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
    Union,
    Use,
    columns_of,
)


@dataclass(frozen=True, slots=True)
class Needed:
    """Find what gives wanted columns; what several operators stand on is found once."""

    _known: dict[tuple[int, frozenset[str]], tuple[Operator, Operator]] = field(default_factory=dict)

    def of(self, operator: Operator, names: Iterable[str]) -> Operator:
        """Return what gives the columns `names`; it may give some more."""
        wanted = frozenset(names)
        known = self._known.get((id(operator), wanted))
        if known is None:  # the operator is kept: no other one has its id then
            known = self._known[id(operator), wanted] = (operator, self._of(operator, set(wanted)))
        return known[1]

    def chosen(self, operator: Operator, names: Sequence[str]) -> Operator:
        """Return just these columns, in this order."""
        columns = {column.name: column for column in columns_of(operator)}
        return self.of(Map(operator, tuple(_same(columns[name]) for name in names)), names)

    def _of(self, operator: Operator, wanted: set[str]) -> Operator:
        match operator:
            case Read():
                places = [place for place, column in enumerate(operator.columns, 1) if column.name in wanted]
                return msgspec.structs.replace(operator, columns=operator.columns[: max(places, default=0)])
            case Map():
                return self._map(operator, wanted)
            case Union():
                places = [place for place, column in enumerate(columns_of(operator)) if column.name in wanted]
                places = places or [0]  # rows without any column would be none
                return Union(tuple(self._places(each, places) for each in operator.inputs), operator.change)
            case Aggregate():
                return self._above(operator, grouped(operator))
            case Pick():  # any of them may decide which row it is
                return self._above(operator, [column.name for column in columns_of(operator.input)])
            case Normalize():  # all that it keeps decides which rows it knows, whoever asks for it
                return self._above(operator, [each.name for each in operator.columns])
            case Flatten():
                return self._above(operator, computed((), operator.array) | wanted)
            case Repeat():
                return self._above(operator, computed((), operator.times) | wanted)
            case Rank() | Recompute() | Bound():
                return self._above(operator, taken(operator))
            case Join():
                left, right = (
                    msgspec.structs.replace(side, input=self.of(side.input, sided(side)))
                    for side in (operator.left, operator.right)
                )
                return msgspec.structs.replace(operator, left=left, right=right)
            case Arrange():
                return self._above(operator, {*operator.key, *operator.kept})
            case Use():
                raise AssertionError(operator)

    def _above(
        self,
        operator: Aggregate | Pick | Normalize | Flatten | Repeat | Rank | Recompute | Bound | Arrange,
        names: Iterable[str],
    ) -> Operator:
        return msgspec.structs.replace(operator, input=self.of(operator.input, names))

    def _map(self, operator: Map, wanted: set[str]) -> Operator:
        outputs = tuple(each for each in operator.outputs if each.name in wanted)
        used = computed(outputs, operator.where)
        below = self.of(operator.input, used if operator.outputs else used | wanted)
        if operator.where is not None or not isinstance(below, Map) or not _plain(outputs):
            return _projection(below, outputs, operator.where)
        if below.outputs:
            given = {each.name: each.expression for each in below.outputs}
            outputs = tuple(_output(each, given) for each in outputs)
        return _projection(below.input, outputs or below.outputs, below.where)

    def _places(self, operator: Operator, places: Sequence[int]) -> Operator:
        """Return the columns of some places alone: those of a union's inputs belong together."""
        columns = columns_of(operator)
        return self.chosen(operator, [columns[place].name for place in places])


def taken(operator: Rank | Recompute | Bound) -> set[str]:
    """Return the columns that an operator takes of its input."""
    match operator:
        case Bound():
            return {*operator.kept, *(each for each in (operator.begin, operator.end) if each is not None)}
        case Rank() | Recompute():  # any column may decide the order, or is given
            return {column.name for column in columns_of(operator.input)}


def sided(side: Side) -> set[str]:
    """Return the columns that a side of a join takes."""
    return {*side.key, *side.kept}


def fed(side: Side) -> set[str]:
    """Return the columns that come to the tasks of a side: all that its index has as well."""
    return sided(side) | set(side.index.columns if side.index is not None else ())


def grouped(operator: Aggregate) -> set[str]:
    """Return the columns that an aggregate takes."""
    return {each.name for each in operator.group} | {each.column for each in operator.calls if each.column}


def computed(outputs: Iterable[Output], *others: Output | None) -> set[str]:
    """Return the columns that a projection takes, with its filter and whatever it computes besides."""
    expressions = [each.expression for each in (*outputs, *(other for other in others if other is not None))]
    return {name for each in expressions for name in _references(each)}


def _projection(below: Operator, outputs: tuple[Output, ...], where: Output | None) -> Operator:
    """Return a filter and a projection of `below`, without what does nothing."""
    names = [column.name for column in columns_of(below)]
    if names == [each.name for each in outputs] == [_reference(each) for each in outputs]:
        outputs = ()
    return Map(below, outputs, where) if outputs or where is not None else below


def _same(column: Column) -> Output:
    return Output(column.name, Reference(column.name, parse_type(column.type), column.nullable))


def _plain(outputs: Iterable[Output]) -> bool:
    return all(isinstance(each.expression, Reference) for each in outputs)


def _output(output: Output, given: dict[str, Expression]) -> Output:
    assert isinstance(output.expression, Reference)
    return Output(output.name, given[output.expression.name])


def _reference(output: Output) -> str | None:
    return output.expression.name if isinstance(output.expression, Reference) else None


def _references(expression: Expression) -> set[str]:
    return {node.name for node in walk(expression) if isinstance(node, Reference)}
