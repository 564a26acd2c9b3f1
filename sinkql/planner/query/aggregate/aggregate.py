"""Plan the aggregates of a SELECT as calls of COUNT, SUM, MIN and MAX, with expressions over their results.

The type of a call depends on its argument. count returns bigint; min and max return the argument's type. A call
of sum over bigint returns bigint; the planner casts smallint and integer to bigint, but bigint to numeric(38,0), so
that SQL's sum(bigint) is numeric. sum of numeric(p,s) returns numeric(38,s); sum of double precision returns double
precision. A sum that does not fit is SQ3211, raised in `runtime.state.operator.aggregate`. NULL arguments are ignored.
Without other arguments, sum, min and max are NULL and count is 0.

Variance is computed from a count, a sum and a sum of squares, all of them exact. Let q be an integer near sum / n and r
= sum - q n. The sum of squared differences from the mean is squares - q (sum + r) - r r / n. No term is greater than
the sum of squares, and all but the last one are exact.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical import NUMERIC, Branch, Case, Type
from sinkql.planner import types
from sinkql.planner.expression.cast import fields
from sinkql.planner.expression.literal import coerced, decimal, held
from sinkql.planner.expression.operator import arithmetic, wide
from sinkql.planner.expression.typed_expression import (
    Typed,
    call,
    cast_to,
    check_scale,
    column,
    constant,
    narrowed,
    null_of,
    settled,
)
from sinkql.planner.expression.typed_expression import call as expression
from sinkql.planner.function.nested import record
from sinkql.planner.query.aggregate import ordered_aggregate
from sinkql.planner.query.aggregate.grouping_sets import Groupings
from sinkql.planner.query.expression_context import SubqueryContext, Windowing
from sinkql.planner.query.relation import check_group
from sinkql.planner.query.scope import Groups, Scope, identifier, resolved
from sinkql.planner.query.translate import Translator
from sinkql.planner.syntax.sqlglot_tree import row_values


@dataclass
class Calls:
    """The distinct aggregate calls of one SELECT."""

    names: set[str]
    retracts: bool
    grouped: bool
    scaled: bool
    """Whether sums and extremes of numerics have the scale that Postgres shows, if it is known."""
    aggregates: list[logical.AggregateCall] = field(default_factory=list)
    collected: list[logical.WindowCall] = field(default_factory=list)
    wanted: str | None = None

    def add(self, function: str, argument: Typed | None, type_: Type, span: Span, *, distinct: bool = False) -> Typed:
        """Return the column with a call's result."""
        expression = settled(argument) if argument is not None else None
        nullable = function != "count" and (not self.grouped or expression is None or expression.nullable)
        for present in self.aggregates:
            if (present.function, present.argument, present.distinct) == (function, expression, distinct):
                return column(present.name, present.type, nullable=nullable, span=span)
        name = self._name()
        self.aggregates.append(logical.AggregateCall(name, function, expression, distinct, type_))
        return column(name, type_, nullable=nullable, span=span)

    def _name(self) -> str:
        wanted, self.wanted = self.wanted, None
        if wanted is not None and wanted not in self.names:
            self.names.add(wanted)
            return wanted
        names = [*(call.name for call in self.aggregates), *(call.name for call in self.collected)]
        return f"$a{sum(name.startswith('$a') for name in names) + 1}"

    def collect(self, call: logical.WindowCall, span: Span) -> Typed:
        """Return the column with the result of a call over all rows of a group in an order."""
        for present in self.collected:
            if replace(call, name=present.name) == present:
                return column(present.name, present.type, nullable=True, span=span)
        named = replace(call, name=self._name())
        self.collected.append(named)
        return column(named.name, named.type, nullable=True, span=span)


