"""Translate sqlglot's tree of one expression into a typed tree; refuse every node that has no handler here.

Also translates expressions that stand alone, over the columns of one relation or without columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlglot import exp

from sinkql import ast
from sinkql.errors import MissingColumnError, MissingError, SinkqlError, Span, UnknownNameError
from sinkql.logical import Branch, Case, Type
from sinkql.logical.nested import leaf
from sinkql.logical.type import flat
from sinkql.planner import types
from sinkql.planner.expression import operator as operators
from sinkql.planner.expression.cast import cast, field
from sinkql.planner.expression.literal import coerced, number, parse_interval, untyped, untyped_null
from sinkql.planner.expression.typed_expression import Typed, constant, joined, widest
from sinkql.planner.function import (
    call as functions,
)
from sinkql.planner.function import (
    json as functions_json,
)
from sinkql.planner.function import (
    nested as functions_array,
)
from sinkql.planner.function import (
    nested as functions_composite,
)
from sinkql.planner.function import (
    range as functions_range,
)
from sinkql.planner.function import (
    text as functions_pattern,
)
from sinkql.planner.function import (
    text as functions_text,
)
from sinkql.planner.function import (
    time as functions_time,
)
from sinkql.planner.query import temporal_filter
from sinkql.planner.query.expression_context import Handler, Translation
from sinkql.planner.query.predicate import HANDLERS as PREDICATES
from sinkql.planner.query.predicate import negated
from sinkql.planner.query.scope import RowContext, Scope, identifier
from sinkql.planner.syntax.sqlglot_tree import Syntax, parse, string_value
from sinkql.planner.syntax.unsupported import unknown_type, unsupported

_SCHEMA = "pg_catalog"
_SUBQUERY = "SELECT … FROM (SELECT *, row_number() OVER (…) AS n FROM …) AS t WHERE n = 1"
_CLOCKS = ("now", "clock_timestamp", "statement_timestamp", "transaction_timestamp")
Pair = Callable[[Typed, Typed, Span], Typed]


class Translator(Translation):
    """The translator of one query's expressions, which calls the handler of each node's class."""

    def translate(self, node: Any) -> Typed:
        """Return the expression; raise SinkqlError with the span of the innermost wrong node."""
        value = self.context.computed(node)
        if value is not None:
            return value.at(self.syntax.span(node))
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise unsupported(node, self.syntax.span(node))
        return handler(self, node).at(self.syntax.span(node))


def _column(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "table", "db", "catalog")
    if isinstance(node.this, exp.Star):
        raise unsupported(node.this, t.span(node))
    return t.context.column(node, t.span(node))


def _literal(t: Translation, node: Any) -> Typed:
    text = string_value(t.syntax, node)
    if text is not None:
        return untyped(text, t.span(node))
    if isinstance(node, exp.Literal) and not node.is_string:
        return number(node.this, t.span(node))
    message = "this form of string is not supported"
    raise SinkqlError("SQ2215", message, t.span(node), hint="Write it as '…' or E'…', and a quote inside it as ''.")


def _boolean_literal(t: Translation, node: Any) -> Typed:
    return constant(bool(node.this), types.BOOLEAN, t.span(node))


def _paren(t: Translation, node: Any) -> Typed:
    t.only(node, "this")
    return t.translate(node.this)


def _arithmetic(operator: str) -> Handler:
    def plan(t: Translation, node: Any) -> Typed:
        t.only(node, "this", "expression", "typed", "safe")
        return operators.arithmetic(operator, t.translate(node.this), t.translate(node.expression), t.span(node))

    return plan


def _power(t: Translation, node: Any) -> Typed:
    """Plan a ^ b, which is power(a, b) as in Postgres."""
    t.only(node, "this", "expression")
    return functions.call("power", [t.translate(node.this), t.translate(node.expression)], t.span(node))


def _bits(operator: str) -> Handler:
    def plan(t: Translation, node: Any) -> Typed:
        t.only(node, "this", "expression")
        return operators.bits(operator, t.translate(node.this), t.translate(node.expression), t.span(node))

    return plan


def _complement(t: Translation, node: Any) -> Typed:
    return operators.complement(t.translate(node.this), t.span(node))


def _negative(t: Translation, node: Any) -> Typed:
    operand = node.this.unnest()
    if isinstance(operand, exp.Literal) and not operand.is_string:
        return number(operand.this, t.span(node), negative=True)
    return operators.negative(t.translate(node.this), t.span(node))


def _logic(word: str) -> Handler:
    def plan(t: Translation, node: Any) -> Typed:
        parts, first = [], node
        while type(first) is type(node):  # a AND b AND c is one call
            t.only(first, "this", "expression")
            parts.append(first.expression)
            first = first.this
        return joined(word, [t.boolean(part, word) for part in (first, *reversed(parts))], t.span(node))

    return plan


def _not(t: Translation, node: Any) -> Typed:
    t.only(node, "this")
    return negated(t.boolean(node.this, "NOT"))


def _concatenate(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "expression", "safe")
    left, right = t.translate(node.this), t.translate(node.expression)
    if "array" in (left.type.name, right.type.name):
        return functions_array.joined(left, right, t.span(node))
    return operators.concatenate(left, right, t.span(node))


def _case(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "ifs", "default")
    subject = t.translate(node.this) if node.this else None
    tests: list[Typed] = []
    values: list[Typed] = []
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
    branches = tuple(Branch(test.tree, value.tree) for test, value in zip(tests, typed, strict=False))
    otherwise = typed[-1].tree if default is not None else None
    scale = widest(typed) if type_ == types.NUMERIC else None
    return Typed(Case(branches, otherwise, type_, t.span(node)), type_, scale)


def _cast(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "to", "safe")
    target = node.args["to"]
    words = t.syntax.words(target)
    try:
        parsed = types.parse_type_name(words)
    except ValueError as error_:
        plain = re.search(r'type modifier is not allowed for type "(.+)"', str(error_))
        hint = "Write numeric(38, 10)." if "numeric" in str(error_) else "Write text, which has no length."
        hint = f"Write {plain[1]}, without digits." if plain else hint
        raise UnknownNameError("SQ2223", str(error_), t.span(target), hint=hint) from None
    if parsed is None:
        raise unknown_type(flat(words), t.span(target))
    if isinstance(node.this, exp.Array) and not node.this.expressions and parsed[0].name in ("array", "list"):
        return cast(untyped("{}", t.span(node.this)), parsed[0], t.span(node), length=parsed[1])
    if parsed[0].name == "array" and leaf(parsed[0]) != types.TEXT and _is_untyped_array(node.this):
        return cast(_array_of(t, node.this, leaf(parsed[0])), parsed[0], t.span(node), length=parsed[1])
    return cast(t.translate(node.this), parsed[0], t.span(node), length=parsed[1])


def _is_untyped_array(node: Any) -> bool:
    """Return whether a node is an array of strings and NULLs only, whose type is the type of the cast."""
    return isinstance(node, exp.Array) and all(
        isinstance(expression_, exp.Null)
        or (isinstance(expression_, exp.Literal) and expression_.is_string)
        or _is_untyped_array(expression_)
        for expression_ in node.expressions
    )


def _array_of(t: Translation, node: Any, element: Type) -> Typed:
    """Return an array with elements of this type."""
    if not isinstance(node, exp.Array):
        return coerced(t.translate(node), element)
    return functions_array.construct(
        [_array_of(t, expression_, element) for expression_ in node.expressions], t.span(node)
    )


def _interval(t: Translation, node: Any) -> Typed:
    unit = node.args["unit"].this if node.args.get("unit") else None
    text = string_value(t.syntax, node.this)
    if text is None or (unit and " TO " in unit):
        hint = "Write it as INTERVAL '1 year 2 months 3 days 04:05:06'."
        raise SinkqlError("SQ2212", "this form of interval is not supported", t.span(node), hint=hint)
    return constant(parse_interval(text, t.span(node), unit), types.INTERVAL, t.span(node))


def _extract(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "expression")
    return functions_time.extract("EXTRACT", node.this.name, t.translate(node.expression), t.span(node))


def _at_time_zone(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "zone")
    return functions_time.at_time_zone(t.translate(node.this), t.translate(node.args["zone"]), t.span(node))


def _trim(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "expression", "position")
    characters = t.translate(node.expression) if node.expression else None
    return functions_text.trim(node.args.get("position") or "BOTH", t.translate(node.this), characters, t.span(node))


def _as_call(name: str, *parts: str) -> Handler:
    """Plan a function with special syntax like a call."""

    def plan(t: Translation, node: Any) -> Typed:
        t.only(node, *parts)
        values = [t.translate(node.args[part]) for part in parts if node.args.get(part)]
        return functions.call(name, values, t.span(node))

    return plan


def _call(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "expressions")
    name = str(node.this if isinstance(node.this, str) else node.this.name).lower()
    if name == temporal_filter.NAME:
        raise temporal_filter.misplaced_error(t, node)
    if name in _CLOCKS and (instead := temporal_filter.rewrite_hint(t, node)) is not None:
        raise SinkqlError("SQ2217", f"{name}() is volatile, which views do not allow", t.span(node), hint=instead)
    if name == "row":
        return functions_composite.record([t.translate(expression_) for expression_ in node.expressions], t.span(node))
    if name in functions.AGGREGATES:
        return t.context.aggregate(node, t.span(node), None)
    if name in functions.UNSUPPORTED_AGGREGATES:
        raise SinkqlError("SQ2932", f"aggregate {name}() is not supported yet", t.span(node))
    functions.check(
        name, t.span(node), len(node.expressions)
    )  # before the arguments: the name of a misspelt aggregate is the error
    arguments, names = [], []
    for expression_ in node.expressions:
        named = isinstance(expression_, exp.Kwarg)
        names += [(identifier(expression_.this), t.span(expression_))] if named else []
        if names and not named:
            raise SinkqlError("SQ2211", "a positional argument cannot follow a named argument", t.span(expression_))
        arguments.append(t.translate(expression_.expression if named else expression_))
    if names:
        arguments = functions.ordered(name, arguments, names)
    return functions.call(name, arguments, t.span(node))


def _current_timestamp(t: Translation, node: Any) -> Typed:
    """Raise the error for a clock that views do not allow."""
    error = unsupported(node, t.span(node))
    instead = temporal_filter.rewrite_hint(t, node)
    raise error if instead is None else SinkqlError(error.code, error.message, t.span(node), hint=instead)


def _dot(t: Translation, node: Any) -> Typed:
    """Plan a field of a record, or a call with the schema of Postgres's functions."""
    if isinstance(node.this, exp.Paren | exp.Dot) and isinstance(node.expression, exp.Star):
        hint = "Write each field, as in (r).f1, (r).f2."
        raise SinkqlError("SQ2215", "(record).* is not supported yet", t.span(node), hint=hint)
    if isinstance(node.this, exp.Paren | exp.Dot) and isinstance(node.expression, exp.Identifier):
        whole = t.span(node)
        name = re.search(r'(?:"(?:[^"]|"")*"|[^\s."]+)$', t.syntax.written(node))
        place = whole if name is None else Span(whole.end - len(name[0]), whole.end)
        inner = node.this.unnest()
        if isinstance(inner, exp.Column) and len(inner.parts) == 1:
            column = _column_of_row(t, inner, node.expression, whole)
            if column is not None:
                return column
        return field(t.translate(node.this), identifier(node.expression), whole, place)
    if not isinstance(node.expression, exp.Anonymous) or str(node.this.name).lower() != _SCHEMA:
        raise unsupported(node, t.span(node))
    return t.translate(node.expression)


