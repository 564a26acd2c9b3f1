"""sqlglot's tree of one expression → Spark SQL with its type; what is not known here is refused, never passed on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sqlglot import exp

from sinkql.errors import SinkqlError, Span
from sinkql.planner import expressions_operator as operators
from sinkql.planner import functions, functions_pattern, functions_text, functions_time, types
from sinkql.planner.expressions_cast import cast
from sinkql.planner.expressions_interval import interval_literal, parse_interval
from sinkql.planner.expressions_json import HANDLERS as JSON
from sinkql.planner.expressions_json import number_text
from sinkql.planner.expressions_literal import coerced, number, untyped, untyped_null
from sinkql.planner.expressions_predicate import HANDLERS as PREDICATES
from sinkql.planner.expressions_predicate import negated
from sinkql.planner.expressions_refusal import unknown_type, unsupported
from sinkql.planner.expressions_typed import AND, ATOM, OR, Typed, form
from sinkql.planner.query_string import string_value
from sinkql.planner.query_syntax import Syntax

Handler = Callable[["Translator", Any], Typed]


class Context(Protocol):
    """Say what names and aggregates mean where an expression stands."""

    def column(self, node: Any, span: Span) -> Typed:
        """Return the column that a name stands for."""

    def aggregate(self, node: Any, span: Span, filter_: Any | None) -> Typed:
        """Return what an aggregate call gives."""

    def known(self, node: Any) -> Typed | None:
        """Return the value of a whole subtree that the context already has: a GROUP BY expression."""


class Translator:
    """Translate expressions of one query."""

    def __init__(self, syntax: Syntax, context: Context) -> None:
        self.syntax = syntax
        self.context = context

    def translate(self, node: Any) -> Typed:
        """Return the expression; raises SinkqlError at the innermost node that is wrong."""
        known = self.context.known(node)
        if known is not None:
            return known.at(self.syntax.span(node))
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise unsupported(node, self.syntax.span(node))
        return handler(self, node).at(self.syntax.span(node))

    def boolean(self, node: Any, where: str) -> Typed:
        """Return a condition; raises SinkqlError (SQ2219) if it is not boolean."""
        value = self.translate(node)
        if value.type == types.UNKNOWN:
            value = coerced(value, types.BOOLEAN)
        if value.type != types.BOOLEAN:
            message = f"{where} takes a condition, found {value.type.name}"
            raise SinkqlError("SQ2219", message, value.span, hint="Compare it, as in value <> 0.")
        return value

    def only(self, node: Any, *names: str) -> None:
        """Refuse a node that carries more than the named parts: nothing that was written is dropped."""
        for name, part in node.args.items():
            if name in names or part is None or part is False or part == []:
                continue
            place = part if isinstance(part, exp.Expr) else node
            raise unsupported(node, self.syntax.span(place), name)

    def span(self, node: Any) -> Span:
        return self.syntax.span(node)


def _column(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "table", "db", "catalog")
    if isinstance(node.this, exp.Star):
        raise unsupported(node.this, t.span(node))
    return t.context.column(node, t.span(node))


def _literal(t: Translator, node: Any) -> Typed:
    text = string_value(t.syntax, node)
    if text is not None:
        return untyped(text, t.span(node))
    if isinstance(node, exp.Literal) and not node.is_string:
        return number(node.this, t.span(node))
    message = "this form of string is not supported"
    raise SinkqlError("SQ2215", message, t.span(node), hint="Write it as '…' or E'…', a quote in it as ''.")


def _boolean_literal(t: Translator, node: Any) -> Typed:
    return Typed("true" if node.this else "false", types.BOOLEAN, False, t.span(node), constant=bool(node.this))


def _paren(t: Translator, node: Any) -> Typed:
    t.only(node, "this")
    return t.translate(node.this)


def _arithmetic(operator: str) -> Callable[[Translator, Any], Typed]:
    def plan(t: Translator, node: Any) -> Typed:
        t.only(node, "this", "expression", "typed", "safe")
        return operators.arithmetic(operator, t.translate(node.this), t.translate(node.expression), t.span(node))

    return plan


def _bits(operator: str) -> Callable[[Translator, Any], Typed]:
    def plan(t: Translator, node: Any) -> Typed:
        t.only(node, "this", "expression")
        return operators.bits(operator, t.translate(node.this), t.translate(node.expression), t.span(node))

    return plan


def _complement(t: Translator, node: Any) -> Typed:
    value = t.translate(node.this)
    if not types.whole(value.type):
        raise operators.no_operator("~", (value,), t.span(node))
    return form("~@0", (value,), value.type, binds=ATOM - 1)


def _negative(t: Translator, node: Any) -> Typed:
    return operators.negative(t.translate(node.this), t.span(node))


def _logic(word: str, binds: int) -> Callable[[Translator, Any], Typed]:
    def plan(t: Translator, node: Any) -> Typed:
        t.only(node, "this", "expression")
        left, right = t.boolean(node.this, word), t.boolean(node.expression, word)
        sql = f"{left.within(binds)} {word} {right.within(binds + 1)}"
        return Typed(sql, types.BOOLEAN, left.nullable or right.nullable, t.span(node), binds=binds)

    return plan


def _not(t: Translator, node: Any) -> Typed:
    t.only(node, "this")
    return negated(t.boolean(node.this, "NOT"))


def _concatenate(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "expression", "safe")
    return operators.concatenate(t.translate(node.this), t.translate(node.expression), t.span(node))


def _case(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "ifs", "default")
    subject = t.translate(node.this) if node.this else None
    tests, values = [], []
    for branch in node.args["ifs"]:
        if subject is None:
            tests.append(t.boolean(branch.this, "WHEN"))
        else:
            tests.append(operators.compare("=", subject, t.translate(branch.this), t.span(branch.this)))
        values.append(t.translate(branch.args["true"]))
    default = node.args.get("default")
    if default is not None:
        values.append(t.translate(default))
    type_, typed = operators.settled(values, t.span(node), "CASE")
    parts = [f"WHEN {test.sql} THEN {value.sql}" for test, value in zip(tests, typed, strict=False)]
    if default is not None:
        parts.append(f"ELSE {typed[-1].sql}")
    nullable = default is None or any(value.nullable for value in typed)
    return Typed(f"CASE {' '.join(parts)} END", type_, nullable, t.span(node))


def _cast(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "to", "safe")
    target = node.args["to"]
    written = t.syntax.written(target)
    try:
        found = types.parse_type_name(written)
    except ValueError as mistake:
        raise SinkqlError("SQ2223", str(mistake), t.span(target), hint="Write numeric(38, 10).") from None
    if found is None:
        raise unknown_type(written, t.span(target))
    value = number_text(t, node.this, found[0]) or t.translate(node.this)
    return cast(value, found[0], t.span(node), length=found[1])


def _interval(t: Translator, node: Any) -> Typed:
    unit = node.args["unit"].this if node.args.get("unit") else None
    text = string_value(t.syntax, node.this)
    if text is None or (unit and " TO " in unit):
        hint = "Write it as INTERVAL '1 year 2 months 3 days 04:05:06'."
        raise SinkqlError("SQ2212", "this form of interval is not understood", t.span(node), hint=hint)
    return interval_literal(parse_interval(text, t.span(node), unit), t.span(node))


def _extract(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "expression")
    return functions_time.extract(node.this.name, t.translate(node.expression), t.span(node))


def _at_time_zone(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "zone")
    return functions_time.at_time_zone(t.translate(node.this), t.translate(node.args["zone"]), t.span(node))


def _trim(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "expression", "position")
    characters = t.translate(node.expression) if node.expression else None
    return functions_text.trim(node.args.get("position") or "BOTH", t.translate(node.this), characters, t.span(node))


def _named(name: str, *parts: str) -> Callable[[Translator, Any], Typed]:
    """Plan a function that has a syntax of its own like a call."""

    def plan(t: Translator, node: Any) -> Typed:
        t.only(node, *parts)
        values = [t.translate(node.args[part]) for part in parts if node.args.get(part)]
        if name == "substring" and len(values) == 2 and values[1].type == types.UNKNOWN:
            return functions_pattern.substring(values[0], values[1], t.span(node))
        return functions.call(name, values, t.span(node))

    return plan


def _call(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "expressions")
    name = str(node.this if isinstance(node.this, str) else node.this.name).lower()
    if name in functions.AGGREGATES:
        return t.context.aggregate(node, t.span(node), None)
    if name in functions.UNSUPPORTED_AGGREGATES:
        raise SinkqlError("SQ2932", f"aggregate {name}() is not supported yet", t.span(node))
    functions.check(name, t.span(node))  # first: a misspelt aggregate is not a mistake of its arguments
    return functions.call(name, [t.translate(argument) for argument in node.expressions], t.span(node))


def _bracket(t: Translator, node: Any) -> Typed:
    """Plan (regexp_match(text, 'pattern'))[n], the one array that is known."""
    t.only(node, "this", "expressions")
    call = node.this.this if isinstance(node.this, exp.Paren) else node.this
    index = node.expressions[0]
    known = isinstance(call, exp.Anonymous) and str(call.this).lower() == "regexp_match" and len(call.expressions) == 2
    if not known or not isinstance(index, exp.Literal) or not str(index.this).isdigit():
        raise SinkqlError("SQ2214", "arrays are not supported yet", t.span(node))
    text, pattern = (t.translate(each) for each in call.expressions)
    return functions_pattern.match_group(text, pattern, int(index.this) + 1)  # sqlglot counts from 0


def _filter(t: Translator, node: Any) -> Typed:
    t.only(node, "this", "expression")
    call = node.this
    if not isinstance(call, exp.Anonymous) or str(call.this).lower() not in functions.AGGREGATES:
        raise SinkqlError("SQ2215", "FILTER stands only after an aggregate", t.span(node))
    return t.context.aggregate(call, t.span(node), node.expression.this)


def _collate(t: Translator, node: Any) -> Typed:
    if node.expression.name not in ("C", "POSIX", "ucs_basic"):
        raise SinkqlError("SQ2214", 'text is ordered by its bytes: only COLLATE "C" is supported', t.span(node))
    return t.translate(node.this)


_HANDLERS: dict[type, Handler] = {
    **PREDICATES,
    **JSON,
    exp.Column: _column,
    **dict.fromkeys((exp.Literal, exp.ByteString, exp.RawString, exp.UnicodeString, exp.National), _literal),
    exp.Null: lambda t, node: untyped_null(t.span(node)),
    exp.Boolean: _boolean_literal,
    exp.Paren: _paren,
    exp.Add: _arithmetic("+"),
    exp.Sub: _arithmetic("-"),
    exp.Mul: _arithmetic("*"),
    exp.Div: _arithmetic("/"),
    exp.Mod: _arithmetic("%"),
    exp.BitwiseAnd: _bits("&"),
    exp.BitwiseOr: _bits("|"),
    exp.BitwiseXor: _bits("#"),
    exp.BitwiseLeftShift: _bits("<<"),
    exp.BitwiseRightShift: _bits(">>"),
    exp.BitwiseNot: _complement,
    exp.Neg: _negative,
    exp.And: _logic("AND", AND),
    exp.Or: _logic("OR", OR),
    exp.Not: _not,
    exp.DPipe: _concatenate,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Interval: _interval,
    exp.Extract: _extract,
    exp.AtTimeZone: _at_time_zone,
    exp.Trim: _trim,
    exp.Substring: _named("substring", "this", "start", "length"),
    exp.StrPosition: _named("strpos", "this", "substr"),
    exp.Overlay: _named("overlay", "this", "expression", "from_", "for_"),
    exp.Anonymous: _call,
    exp.Bracket: _bracket,
    exp.Filter: _filter,
    exp.Collate: _collate,
}
