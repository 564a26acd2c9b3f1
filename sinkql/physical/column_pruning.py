"""Find the columns that are used in a graph of operators, and remove other columns.

`narrowed` removes unused columns from state; a shared operator keeps the columns that any of its uses needs.

`Needed` finds what decides the wanted columns, for the plan hash: it drops unused columns and merges stacked
projections. No job runs in this form. Sources keep all columns up to the last needed one, since positions may have a
meaning. Its operators are inlined, without Use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from sinkql.logical.expression import Expression, Reference
from sinkql.logical.expression import walk as expression_walk
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
    """Return a graph whose columns `names` are used, in which state keeps no other columns."""
    narrow = _Narrowing()
    root = narrow.of(graph.root, set(names))
    shared: dict[str, Operator] = {}
    for name, operator in reversed(graph.shared.items()):  # reversed: users before the operators that they use
        shared[name] = narrow.of(operator, narrow.used.get(name, set()))
    refreshed: dict[str, Operator] = {}
    for name in graph.shared:
        refreshed[name] = _with_shared_columns(shared[name], refreshed)
    return Graph(_with_shared_columns(root, refreshed), refreshed)


def columns_read(graph: Graph, names: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return the used columns of each source, if `names` are the used columns of a graph."""
    reading = _Reading()
    reading.take(graph.root, frozenset(names))
    for name, operator in reversed(graph.shared.items()):
        reading.take(operator, reading.used.get(name, frozenset()))
    return reading.columns


def _with_shared_columns(operator: Operator, shared: Shared) -> Operator:
    """Return the operator with the present columns of shared operators."""
    if isinstance(operator, Use):
        return Use(operator.name, columns_of(shared[operator.name]), operator.change)
    return with_inputs(operator, [_with_shared_columns(input_, shared) for input_ in inputs_of(operator)])


@dataclass(frozen=True, slots=True)
class _Narrowing:
    """The narrowing of operators; `used` collects the columns that are needed of shared operators."""

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
            case Pick() | Rank() | Recompute() | Arrange():  # any column may affect the output
                return msgspec.structs.replace(operator, input=self._whole(operator.input))

    def _above(self, operator: Aggregate | Flatten | Repeat, names: set[str]) -> Operator:
        return msgspec.structs.replace(operator, input=self.of(operator.input, names))

    def _whole(self, operator: Operator) -> Operator:
        return self.of(operator, {column.name for column in columns_of(operator)})

    def _map(self, operator: Map, wanted: set[str]) -> Operator:
        """Return a projection with the used outputs and the columns of the key."""
        if not any(isinstance(below, Stateful | Use) for below in walk(operator)):
            return operator
        wanted = wanted | set(key_of(operator))
        outputs = tuple(output for output in operator.outputs if output.name in wanted) or operator.outputs[:1]
        used = computed(outputs, operator.where)
        below = self.of(operator.input, used if outputs else used | wanted)
        return msgspec.structs.replace(operator, input=below, outputs=outputs)

    def _union(self, union: Union, wanted: set[str]) -> Union:
        """Return a union of the used columns, if it has joins below and equal column names in all inputs."""
        names = [column.name for column in columns_of(union)]
        alike = all([column.name for column in columns_of(input_)] == names for input_ in union.inputs)
        if not alike or wanted >= set(names) or not any(isinstance(below, Join) for below in walk(union)):
            return Union(tuple(map(self._whole, union.inputs)), union.change)
        columns = [name for name in names if name in wanted] or names[:1]
        return Union(tuple(self.of(_select(input_, columns), set(columns)) for input_ in union.inputs), union.change)

    def _normalize(self, operator: Normalize, wanted: set[str]) -> Operator:
        columns = [column.name for column in columns_of(operator.input)]
        columns_ = tuple(name for name in columns if name in wanted or name in operator.key)
        input_ = self.of(operator.input, set(columns_))
        has_more = len(columns_of(input_)) > len(columns_)
        return msgspec.structs.replace(operator, input=input_, kept=columns_ if has_more else ())

    def _join(self, operator: Join, wanted: set[str]) -> Operator:
        compared = set() if operator.compared is None else {operator.compared.left, operator.compared.right}
        used = wanted | compared
        left, right = (tuple(name for name in side.kept if name in used) for side in (operator.left, operator.right))
        if not left and not right:  # a relation needs at least one column
            left = operator.left.kept[:1]
            right = operator.right.kept[:1] if not left else ()
        sides = self._side(operator.left, left), self._side(operator.right, right)
        return msgspec.structs.replace(operator, left=sides[0], right=sides[1])

    def _bound(self, operator: Bound, wanted: set[str]) -> Operator:
        # a relation needs at least one column
        columns = tuple(name for name in operator.kept if name in wanted) or operator.kept[:1]
        bound, below = msgspec.structs.replace(operator, kept=columns), operator.input
        if isinstance(below, Map):
            outputs = tuple(output for output in below.outputs if output.name in _used_columns(bound))
            below = msgspec.structs.replace(below, outputs=outputs)
        return msgspec.structs.replace(bound, input=self.of(below, _used_columns(bound)))

    def _side(self, side: Side, columns: tuple[str, ...]) -> Side:
        narrowed_ = msgspec.structs.replace(side, kept=columns)
        return msgspec.structs.replace(narrowed_, input=self.of(side.input, fed(narrowed_)))