def _column_of_row(t: Translation, row: Any, name: Any, span: Span) -> Typed | None:
    """Return `(t).name` if t is a relation in FROM, None if t is a column or does not exist."""
    try:
        t.context.column(row, t.span(row))
    except MissingColumnError:
        try:
            return t.context.column(exp.Column(this=name.copy(), table=row.this.copy()), span)
        except MissingError:  # the relation does not exist
            return None
    return None


def _named_argument(t: Translation, node: Any) -> Typed:
    called = node.parent
    name = str(called.this).lower() if isinstance(called, exp.Anonymous) else "this function"
    message = f"{name}() takes no named arguments" if name.isidentifier() else f"{name} takes no named arguments"
    raise SinkqlError("SQ2211", message, t.span(node), hint="Write the values in their order, without names.")


def _map(t: Translation, node: Any) -> Typed:
    keys, values = (node.args[part].expressions for part in ("keys", "values"))
    pairs = [(t.translate(key), t.translate(value)) for key, value in zip(keys, values, strict=True)]
    return functions_composite.mapped(pairs, t.span(node))


def _map_or_json(of_map: Pair, of_json: Pair) -> Handler:
    """Plan an operator that exists for both maps and jsonb."""

    def handler(t: Translation, node: Any) -> Typed:
        t.only(node, "this", "expression")
        value, key = t.translate(node.this), t.translate(node.expression)
        return (of_map if value.type.name == "map" else of_json)(value, key, t.span(node))

    return handler


