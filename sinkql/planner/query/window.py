"""Window functions of a SELECT → calls over the partitions of its rows, and columns that hold what they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical import Change, Type
from sinkql.planner import types
from sinkql.planner.expression import operator as operators
from sinkql.planner.expression.interval import held
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed, alike_narrowed, column, narrowed, settled
from sinkql.planner.function import call as functions
from sinkql.planner.query import frame as frames
from sinkql.planner.query import join as joins
from sinkql.planner.query.aggregate import ordered_aggregate, variance
from sinkql.planner.query.aggregate.aggregate import Calls, GroupContext
from sinkql.planner.query.expression_context import Translation
from sinkql.planner.query.order_by import sort
from sinkql.planner.query.relation import check_group
from sinkql.planner.query.scope import identifier
from sinkql.planner.query.translate import Translator
from sinkql.planner.syntax.sqlglot_tree import Syntax

_NUMBERS: Mapping[str, Type] = {
    "row_number": types.BIGINT, "rank": types.BIGINT, "dense_rank": types.BIGINT, "percent_rank": types.DOUBLE,
    "cume_dist": types.DOUBLE, "ntile": types.INTEGER,
}  # fmt: skip
"""Functions of where a row is among those of its partition, with their types."""
_RANKS = ("row_number", "rank", "dense_rank")
_BESIDE = ("lag", "lead")
_IN_FRAME = ("first_value", "last_value", "nth_value")
_NAME = "$w{}"


@dataclass(frozen=True, slots=True)
class _Over:
    """What stands behind OVER, with the windows that it names put in."""

    partition: tuple[logical.Expression, ...]
    order: tuple[logical.Sort, ...]
    frame: logical.Frame | None


@dataclass(frozen=True, slots=True)
class _Definition:
    """A window as it is written: what it adds to the one that it begins from is there already."""

    partition: Sequence[Any] = ()
    order: Any = None
    spec: Any = None


@dataclass
class Windows:
    """Collect the window calls of one SELECT, each once; `names` are those that columns have below them.

    `scaled` tells whether numerics have the scale that Postgres shows, where it is known.
    """

    syntax: Syntax
    select: Any
    names: set[str]
    scaled: bool
    wanted: str | None = None
    found: list[tuple[tuple[logical.Expression, ...], logical.WindowCall]] = field(default_factory=list)

    def call(self, t: Translation, node: Any) -> Typed:
        """Return the column that holds what a window function gives."""
        t.only(node, "this", "partition_by", "order", "spec", "alias", "over")
        function, filter_ = node.this, None
        if isinstance(function, exp.Filter):
            function, filter_ = function.this, function.expression.this
        span = t.span(node)
        if isinstance(function, exp.WithinGroup):
            hint = "Compute it by GROUP BY in a subquery in FROM, and join this."
            raise SinkqlError("SQ2211", "OVER is not allowed behind WITHIN GROUP", span, hint=hint)
        if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
            word = "IGNORE" if isinstance(function, exp.IgnoreNulls) else "RESPECT"
            raise SinkqlError("SQ2215", f"{word} NULLS is not supported", span)
        if not isinstance(function, exp.Anonymous):
            raise SinkqlError("SQ2211", "OVER is only allowed after a window function or an aggregate", span)
        nested = next((each for part in function.expressions for each in part.find_all(exp.Window)), None)
        if nested is not None:
            message = "window function calls cannot be nested"
            raise SinkqlError("SQ2216", message, t.span(nested), hint="Compute the inner one in a subquery in FROM.")
        over = self._over(t, self._definition(t, node))
        name = str(function.this).lower()
        if name in (*ordered_aggregate.NAMES, *variance.NAMES):
            raise SinkqlError("SQ2932", f"aggregate {name}() over a window is not supported yet", span)
        if name in functions.AGGREGATES and name != "grouping":
            return self._aggregate(t, function, span, filter_, over)
        if filter_ is not None:
            message = f"FILTER is not allowed with {name}(): it is no aggregate"
            hint = "Use CASE WHEN … THEN … END as the argument." if function.expressions else "Leave out FILTER (…)."
            raise SinkqlError("SQ2211", message, span, hint=hint)
        if name in functions.UNSUPPORTED_AGGREGATES:
            raise SinkqlError("SQ2932", f"aggregate {name}() over a window is not supported yet", span)
        return _Function(self, t, name, function.expressions, span, over).plan()

    def add(
        self,
        over: _Over,
        function: str,
        arguments: Sequence[Typed],
        type_: Type,
        span: Span,
        *,
        constants: tuple[str, ...] = (),
        nullable: bool = True,
    ) -> Typed:
        """Return the column that holds a call's result."""
        trees = tuple(settled(each) for each in arguments)
        call = logical.WindowCall(
            "", function, trees, type_, over.order, over.frame, constants=constants, nullable=nullable, span=span
        )
        for partition, known in self.found:
            if partition == over.partition and replace(known, name="") == call:
                return column(known.name, type_, nullable=nullable, span=span)
        call = replace(call, name=self._name())
        self.found.append((over.partition, call))
        return column(call.name, type_, nullable=nullable, span=span)

    def above(self, relation: logical.Relation) -> logical.Relation:
        """Put the calls above a relation, those of one partition in one step."""
        partitions = list(dict.fromkeys(partition for partition, _ in self.found))
        for partition in partitions:
            calls = tuple(call for own, call in self.found if own == partition)
            relation = logical.Window(relation, partition, calls, _shape(relation.shape, partition, calls))
        return relation

    def _name(self) -> str:
        wanted, self.wanted = self.wanted, None
        if wanted is None or wanted in self.names:
            number = 1
            while _NAME.format(number) in self.names:
                number += 1
            wanted = _NAME.format(number)
        self.names.add(wanted)
        return wanted

    def _definition(self, t: Translation, node: Any, waiting: tuple[str, ...] = ()) -> _Definition:
        """Return what a window says, together with the one that it begins from."""
        own = _Definition(node.args.get("partition_by") or (), node.args.get("order"), node.args.get("spec"))
        if node.args.get("alias") is None:
            return own
        name, span = identifier(node.args["alias"]), t.span(node.args["alias"])
        known = self.select.args.get("windows") or ()
        found = next((each for each in known if identifier(each.this) == name), None)
        if found is None or name in waiting:
            names = ", ".join(identifier(each.this) for each in known if identifier(each.this) not in waiting)
            hint = f"The windows are {names}." if names else f"Write WINDOW {name} AS (…) behind FROM and WHERE."
            raise SinkqlError("SQ2243", f'window "{name}" does not exist', span, hint=hint)
        base = self._definition(t, found, (*waiting, name))
        if own.partition:
            raise SinkqlError("SQ2243", f'cannot override PARTITION BY of window "{name}"', span)
        if own.order is not None and base.order is not None:
            raise SinkqlError("SQ2243", f'cannot override ORDER BY of window "{name}"', span)
        if base.spec is not None and (own.order is not None or own.spec is not None):
            raise SinkqlError("SQ2243", f'cannot copy window "{name}" because it has a frame', span)
        return _Definition(base.partition, own.order or base.order, own.spec or base.spec)

    def _over(self, t: Translation, written: _Definition) -> _Over:
        partition: dict[logical.Expression, None] = {}
        for node in written.partition:
            value = _known(t, node)
            check_group(value.type, value.span, "PARTITION BY")
            partition.setdefault(settled(value))
        terms = written.order.expressions if written.order is not None else ()
        values = [_known(t, term.this) for term in terms]
        order = tuple(sort(value, term) for value, term in zip(values, terms, strict=True))
        return _Over(tuple(partition), order, frames.planned(t, written.spec, values))

    def _aggregate(self, t: Translation, function: Any, span: Span, filter_: Any, over: _Over) -> Typed:
        assert isinstance(t, Translator)
        return _OverContext(t, _WindowCalls(self, over)).aggregate(function, span, filter_)


