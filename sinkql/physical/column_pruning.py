"""A graph of operators and the columns that are used of it → the graph in which state keeps no others.

What is used several times gives the columns that any of its uses asks for.

An operator and the columns that are wanted of it → the operators that those come from, without all the others.

`Needed` says what decides the wanted columns: what nobody asks for is left out, projections one on top of the other are
one. No job is run so. Sources keep the columns up to the last one that is needed, since a place in them may have a
meaning. Operators are in line: no Use stands for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from sinkql.logical.expression import Expression, Reference
from sinkql.logical.expression import walk as expression_walk
from sinkql.logical.type import parse_type
from sinkql.physical.graph import Graph, Shared, inputs_of, with_inputs
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
    Stateful,
    Union,
    Use,
    columns_of,
    key_of,
    walk,
)


def narrowed(graph: Graph, names: Iterable[str]) -> Graph:
    """Return a graph of which the columns `names` are used, where what keeps rows keeps no others."""
    narrow = _Narrowing()
    root = narrow.of(graph.root, set(names))
    shared: dict[str, Operator] = {}
    for name, operator in reversed(graph.shared.items()):  # those that use it come before it
        shared[name] = narrow.of(operator, narrow.used.get(name, set()))
    found: dict[str, Operator] = {}
    for name in graph.shared:
        found[name] = _refreshed(shared[name], found)
    return Graph(_refreshed(root, found), found)


def columns_read(graph: Graph, names: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return by source the columns that are used of it where `names` are of a graph."""
    reading = _Reading()
    reading.take(graph.root, frozenset(names))
    for name, operator in reversed(graph.shared.items()):
        reading.take(operator, reading.used.get(name, frozenset()))
    return reading.found


def _refreshed(operator: Operator, shared: Shared) -> Operator:
    """Return the operator with the columns that what is shared has now."""
    if isinstance(operator, Use):
        return Use(operator.name, columns_of(shared[operator.name]), operator.change)
    return with_inputs(operator, [_refreshed(each, shared) for each in inputs_of(operator)])


@dataclass(frozen=True, slots=True)
class _Narrowing:
    """Narrow operators; `used` gathers the columns that are wanted of what is shared."""

    used: dict[str, set[str]] = field(default_factory=dict)

    def of(self, operator: Operator, wanted: set[str]) -> Operator:
        match operator:
            case Read():
                return operator
            case Use():
                self.used.setdefault(operator.name, set()).update(wanted)
                return operator
            case Map():
                return self._map(operator, wanted)
            case Union():
                return self._union(operator, wanted)
            case Aggregate():
                return self._above(operator, grouped(operator))
            case Normalize():
                return self._normalize(operator, wanted)
            case Join():
                return self._join(operator, wanted)
            case Flatten():
                return self._above(operator, computed((), operator.array) | wanted)
            case Repeat():
                return self._above(operator, computed((), operator.times) | wanted)
            case Bound():
                return self._bound(operator, wanted)
            case Pick() | Rank() | Recompute() | Arrange():  # any column may decide what it gives
                return msgspec.structs.replace(operator, input=self._whole(operator.input))

    def _above(self, operator: Aggregate | Flatten | Repeat, names: set[str]) -> Operator:
        return msgspec.structs.replace(operator, input=self.of(operator.input, names))

    def _whole(self, operator: Operator) -> Operator:
        return self.of(operator, {column.name for column in columns_of(operator)})

    def _map(self, operator: Map, wanted: set[str]) -> Operator:
        """Return a projection with the outputs that are used, and those that say which rows overwrite each other."""
        if not any(isinstance(below, Stateful | Use) for below in walk(operator)):
            return operator
        wanted = wanted | set(key_of(operator))
        outputs = tuple(each for each in operator.outputs if each.name in wanted) or operator.outputs[:1]
        used = computed(outputs, operator.where)
        below = self.of(operator.input, used if outputs else used | wanted)
        return msgspec.structs.replace(operator, input=below, outputs=outputs)

    def _union(self, union: Union, wanted: set[str]) -> Union:
        """Return a union of the columns that are used, where joins are below and all inputs call columns alike."""
        names = [column.name for column in columns_of(union)]
        alike = all([column.name for column in columns_of(each)] == names for each in union.inputs)
        if not alike or wanted >= set(names) or not any(isinstance(below, Join) for below in walk(union)):
            return Union(tuple(map(self._whole, union.inputs)), union.change)
        kept = [name for name in names if name in wanted] or names[:1]
        return Union(tuple(self.of(_chosen(each, kept), set(kept)) for each in union.inputs), union.change)

    def _normalize(self, operator: Normalize, wanted: set[str]) -> Operator:
        columns = [column.name for column in columns_of(operator.input)]
        kept = tuple(name for name in columns if name in wanted or name in operator.key)
        given = self.of(operator.input, set(kept))
        left = len(columns_of(given)) > len(kept)
        return msgspec.structs.replace(operator, input=given, kept=kept if left else ())

    def _join(self, operator: Join, wanted: set[str]) -> Operator:
        compared = set() if operator.compared is None else {operator.compared.left, operator.compared.right}
        asked = wanted | compared
        left, right = (tuple(each for each in side.kept if each in asked) for side in (operator.left, operator.right))
        if not left and not right:  # rows without any column would be none
            left = operator.left.kept[:1]
            right = operator.right.kept[:1] if not left else ()
        sides = self._side(operator.left, left), self._side(operator.right, right)
        return msgspec.structs.replace(operator, left=sides[0], right=sides[1])

    def _bound(self, operator: Bound, wanted: set[str]) -> Operator:
        # rows without any column would be none
        kept = tuple(name for name in operator.kept if name in wanted) or operator.kept[:1]
        bound, below = msgspec.structs.replace(operator, kept=kept), operator.input
        if isinstance(below, Map):
            outputs = tuple(each for each in below.outputs if each.name in taken(bound))
            below = msgspec.structs.replace(below, outputs=outputs)
        return msgspec.structs.replace(bound, input=self.of(below, taken(bound)))

    def _side(self, side: Side, kept: tuple[str, ...]) -> Side:
        left = msgspec.structs.replace(side, kept=kept)
        return msgspec.structs.replace(left, input=self.of(side.input, fed(left)))