class GroupContext:
    """The names above a GROUP BY: group expressions and aggregates only."""

    windows: Windowing | None = None
    where = "HAVING"

    def __init__(self, rows: Translator, scope: Scope, groups: Groups, calls: Calls, groupings: Groupings) -> None:
        self.rows = rows
        self.subqueries: SubqueryContext | None = None
        self.planned: Callable[[Any], bool] = lambda node: False
        self.scope = scope
        self.groups = groups
        self.calls = calls
        self.groupings = groupings

    def column(self, node: Any, span: Span) -> Typed:
        return self.grouped(resolved(self.scope, node, span), identifier(node.this), span)

    def grouped(self, value: Typed, name: str, span: Span) -> Typed:
        """Return the group column of a column; a column of an outer query is returned unchanged."""
        group = self.groups.find(value, span)
        if group is None and not self.scope.owns(value):
            return value
        if group is None:
            message = f'column "{name}" must appear in GROUP BY or be used in an aggregate function'
            raise SinkqlError("SQ2206", message, span, hint="Add it to GROUP BY, or use it in an aggregate.")
        return group

    def outer(self, value: Typed) -> Typed:
        """Return the group column of a column that a subquery above the groups uses."""
        return self.grouped(value, value.column or "", value.span)

    def computed(self, node: Any) -> Typed | None:
        """Return the group column that equals a whole expression, None if no group column does."""
        if isinstance(node, (exp.Column, exp.Literal, exp.Null, exp.Boolean)):
            return None
        if (not self.planned(node)) if node.find(exp.Query) is not None else _has_aggregate(node):
            return None
        clock = self.rows.context.computed(node)
        if clock is not None:
            return clock
        try:
            value = self.rows.translate(node)
        except SinkqlError:
            return None  # raised again, with its span, when the parts are translated
        return self.groups.find(value, value.span)

    def aggregate(self, node: Any, span: Span, filter_: Any | None) -> Typed:
        name = str(node.this).lower()
        if name == "grouping":
            return self._grouping(node, span, filter_)
        distinct, values, order = _arguments(node)
        condition = self.rows.boolean(filter_, "FILTER") if filter_ is not None else None
        if name in ordered_aggregate.NAMES:
            within = isinstance(node.parent, exp.WithinGroup)
            order = node.parent.expression.expressions if within else order
            ordered = ordered_aggregate.OrderedAggregate(name, values, order, span, distinct, within, condition)
            return self.calls.collect(ordered_aggregate.plan_ordered_aggregate(self.rows, ordered), span)
        if len(values) != 1:
            raise SinkqlError("SQ2211", f"{name}() takes one argument, found {len(values)}", span)
        if name not in ("count", "sum", "min", "max"):
            self.calls.wanted = None  # the calls that it is computed from must not get its name
        if isinstance(values[0], exp.Star):
            if name != "count" or distinct:
                raise SinkqlError("SQ2211", f"{name}(*) does not exist: only count() takes *", span)
            counted = None if condition is None else _where(constant(True, types.BOOLEAN, condition.span), condition)
            return self.calls.add("count", counted, types.BIGINT, span)
        row = row_values(values[0]) if name == "count" else None
        if row:
            argument = record([self.rows.translate(part) for part in row], self.rows.span(values[0]))
        else:
            argument = self.rows.translate(values[0])
        if argument.type == types.UNKNOWN:
            argument = coerced(argument, types.TEXT)
        return _PLANS[name](_Aggregate(name, argument, condition, distinct, span, self.calls)).at(span)

    def _grouping(self, node: Any, span: Span, filter_: Any | None) -> Typed:
        distinct, values, _ = _arguments(node)
        if distinct or filter_ is not None:
            raise SinkqlError("SQ2211", "grouping() takes neither DISTINCT nor FILTER", span)
        trees = list(self.groups.by_tree)
        places = []
        for value in values:
            tree = self.rows.translate(value).tree
            if tree not in trees:
                message = "the arguments of grouping() must be expressions of GROUP BY"
                raise SinkqlError("SQ2206", message, self.rows.span(value), hint="Add it to GROUP BY.")
            places.append(trees.index(tree))
        return self.groupings.add(tuple(places), span)


@dataclass(frozen=True, slots=True)
class _Aggregate:
    name: str
    argument: Typed
    condition: Typed | None
    distinct: bool
    span: Span
    calls: Calls

    def add(self, function: str, argument: Typed, type_: Type, *, distinct: bool = False) -> Typed:
        return self.calls.add(function, _where(argument, self.condition), type_, self.span, distinct=distinct)

    def no_function(self) -> SinkqlError:
        return SinkqlError("SQ2211", f"aggregate {self.name}({self.argument.type.called}) does not exist", self.span)