def _select(operator: Operator, names: Sequence[str]) -> Map:
    """Return exactly these columns, in this order."""
    columns = {column.name: column for column in columns_of(operator)}
    if isinstance(operator, Map) and operator.outputs:
        by_name = {output.name: output for output in operator.outputs}
        return msgspec.structs.replace(operator, outputs=tuple(by_name[name] for name in names))
    outputs = tuple(Output(name, Reference(name, columns[name].type, columns[name].nullable)) for name in names)
    if isinstance(operator, Map):
        return msgspec.structs.replace(operator, outputs=outputs)
    return Map(operator, outputs)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The collection of columns that are read; `used` has the columns of shared operators."""

    columns: dict[str, frozenset[str]] = field(default_factory=dict)
    used: dict[str, frozenset[str]] = field(default_factory=dict)

    def take(self, operator: Operator, wanted: frozenset[str]) -> None:
        match operator:
            case Read():
                # a relation needs at least one column
                columns = wanted | frozenset(operator.key) or frozenset([operator.columns[0].name])
                self.columns[operator.source] = self.columns.get(operator.source, frozenset()) | columns
            case Use():
                self.used[operator.name] = self.used.get(operator.name, frozenset()) | wanted
            case Map():
                used = computed(operator.outputs, operator.where)
                self.take(operator.input, frozenset(used if operator.outputs else used | wanted))
            case Aggregate():
                self.take(operator.input, frozenset(grouped(operator)))
            case Normalize():
                self.take(operator.input, frozenset(column.name for column in operator.columns))
            case Join():
                for side in (operator.left, operator.right):
                    self.take(side.input, frozenset(fed(side)))
            case Flatten():
                self.take(operator.input, frozenset(computed((), operator.array) | wanted))
            case Repeat():
                self.take(operator.input, frozenset(computed((), operator.times) | wanted))
            case Rank() | Recompute() | Bound():
                self.take(operator.input, frozenset(_used_columns(operator)))
            case Union() | Stateful():
                for input_ in operator.inputs:
                    self.take(input_, frozenset(column.name for column in columns_of(input_)))


@dataclass(frozen=True, slots=True)
class Needed:
    """The operators that produce wanted columns, computed once for each shared operator."""

    _cache: dict[tuple[int, frozenset[str]], tuple[Operator, Operator]] = field(default_factory=dict)

    def of(self, operator: Operator, names: Iterable[str]) -> Operator:
        """Return the operators that produce the columns `names`, and possibly others."""
        wanted = frozenset(names)
        cached = self._cache.get((id(operator), wanted))
        if cached is None:  # the cache holds the operator, so no other object gets its id
            cached = self._cache[id(operator), wanted] = (operator, self._of(operator, set(wanted)))
        return cached[1]

    def chosen(self, operator: Operator, names: Sequence[str]) -> Operator:
        """Return exactly these columns, in this order."""
        columns = {column.name: column for column in columns_of(operator)}
        return self.of(Map(operator, tuple(_column_output(columns[name]) for name in names)), names)

    def _of(self, operator: Operator, wanted: set[str]) -> Operator:
        match operator:
            case Read():
                places = [place for place, column in enumerate(operator.columns, 1) if column.name in wanted]
                return msgspec.structs.replace(operator, columns=operator.columns[: max(places, default=0)])
            case Map():
                return self._map(operator, wanted)
            case Union():
                places = [place for place, column in enumerate(columns_of(operator)) if column.name in wanted]
                places = places or [0]  # a relation needs at least one column
                return Union(tuple(self._places(input_, places) for input_ in operator.inputs), operator.change)
            case Aggregate():
                return self._above(operator, grouped(operator))
            case Pick():  # any column may decide which row is picked
                return self._above(operator, [column.name for column in columns_of(operator.input)])
            case Normalize():  # all kept columns decide which rows are equal
                return self._above(operator, [column.name for column in operator.columns])
            case Flatten():
                return self._above(operator, computed((), operator.array) | wanted)
            case Repeat():
                return self._above(operator, computed((), operator.times) | wanted)
            case Rank() | Recompute() | Bound():
                return self._above(operator, _used_columns(operator))
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
        outputs = tuple(output for output in operator.outputs if output.name in wanted)
        used = computed(outputs, operator.where)
        below = self.of(operator.input, used if operator.outputs else used | wanted)
        if operator.where is not None or not isinstance(below, Map) or not _are_references(outputs):
            return _projection(below, outputs, operator.where)
        if below.outputs:
            by_name = {output.name: output.expression for output in below.outputs}
            outputs = tuple(_output(output, by_name) for output in outputs)
        return _projection(below.input, outputs or below.outputs, below.where)

    def _places(self, operator: Operator, places: Sequence[int]) -> Operator:
        """Return the columns at some positions; columns of a union's inputs correspond by position."""
        columns = columns_of(operator)
        return self.chosen(operator, [columns[place].name for place in places])