def _chosen(operator: Operator, names: Sequence[str]) -> Map:
    """Return just these columns, in this order."""
    columns = {column.name: column for column in columns_of(operator)}
    if isinstance(operator, Map) and operator.outputs:
        given = {output.name: output for output in operator.outputs}
        return msgspec.structs.replace(operator, outputs=tuple(given[name] for name in names))
    outputs = tuple(
        Output(name, Reference(name, parse_type(columns[name].type), columns[name].nullable)) for name in names
    )
    if isinstance(operator, Map):
        return msgspec.structs.replace(operator, outputs=outputs)
    return Map(operator, outputs)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Collect the columns that are read; `used` has those of what is shared."""

    found: dict[str, frozenset[str]] = field(default_factory=dict)
    used: dict[str, frozenset[str]] = field(default_factory=dict)

    def take(self, operator: Operator, wanted: frozenset[str]) -> None:
        match operator:
            case Read():
                # rows without any column would be none
                own = wanted | frozenset(operator.key) or frozenset([operator.columns[0].name])
                self.found[operator.source] = self.found.get(operator.source, frozenset()) | own
            case Use():
                self.used[operator.name] = self.used.get(operator.name, frozenset()) | wanted
            case Map():
                used = computed(operator.outputs, operator.where)
                self.take(operator.input, frozenset(used if operator.outputs else used | wanted))
            case Aggregate():
                self.take(operator.input, frozenset(grouped(operator)))
            case Normalize():
                self.take(operator.input, frozenset(each.name for each in operator.columns))
            case Join():
                for side in (operator.left, operator.right):
                    self.take(side.input, frozenset(fed(side)))
            case Flatten():
                self.take(operator.input, frozenset(computed((), operator.array) | wanted))
            case Repeat():
                self.take(operator.input, frozenset(computed((), operator.times) | wanted))
            case Rank() | Recompute() | Bound():
                self.take(operator.input, frozenset(taken(operator)))
            case Union() | Stateful():
                for each in operator.inputs:
                    self.take(each, frozenset(column.name for column in columns_of(each)))


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
    return {node.name for node in expression_walk(expression) if isinstance(node, Reference)}
