"""Plan conditions on mz_now() as the interval in which rows are valid, and report misplaced ones with a rewrite.

A row is valid at a time, in whole milliseconds, if the condition is true with this time instead of mz_now(). Each
condition compares mz_now() with one value. So a row is valid from a time on, or until a time, that the value
determines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from sqlglot import exp

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical import NUMERIC, JoinKind
from sinkql.logical.expression import Cast, as_literal, children, walk, with_children
from sinkql.planner import types
from sinkql.planner.expression import operator as operators
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed, call, cast_to, constant, joined, settled
from sinkql.planner.function import time as functions_time
from sinkql.planner.query.expression_context import Translation
from sinkql.planner.query.predicate import negated

NAME = "mz_now"
_FAR = 1 << 62
"""Milliseconds that no clock reaches; larger times are replaced by this value."""
_OPERATORS: dict[type, str] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_Time = logical.Expression | None
_EXAMPLE = "mz_now() <= created_at + INTERVAL '1 hour'"


@dataclass(frozen=True, slots=True)
class ValidInterval:
    """The interval in which rows are valid: bigint milliseconds since 1970, not NULL; None means no bound."""

    begin: Typed | None = None
    end: Typed | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A WHERE or HAVING in two parts: the plain condition, if any, and the intervals in which rows are valid."""

    plain: Typed | None
    times: tuple[ValidInterval, ...] = ()


def split_condition(t: Translation, node: Any, where: str) -> Condition:
    """Split a condition; raise SQ2936 if mz_now() is not alone on one side of a comparison."""
    if _clock(node) is None:
        return Condition(t.boolean(node, where))
    plain, times = [], []
    for conjunct in conjuncts(node):
        clock = _clock(conjunct)
        if clock is None:
            plain.append(t.boolean(conjunct, "AND"))
            continue
        for operator, left, right in _comparisons(t, conjunct, clock):
            if _clock(left) is None and _clock(right) is None:
                plain.append(operators.compare(operator, t.translate(left), t.translate(right), t.span(conjunct)))
                continue
            value = t.translate(right if _is_alone(left) else left)
            interval = _interval_of(value, operator if _is_alone(left) else _FLIPPED[operator], t.span(conjunct))
            if (time := t.context.computed(clock)) is not None:
                plain += _conditions_at(interval, int(str(as_literal(time.tree).text)))
            else:
                times.append(interval)
            if value.nullable:
                plain.append(negated(call("IS NULL(any)", (value,), t.span(conjunct))))
    return Condition(joined("AND", plain, t.span(node)) if plain else None, tuple(times))


def conjuncts(node: Any) -> Iterator[Any]:
    """Yield the operands of AND in a condition, in order."""
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node


def temporal_filter(relation: logical.Relation, times: Sequence[ValidInterval]) -> logical.Relation:
    """Return the rows of a relation that are valid at the time of a commit; a row is removed when it expires.

    An interval that depends on one side of a join bounds that side, so that the join's state drops expired rows.
    """
    for time in times:
        begin, end = (None if side is None else settled(side) for side in (time.begin, time.end))
        relation = _push_below(relation, begin, end) or _bound(relation, begin, end)
    return relation


def misplaced_error(t: Translation, clock: Any) -> SinkqlError:
    """Return the error for a misplaced mz_now(), with a rewrite of the condition if there is one."""
    if clock.expressions:
        return SinkqlError("SQ2211", "function mz_now() takes no arguments", t.span(clock), hint="Write mz_now().")
    message = "mz_now() is only allowed in WHERE and HAVING, alone on one side of a comparison"
    return SinkqlError("SQ2936", message, t.span(clock), hint=_rewrite_hint(t, clock))


def rewrite_hint(t: Translation, node: Any) -> str | None:
    """Return how to write a condition with mz_now() instead of a clock that views do not allow, None outside WHERE."""
    if node.find_ancestor(exp.Where, exp.Having) is None:
        return None
    side = node
    while isinstance(side.parent, exp.Paren):
        side = side.parent
    rewritten = None
    if isinstance(side.parent, exp.Add | exp.Sub):
        rewritten = _move_term(t, side, side.parent)
    elif type(side.parent) in _OPERATORS:
        operator, other = _OPERATORS[type(side.parent)], side.parent.expression
        if other is side:
            operator, other = _FLIPPED[operator], side.parent.this
        rewritten = f"mz_now() {operator} {t.syntax.written(other)}"
    return None if rewritten is None else f"Write {rewritten}."


def _is_mz_now(node: Any) -> bool:
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.lower() == NAME


