"""Conditions on mz_now() → from when until when rows show; where it may not stand is said with what to write instead.

A row shows at a time, which is a whole number of milliseconds, if the condition is true with this time in the place of
mz_now(). As that is compared with one value alone, it is so from a time on, or until one, which the value tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from sqlglot import exp

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical import NUMERIC, JoinKind
from sinkql.logical.expression import Cast, children, walk, with_children
from sinkql.planner import types
from sinkql.planner.expression import operator as operators
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed, call, cast_to, constant, joined, settled
from sinkql.planner.function import time as functions_time
from sinkql.planner.query.expression_context import Translation
from sinkql.planner.query.predicate import negated

NAME = "mz_now"
_FAR = 1 << 62
"""Milliseconds that no clock shows; times beyond are taken for it."""
_OPERATORS: dict[type, str] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_Time = logical.Expression | None
_EXAMPLE = "mz_now() <= created_at + INTERVAL '1 hour'"


@dataclass(frozen=True, slots=True)
class ValidInterval:
    """From when until when rows show: bigint, milliseconds since 1970, not NULL; None is no bound."""

    begin: Typed | None = None
    end: Typed | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A WHERE or HAVING in two: what is true of rows that show, None for nothing, and when they show."""

    plain: Typed | None
    times: tuple[ValidInterval, ...] = ()


def split_condition(t: Translation, node: Any, where: str) -> Condition:
    """Return a condition in two; SQ2936 where mz_now() stands otherwise than alone on one side of a comparison."""
    if _clock(node) is None:
        return Condition(t.boolean(node, where))
    plain, times = [], []
    for each in conjuncts(node):
        clock = _clock(each)
        if clock is None:
            plain.append(t.boolean(each, "AND"))
            continue
        for operator, left, right in _comparisons(t, each, clock):
            if _clock(left) is None and _clock(right) is None:
                plain.append(operators.compare(operator, t.translate(left), t.translate(right), t.span(each)))
                continue
            value = t.translate(right if _alone(left) else left)
            found = _times(value, operator if _alone(left) else _FLIPPED[operator], t.span(each))
            if (now := t.context.known(clock)) is not None:
                assert isinstance(now.tree, logical.Literal)
                plain += _at(found, int(str(now.tree.text)))
            else:
                times.append(found)
            if value.nullable:
                plain.append(negated(call("IS NULL(any)", (value,), t.span(each))))
    return Condition(joined("AND", plain, t.span(node)) if plain else None, tuple(times))


def conjuncts(node: Any) -> Iterator[Any]:
    """Yield what a condition joins by AND, in order."""
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node


def temporal_filter(relation: logical.Relation, times: Sequence[ValidInterval]) -> logical.Relation:
    """Return the rows of a relation that show at the time of a commit; they come and go.

    Times that follow from one side of a join bound that side, so that the join keeps nothing of what is gone.
    """
    for each in times:
        begin, end = (None if side is None else settled(side) for side in (each.begin, each.end))
        relation = _below(relation, begin, end) or _bound(relation, begin, end)
    return relation


def misplaced_error(t: Translation, clock: Any) -> SinkqlError:
    """Return the error for mz_now() where no condition is made of it, with how to write that if it can be."""
    if clock.expressions:
        return SinkqlError("SQ2211", "function mz_now() takes no arguments", t.span(clock), hint="Write mz_now().")
    message = "mz_now() is only allowed in WHERE and HAVING, alone on one side of a comparison"
    return SinkqlError("SQ2936", message, t.span(clock), hint=_instead(t, clock))


def rewrite_hint(t: Translation, node: Any) -> str | None:
    """Return how to write a condition with mz_now() in the place of a clock that views do not have; None elsewhere."""
    if node.find_ancestor(exp.Where, exp.Having) is None:
        return None
    side = node
    while isinstance(side.parent, exp.Paren):
        side = side.parent
    moved = None
    if isinstance(side.parent, exp.Add | exp.Sub):
        moved = _moved(t, side, side.parent)
    elif type(side.parent) in _OPERATORS:
        operator, other = _OPERATORS[type(side.parent)], side.parent.expression
        if other is side:
            operator, other = _FLIPPED[operator], side.parent.this
        moved = f"mz_now() {operator} {t.syntax.written(other)}"
    return None if moved is None else f"Write {moved}."


def _names(node: Any) -> bool:
    return isinstance(node, exp.Anonymous) and isinstance(node.this, str) and node.this.lower() == NAME