def _bracket(t: Translation, node: Any) -> Typed:
    """Plan value[n]; plan (regexp_match(text, 'pattern'))[n] as one function."""
    t.only(node, "this", "expressions")
    call = node.this.this if isinstance(node.this, exp.Paren) else node.this
    index = node.expressions[0]
    is_match = (
        isinstance(call, exp.Anonymous) and str(call.this).lower() == "regexp_match" and len(call.expressions) == 2
    )
    if not is_match:
        return _subscript(t, node)
    if not isinstance(index, exp.Literal) or not str(index.this).isdigit():
        raise SinkqlError("SQ2214", "a subscript of regexp_match() must be a constant", t.span(node))
    text, pattern = (t.translate(expression_) for expression_ in call.expressions)
    return functions_pattern.match_group(text, pattern, int(index.this))


def _subscript(t: Translation, node: Any) -> Typed:
    (index, *more) = node.expressions
    if more:
        raise SinkqlError("SQ2215", "expected one subscript in brackets", t.span(node), hint="Write value[1][2].")
    if isinstance(index, exp.Slice):
        if _has_more_subscripts(node) or isinstance(node.this, exp.Bracket):
            message = "a slice with another subscript is not supported"
            raise SinkqlError("SQ2214", message, t.span(node), hint="Write the slice in parentheses: (a[1:2])[1].")
        first, last = (t.translate(bound) if bound else None for bound in (index.args.get("this"), index.expression))
        return functions_array.part(t.translate(node.this), first, last, t.span(node))
    return functions_array.element(
        t.translate(node.this), t.translate(index), t.span(node), last=not _has_more_subscripts(node)
    )