def _used_columns(operator: Rank | Recompute | Bound) -> set[str]:
    """Return the columns that an operator uses of its input."""
    match operator:
        case Bound():
            return {*operator.kept, *(name for name in (operator.begin, operator.end) if name is not None)}
        case Rank() | Recompute():  # any column may decide the order, or is in the output
            return {column.name for column in columns_of(operator.input)}


def sided(side: Side) -> set[str]:
    """Return the columns that a side of a join uses."""
    return {*side.key, *side.kept}


def fed(side: Side) -> set[str]:
    """Return the columns that a side's tasks get, including all columns of its index."""
    return sided(side) | set(side.index.columns if side.index is not None else ())


def grouped(operator: Aggregate) -> set[str]:
    """Return the columns that an aggregate uses."""
    return {column.name for column in operator.group} | {call.column for call in operator.calls if call.column}


def computed(outputs: Iterable[Output], *others: Output | None) -> set[str]:
    """Return the columns that a projection uses, with its filter and further expressions."""
    expressions = [output.expression for output in (*outputs, *(other for other in others if other is not None))]
    return {name for expression in expressions for name in _references(expression)}


def _projection(below: Operator, outputs: tuple[Output, ...], where: Output | None) -> Operator:
    """Return a filter and a projection of `below`, without steps that have no effect."""
    names = [column.name for column in columns_of(below)]
    if names == [output.name for output in outputs] == [_reference(output) for output in outputs]:
        outputs = ()
    return Map(below, outputs, where) if outputs or where is not None else below


def _column_output(column: Column) -> Output:
    return Output(column.name, Reference(column.name, column.type, column.nullable))


def _are_references(outputs: Iterable[Output]) -> bool:
    return all(isinstance(output.expression, Reference) for output in outputs)


def _output(output: Output, by_name: dict[str, Expression]) -> Output:
    return Output(output.name, by_name[output.column])


def _reference(output: Output) -> str | None:
    return output.expression.name if isinstance(output.expression, Reference) else None


def _references(expression: Expression) -> set[str]:
    return {node.name for node in expression_walk(expression) if isinstance(node, Reference)}