def _clock(node: Any) -> Any | None:
    """Return the mz_now() that stands in a condition, and not in a query within it."""
    return next((each for each in node.walk(prune=lambda below: isinstance(below, exp.Query)) if _names(each)), None)


def _alone(node: Any) -> bool:
    return _names(node.unnest())


def _comparisons(t: Translation, node: Any, clock: Any) -> list[tuple[str, Any, Any]]:
    """Return a condition as comparisons that are all true; raises SQ2936."""
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        found = [(">=", node.this, node.args["low"]), ("<=", node.this, node.args["high"])]
    elif type(node) in _OPERATORS:
        found = [(_OPERATORS[type(node)], node.this, node.expression)]
    else:
        raise misplaced_error(t, clock)
    for _, *sides in found:
        clocks = [side for side in sides if _clock(side) is not None]
        if len(clocks) > 1 or not all(map(_alone, clocks)) or any(each.unnest().expressions for each in clocks):
            raise misplaced_error(t, clock)
    return found


def _times(value: Typed, operator: str, span: Span) -> ValidInterval:
    """Return when `mz_now() operator value` is true of a value that is not NULL."""
    first, last = _milliseconds(value, operator, span)
    match operator:
        case "<=":
            return ValidInterval(end=_after(last))
        case "<":
            return ValidInterval(end=first)
        case ">=":
            return ValidInterval(begin=first)
        case ">":
            return ValidInterval(begin=_after(last))
        case _:
            return ValidInterval(begin=first, end=_after(last))


def _milliseconds(value: Typed, operator: str, span: Span) -> tuple[Typed, Typed]:
    """Return the first whole milliseconds that are not before a value, and the last that are not after it."""
    if value.type == types.UNKNOWN:
        number = isinstance(value.constant, str) and value.constant.isdigit()
        value = coerced(value, types.BIGINT if number else types.TIMESTAMPTZ)
    if value.type == types.DATE:
        value = cast_to(value, types.TIMESTAMP)
    if types.instant(value.type):
        seconds = functions_time.extract("EXTRACT", "epoch", value, value.span)
        exact = operators.wide(
            operators.arithmetic("*", seconds, constant(1000, types.INTEGER, value.span), value.span)
        )
        return _whole("ceil", exact), _whole("floor", exact)
    if types.unsigned(value.type):
        value = cast_to(value, NUMERIC)
    if types.whole(value.type):
        whole = _clamped(coerced(value, types.BIGINT)) if value.type == types.BIGINT else coerced(value, types.BIGINT)
        return whole, whole
    if value.type.name != "numeric":
        message = f"operator does not exist: mz_now() {operator} {value.type.called}"
        raise SinkqlError("SQ2211", message, span, hint=f"Compare mz_now() with a time, as in {_EXAMPLE}.")
    exact = _clamped(operators.wide(value))
    return _whole("ceil", exact), _whole("floor", exact)


def _whole(function: str, value: Typed) -> Typed:
    return cast_to(call(f"{function}(numeric)", (value,)), types.BIGINT)


def _clamped(value: Typed) -> Typed:
    """Return a number, or the last one that any clock is from."""
    low, high = (coerced(constant(each, types.BIGINT, value.span), value.type) for each in (-_FAR, _FAR))
    below = call("least(any…)", (value, high), type_=value.type)
    return call("greatest(any…)", (below, low), type_=value.type)


def _after(value: Typed) -> Typed:
    return call("+(bigint,bigint)", (value, constant(1, types.BIGINT, value.span)), value.span)


def _at(times: ValidInterval, now: int) -> list[Typed]:
    """Return the condition of rows that show at a time."""
    found = []
    if (begin := times.begin) is not None:
        found.append(call("<=(any,any)", (begin, constant(now, types.BIGINT, begin.span))))
    if (end := times.end) is not None:
        found.append(call("<(any,any)", (constant(now, types.BIGINT, end.span), end), end.span))
    return found


def _below(relation: logical.Relation, begin: _Time, end: _Time) -> logical.Relation | None:
    """Return a relation with rows bounded below a join of it; None where it has no join of whose sides one is enough.

    Rows of the side that an outer join fills with NULLs are not bounded below it.
    """
    match relation:
        case logical.Filter() | logical.Bound():
            below = _below(relation.input, begin, end)
            return None if below is None else replace(relation, input=below, shape=_retracting(relation.shape))
        case logical.Project():
            by = {each.name: each.expression for each in relation.outputs}
            below = _below(relation.input, _replaced(begin, by), _replaced(end, by))
            return None if below is None else replace(relation, input=below, shape=_retracting(relation.shape))
        case logical.Join() if not _reads(begin) and not _reads(end):
            return _beside(relation, begin, end)
        case _:
            return None


