"""Translate comparisons, NULL tests, IN, BETWEEN, rows and patterns of sqlglot's tree into calls."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.errors import SinkqlError, Span
from sinkql.logical.expression import walk
from sinkql.planner import types
from sinkql.planner.expression import operator as operators
from sinkql.planner.expression.cast import fields
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed, call, joined, null_of
from sinkql.planner.function import call as functions
from sinkql.planner.function import nested as functions_array
from sinkql.planner.function import text as functions_pattern
from sinkql.planner.query.expression_context import Handler, Translation
from sinkql.planner.syntax.sqlglot_tree import COMPARISONS, row_values

_SAME = "IS NOT DISTINCT FROM"


def negated(value: Typed) -> Typed:
    """Return NOT value."""
    return call("NOT(boolean)", (value,), value.span)


def _comparison(operator: str) -> Handler:
    def plan(t: Translation, node: Any) -> Typed:
        t.only(node, "this", "expression")
        left, right = node.this, node.expression
        for side in (left, right):
            if type(side) in COMPARISONS:
                message = "a comparison of a comparison needs parentheses"
                hint = "Write (a < b) = c, or a < b AND b < c."
                if node.find(exp.DPipe) is not None:
                    hint = "Write OR between conditions; || concatenates text."
                if node.find(exp.ArrayOverlaps) is not None:
                    hint = "Write AND between conditions; && tests whether arrays or ranges overlap."
                raise SinkqlError("SQ2215", message, t.span(node), hint=hint)
        if isinstance(right, (exp.Any, exp.All)) and not isinstance(right.this, exp.Tuple):
            return _plan_quantified(t, operator, left, right, t.span(node))
        if row_values(left) is not None or row_values(right) is not None:
            return _compare_rows(t, operator, left, right, t.span(node))
        return operators.compare(operator, t.translate(left), t.translate(right), t.span(node))

    return plan


def _compare_rows(t: Translation, operator: str, left: Any, right: Any, span: Span) -> Typed:
    operands = row_values(left), row_values(right)
    if None in operands:
        one, other = t.translate(left), t.translate(right)
        if one.null or other.null:
            return null_of(types.BOOLEAN, span)
        if one.type.name == other.type.name == "record":
            return operators.compare(operator, one, other, span)
        raise SinkqlError("SQ2211", "a row can only be compared with a row", span)
    lefts, rights = ([t.translate(value) for value in values or ()] for values in operands)
    if len(lefts) != len(rights) or not lefts:
        raise SinkqlError("SQ2211", "the rows to compare have different numbers of values", span)
    return compare_rows(operator, lefts, rights, span)


def compare_rows(operator: str, lefts: Sequence[Typed], rights: Sequence[Typed], span: Span) -> Typed:
    """Compare rows value by value, starting from the left."""
    pairs = list(zip(lefts, rights, strict=True))
    if operator in ("=", "<>", _SAME):
        parts = [operators.compare(operator, left, right, span) for left, right in pairs]
        return joined("OR" if operator == "<>" else "AND", parts, span)
    (left, right), rest = pairs[0], pairs[1:]
    if not rest:
        return operators.compare(operator, left, right, span)
    tail = compare_rows(operator, [a for a, _ in rest], [b for _, b in rest], span)
    tie = joined("AND", [operators.compare("=", left, right, span), tail], span)
    return joined("OR", [operators.compare(operator[0], left, right, span), tie], span)


def _plan_quantified(t: Translation, operator: str, left: Any, right: Any, span: Span) -> Typed:
    if isinstance(right.this, exp.Query):
        subjects = _tested_values(t, left)
        every = isinstance(right, exp.All)
        if len(subjects) != 1 and (operator, every) in (("=", False), ("<>", True)):
            membership = t.subqueries(right).member(subjects, right.this, span)
            return negated(membership) if every else membership
        if len(subjects) != 1:
            raise SinkqlError("SQ2211", "a row can be compared with a subquery only by IN, = ANY and <> ALL", span)
        return t.subqueries(right).compared(operator, subjects[0], right.this, span, every=every)
    values = _array(t, right)
    subject = t.translate(left)
    every = isinstance(right, exp.All)
    if values is None:
        value = t.translate(right.this)
        comparison = functions_array.among(operator, subject, value, span, every=every)
        if comparison is None:
            word = "ALL" if every else "ANY"
            message = f"{word} takes an array, a list or a query, found {value.type.called}"
            raise SinkqlError("SQ2211", message, value.span, hint=f"Write {word} (ARRAY[…]).")
        return comparison
    if any(map(_may_fail, values)):
        with suppress(SinkqlError):  # no array has values of these types
            comparison = functions_array.among(operator, subject, t.translate(right.this), span, every=every)
            if comparison is not None:
                return comparison
    if (operator, every) in (("=", False), ("<>", True)):
        membership = member(subject, values, span)
        return negated(membership) if every else membership
    return joined(
        "AND" if every else "OR", [operators.compare(operator, subject, value, span) for value in values], span
    )


def _tested_values(t: Translation, node: Any) -> list[Typed]:
    """Return the values to look up in a query's rows."""
    values = [t.translate(part) for part in row_values(node) or [node]]
    for value_ in values:
        if value_.type.name == "record":
            hint = "Write its values as further values of the outer row."
            raise SinkqlError(
                "SQ2214", "a row within a row cannot be compared with a query's rows", value_.span, hint=hint
            )
    return values


