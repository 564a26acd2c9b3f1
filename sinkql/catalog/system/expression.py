"""Trees of expressions → SQLite's expressions: what it computes as Postgres does itself, all else as a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from sinkql import logical
from sinkql.catalog.system.function import FORMS, SUMS, Functions
from sinkql.errors import NoFormError, Span
from sinkql.logical import Type
from sinkql.logical.expression import children, walk, with_children
from sinkql.planner import types
from sinkql.planner.expression.typed_expression import Typed, column
from sinkql.planner.query.aggregate.aggregate import Calls

SUPPORTED = "Use joins, subqueries, GROUP BY, ORDER BY, and the expressions that views may have."
ORDERED = ("text", "boolean", "smallint", "integer", "bigint", "date", "timestamp", "timestamptz", "uuid", "real",
           "double precision")  # fmt: skip
"""Types whose values SQLite orders, and takes for equal, as Postgres does."""


class SqliteExpressions:
    """Give the trees of one SELECT as SQLite computes them.

    A tree refers to what SQLite computes by names, which `atom` gives, and to aggregates by those that `calls` has.
    """

    def __init__(self, calls: Calls, functions: Functions) -> None:
        self._calls = calls
        self._functions = functions
        self._atoms: dict[str, exp.Expr] = {}

    def atom(self, sql: exp.Expr, type_: Type, span: Span) -> Typed:
        """Return a reference to what SQLite computes."""
        name = sql.sql("sqlite", identify=True)
        self._atoms[name] = sql
        return column(name, type_, nullable=True, span=span)

    def sql(self, tree: logical.Expression) -> exp.Expr:
        """Return SQLite's expression for a tree."""
        match tree:
            case logical.Reference():
                return self._reference(tree.name)
            case logical.Literal(text=None):
                return exp.Null()
            case logical.Literal(text=str() as text) if tree.type.name in _LITERALS:
                return _LITERALS[tree.type.name](text)
            case logical.Cast() if (
                types.is_signed_integer(tree.type) and types.is_signed_integer(tree.operand.type) and _widens(tree)
            ):
                return self.sql(tree.operand)
            case logical.Call() if tree.function in ("AND(boolean…)", "OR(boolean…)"):
                class_ = exp.And if tree.function.startswith("AND") else exp.Or
                found = self.sql(tree.arguments[0])
                for each in tree.arguments[1:]:
                    found = class_(this=exp.paren(found), expression=exp.paren(self.sql(each)))
                return exp.paren(found)
            case logical.Call() if tree.function == "NOT(boolean)":
                return exp.Not(this=exp.paren(self.sql(tree.arguments[0])))
            case logical.Call() if tree.function == "IS NULL(any)":
                return exp.paren(exp.Is(this=exp.paren(self.sql(tree.arguments[0])), expression=exp.Null()))
            case logical.Call() if tree.function in _COMPARED and all(_plain(each) for each in tree.arguments):
                left, right = (exp.paren(self.sql(each)) for each in tree.arguments)
                return exp.paren(_COMPARED[tree.function](this=left, expression=right))
        return self._computed(tree)

    def _reference(self, name: str) -> exp.Expr:
        known = self._atoms.get(name)
        if known is not None:
            return known.copy()
        call = next(each for each in self._calls.aggregates if each.name == name)
        arguments: list[exp.Expr] = [exp.Star()]
        if call.argument is not None:
            self._check_aggregate(call)
            arguments = [self.sql(call.argument)]
        if call.distinct:
            arguments = [exp.Distinct(expressions=arguments)]
        own = SUMS.get(call.type.name) if call.function == "sum" else None
        return exp.Anonymous(this=own[0] if own else call.function, expressions=arguments)

    def _check_aggregate(self, call: logical.AggregateCall) -> None:
        assert call.argument is not None
        if call.function in ("min", "max") or call.distinct:
            name = call.argument.type.name
            if name not in ORDERED:
                message = f"{call.function}() of {name} is not supported over system relations"
                raise NoFormError("SQ2284", message, call.argument.span, hint=SUPPORTED)

    def _computed(self, tree: logical.Expression) -> exp.Expr:
        below = tuple(map(self._cut, children(tree)))
        tree = with_children(tree, below)
        columns = list(dict.fromkeys((each.name, each.type) for each in _references(tree)))
        name = self._functions.add(tree, columns)
        return exp.Anonymous(this=name, expressions=[self._reference(each) for each, _ in columns])

    def _cut(self, tree: logical.Expression) -> logical.Expression:
        """Return a tree with a reference in the place of what has a function of its own."""
        if isinstance(tree, logical.Call) and tree.function in FORMS:
            return self.atom(self.sql(tree), tree.type, tree.span).tree
        return with_children(tree, tuple(map(self._cut, children(tree))))


def _widens(cast: logical.Cast) -> bool:
    return types.INTEGER_DIGITS[cast.type.name] >= types.INTEGER_DIGITS[cast.operand.type.name]


def _plain(tree: logical.Expression) -> bool:
    """Tell whether SQLite compares values of a type as Postgres does, and has literals for them."""
    return tree.type.name in _LITERALS


def _references(tree: logical.Expression) -> Iterator[logical.Reference]:
    return (each for each in walk(tree) if isinstance(each, logical.Reference))


def _number(text: str) -> exp.Expr:
    return (
        exp.Literal.number(text) if not text.startswith("-") else exp.paren(exp.Neg(this=exp.Literal.number(text[1:])))
    )


_LITERALS: dict[str, Callable[[str], exp.Expr]] = {
    "text": exp.Literal.string,
    "boolean": lambda text: exp.Literal.number(int(text == "true")),
    "smallint": _number,
    "integer": _number,
    "bigint": _number,
}
_COMPARED: dict[str, type] = {
    "=(any,any)": exp.EQ, "<>(any,any)": exp.NEQ, "<(any,any)": exp.LT, "<=(any,any)": exp.LTE, ">(any,any)": exp.GT,
    ">=(any,any)": exp.GTE,
}  # fmt: skip