def _reads(time: _Time) -> bool:
    """Tell whether a time is made of a text, which may be none on a row that the join leaves out."""
    return time is not None and any(isinstance(each, Cast) and each.operand.type == types.TEXT for each in walk(time))


def _beside(join: logical.Join, begin: _Time, end: _Time) -> logical.Relation | None:
    used = {each.name for side in (begin, end) if side is not None for each in walk(side) if _column(each)}
    shape = _retracting(join.shape)
    if join.kind not in (JoinKind.RIGHT, JoinKind.FULL) and used <= {each.name for each in join.left.shape.columns}:
        left = _below(join.left, begin, end) or _bound(join.left, begin, end)
        return replace(join, left=left, shape=shape)
    if join.kind in (JoinKind.INNER, JoinKind.RIGHT) and used <= {each.name for each in join.right.shape.columns}:
        right = _below(join.right, begin, end) or _bound(join.right, begin, end)
        return replace(join, right=right, shape=shape)
    return None


def _column(node: logical.Expression) -> TypeGuard[logical.Reference]:
    return isinstance(node, logical.Reference)


def _replaced(time: _Time, by: Mapping[str, logical.Expression]) -> _Time:
    """Return a time over the columns of what is projected."""
    if time is None or isinstance(time, logical.Reference):
        return None if time is None else by[time.name]
    return with_children(time, tuple(found for each in children(time) if (found := _replaced(each, by)) is not None))


def _retracting(shape: logical.Shape) -> logical.Shape:
    return replace(shape, change=logical.Change.RETRACT)


def _bound(relation: logical.Relation, begin: _Time, end: _Time) -> logical.Relation:
    if isinstance(relation, logical.Bound):
        both = _both("greatest(any…)", relation.begin, begin), _both("least(any…)", relation.end, end)
        return logical.Bound(relation.input, *both, relation.shape)
    return logical.Bound(relation, begin, end, _retracting(relation.shape))


def _both(function: str, known: _Time, more: _Time) -> _Time:
    """Return the narrower of two bounds."""
    if known is None or more is None:
        return more if known is None else known
    return call(function, (Typed(known, types.BIGINT), Typed(more, types.BIGINT)), type_=types.BIGINT).tree


# --- how to write it instead -------------------------------------------------------------------------------------


def _instead(t: Translation, clock: Any) -> str:
    node = clock
    while isinstance(node.parent, exp.Paren):
        node = node.parent
    parent = node.parent
    moved = _moved(t, node, parent) if isinstance(parent, exp.Add | exp.Sub) else None
    if moved is not None:
        return f"Write {moved}."
    if isinstance(parent, exp.Cast) and type(parent.parent) in _OPERATORS:
        return "Leave out the cast: mz_now() is compared with a time, and with milliseconds since 1970."
    if clock.find_ancestor(exp.Or) is not None:
        return "Write a view for each side of OR, and combine their rows with UNION."
    if isinstance(clock.find_ancestor(exp.Not, exp.NEQ), exp.NEQ):
        return "Write a view for each of < and >, and combine their rows with UNION ALL."
    return f"Write it as in WHERE {_EXAMPLE}."


def _moved(t: Translation, node: Any, sum_: Any) -> str | None:
    """Return a comparison with the other term of a sum moved to the other side of it."""
    side = sum_
    while isinstance(side.parent, exp.Paren):
        side = side.parent
    comparison = side.parent
    negative = isinstance(sum_, exp.Sub)
    if type(comparison) not in _OPERATORS or (negative and node is sum_.expression):
        return None
    here_left = comparison.this is side
    operator = _OPERATORS[type(comparison)]
    other = comparison.expression if here_left else comparison.this
    term = sum_.expression if node is sum_.this else sum_.this
    if _clock(other) is not None or _clock(term) is not None:
        return None
    shown = _term(t, other), _term(t, term)
    if isinstance(other, exp.Interval) and negative:
        shown = shown[1], shown[0]
    sign = "+" if negative else "-"
    return f"mz_now() {operator if here_left else _FLIPPED[operator]} {shown[0]} {sign} {shown[1]}"


def _term(t: Translation, node: Any) -> str:
    text = t.syntax.written(node)
    return (
        text if isinstance(node, exp.Column | exp.Literal | exp.Interval | exp.Anonymous | exp.Paren) else f"({text})"
    )
