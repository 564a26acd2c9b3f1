"""Ranks, windows and collected groups of a view → operators over inputs that have the columns they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sinkql import logical, physical
from sinkql.logical.type import INTEGER, parse_type
from sinkql.lowering.context import Context

Compute = Callable[[str, logical.Expression], physical.Output]
"""A name and an expression → the column that has it."""
_NAME = "$c{}"


@dataclass(slots=True)
class _Columns:
    """The columns of an input, and those that are computed behind them."""

    below: physical.Operator
    compute: Compute
    added: dict[logical.Expression, physical.Output] = field(default_factory=dict)

    def name(self, expression: logical.Expression) -> str:
        """Return the column that has an expression's value."""
        if isinstance(expression, logical.Reference):
            return expression.name
        if expression not in self.added:
            known = {each.name for each in physical.columns_of(self.below)}
            known |= {each.name for each in self.added.values()}
            number = len(self.added)
            while _NAME.format(number) in known:
                number += 1
            self.added[expression] = self.compute(_NAME.format(number), expression)
        return self.added[expression].name

    def names(self, expressions: Iterable[logical.Expression]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(self.name, expressions)))

    def order(self, order: Sequence[logical.Sort]) -> tuple[physical.Order, ...]:
        return tuple(physical.Order(self.name(each.expression), each.descending, each.nulls_first) for each in order)

    def given(self) -> physical.Operator:
        """Return the input with what is computed."""
        if not self.added:
            return self.below
        kept = tuple(_same(column) for column in physical.columns_of(self.below))
        return physical.Map(self.below, (*kept, *self.added.values()))

    def without(self, above: physical.Operator) -> physical.Operator:
        """Return what stands above the input without what was computed for it."""
        names = {each.name for each in self.added.values()}
        if not names:
            return above
        return physical.Map(above, tuple(_same(each) for each in physical.columns_of(above) if each.name not in names))


def lower_rank(rank: logical.Rank, below: physical.Operator, context: Context, compute: Compute) -> physical.Operator:
    """Return the first rows of each partition.

    Of one partition parts are ranked alone, in all buckets, and what is first in these together.
    """
    columns = _Columns(below, compute)
    partition, order = columns.names(rank.partition), columns.order(rank.order)
    given = columns.given()
    function = cast(Any, rank.function)
    if not partition and rank.last is not None:
        given = physical.Rank(given, context.arrangement(), (), order, function, 1, rank.last, None, True)
    found = physical.Rank(given, context.arrangement(), partition, order, function, rank.first, rank.last, rank.number)
    return columns.without(found)


def lower_window(
    window: logical.Window, below: physical.Operator, context: Context, compute: Compute
) -> physical.Operator:
    """Return the rows with window functions behind them."""
    columns = _Columns(below, compute)
    partition = columns.names(window.partition)
    calls = tuple(_call(each, columns) for each in window.calls)
    return columns.without(physical.Recompute(columns.given(), context.arrangement(), partition, calls))


def lower_collect(
    collect: logical.Collect, below: physical.Operator, context: Context, compute: Compute
) -> physical.Operator:
    """Return a row a group, with aggregates of its rows in an order."""
    group = tuple(compute(each.name, each.expression) for each in collect.group)
    names = {each.name for each in group}
    arguments: dict[logical.Expression, physical.Output] = {}

    def named(expression: logical.Expression) -> str:
        if expression not in arguments:
            number = len(arguments)
            while _NAME.format(number) in names:
                number += 1
            arguments[expression] = compute(_NAME.format(number), expression)
            names.add(arguments[expression].name)
        return arguments[expression].name

    calls = tuple(_called(each, named) for each in collect.calls)
    outputs = (*group, *arguments.values()) or (physical.Output("$one", logical.literal(1, INTEGER)),)
    given = physical.Map(below, outputs)
    return physical.Recompute(given, context.arrangement(), tuple(each.name for each in group), calls, True)


def _call(call: logical.WindowCall, columns: _Columns) -> physical.WindowCall:
    return _called(call, columns.name)


def _called(call: logical.WindowCall, named: Callable[[logical.Expression], str]) -> physical.WindowCall:
    order = tuple(physical.Order(named(each.expression), each.descending, each.nulls_first) for each in call.order)
    return physical.WindowCall(
        name=call.name,
        function=call.function,
        columns=tuple(map(named, call.arguments)),
        type=str(call.type),
        order=order,
        frame=None if call.frame is None else _frame(call.frame),
        distinct=call.distinct,
        constants=call.constants,
        nullable=call.nullable,
    )


def _frame(frame: logical.Frame) -> physical.Frame:
    start, end = (physical.FrameBound(each.offset) for each in (frame.start, frame.end))
    return physical.Frame(cast(Any, frame.unit), start, end, cast(Any, frame.exclude))


def _same(column: physical.Column) -> physical.Output:
    return physical.Output(column.name, logical.Reference(column.name, parse_type(column.type), column.nullable))