def _known(t: Translation, node: Any) -> Typed:
    value = t.translate(node)
    return coerced(value, types.TEXT) if value.type == types.UNKNOWN else value


def _shape(
    shape: logical.Shape, partition: Sequence[logical.Expression], calls: Sequence[logical.WindowCall]
) -> logical.Shape:
    """Return what is known of rows with calls behind them: a row_number is a key within its partition."""
    columns = tuple(logical.Column(each.name, each.type, each.nullable) for each in calls)
    by = {each.name for each in partition if isinstance(each, logical.Reference)}
    numbers = [each.name for each in calls if each.function == "row_number"] if len(by) == len(partition) else []
    keys = tuple(frozenset({*by, name}) for name in numbers)
    return logical.Shape((*shape.columns, *columns), (*shape.keys, *keys), Change.RETRACT)


class _OverContext(GroupContext):
    """Plan an aggregate over a window as it is planned over a group."""

    def __init__(self, t: Translator, calls: Calls) -> None:
        self.rows = t
        self.calls = calls


class _WindowCalls(Calls):
    """What an aggregate over a window is computed from: calls over its frames."""

    def __init__(self, windows: Windows, over: _Over) -> None:
        super().__init__(set(), retracts=False, grouped=False, scaled=windows.scaled)
        self._windows, self._over = windows, over
        self.wanted = windows.wanted

    def add(self, function: str, argument: Typed | None, type_: Type, span: Span, *, distinct: bool = False) -> Typed:
        if distinct:
            hint = "Take the DISTINCT rows in a subquery in FROM first."
            raise SinkqlError("SQ2211", "DISTINCT is not allowed in window functions", span, hint=hint)
        if self.wanted is None:
            self._windows.wanted = None
        arguments = () if argument is None else (argument,)
        return self._windows.add(self._over, function, arguments, type_, span, nullable=function != "count")

    def collect(self, call: logical.WindowCall, span: Span) -> Typed:
        message = f"an aggregate of {call.type.called} over a window is not supported yet"
        raise SinkqlError("SQ2932", message, span, hint="Compute it by GROUP BY in a subquery in FROM, and join this.")