def _has_aggregate(node: Any) -> bool:
    return any(str(call.this).lower() in (*_PLANS, *ordered_aggregate.NAMES) for call in node.find_all(exp.Anonymous))


def _arguments(node: Any) -> tuple[bool, list[Any], list[Any]]:
    """Return whether an aggregate is DISTINCT, its arguments, and the terms of its ORDER BY."""
    distinct, values, order, waiting = False, [], [], list(node.expressions)
    while waiting:
        node_ = waiting.pop(0)
        match node_:
            case exp.Order():
                order = node_.expressions
                waiting.insert(0, node_.this)
            case exp.Distinct():
                distinct = True
                waiting[:0] = node_.expressions
            case _:
                values.append(node_)
    return distinct, values, order


def _where(argument: Typed, condition: Typed | None) -> Typed:
    """Return the argument of a call with FILTER: NULL, which is ignored, if the condition is not true."""
    if condition is None:
        return argument
    case = Case((Branch(condition.tree, argument.tree),), None, argument.raw, condition.span)
    return Typed(case, argument.type, argument.scale)


def _count(call: _Aggregate) -> Typed:
    argument = held(call.argument) if call.argument.type == types.INTERVAL else call.argument
    if call.distinct and argument.type.name == "record":
        argument = _comparable_record(argument)
    elif call.distinct and not types.is_groupable(argument.type):
        raise SinkqlError("SQ2214", f"count() of {argument.type.called} is not supported here", call.span)
    return call.add("count", argument, types.BIGINT, distinct=call.distinct)


def _comparable_record(row: Typed) -> Typed:
    """Return a record whose equal values are identical; raise SQ2214 if a field has no equality."""
    parts = []
    for field_ in fields(row):
        check_group(field_.type, row.span, "count(DISTINCT …)")
        parts.append(_with_one_zero(field_) if types.is_floating(field_.type) else field_)
    return _null_with_row(row, record(parts, row.span))


def _with_one_zero(value: Typed) -> Typed:
    zero = constant(0.0, types.DOUBLE, value.span)
    return expression("+(double precision,double precision)", (coerced(value, types.DOUBLE), zero))


def _null_with_row(row: Typed, value: Typed) -> Typed:
    """Return a value, or NULL if the row is NULL."""
    if not row.nullable:
        return value
    is_present = expression("NOT(boolean)", (expression("IS NULL(any)", (row,), row.span),), row.span)
    return Typed(Case((Branch(is_present.tree, value.tree),), None, value.type, row.span), value.type)


def _sum(call: _Aggregate) -> Typed:
    type_ = call.argument.type
    _check_sum(call)
    if type_ in (types.SMALLINT, types.INTEGER):
        return call.add("sum", coerced(call.argument, types.BIGINT), types.BIGINT, distinct=call.distinct)
    if type_ in (types.UINT2, types.UINT4):
        sum_ = call.add("sum", coerced(call.argument, types.BIGINT), types.BIGINT, distinct=call.distinct)
        return cast_to(sum_, types.UINT8)
    if type_ in (types.BIGINT, types.UINT8):
        return _plain(_numeric_sum(call))
    if type_.name == "numeric":
        return _plain(_numeric_sum(call))
    total, largest = _float_sum(call)
    sum_ = expression("$sum(double precision,double precision)", (total, largest), call.span)
    return cast_to(sum_, types.REAL) if type_ == types.REAL else sum_


def _check_sum(call: _Aggregate) -> None:
    type_ = call.argument.type
    if not types.is_number(type_):
        raise call.no_function()
    if type_.name == "numeric":
        check_scale(call.argument)
    if call.distinct and types.is_floating(type_):
        message = f"{call.name}(DISTINCT …) of {type_.name} is not supported yet"
        raise SinkqlError("SQ2932", message, call.span, hint=f"Cast it: {call.name}(DISTINCT value::numeric(38,10)).")
    if types.is_floating(type_) and call.calls.retracts:
        message = f"{call.name}() of {type_.name} is not exact over rows that can be removed"
        raise SinkqlError("SQ2220", message, call.span, hint=_as_numeric(call))


