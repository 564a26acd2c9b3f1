"""Comparisons, NULL tests, IN, BETWEEN, rows and patterns in sqlglot's tree → Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sinkql.errors import SinkqlError, Span
from sinkql.planner import expressions_operator as operators
from sinkql.planner import functions_pattern, types
from sinkql.planner.expressions_literal import coerced
from sinkql.planner.expressions_typed import AND, BITS, NOT, OR, PREDICATE, Typed, form

if TYPE_CHECKING:
    from sinkql.planner.expressions import Translator

    Handler = Callable[[Translator, Any], Typed]


def negated(value: Typed) -> Typed:
    """Return NOT value."""
    return Typed(f"NOT {value.within(NOT + 1)}", types.BOOLEAN, value.nullable, value.span, binds=NOT)


def _joined(word: str, values: Sequence[Typed], span: Span) -> Typed:
    binds = AND if word == "AND" else OR
    if len(values) == 1:
        return values[0]
    sql = f" {word} ".join(value.within(binds + 1) for value in values)
    return Typed(sql, types.BOOLEAN, any(value.nullable for value in values), span, binds=binds)


def _comparison(operator: str) -> Handler:
    def plan(t: Translator, node: Any) -> Typed:
        t.only(node, "this", "expression")
        left, right = node.this, node.expression
        for side in (left, right):
            if type(side) in _COMPARISONS:
                message = "a comparison of a comparison needs parentheses"
                hint = "Write (a < b) = c, or a < b AND b < c."
                if node.find(exp.DPipe) is not None:
                    hint = "Write OR between conditions; || joins texts."
                raise SinkqlError("SQ2215", message, t.span(node), hint=hint)
        if isinstance(left, exp.Tuple) or isinstance(right, exp.Tuple):
            return _rows(t, operator, left, right, t.span(node))
        if isinstance(right, (exp.Any, exp.All)):
            return _quantified(t, operator, left, right, t.span(node))
        return operators.compare(operator, t.translate(left), t.translate(right), t.span(node))

    return plan


def _rows(t: Translator, operator: str, left: Any, right: Any, span: Span) -> Typed:
    if not isinstance(left, exp.Tuple) or not isinstance(right, exp.Tuple) or operator == "<=>":
        raise SinkqlError("SQ2211", "a row is compared with a row by = <> < <= > >=", span)
    lefts = [t.translate(each) for each in left.expressions]
    rights = [t.translate(each) for each in right.expressions]
    if len(lefts) != len(rights) or not lefts:
        raise SinkqlError("SQ2211", "rows that are compared have the same number of values", span)
    return compare_rows(operator, lefts, rights, span)


def compare_rows(operator: str, lefts: Sequence[Typed], rights: Sequence[Typed], span: Span) -> Typed:
    """Compare rows value by value, from the left."""
    pairs = list(zip(lefts, rights, strict=True))
    if operator in ("=", "<>"):
        parts = [operators.compare(operator, left, right, span) for left, right in pairs]
        return _joined("AND" if operator == "=" else "OR", parts, span)
    (left, right), rest = pairs[0], pairs[1:]
    if not rest:
        return operators.compare(operator, left, right, span)
    tail = compare_rows(operator, [a for a, _ in rest], [b for _, b in rest], span)
    tie = _joined("AND", [operators.compare("=", left, right, span), tail], span)
    return _joined("OR", [operators.compare(operator[0], left, right, span), tie], span)


def _quantified(t: Translator, operator: str, left: Any, right: Any, span: Span) -> Typed:
    values = _array(t, right)
    subject = t.translate(left)
    if values is None or (operator, type(right)) not in (("=", exp.Any), ("<>", exp.All)):
        raise SinkqlError("SQ2214", "ANY and ALL are supported as = ANY(ARRAY[…]) and <> ALL(ARRAY[…])", span)
    found = member(subject, values, span)
    return found if operator == "=" else negated(found)


def _array(t: Translator, quantifier: Any) -> list[Typed] | None:
    inner = quantifier.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if not isinstance(inner, exp.Array) or not inner.expressions:
        return None
    return [t.translate(each) for each in inner.expressions]


def member(subject: Typed, values: Sequence[Typed], span: Span) -> Typed:
    """Plan `subject IN (values)`."""
    typed = operators.alike((subject, *values), span, "=")
    listed = ", ".join(value.sql for value in typed[1:])
    nullable = any(value.nullable for value in typed)
    return Typed(f"{typed[0].within(BITS)} IN ({listed})", types.BOOLEAN, nullable, span, binds=PREDICATE)


def _in(t: Translator, node: Any) -> Typed:
    if node.args.get("query") is not None:
        raise SinkqlError("SQ2926", "subqueries in expressions are not supported yet", t.span(node))
    t.only(node, "this", "expressions")
    if not node.expressions:
        raise SinkqlError("SQ2201", "expected a value in IN ()", t.span(node))
    if not isinstance(node.this, exp.Tuple):
        return member(t.translate(node.this), [t.translate(each) for each in node.expressions], t.span(node))
    rows = [_rows(t, "=", node.this, each, t.span(node)) for each in node.expressions]
    return _joined("OR", rows, t.span(node))


def _between(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "low", "high", "symmetric")
    span = t.span(node)
    value, low, high = (t.translate(node.args[part]) for part in ("this", "low", "high"))
    value, low, high = operators.alike((value, low, high), span, "BETWEEN")
    found = form("@0 BETWEEN @1 AND @2", (value, low, high), types.BOOLEAN, binds=PREDICATE)
    if not node.args.get("symmetric"):
        return found
    return _joined(
        "OR", [found, form("@0 BETWEEN @2 AND @1", (value, low, high), types.BOOLEAN, binds=PREDICATE)], span
    )


def _is(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "expression", "negate")
    if isinstance(node.this, exp.Tuple):
        raise SinkqlError("SQ2214", "IS NULL of a row has no exact form", t.span(node), hint="Test each value.")
    test, negate = node.expression, bool(node.args.get("negate"))
    word = "IS NOT" if negate else "IS"
    if isinstance(test, exp.Null):
        value = t.translate(node.this)
        if value.type == types.UNKNOWN:
            value = coerced(value, types.TEXT)
        shown = "NULL"
    elif isinstance(test, exp.Boolean):
        value, shown = t.boolean(node.this, f"IS {test.this}".upper()), str(test.this).upper()
    else:
        raise SinkqlError("SQ2215", "expected NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM after IS", t.span(node))
    return form(f"@0 {word} {shown}", (value,), types.BOOLEAN, nullable=False, binds=PREDICATE)


def _same(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "expression")
    left, right = t.translate(node.this), t.translate(node.expression)
    found = operators.compare("<=>", left, right, t.span(node))
    return Typed(found.sql, types.BOOLEAN, False, found.span, binds=found.binds)


def _pattern(ignore_case: bool) -> Handler:
    def plan(t: Translator, node: Any) -> Typed:
        return _matched(t, node, escape=None, ignore_case=ignore_case)

    return plan


def _escaped(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "expression")
    like = node.this
    negate = isinstance(like, exp.Not)
    like = like.this if negate else like
    if not isinstance(like, (exp.Like, exp.ILike)):
        raise SinkqlError("SQ2215", "ESCAPE stands only after LIKE", t.span(node))
    escape = t.translate(node.expression)
    found = _matched(t, like, escape=escape, ignore_case=isinstance(like, exp.ILike))
    return negated(found) if negate else found


def _matched(t: Translator, node: Any, *, escape: Typed | None, ignore_case: bool) -> Typed:
    t.only(node, "this", "expression", "negate")
    subject, right = t.translate(node.this), node.expression
    values = _array(t, right) if isinstance(right, (exp.Any, exp.All)) else [t.translate(right)]
    if values is None:
        raise SinkqlError("SQ2214", "LIKE takes a pattern, ANY (ARRAY[…]) or ALL (ARRAY[…])", t.span(node))
    found = [functions_pattern.like(subject, value, escape, ignore_case=ignore_case) for value in values]
    joined = _joined("AND" if isinstance(right, exp.All) else "OR", found, t.span(node))
    return negated(joined) if node.args.get("negate") else joined


def _regular(ignore_case: bool) -> Handler:
    def plan(t: Translator, node: Any) -> Typed:
        t.only(node, "this", "expression")
        return functions_pattern.matches(t.translate(node.this), t.translate(node.expression), ignore_case=ignore_case)

    return plan


def _starts_with(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "expression")
    values = [t.translate(each) for each in (node.this, node.expression)]
    if any(value.type not in (types.TEXT, types.UNKNOWN) for value in values):
        raise operators.no_operator("^@", values, t.span(node))
    return form("startswith(@0, @1)", [coerced(value, types.TEXT) for value in values], types.BOOLEAN)


_COMPARISONS: dict[type, str] = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
HANDLERS: dict[type, Handler] = {
    **{class_: _comparison(operator) for class_, operator in _COMPARISONS.items()},
    exp.NullSafeEQ: _same,
    exp.NullSafeNEQ: lambda t, node: negated(_same(t, node)),
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _pattern(False),
    exp.ILike: _pattern(True),
    exp.Escape: _escaped,
    exp.RegexpLike: _regular(False),
    exp.RegexpILike: _regular(True),
    exp.StartsWith: _starts_with,
}
