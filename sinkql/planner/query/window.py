"""Plan the window functions of a SELECT as calls over partitions of its rows, whose results are columns.

Also plans the frames of windows (ROWS, RANGE, GROUPS), and QUALIFY: a filter above the window functions that may use
the names of the select list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical import Change, Interval, Type
from sinkql.planner import types
from sinkql.planner.expression import operator as operators
from sinkql.planner.expression.literal import coerced, held
from sinkql.planner.expression.typed_expression import Typed, alike_narrowed, column, narrowed, settled
from sinkql.planner.function import call as functions
from sinkql.planner.query import join as joins
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query.aggregate import aggregate, ordered_aggregate
from sinkql.planner.query.aggregate.aggregate import Calls, GroupContext
from sinkql.planner.query.expression_context import Context, Translation
from sinkql.planner.query.order_by import sort
from sinkql.planner.query.relation import check_group
from sinkql.planner.query.scope import Scope, identifier, qualifier
from sinkql.planner.query.translate import Translator
from sinkql.planner.syntax.sqlglot_tree import Syntax

_NUMBERS: Mapping[str, Type] = {
    "row_number": types.BIGINT, "rank": types.BIGINT, "dense_rank": types.BIGINT, "percent_rank": types.DOUBLE,
    "cume_dist": types.DOUBLE, "ntile": types.INTEGER,
}  # fmt: skip
"""Functions of a row's position in its partition, with their types."""
_RANKS = ("row_number", "rank", "dense_rank")
_BESIDE = ("lag", "lead")
_IN_FRAME = ("first_value", "last_value", "nth_value")
_NAME = "$w{}"


@dataclass(frozen=True, slots=True)
class _Over:
    """An OVER clause with the named windows that it refers to filled in."""

    partition: tuple[logical.Expression, ...]
    order: tuple[logical.Sort, ...]
    frame: logical.Frame | None


@dataclass(frozen=True, slots=True)
class _Definition:
    """A window definition, combined with the window that it is based on."""

    partition: Sequence[Any] = ()
    order: Any = None
    spec: Any = None


@dataclass
class Windows:
    """The distinct window calls of one SELECT. `names` are the column names in use below them.

    If `scaled`, numerics have the scale that Postgres shows, if it is known.
    """

    syntax: Syntax
    select: Any
    names: set[str]
    scaled: bool
    wanted: str | None = None
    calls: list[tuple[tuple[logical.Expression, ...], logical.WindowCall]] = field(default_factory=list)

    def call(self, t: Translation, node: Any) -> Typed:
        """Return the column with the result of a window function."""
        t.only(node, "this", "partition_by", "order", "spec", "alias", "over")
        function, filter_ = node.this, None
        if isinstance(function, exp.Filter):
            function, filter_ = function.this, function.expression.this
        span = t.span(node)
        if isinstance(function, exp.WithinGroup):
            hint = "Compute it by GROUP BY in a subquery in FROM, and join the subquery."
            raise SinkqlError("SQ2211", "OVER is not allowed after WITHIN GROUP", span, hint=hint)
        if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
            word = "IGNORE" if isinstance(function, exp.IgnoreNulls) else "RESPECT"
            raise SinkqlError("SQ2215", f"{word} NULLS is not supported", span)
        if not isinstance(function, exp.Anonymous):
            raise SinkqlError("SQ2211", "OVER is only allowed after a window function or an aggregate", span)
        nested = next((window for part in function.expressions for window in part.find_all(exp.Window)), None)
        if nested is not None:
            message = "window function calls cannot be nested"
            raise SinkqlError("SQ2216", message, t.span(nested), hint="Compute the inner one in a subquery in FROM.")
        over = self._plan_over(t, self._definition(t, node))
        name = str(function.this).lower()
        if name in (*ordered_aggregate.NAMES, *aggregate.NAMES):
            raise SinkqlError("SQ2932", f"aggregate {name}() over a window is not supported yet", span)
        if name in functions.AGGREGATES and name != "grouping":
            return self._aggregate(t, function, span, filter_, over)
        if filter_ is not None:
            message = f"FILTER is not allowed with {name}(), which is not an aggregate"
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
        """Return the column with the result of a call."""
        trees = tuple(settled(argument) for argument in arguments)
        call = logical.WindowCall(
            "", function, trees, type_, over.order, over.frame, constants=constants, nullable=nullable, span=span
        )
        for partition, present in self.calls:
            if partition == over.partition and replace(present, name="") == call:
                return column(present.name, type_, nullable=nullable, span=span)
        call = replace(call, name=self._name())
        self.calls.append((over.partition, call))
        return column(call.name, type_, nullable=nullable, span=span)

    def above(self, relation: logical.Relation) -> logical.Relation:
        """Add the calls above a relation, all calls of one partition in one step."""
        partitions = list(dict.fromkeys(partition for partition, _ in self.calls))
        for partition in partitions:
            calls = tuple(call for key, call in self.calls if key == partition)
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
        """Return a window definition, combined with the window that it is based on."""
        definition = _Definition(node.args.get("partition_by") or (), node.args.get("order"), node.args.get("spec"))
        if node.args.get("alias") is None:
            return definition
        name, span = identifier(node.args["alias"]), t.span(node.args["alias"])
        named = self.select.args.get("windows") or ()
        base_node = next((window for window in named if identifier(window.this) == name), None)
        if base_node is None or name in waiting:
            names = ", ".join(identifier(window.this) for window in named if identifier(window.this) not in waiting)
            hint = f"The windows are {names}." if names else f"Write WINDOW {name} AS (…) after FROM and WHERE."
            raise SinkqlError("SQ2243", f'window "{name}" does not exist', span, hint=hint)
        base = self._definition(t, base_node, (*waiting, name))
        if definition.partition:
            raise SinkqlError("SQ2243", f'cannot override PARTITION BY of window "{name}"', span)
        if definition.order is not None and base.order is not None:
            raise SinkqlError("SQ2243", f'cannot override ORDER BY of window "{name}"', span)
        if base.spec is not None and (definition.order is not None or definition.spec is not None):
            raise SinkqlError("SQ2243", f'cannot copy window "{name}" because it has a frame', span)
        return _Definition(base.partition, definition.order or base.order, definition.spec or base.spec)

    def _plan_over(self, t: Translation, written: _Definition) -> _Over:
        partition: dict[logical.Expression, None] = {}
        for node in written.partition:
            value = _typed_value(t, node)
            check_group(value.type, value.span, "PARTITION BY")
            partition.setdefault(settled(value))
        terms = written.order.expressions if written.order is not None else ()
        values = [_typed_value(t, term.this) for term in terms]
        order = tuple(sort(value, term) for value, term in zip(values, terms, strict=True))
        return _Over(tuple(partition), order, planned(t, written.spec, values))

    def _aggregate(self, t: Translation, function: Any, span: Span, filter_: Any, over: _Over) -> Typed:
        assert isinstance(t, Translator)
        return _OverContext(t, _WindowCalls(self, over)).aggregate(function, span, filter_)