def _has_more_subscripts(node: Any) -> bool:
    return isinstance(node.parent, exp.Bracket) and node.arg_key == "this"


def _array(t: Translation, node: Any) -> Typed:
    t.only(node, "expressions", "bracket_notation")
    return functions_array.construct([t.translate(expression_) for expression_ in node.expressions], t.span(node))


def _tuple(t: Translation, node: Any) -> Typed:
    t.only(node, "expressions")
    return functions_composite.record([t.translate(expression_) for expression_ in node.expressions], t.span(node))


def _window(t: Translation, node: Any) -> Typed:
    if t.context.windows is None:
        message = f"window functions are not allowed in {t.context.where}"
        hint = f"Compute it in a subquery in FROM: {_SUBQUERY}."
        raise SinkqlError("SQ2216", message, t.span(node), hint=hint)
    return t.context.windows.call(t, node)


def _filter(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "expression")
    call = node.this.this if isinstance(node.this, exp.WithinGroup) else node.this
    if not isinstance(call, exp.Anonymous) or str(call.this).lower() not in functions.AGGREGATES:
        raise SinkqlError("SQ2215", "FILTER is only allowed after an aggregate", t.span(node))
    return t.context.aggregate(call, t.span(node), node.expression.this)


def _within_group(t: Translation, node: Any) -> Typed:
    t.only(node, "this", "expression")
    call = node.this
    name = call.name.lower() if isinstance(call, exp.Anonymous) else None
    if name not in functions.SORTED_AGGREGATES:
        what = "WITHIN GROUP" if name is None else f"{name}()"
        hint = "Write ORDER BY inside the parentheses of the aggregate, as in string_agg(name, ',' ORDER BY name)."
        raise SinkqlError("SQ2211", f"{what} is not an ordered-set aggregate", t.span(node), hint=hint)
    return t.context.aggregate(call, t.span(node), None)