def _clock(node: Any) -> Any | None:
    """Return the mz_now() in a condition, outside its subqueries."""
    return next(
        (node for node in node.walk(prune=lambda inner: isinstance(inner, exp.Query)) if _is_mz_now(node)), None
    )


def _is_alone(node: Any) -> bool:
    return _is_mz_now(node.unnest())


def _comparisons(t: Translation, node: Any, clock: Any) -> list[tuple[str, Any, Any]]:
    """Return a condition as a list of comparisons that must all be true; raise SQ2936."""
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        comparisons = [(">=", node.this, node.args["low"]), ("<=", node.this, node.args["high"])]
    elif type(node) in _OPERATORS:
        comparisons = [(_OPERATORS[type(node)], node.this, node.expression)]
    else:
        raise misplaced_error(t, clock)
    for _, *sides in comparisons:
        clocks = [side for side in sides if _clock(side) is not None]
        if len(clocks) > 1 or not all(map(_is_alone, clocks)) or any(clock.unnest().expressions for clock in clocks):
            raise misplaced_error(t, clock)
    return comparisons


def _interval_of(value: Typed, operator: str, span: Span) -> ValidInterval:
    """Return the interval in which `mz_now() operator value` is true for a value that is not NULL."""
    first, last = _milliseconds(value, operator, span)
    match operator:
        case "<=":
            return ValidInterval(end=_next_millisecond(last))
        case "<":
            return ValidInterval(end=first)
        case ">=":
            return ValidInterval(begin=first)
        case ">":
            return ValidInterval(begin=_next_millisecond(last))
        case _:
            return ValidInterval(begin=first, end=_next_millisecond(last))


def _milliseconds(value: Typed, operator: str, span: Span) -> tuple[Typed, Typed]:
    """Return a value in milliseconds, rounded up and rounded down."""
    if value.type == types.UNKNOWN:
        number = isinstance(value.constant, str) and value.constant.isdigit()
        value = coerced(value, types.BIGINT if number else types.TIMESTAMPTZ)
    if value.type == types.DATE:
        value = cast_to(value, types.TIMESTAMP)
    if types.is_instant(value.type):
        seconds = functions_time.extract("EXTRACT", "epoch", value, value.span)
        exact = operators.wide(
            operators.arithmetic("*", seconds, constant(1000, types.INTEGER, value.span), value.span)
        )
        return _whole("ceil", exact), _whole("floor", exact)
    if types.is_unsigned(value.type):
        value = cast_to(value, NUMERIC)
    if types.is_signed_integer(value.type):
        whole = _clamp(coerced(value, types.BIGINT)) if value.type == types.BIGINT else coerced(value, types.BIGINT)
        return whole, whole
    if value.type.name != "numeric":
        message = f"operator does not exist: mz_now() {operator} {value.type.called}"
        raise SinkqlError("SQ2211", message, span, hint=f"Compare mz_now() with a time, as in {_EXAMPLE}.")
    exact = _clamp(operators.wide(value))
    return _whole("ceil", exact), _whole("floor", exact)


def _whole(function: str, value: Typed) -> Typed:
    return cast_to(call(f"{function}(numeric)", (value,)), types.BIGINT)


def _clamp(value: Typed) -> Typed:
    """Return a number, limited to the range of times."""
    low, high = (coerced(constant(limit, types.BIGINT, value.span), value.type) for limit in (-_FAR, _FAR))
    below = call("least(any…)", (value, high), type_=value.type)
    return call("greatest(any…)", (below, low), type_=value.type)


def _next_millisecond(value: Typed) -> Typed:
    return call("+(bigint,bigint)", (value, constant(1, types.BIGINT, value.span)), value.span)


def _conditions_at(times: ValidInterval, now: int) -> list[Typed]:
    """Return the conditions for a row to be valid at a time."""
    conditions = []
    if (begin := times.begin) is not None:
        conditions.append(call("<=(any,any)", (begin, constant(now, types.BIGINT, begin.span))))
    if (end := times.end) is not None:
        conditions.append(call("<(any,any)", (constant(now, types.BIGINT, end.span), end), end.span))
    return conditions


def _push_below(relation: logical.Relation, begin: _Time, end: _Time) -> logical.Relation | None:
    """Return a relation with rows bounded below one of its joins, None if every join needs both sides.

    The side of an outer join that is extended with NULLs is not bounded.
    """
    match relation:
        case logical.Filter() | logical.Bound():
            below = _push_below(relation.input, begin, end)
            return None if below is None else replace(relation, input=below, shape=_retracting(relation.shape))
        case logical.Project():
            by = {output.name: output.expression for output in relation.outputs}
            below = _push_below(relation.input, _substitute(begin, by), _substitute(end, by))
            return None if below is None else replace(relation, input=below, shape=_retracting(relation.shape))
        case logical.Join() if not _parses_text(begin) and not _parses_text(end):
            return _push_into_join(relation, begin, end)
        case _:
            return None