def _typed_value(t: Translation, node: Any) -> Typed:
    value = t.translate(node)
    return coerced(value, types.TEXT) if value.type == types.UNKNOWN else value


def _shape(
    shape: logical.Shape, partition: Sequence[logical.Expression], calls: Sequence[logical.WindowCall]
) -> logical.Shape:
    """Return the shape of rows with calls added; a row_number is a key within its partition."""
    columns = tuple(logical.Column(call.name, call.type, call.nullable) for call in calls)
    by = {column_.name for column_ in partition if isinstance(column_, logical.Reference)}
    numbers = [call.name for call in calls if call.function == "row_number"] if len(by) == len(partition) else []
    keys = tuple(frozenset({*by, name}) for name in numbers)
    return logical.Shape((*shape.columns, *columns), (*shape.keys, *keys), Change.RETRACT)


class _OverContext(GroupContext):
    """The planning of an aggregate over a window, like an aggregate over a group."""

    def __init__(self, t: Translator, calls: Calls) -> None:
        self.rows = t
        self.calls = calls


class _WindowCalls(Calls):
    """The calls over a window's frames that an aggregate over the window is computed from."""

    def __init__(self, windows: Windows, over: _Over) -> None:
        super().__init__(set(), retracts=False, grouped=False, scaled=windows.scaled)
        self._windows, self._plan_over = windows, over
        self.wanted = windows.wanted

    def add(self, function: str, argument: Typed | None, type_: Type, span: Span, *, distinct: bool = False) -> Typed:
        if distinct:
            hint = "Write SELECT DISTINCT in a subquery in FROM first."
            raise SinkqlError("SQ2211", "DISTINCT is not allowed in window functions", span, hint=hint)
        if self.wanted is None:
            self._windows.wanted = None
        arguments = () if argument is None else (argument,)
        return self._windows.add(self._plan_over, function, arguments, type_, span, nullable=function != "count")

    def collect(self, call: logical.WindowCall, span: Span) -> Typed:
        message = f"an aggregate of {call.type.called} over a window is not supported yet"
        raise SinkqlError(
            "SQ2932", message, span, hint="Compute it by GROUP BY in a subquery in FROM, and join the subquery."
        )