def _may_fail(value: Typed) -> bool:
    """Return whether a value is computed from columns; as an element of an array it would always be computed."""
    return _has_column(value) and not isinstance(value.tree, logical.Reference)


def _array(t: Translation, quantifier: Any) -> list[Typed] | None:
    inner = quantifier.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if not isinstance(inner, exp.Array) or not inner.expressions:
        return None
    return [t.translate(expression) for expression in inner.expressions]


def member(subject: Typed, values: Sequence[Typed], span: Span) -> Typed:
    """Plan `subject IN (values)`."""
    if subject.type.name == "record":
        return joined("OR", [operators.compare("=", subject, value, span) for value in values], span)
    return call("IN(any,any…)", operators.alike((subject, *values), span, "="), span)


def _plan_in_list(subject: Typed, values: Sequence[Typed], span: Span) -> Typed:
    """Plan `subject IN (values)` as Postgres does.

    Several constants get one type with the subject, so that they become real next to a real. Other values are compared
    one by one.
    """
    constants = [value for value in values if not _has_column(value)]
    if len(constants) < 2 or types.common([subject.type, *(constant.type for constant in constants)]) != types.REAL:
        return member(subject, values, span)
    tests = [member(coerced(subject, types.REAL), [coerced(constant, types.REAL) for constant in constants], span)]
    tests += [operators.compare("=", subject, value, span) for value in values if _has_column(value)]
    return joined("OR", tests, span)


def _has_column(value: Typed) -> bool:
    return any(isinstance(node, logical.Reference) for node in walk(value.tree))


def _in(t: Translation, node: Any) -> Typed:
    if node.args.get("query") is not None:
        subject = _tested_values(t, node.this)
        return t.subqueries(node).member(subject, node.args["query"], t.span(node))
    t.only(node, "this", "expressions")
    if not node.expressions:
        raise SinkqlError("SQ2201", "expected a value in IN ()", t.span(node))
    if row_values(node.this) is None:
        return _plan_in_list(
            t.translate(node.this), [t.translate(expression) for expression in node.expressions], t.span(node)
        )
    rows = [_compare_rows(t, "=", node.this, expression, t.span(node)) for expression in node.expressions]
    return joined("OR", rows, t.span(node))


def _between(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "low", "high", "symmetric")
    span = t.span(node)
    if row_values(node.this) is not None:
        return _rows_between(t, node, span)
    value, low, high = (t.translate(node.args[part]) for part in ("this", "low", "high"))
    records = value.type.name == "record"
    if not records:
        value, low, high = operators.alike((value, low, high), span, "BETWEEN")

    def within(low: Typed, high: Typed) -> Typed:
        if not records:
            return call("BETWEEN(any,any,any)", (value, low, high), span)
        ends = [operators.compare(">=", value, low, span), operators.compare("<=", value, high, span)]
        return joined("AND", ends, span)

    condition = within(low, high)
    return joined("OR", [condition, within(high, low)], span) if node.args.get("symmetric") else condition