def _collate(t: Translation, node: Any) -> Typed:
    if node.expression.name not in ("C", "POSIX", "ucs_basic"):
        raise SinkqlError("SQ2214", 'only COLLATE "C" is supported: text is compared byte by byte', t.span(node))
    return t.translate(node.this)


def _binary(plan: Pair) -> Handler:
    def handler(t: Translation, node: Any) -> Typed:
        t.only(node, "this", "expression")
        return plan(t.translate(node.this), t.translate(node.expression), t.span(node))

    return handler


def _exists(t: Translation, node: Any) -> Typed:
    return t.subqueries(node).exists(node.this, t.span(node))


def _scalar(t: Translation, node: Any) -> Typed:
    return t.subqueries(node).scalar(node, t.span(node))


_HANDLERS: dict[type, Handler] = {
    exp.Kwarg: _named_argument,
    **PREDICATES,
    exp.JSONExtractScalar: _binary(functions_json.get_text),
    exp.JSONExtract: _map_or_json(functions_composite.value_at, functions_json.get),
    exp.JSONBExtractScalar: _binary(functions_json.path_text),
    exp.JSONBExtract: _binary(functions_json.path_json),
    exp.JSONBContainsTopKey: _map_or_json(functions_composite.has_key, functions_json.has_key),
    exp.ArrayContainsAll: _binary(functions_range.contains),
    exp.ArrayContainedBy: _binary(functions_range.contained),
    exp.ArrayOverlaps: _binary(functions_range.overlaps),
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
    exp.Pow: _power,
    exp.BitwiseAnd: _bits("&"),
    exp.BitwiseOr: _bits("|"),
    exp.BitwiseXor: _bits("#"),
    exp.BitwiseLeftShift: _bits("<<"),
    exp.BitwiseRightShift: _bits(">>"),
    exp.BitwiseNot: _complement,
    exp.Neg: _negative,
    exp.And: _logic("AND"),
    exp.Or: _logic("OR"),
    exp.Not: _not,
    exp.DPipe: _concatenate,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Interval: _interval,
    exp.Extract: _extract,
    exp.AtTimeZone: _at_time_zone,
    exp.Trim: _trim,
    exp.Substring: _as_call("substring", "this", "start", "length"),
    exp.StrPosition: _as_call("strpos", "this", "substr"),
    exp.Overlay: _as_call("overlay", "this", "expression", "from_", "for_"),
    exp.Anonymous: _call,
    exp.CurrentTimestamp: _current_timestamp,
    exp.Dot: _dot,
    exp.Bracket: _bracket,
    exp.Array: _array,
    exp.Tuple: _tuple,
    exp.Map: _map,
    exp.Filter: _filter,
    exp.WithinGroup: _within_group,
    exp.Window: _window,
    exp.Collate: _collate,
    exp.Exists: _exists,
    exp.Subquery: _scalar,
    exp.Select: _scalar,
}


_HEAD = "SELECT "
_CACHE_KEY = "syntax"


def expression(written: ast.Expression) -> tuple[Syntax, Any]:
    """Parse an expression and cache its tree; its spans point into the user's text. Raises SQ2201."""
    parsed: tuple[Syntax, Any] | None = written.made.get(_CACHE_KEY)
    if parsed is None:
        parsed = written.made[_CACHE_KEY] = _parse_alone(written)
    return parsed


def _parse_alone(written: ast.Expression) -> tuple[Syntax, Any]:
    start = written.span.start - len(_HEAD)
    syntax = parse(ast.Query(_HEAD + written.text, Span(start, start + len(_HEAD) + len(written.text))))
    items = (
        syntax.tree.expressions if len([argument for argument in syntax.tree.args.values() if argument]) == 1 else []
    )
    if len(items) != 1:
        raise SinkqlError("SQ2201", "expected one expression", written.span)
    return syntax, items[0]


def scalar(written: ast.Expression, now: datetime | None, scope: Scope | None = None) -> Typed:
    """Translate an expression that stands alone, over a relation's columns or without columns."""
    syntax, node = expression(written)
    return translator(syntax, now, scope, "this place").translate(node)


def translator(syntax: Syntax, now: datetime | None, scope: Scope | None, where: str) -> Translator:
    """Return a translator whose clocks return `now`."""
    return Translator(syntax, RowContext(replace(scope or Scope(), now=now), where))