@dataclass(frozen=True, slots=True)
class _Function:
    """A function that is only allowed over a window."""

    windows: Windows
    t: Translation
    name: str
    arguments: Sequence[Any]
    span: Span
    over: _Over

    def plan(self) -> Typed:
        if self.name in _NUMBERS:
            self._check_arguments(1 if self.name == "ntile" else 0)
            counts, constants = self._count(self.arguments[0], 1) if self.arguments else ((), ())
            over = replace(self.over, frame=None)
            type_, nullable = _NUMBERS[self.name], any(count.nullable for count in counts)
            return self.windows.add(over, self.name, counts, type_, self.span, constants=constants, nullable=nullable)
        if self.name in _BESIDE:
            return self._plan_lag_or_lead()
        if self.name in _IN_FRAME:
            nth = self.name == "nth_value"
            self._check_arguments(2 if nth else 1)
            value = self._value(self.arguments[0])
            counts, constants = self._count(self.arguments[1], 1) if nth else ((), ())
            return self._add(self.over, (value, *counts), constants)
        functions.check(self.name, self.span, len(self.arguments))
        message = f"{self.name}() is neither a window function nor an aggregate, so OVER is not allowed"
        raise SinkqlError("SQ2211", message, self.span, hint="Leave out OVER (…).")

    def _plan_lag_or_lead(self) -> Typed:
        self._check_arguments(1, 3)
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
        value = _typed_value(self.t, node)
        return held(value) if value.type == types.INTERVAL else value

    def _check_arguments(self, least: int, most: int | None = None) -> None:
        count_ = len(self.arguments)
        if least <= count_ <= (most or least):
            return
        count = f"{least} to {most} arguments" if most else _count_text(least)
        raise SinkqlError("SQ2211", f"{self.name}() takes {count}, found {count_}", self.span)

    def _count(self, node: Any, least: int | None) -> tuple[tuple[Typed, ...], tuple[str, ...]]:
        """Return a number of rows or groups: as an argument, or as a constant if it is the same for all rows."""
        value = self.t.translate(node)
        if not joins.references(value.tree):
            return (), (self._constant_count(value, least),)
        if value.type not in (types.SMALLINT, types.INTEGER):
            message = f"{self.name}() takes an integer here, found {value.type}"
            hint = (
                f"Write CAST({self.windows.syntax.written(node)} AS integer)."
                if value.type == types.BIGINT
                else "Write an integer."
            )
            raise SinkqlError("SQ2211", message, value.span, hint=hint)
        return (value,), ()

    def _constant_count(self, value: Typed, least: int | None) -> str:
        constant = value.constant
        if not isinstance(constant, int) or isinstance(constant, bool) or (least is not None and constant < least):
            message = f"{self.name}() takes an integer here"
            if least is not None:
                message += ", 1 or more"
            raise SinkqlError("SQ2211", message, value.span, hint="Write a number, such as 1.")
        return str(constant)


def _count_text(number: int) -> str:
    return "no arguments" if not number else f"{number} argument{'s' * (number > 1)}"


_CODE = "SQ2242"
_CURRENT, _UNBOUNDED = "CURRENT ROW", "UNBOUNDED"
_DEFAULT = logical.Frame()
_LARGE = 1 << 62


def planned(t: Translation, spec: Any, order: Sequence[Typed]) -> logical.Frame | None:
    """Return the frame of a window, None for the default frame."""
    if spec is None:
        return None
    t.only(spec, "kind", "start", "start_side", "end", "end_side", "exclude")
    unit = str(spec.args["kind"]).lower()
    sides = [
        (spec.args["start"], spec.args.get("start_side")),
        (spec.args.get("end") or _CURRENT, spec.args.get("end_side")),
    ]
    span = t.span(spec)
    _check_order(sides, span)
    if unit == "groups" and not order:
        raise _frame_error("a frame of GROUPS requires ORDER BY in the window", span, "Add ORDER BY before GROUPS.")
    begin, until = (_Bound(t, unit, order, span).plan(value, side) for value, side in sides)
    exclude = spec.args.get("exclude")
    frame = logical.Frame(unit, begin, until, str(exclude.name).lower() if exclude is not None else "no others")
    return None if frame == _DEFAULT else frame


def _check_order(sides: Sequence[tuple[Any, Any]], span: Span) -> None:
    """Raise SQ2242 for a frame that ends before it starts, judged by its keywords as Postgres does."""
    (start, start_side), (end, end_side) = sides
    if start == _UNBOUNDED and start_side == "FOLLOWING":
        raise _frame_error("a frame cannot start at UNBOUNDED FOLLOWING", span, "Write UNBOUNDED PRECEDING.")
    if end == _UNBOUNDED and end_side == "PRECEDING":
        raise _frame_error("a frame cannot end at UNBOUNDED PRECEDING", span, "Write UNBOUNDED FOLLOWING.")
    places = [_direction(start, start_side), _direction(end, end_side)]
    if places[0] > places[1]:
        raise _frame_error("the frame ends before it starts", span, "Write the earlier bound first: BETWEEN … AND ….")