@dataclass(frozen=True, slots=True)
class _Function:
    """A function that is only allowed over windows."""

    windows: Windows
    t: Translation
    name: str
    arguments: Sequence[Any]
    span: Span
    over: _Over

    def plan(self) -> Typed:
        if self.name in _NUMBERS:
            self._takes(1 if self.name == "ntile" else 0)
            counts, constants = self._count(self.arguments[0], 1) if self.arguments else ((), ())
            whole = replace(self.over, frame=None)
            type_, nullable = _NUMBERS[self.name], any(each.nullable for each in counts)
            return self.windows.add(whole, self.name, counts, type_, self.span, constants=constants, nullable=nullable)
        if self.name in _BESIDE:
            return self._beside()
        if self.name in _IN_FRAME:
            nth = self.name == "nth_value"
            self._takes(2 if nth else 1)
            value = self._value(self.arguments[0])
            counts, constants = self._count(self.arguments[1], 1) if nth else ((), ())
            return self._add(self.over, (value, *counts), constants)
        functions.check(self.name, self.span, len(self.arguments))
        message = f"{self.name}() is not a window function nor an aggregate, so OVER is not allowed"
        raise SinkqlError("SQ2211", message, self.span, hint="Leave out OVER (…).")

    def _beside(self) -> Typed:
        self._takes(1, 3)
        value, *more = self.arguments
        offsets, constants = self._count(more[0], None) if more else ((), ("1",))
        values = [self._value(value)]
        if len(more) > 1:
            _, typed = operators.settled([values[0], self.t.translate(more[1])], self.span, f"{self.name}()")
            if self.windows.scaled:
                typed = alike_narrowed(typed)
            values = list(typed[:1] if typed[1].null else typed)
        return self._add(replace(self.over, frame=None), (values[0], *offsets, *values[1:]), constants)

    def _add(self, over: _Over, values: Sequence[Typed], constants: tuple[str, ...]) -> Typed:
        if self.windows.scaled:
            values = [narrowed(values[0]), *values[1:]]
        type_ = settled(values[0]).type
        return self.windows.add(over, self.name, values, type_, self.span, constants=constants)

    def _value(self, node: Any) -> Typed:
        value = _known(self.t, node)
        return held(value) if value.type == types.INTERVAL else value

    def _takes(self, least: int, most: int | None = None) -> None:
        found = len(self.arguments)
        if least <= found <= (most or least):
            return
        count = f"{least} to {most} arguments" if most else _counted(least)
        raise SinkqlError("SQ2211", f"{self.name}() takes {count}, found {found}", self.span)

    def _count(self, node: Any, least: int | None) -> tuple[tuple[Typed, ...], tuple[str, ...]]:
        """Return a number of rows or parts: as an argument, or as a constant if it is the same for all rows."""
        value = self.t.translate(node)
        if not joins.references(value.tree):
            return (), (self._whole(value, least),)
        if value.type not in (types.SMALLINT, types.INTEGER):
            message = f"{self.name}() takes an integer here, found {value.type}"
            hint = (
                f"Write CAST({self.windows.syntax.written(node)} AS integer)."
                if value.type == types.BIGINT
                else "Write an integer."
            )
            raise SinkqlError("SQ2211", message, value.span, hint=hint)
        return (value,), ()

    def _whole(self, value: Typed, least: int | None) -> str:
        constant = value.constant
        if not isinstance(constant, int) or isinstance(constant, bool) or (least is not None and constant < least):
            message = f"{self.name}() takes a whole number here"
            if least is not None:
                message += ", 1 or more"
            raise SinkqlError("SQ2211", message, value.span, hint="Write a number, such as 1.")
        return str(constant)


def _counted(number: int) -> str:
    return "no arguments" if not number else f"{number} argument{'s' * (number > 1)}"