def _numeric_sum(call: _Aggregate) -> Typed:
    argument = call.argument
    if types.is_signed_integer(argument.type) or types.is_unsigned(argument.type):
        argument = cast_to(argument, Type("numeric", 38, 0))
    elif call.calls.scaled and narrowed(argument) is not argument:
        argument = narrowed(argument)
    elif argument.raw != argument.type:
        argument = wide(argument)
    return call.add("sum", argument, Type("numeric", 38, argument.type.scale), distinct=call.distinct)


def _float_sum(call: _Aggregate) -> tuple[Typed, Typed]:
    value = coerced(call.argument, types.DOUBLE)
    total = call.add("sum", value, types.DOUBLE)
    return total, call.add("max", expression("abs(double precision)", (value,)), types.DOUBLE)


def _plain(value: Typed) -> Typed:
    if value.type == NUMERIC:
        return value
    return cast_to(value, NUMERIC)


def _avg(call: _Aggregate) -> Typed:
    _check_sum(call)
    counted = call.add("count", call.argument, types.BIGINT, distinct=call.distinct)
    if types.is_floating(call.argument.type):
        total, largest = _float_sum(call)
        return expression("$avg(double precision,double precision,bigint)", (total, largest, counted), call.span)
    # an integer divides by its count as exactly as a numeric does
    rows = cast_to(_nullif(counted, 0), NUMERIC)
    return expression("/(numeric,numeric)", (_plain(_numeric_sum(call)), rows), call.span)


def _variance(call: _Aggregate) -> Typed:
    """Plan variance from calls that support retraction: the count, the sum and the sum of squares."""
    _check_sum(call)
    if call.distinct or types.is_floating(call.argument.type):
        what = "DISTINCT …" if call.distinct else call.argument.type.called
        message = f"{call.name}({what}) is not supported yet"
        hint = "Write SELECT DISTINCT in a subquery in FROM." if call.distinct else _as_numeric(call)
        raise SinkqlError("SQ2932", message, call.span, hint=hint)
    value, plain = call.argument, cast_to(call.argument, NUMERIC)
    if types.is_signed_integer(value.type) or types.is_unsigned(value.type):
        value = Typed(cast_to(value, Type("numeric", types.INTEGER_DIGITS[value.type.name], 0)).tree, NUMERIC)
    squares = call.add("sum", square(value, call.span), NUMERIC)
    rows = call.add("count", call.argument, types.BIGINT)
    return of_sums(rows, call.add("sum", plain, NUMERIC), squares, sample=not call.name.endswith("_pop"))


def _deviation(call: _Aggregate) -> Typed:
    return root(_variance(call))


def _as_numeric(call: _Aggregate) -> str:
    return f"Cast it: {call.name}(value::numeric(38,10))."


def _null_if_subject(subject: Typed, constant_: bool | int, value: Typed) -> Typed:
    """Return a value, or NULL if the subject equals the constant."""
    same = _is_constant(subject, constant_)
    return Typed(Case((Branch(same.tree, null_of(value.raw, value.span).tree),), value.tree, value.raw), value.type)


def _nullif(value: Typed, constant_: bool | int) -> Typed:
    """Return a value, or NULL if it equals the constant."""
    pair = (value, constant(constant_, value.type, value.span))
    return expression("nullif(any,any)", pair, type_=value.type)


def _is_constant(subject: Typed, constant_: bool | int) -> Typed:
    return expression("=(any,any)", (subject, constant(constant_, subject.type, subject.span)))


def _extreme(call: _Aggregate) -> Typed:
    type_ = call.argument.type
    if type_ == types.BYTEA or (type_.name == "array" and types.is_ordered(type_)):
        return _collected_extreme(call)
    if not (types.is_number(type_) or types.is_instant(type_) or type_ in (types.TIME, types.TEXT)):
        raise call.no_function()
    argument = narrowed(call.argument) if call.calls.scaled else call.argument
    return call.add(call.name, argument, argument.type)


def _collected_extreme(call: _Aggregate) -> Typed:
    value = _where(call.argument, call.condition)
    return call.calls.collect(ordered_aggregate.extreme(value, last=call.name == "max", span=call.span), call.span)


def _extreme_of_any(call: _Aggregate) -> Typed:
    """Plan any_value as the minimum, so that all runs return the same value."""
    if call.argument.type in (types.BOOLEAN, types.UUID):
        return _collected_extreme(call)
    return _extreme(replace(call, name="min"))


