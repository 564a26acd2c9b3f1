"""Compute the rows of a relation from the rows of the items that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

from sinkql import logical
from sinkql.errors import SinkqlError
from sinkql.evaluate.expression import function_of
from sinkql.evaluate.failure import EvaluationError, Row, Value
from sinkql.evaluate.number import EXACT, fit, whole
from sinkql.evaluate.operator import comparable, order_key
from sinkql.logical.numeric_type import RANGES
from sinkql.machine import clock

Read = Callable[[str], Iterable[Row]]
"""Returns the rows of an item by its full name."""
Run = Callable[[Read], Iterable[Row]]
"""Computes the rows of a relation; asks for the rows of each item one after another."""


def rows_of(relation: logical.Relation, catalog: logical.CatalogReader) -> Run | None:
    """Return a function that computes the rows of a relation over items of a catalog; None if it needs an engine.

    The function raises SQ3201 if an expression fails for a row, NotEvaluableError if an engine must compute the rows.
    """
    match relation:
        case logical.Get():
            return _get(relation, catalog)
        case logical.Project():
            return _project(relation, catalog)
        case logical.Filter():
            return _filter(relation, catalog)
        case logical.Aggregate():
            return _aggregate(relation, catalog)
        case logical.Union():
            return _union(relation, catalog)
        case logical.Join():
            return _join(relation, catalog)
        case logical.Flatten():
            return _flatten(relation, catalog)
        case logical.Repeat():
            return _repeat(relation, catalog)
        case logical.Bound():
            return _bound(relation, catalog)
        case logical.Rank() | logical.Window() | logical.Collect():
            return None


def _get(relation: logical.Get, catalog: logical.CatalogReader) -> Run | None:
    name = relation.item
    if name == logical.ONE.item:
        return lambda read: [()]
    item = catalog.item(name)
    return rows_of(item.relation, catalog) if isinstance(item, logical.View) else lambda read: read(name)


def _values(expressions: Iterable[logical.Expression], below: logical.Relation) -> list[Value] | None:
    columns = [column.name for column in below.shape.columns]
    values = [function_of(expression, columns) for expression in expressions]
    complete = [value for value in values if value is not None]
    return complete if len(complete) == len(values) else None


def _project(relation: logical.Project, catalog: logical.CatalogReader) -> Run | None:
    below = rows_of(relation.input, catalog)
    values = _values((output.expression for output in relation.outputs), relation.input)
    if below is None or values is None:
        return None
    return lambda read: (tuple(value(row) for value in values) for row in below(read))


def _filter(relation: logical.Filter, catalog: logical.CatalogReader) -> Run | None:
    below = rows_of(relation.input, catalog)
    values = _values((relation.predicate,), relation.input)
    if below is None or values is None:
        return None
    (keep,) = values
    return lambda read: (row for row in below(read) if keep(row))


def _union(relation: logical.Union, catalog: logical.CatalogReader) -> Run | None:
    inputs = [rows_of(input_, catalog) for input_ in relation.inputs]
    runs = [input_ for input_ in inputs if input_ is not None]
    if len(runs) < len(inputs):
        return None
    return lambda read: (row for run in runs for row in run(read))


def _flatten(relation: logical.Flatten, catalog: logical.CatalogReader) -> Run | None:
    below = rows_of(relation.input, catalog)
    values = _values((relation.array,), relation.input)
    if below is None or values is None:
        return None
    (array,) = values

    def elements(row: Row) -> list[Row]:
        rows: list[Row] = [(element, place) for place, element in enumerate(array(row) or (), 1)]
        return rows or ([(None, None)] if relation.outer else [])

    width = 2 if relation.ordinality else 1
    return lambda read: ((*row, *element[:width]) for row in below(read) for element in elements(row))


def _repeat(relation: logical.Repeat, catalog: logical.CatalogReader) -> Run | None:
    below = rows_of(relation.input, catalog)
    values = _values((relation.times,), relation.input)
    if below is None or values is None:
        return None
    (times,) = values
    return lambda read: (row for row in below(read) for _ in range(times(row)))


def _join(join: logical.Join, catalog: logical.CatalogReader) -> Run | None:
    kind = join.kind
    left, right = rows_of(join.left, catalog), rows_of(join.right, catalog)
    keys = [(_values((key.left,), join.left), _values((key.right,), join.right), key.safe) for key in join.keys]
    both = [column.name for side in (join.left, join.right) for column in side.shape.columns]
    residual = None if join.residual is None else function_of(join.residual, both)
    if left is None or right is None or (residual is None) != (join.residual is None):
        return None
    key_values = [(one[0], other[0], safe) for one, other, safe in keys if one is not None and other is not None]
    if len(key_values) < len(keys):
        return None
    widths = [len(side.shape.columns) for side in (join.left, join.right)]

    def run(read: Read) -> list[Row]:
        rows, others = left(read), list(right(read))
        places: dict[Row, list[int]] = {}
        for place, row in enumerate(others):
            key = _key([(value, safe) for _, value, safe in key_values], row)
            if key is not None:
                places.setdefault(key, []).append(place)
        matched: set[int] = set()
        joined: list[Row] = []
        for row in rows:
            key = _key([(value, safe) for value, _, safe in key_values], row)
            met = places.get(key, []) if key is not None else []
            met = [place for place in met if residual is None or residual((*row, *others[place]))]
            matched.update(met)
            if kind in (logical.JoinKind.SEMI, logical.JoinKind.ANTI):
                joined += [row] if bool(met) == (kind is logical.JoinKind.SEMI) else []
                continue
            joined += [(*row, *others[place]) for place in met]
            if not met and kind in (logical.JoinKind.LEFT, logical.JoinKind.FULL):
                joined.append((*row, *(None,) * widths[1]))
        if kind in (logical.JoinKind.RIGHT, logical.JoinKind.FULL):
            joined += [((*(None,) * widths[0], *row)) for place, row in enumerate(others) if place not in matched]
        return joined

    return run


def _key(values: Sequence[tuple[Value, bool]], row: Row) -> Row | None:
    """Return the join key of a row; None if a NULL in it equals nothing."""
    parts = [(value(row), safe) for value, safe in values]
    if any(part is None and not safe for part, safe in parts):
        return None
    return tuple(comparable(part) for part, _ in parts)


def _bound(relation: logical.Bound, catalog: logical.CatalogReader) -> Run | None:
    """Return a function that computes the visible rows at the present time."""
    below = rows_of(relation.input, catalog)
    begins = _values([relation.begin] if relation.begin is not None else [], relation.input)
    ends = _values([relation.end] if relation.end is not None else [], relation.input)
    if below is None or begins is None or ends is None:
        return None

    def run(read: Read) -> Iterable[Row]:
        now = clock.time_ms()
        come = (row for row in below(read) if all(begin(row) <= now for begin in begins))
        return (row for row in come if all(now < end(row) for end in ends))

    return run


# --- groups ----------------------------------------------------------------------------------------------------------


def _aggregate(relation: logical.Aggregate, catalog: logical.CatalogReader) -> Run | None:
    below = rows_of(relation.input, catalog)
    group = _values((output.expression for output in relation.group), relation.input)
    arguments = _values((call.argument for call in relation.calls if call.argument is not None), relation.input)
    totals = [_total(call) for call in relation.calls]
    known_totals = [total for total in totals if total is not None]
    if below is None or group is None or arguments is None or len(known_totals) < len(totals):
        return None
    remaining = iter(arguments)
    over = [next(remaining) if call.argument is not None else None for call in relation.calls]

    def run(read: Read) -> list[Row]:
        groups: dict[Row, tuple[Row, list[list[Any]]]] = {} if group else {(): ((), [[] for _ in over])}
        for row in below(read):
            values = tuple(value(row) for value in group)
            key = tuple(map(comparable, values))
            if key not in groups:
                groups[key] = (values, [[] for _ in over])
            for value, collected in zip(over, groups[key][1], strict=True):
                argument = True if value is None else value(row)  # count(*) counts all rows
                if argument is not None:
                    collected.append(argument)
        return [
            (*values, *(total(collected) for total, collected in zip(known_totals, all_taken, strict=True)))
            for values, all_taken in groups.values()
        ]

    return run


def _total(call: logical.AggregateCall) -> Callable[[list[Any]], Any] | None:
    aggregate = _over_all(call)
    if aggregate is None or not call.distinct:
        return aggregate
    return lambda values: aggregate(list({comparable(value): value for value in values}.values()))


def _over_all(call: logical.AggregateCall) -> Callable[[list[Any]], Any] | None:
    argument = call.argument
    if call.function == "count":
        return len
    if argument is None:
        return None
    if call.function == "sum":
        return _sum(call.type)
    key = order_key(argument.type)
    if key is None or call.function not in ("min", "max"):
        return None
    choose: Callable[..., Any] = min if call.function == "min" else max
    return lambda values: choose(values, key=key, default=None)


def _sum(type_: logical.Type) -> Callable[[list[Any]], Any] | None:
    if type_.name not in RANGES and type_.name != "numeric":
        return None  # the sum of floats depends on their order

    def add(values: list[Any]) -> Any:
        if not values:
            return None
        try:
            if type_.name in RANGES:
                return whole(int(sum(values)), type_.name)
            return fit(reduce(EXACT.add, values), type_)
        except EvaluationError as error:
            raise SinkqlError("SQ3201", str(error)) from None

    return add