def _parses_text(time: _Time) -> bool:
    """Return whether a time is cast from text, which may fail on a row that the join removes."""
    return time is not None and any(isinstance(node, Cast) and node.operand.type == types.TEXT for node in walk(time))


def _push_into_join(join: logical.Join, begin: _Time, end: _Time) -> logical.Relation | None:
    used = {node.name for side in (begin, end) if side is not None for node in walk(side) if _is_reference(node)}
    shape = _retracting(join.shape)
    if join.kind not in (JoinKind.RIGHT, JoinKind.FULL) and used <= {column.name for column in join.left.shape.columns}:
        left = _push_below(join.left, begin, end) or _bound(join.left, begin, end)
        return replace(join, left=left, shape=shape)
    if join.kind in (JoinKind.INNER, JoinKind.RIGHT) and used <= {column.name for column in join.right.shape.columns}:
        right = _push_below(join.right, begin, end) or _bound(join.right, begin, end)
        return replace(join, right=right, shape=shape)
    return None


def _is_reference(node: logical.Expression) -> TypeGuard[logical.Reference]:
    return isinstance(node, logical.Reference)


def _substitute(time: _Time, by: Mapping[str, logical.Expression]) -> _Time:
    """Return a time over the input columns of a projection."""
    if time is None or isinstance(time, logical.Reference):
        return None if time is None else by[time.name]
    return with_children(
        time, tuple(time_ for child in children(time) if (time_ := _substitute(child, by)) is not None)
    )


def _retracting(shape: logical.Shape) -> logical.Shape:
    return replace(shape, change=logical.Change.RETRACT)


def _bound(relation: logical.Relation, begin: _Time, end: _Time) -> logical.Relation:
    if isinstance(relation, logical.Bound):
        both = _narrower("greatest(any…)", relation.begin, begin), _narrower("least(any…)", relation.end, end)
        return logical.Bound(relation.input, *both, relation.shape)
    return logical.Bound(relation, begin, end, _retracting(relation.shape))


def _narrower(function: str, first: _Time, second: _Time) -> _Time:
    """Return the narrower of two bounds."""
    if first is None or second is None:
        return second if first is None else first
    return call(function, (Typed(first, types.BIGINT), Typed(second, types.BIGINT)), type_=types.BIGINT).tree


# --- rewrites of a misplaced mz_now() --------------------------------------------------------------------------------


def _rewrite_hint(t: Translation, clock: Any) -> str:
    node = clock
    while isinstance(node.parent, exp.Paren):
        node = node.parent
    parent = node.parent
    rewritten = _move_term(t, node, parent) if isinstance(parent, exp.Add | exp.Sub) else None
    if rewritten is not None:
        return f"Write {rewritten}."
    if isinstance(parent, exp.Cast) and type(parent.parent) in _OPERATORS:
        return "Leave out the cast: mz_now() compares with a timestamp, or with milliseconds since 1970."
    if clock.find_ancestor(exp.Or) is not None:
        return "Write a view for each side of OR, and combine their rows with UNION."
    if isinstance(clock.find_ancestor(exp.Not, exp.NEQ), exp.NEQ):
        return "Write a view for each of < and >, and combine their rows with UNION ALL."
    return f"Write it as in WHERE {_EXAMPLE}."


def _move_term(t: Translation, node: Any, sum_: Any) -> str | None:
    """Return a comparison with a term of a sum moved to the opposite side."""
    side = sum_
    while isinstance(side.parent, exp.Paren):
        side = side.parent
    comparison = side.parent
    negative = isinstance(sum_, exp.Sub)
    if type(comparison) not in _OPERATORS or (negative and node is sum_.expression):
        return None
    on_left = comparison.this is side
    operator = _OPERATORS[type(comparison)]
    other = comparison.expression if on_left else comparison.this
    term = sum_.expression if node is sum_.this else sum_.this
    if _clock(other) is not None or _clock(term) is not None:
        return None
    shown = _term(t, other), _term(t, term)
    if isinstance(other, exp.Interval) and negative:
        shown = shown[1], shown[0]
    sign = "+" if negative else "-"
    return f"mz_now() {operator if on_left else _FLIPPED[operator]} {shown[0]} {sign} {shown[1]}"


def _term(t: Translation, node: Any) -> str:
    text = t.syntax.written(node)
    return (
        text if isinstance(node, exp.Column | exp.Literal | exp.Interval | exp.Anonymous | exp.Paren) else f"({text})"
    )