def _boolean(call: _Aggregate) -> Typed:
    """Plan bool_and and bool_or by counting, which is exact also if rows are retracted."""
    if call.argument.type != types.BOOLEAN:
        raise call.no_function()
    counted = call.add("count", call.argument, types.BIGINT)
    some = call.name == "bool_or"
    hits = call.add("count", _nullif(call.argument, not some), types.BIGINT)
    none = _is_constant(hits, 0)
    return _null_if_subject(counted, 0, expression("NOT(boolean)", (none,)) if some else none)


_PLANS: dict[str, Callable[[_Aggregate], Typed]] = {
    "count": _count, "sum": _sum, "avg": _avg, "min": _extreme, "max": _extreme,
    "any_value": _extreme_of_any, "bool_and": _boolean, "bool_or": _boolean, "every": _boolean,
    "variance": _variance, "var_samp": _variance, "var_pop": _variance,
    "stddev": _deviation, "stddev_samp": _deviation, "stddev_pop": _deviation,
}  # fmt: skip


NAMES = ("variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop")


_SCALING_FACTOR = 1000
"""The factor of the squares, so that rounding a quotient does not round the result."""


_MAX_SQUARE_SCALE = 5
"""The maximum scale of a number with 38 digits whose square still fits."""
_MAX_DIGITS = 38


def square(value: Typed, span: Span) -> Typed:
    """Return the square of a number; a number with many digits is split into its integer part and the rest."""
    if (value.raw.scale or 0) <= _MAX_SQUARE_SCALE or 2 * (value.raw.precision or 0) <= _MAX_DIGITS:
        return arithmetic("*", value, value, span)
    rounded = call("round(numeric,integer)", (value, constant(0, types.INTEGER, span)), span)
    whole = cast_to(rounded, Type("numeric", 19, 0))
    rest = cast_to(_numeric_operator("-", value, whole), Type("numeric", 11, 10))
    first, *others = (
        _numeric_operator("*", *pair) for pair in ((whole, whole), (whole, rest), (whole, rest), (rest, rest))
    )
    return functools.reduce(lambda sum_, term: _numeric_operator("+", sum_, term), others, first)


def of_sums(rows: Typed, total: Typed, squares: Typed, *, sample: bool) -> Typed:
    """Return the variance as numeric, exact to its 10th digit: NULL of no rows, and of one row if it is a sample."""
    span = rows.span
    count = _divisor(rows)
    near = call("round(numeric,integer)", (_numeric_operator("/", total, count), constant(0, types.INTEGER, span)))
    mean = cast_to(near, Type("numeric", 38, 0))
    rest = _numeric_operator("-", total, _numeric_operator("*", mean, cast_to(rows, Type("numeric", 19, 0))))
    factor = decimal(Decimal(_SCALING_FACTOR), span)
    exact = _numeric_operator(
        "*", _numeric_operator("-", squares, _numeric_operator("*", mean, _numeric_operator("+", total, rest))), factor
    )
    differences = _numeric_operator(
        "-", exact, _numeric_operator("/", _numeric_operator("*", _numeric_operator("*", rest, rest), factor), count)
    )
    divisor = call("-(bigint,bigint)", (rows, constant(1, types.BIGINT, span))) if sample else rows
    divisor = call("*(bigint,bigint)", (divisor, constant(_SCALING_FACTOR, types.BIGINT, span)))
    variance = _numeric_operator("/", differences, _divisor(divisor))
    # squares of more than 10 digits behind the point are rounded
    zero = constant(Decimal(0), NUMERIC, span)
    negative = call("<(any,any)", (variance, zero))
    return Typed(Case((Branch(negative.tree, zero.tree),), variance.tree, NUMERIC, span), NUMERIC)


def root(variance: Typed) -> Typed:
    """Return the square root as numeric, computed in double precision."""
    return call("$root(numeric)", (variance,))


def _divisor(rows: Typed) -> Typed:
    """Return a count as numeric, NULL for 0."""
    count = call("nullif(any,any)", (rows, constant(0, types.BIGINT, rows.span)), type_=types.BIGINT)
    return cast_to(count, NUMERIC)


def _numeric_operator(operator: str, left: Typed, right: Typed) -> Typed:
    return call(f"{operator}(numeric,numeric)", (left, right))