def _rows_between(t: Translation, node: Any, span: Span) -> Typed:
    value, low, high = (node.args[part] for part in ("this", "low", "high"))

    def within(low: Any, high: Any) -> Typed:
        return joined(
            "AND", [_compare_rows(t, ">=", value, low, span), _compare_rows(t, "<=", value, high, span)], span
        )

    condition = within(low, high)
    return joined("OR", [condition, within(high, low)], span) if node.args.get("symmetric") else condition


def _is(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "expression", "negate")
    test, negate = node.expression, bool(node.args.get("negate"))
    if isinstance(test, exp.Null):
        row = row_values(node.this)
        if row:
            return _test_row_null([t.translate(part) for part in row], t.span(node), negate=negate)
        value = t.translate(node.this)
        if value.type.name == "record":
            return _test_row_null(fields(value), t.span(node), negate=negate)
        test_ = _is_null(value, t.span(node))
    elif isinstance(test, exp.Boolean):
        word = str(test.this).upper()
        test_ = call(f"IS {word}(boolean)", (t.boolean(node.this, f"IS {word}"),), t.span(node))
    else:
        raise SinkqlError("SQ2215", "expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM after IS", t.span(node))
    return negated(test_) if negate else test_


def _is_null(value: Typed, span: Span) -> Typed:
    return call("IS NULL(any)", (coerced(value, types.TEXT) if value.type == types.UNKNOWN else value,), span)


def _test_row_null(values: Sequence[Typed], span: Span, *, negate: bool) -> Typed:
    tests = [_is_null(value, span) for value in values]
    return joined("AND", [negated(test) if negate else test for test in tests], span)


def _plan_distinct_from(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "expression")
    if row_values(node.this) is not None or row_values(node.expression) is not None:
        return _compare_rows(t, _SAME, node.this, node.expression, t.span(node))
    return operators.compare(_SAME, t.translate(node.this), t.translate(node.expression), t.span(node))


def _pattern(ignore_case: bool) -> Handler:
    def plan(t: Translation, node: Any) -> Typed:
        return _plan_like(t, node, escape=None, ignore_case=ignore_case)

    return plan


def _plan_escape(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "expression")
    like = node.this
    negate = isinstance(like, exp.Not)
    like = like.this if negate else like
    if not isinstance(like, (exp.Like, exp.ILike)):
        raise SinkqlError("SQ2215", "ESCAPE is only allowed after LIKE", t.span(node))
    escape = t.translate(node.expression)
    match = _plan_like(t, like, escape=escape, ignore_case=isinstance(like, exp.ILike))
    return negated(match) if negate else match


def _plan_like(t: Translation, node: Any, *, escape: Typed | None, ignore_case: bool) -> Typed:
    t.only(node, "this", "expression", "negate")
    subject, right = t.translate(node.this), node.expression
    values = _array(t, right) if isinstance(right, (exp.Any, exp.All)) else [t.translate(right)]
    if values is None:
        raise SinkqlError("SQ2214", "LIKE takes a pattern, ANY (ARRAY[…]) or ALL (ARRAY[…])", t.span(node))
    matches = [functions_pattern.like(subject, value, escape, ignore_case=ignore_case) for value in values]
    if node.args.get("negate"):  # as in Postgres, the quantifier applies to NOT LIKE
        matches = [negated(match) for match in matches]
    return joined("AND" if isinstance(right, exp.All) else "OR", matches, t.span(node))


def _regular_expression(ignore_case: bool) -> Handler:
    def plan(t: Translation, node: Any) -> Typed:
        t.only(node, "this", "expression")
        return functions_pattern.matches(t.translate(node.this), t.translate(node.expression), ignore_case=ignore_case)

    return plan


def _starts_with(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "expression")
    values = [t.translate(operand) for operand in (node.this, node.expression)]
    if any(value.type not in (types.TEXT, types.UNKNOWN) for value in values):
        raise operators.no_operator("^@", values, t.span(node))
    return functions.call("starts_with", values, t.span(node))


HANDLERS: dict[type, Handler] = {
    **{class_: _comparison(operator) for class_, operator in COMPARISONS.items()},
    exp.NullSafeEQ: _plan_distinct_from,
    exp.NullSafeNEQ: lambda t, node: negated(_plan_distinct_from(t, node)),
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _pattern(False),
    exp.ILike: _pattern(True),
    exp.Escape: _plan_escape,
    exp.RegexpLike: _regular_expression(False),
    exp.RegexpILike: _regular_expression(True),
    exp.StartsWith: _starts_with,
}