def _direction(value: Any, side: Any) -> int:
    return 0 if value == _CURRENT else -1 if side == "PRECEDING" else 1


def _frame_error(message: str, span: Span, hint: str | None = None) -> SinkqlError:
    return SinkqlError(_CODE, message, span, hint=hint)


class _Bound:
    """One end of a frame."""

    def __init__(self, t: Translation, unit: str, order: Sequence[Typed], span: Span) -> None:
        self._t, self._unit, self._order, self._span = t, unit, order, span

    def plan(self, value: Any, side: Any) -> logical.FrameBound:
        if value == _UNBOUNDED:
            return logical.FrameBound(None)
        if value == _CURRENT:
            return logical.FrameBound(0)
        sign = -1 if side == "PRECEDING" else 1
        offset = self._t.translate(value)
        return logical.FrameBound(self._distance(offset, sign) if self._unit == "range" else self._rows(offset) * sign)

    def _rows(self, offset: Typed) -> int:
        constant = offset.constant
        if not isinstance(constant, int) or isinstance(constant, bool) or constant < 0:
            what = "rows" if self._unit == "rows" else "groups"
            message = f"a frame of {self._unit.upper()} takes a constant number of {what}, 0 or more"
            raise _frame_error(message, offset.span, "Write a number, such as 1 PRECEDING.")
        return constant

    def _distance(self, offset: Typed, sign: int) -> int | str:
        if len(self._order) != 1:
            message = "a frame of RANGE with an offset requires exactly one ORDER BY column"
            raise _frame_error(message, self._span, "Order by one column, or use ROWS instead of RANGE.")
        (by,) = self._order
        if types.is_instant(by.type) or by.type == types.TIME:
            return self._interval(offset, by, sign)
        if not types.is_number(by.type):
            message = f"a frame of RANGE with an offset is not supported for values of type {by.type}"
            raise _frame_error(message, self._span, "Order by a number or a time, or use ROWS.")
        if offset.type == types.UNKNOWN:
            offset = coerced(offset, by.type)
        value = offset.constant
        if isinstance(value, bool) or not isinstance(value, int | Decimal) or value < 0:
            message = f"a frame of RANGE over {by.type} takes a constant number, 0 or more"
            raise _frame_error(message, offset.span, "Write a number, such as 10 PRECEDING.")
        if types.is_signed_integer(by.type) and value != int(value):
            message = f"a frame of RANGE over {by.type} takes an integer"
            raise _frame_error(message, offset.span, f"Order by {by.column or 'value'}::numeric.")
        if not value:
            return 0
        return sign * value if isinstance(value, int) and value < _LARGE else f"{sign * value:f}"

    def _interval(self, offset: Typed, by: Typed, sign: int) -> int | str:
        if offset.type == types.UNKNOWN:
            offset = coerced(offset, types.INTERVAL)
        value = offset.constant
        if not isinstance(value, Interval) or min(value.months, value.days, value.micros) < 0:
            message = f"a frame of RANGE over {by.type} takes a constant interval, zero or more"
            raise _frame_error(message, offset.span, "Write an interval, such as INTERVAL '1 day' PRECEDING.")
        parts = (value.months, value.days, value.micros)
        return " ".join(str(sign * part) for part in parts) if any(parts) else 0


class Qualified(Translator):
    """The translator of a QUALIFY condition: a name that is no column of FROM may name a select item."""

    def __init__(self, syntax: Syntax, context: Context, scope: Scope, selected: Mapping[str, Typed]) -> None:
        super().__init__(syntax, context)
        self.scope = scope
        self.selected = selected

    def translate(self, node: Any) -> Typed:
        if isinstance(node, exp.Column) and not qualifier(node) and isinstance(node.this, exp.Identifier):
            name = identifier(node.this)
            selected = self.selected.get(name)
            is_free = (
                all(column_.name != name for column_ in self.scope.columns) and node.find_ancestor(exp.Window) is None
            )
            if selected is not None and is_free:
                return selected.at(self.syntax.span(node))
        return super().translate(node)


def condition(select: Any, t: Translator) -> Typed | None:
    """Return the condition of a QUALIFY, None if the SELECT has none."""
    clause = select.args.get("qualify")
    return t.boolean(clause.this, "QUALIFY") if clause is not None else None


def filter_windows(relation: logical.Relation, condition: Typed | None) -> logical.Relation:
    """Return the rows, with their window functions, for which a condition is true."""
    return relation if condition is None else query_relation.keep(relation, condition)
