"""Lower ranks, windows and collected groups of a view to operators over inputs with computed columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sinkql import logical, physical
from sinkql.logical.type import INTEGER
from sinkql.lowering.context import Context

Compute = Callable[[str, logical.Expression], physical.Output]
"""A function that computes a named column from an expression."""
_NAME = "$c{}"


@dataclass(slots=True)
class _Columns:
    """The columns of an input, and computed columns behind them."""

    below: physical.Operator
    compute: Compute
    added: dict[logical.Expression, physical.Output] = field(default_factory=dict)

    def name(self, expression: logical.Expression) -> str:
        """Return the column that holds an expression's value."""
        if isinstance(expression, logical.Reference):
            return expression.name
        if expression not in self.added:
            names = {column.name for column in physical.columns_of(self.below)}
            names |= {output.name for output in self.added.values()}
            number = len(self.added)
            while _NAME.format(number) in names:
                number += 1
            self.added[expression] = self.compute(_NAME.format(number), expression)
        return self.added[expression].name

    def names(self, expressions: Iterable[logical.Expression]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(self.name, expressions)))

    def order(self, order: Sequence[logical.Sort]) -> tuple[physical.Order, ...]:
        return tuple(physical.Order(self.name(term.expression), term.descending, term.nulls_first) for term in order)

    def with_computed(self) -> physical.Operator:
        """Return the input with the computed columns."""
        if not self.added:
            return self.below
        columns = tuple(_pass_column(column) for column in physical.columns_of(self.below))
        return physical.Map(self.below, (*columns, *self.added.values()))

    def without(self, above: physical.Operator) -> physical.Operator:
        """Return an operator above the input without the computed columns."""
        names = {output.name for output in self.added.values()}
        if not names:
            return above
        return physical.Map(
            above, tuple(_pass_column(column) for column in physical.columns_of(above) if column.name not in names)
        )


def lower_rank(rank: logical.Rank, below: physical.Operator, context: Context, compute: Compute) -> physical.Operator:
    """Return the top rows of each partition.

    A single partition is split by hash into parts that are ranked in all buckets first; then their top rows are ranked
    together.
    """
    columns = _Columns(below, compute)
    partition, order = columns.names(rank.partition), columns.order(rank.order)
    input_ = columns.with_computed()
    function = cast(Any, rank.function)
    if not partition and rank.last is not None:
        input_ = physical.Rank(input_, context.arrangement(), (), order, function, 1, rank.last, None, True)
    ranked = physical.Rank(
        input_, context.arrangement(), partition, order, function, rank.first, rank.last, rank.number
    )
    return columns.without(ranked)


def lower_window(
    window: logical.Window, below: physical.Operator, context: Context, compute: Compute
) -> physical.Operator:
    """Return the rows with the results of window functions as last columns."""
    columns = _Columns(below, compute)
    partition = columns.names(window.partition)
    calls = tuple(_call(call, columns) for call in window.calls)
    return columns.without(physical.Recompute(columns.with_computed(), context.arrangement(), partition, calls))


def lower_collect(
    collect: logical.Collect, below: physical.Operator, context: Context, compute: Compute
) -> physical.Operator:
    """Return one row for each group, with aggregates over its rows in an order."""
    group = tuple(compute(output.name, output.expression) for output in collect.group)
    names = {output.name for output in group}
    arguments: dict[logical.Expression, physical.Output] = {}

    def named(expression: logical.Expression) -> str:
        if expression not in arguments:
            number = len(arguments)
            while _NAME.format(number) in names:
                number += 1
            arguments[expression] = compute(_NAME.format(number), expression)
            names.add(arguments[expression].name)
        return arguments[expression].name

    calls = tuple(_window_call(call, named) for call in collect.calls)
    outputs = (*group, *arguments.values()) or (physical.Output("$one", logical.literal(1, INTEGER)),)
    input_ = physical.Map(below, outputs)
    return physical.Recompute(input_, context.arrangement(), tuple(output.name for output in group), calls, True)


def _call(call: logical.WindowCall, columns: _Columns) -> physical.WindowCall:
    return _window_call(call, columns.name)


def _window_call(call: logical.WindowCall, named: Callable[[logical.Expression], str]) -> physical.WindowCall:
    order = tuple(physical.Order(named(term.expression), term.descending, term.nulls_first) for term in call.order)
    return physical.WindowCall(
        name=call.name,
        function=call.function,
        columns=tuple(map(named, call.arguments)),
        type=call.type,
        order=order,
        frame=None if call.frame is None else _frame(call.frame),
        distinct=call.distinct,
        constants=call.constants,
        nullable=call.nullable,
    )


def _frame(frame: logical.Frame) -> physical.Frame:
    start, end = (physical.FrameBound(end.offset) for end in (frame.start, frame.end))
    return physical.Frame(cast(Any, frame.unit), start, end, cast(Any, frame.exclude))


def _pass_column(column: physical.Column) -> physical.Output:
    return physical.Output(column.name, logical.Reference(column.name, column.type, column.nullable))
