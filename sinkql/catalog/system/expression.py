"""Convert expression trees to SQLite's expressions, or to functions if SQLite computes differently from Postgres."""

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
"""Types whose values SQLite orders and compares as Postgres does."""


class SqliteExpressions:
    """The conversion of one SELECT's expression trees.

    A tree refers to SQLite expressions by names from `atom`, and to aggregates by their names in `calls`.
    """

    def __init__(self, calls: Calls, functions: Functions) -> None:
        self._calls = calls
        self._functions = functions
        self._atoms: dict[str, exp.Expr] = {}

    def atom(self, sql: exp.Expr, type_: Type, span: Span) -> Typed:
        """Return a reference to an expression that SQLite computes."""
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
                condition = self.sql(tree.arguments[0])
                for argument in tree.arguments[1:]:
                    condition = class_(this=exp.paren(condition), expression=exp.paren(self.sql(argument)))
                return exp.paren(condition)
            case logical.Call() if tree.function == "NOT(boolean)":
                return exp.Not(this=exp.paren(self.sql(tree.arguments[0])))
            case logical.Call() if tree.function == "IS NULL(any)":
                return exp.paren(exp.Is(this=exp.paren(self.sql(tree.arguments[0])), expression=exp.Null()))
            case logical.Call() if tree.function in _COMPARED and all(
                _is_plain(argument) for argument in tree.arguments
            ):
                left, right = (exp.paren(self.sql(argument)) for argument in tree.arguments)
                return exp.paren(_COMPARED[tree.function](this=left, expression=right))
        return self._computed(tree)

    def _reference(self, name: str) -> exp.Expr:
        atom = self._atoms.get(name)
        if atom is not None:
            return atom.copy()
        call = next(aggregate for aggregate in self._calls.aggregates if aggregate.name == name)
        arguments: list[exp.Expr] = [exp.Star()]
        if call.argument is not None:
            self._check_aggregate(call, call.argument)
            arguments = [self.sql(call.argument)]
        if call.distinct:
            arguments = [exp.Distinct(expressions=arguments)]
        sum_function = SUMS.get(call.type.name) if call.function == "sum" else None
        return exp.Anonymous(this=sum_function[0] if sum_function else call.function, expressions=arguments)

    def _check_aggregate(self, call: logical.AggregateCall, argument: logical.Expression) -> None:
        if call.function in ("min", "max") or call.distinct:
            name = argument.type.name
            if name not in ORDERED:
                message = f"{call.function}() of {name} is not supported over system relations"
                raise NoFormError("SQ2284", message, argument.span, hint=SUPPORTED)

    def _computed(self, tree: logical.Expression) -> exp.Expr:
        below = tuple(map(self._replace_forms, children(tree)))
        tree = with_children(tree, below)
        columns = list(dict.fromkeys((reference.name, reference.type) for reference in _references(tree)))
        name = self._functions.add(tree, columns)
        return exp.Anonymous(this=name, expressions=[self._reference(reference) for reference, _ in columns])

    def _replace_forms(self, tree: logical.Expression) -> logical.Expression:
        """Replace the parts of a tree that have functions in `FORMS` by references."""
        if isinstance(tree, logical.Call) and tree.function in FORMS:
            return self.atom(self.sql(tree), tree.type, tree.span).tree
        return with_children(tree, tuple(map(self._replace_forms, children(tree))))


def _widens(cast: logical.Cast) -> bool:
    return types.INTEGER_DIGITS[cast.type.name] >= types.INTEGER_DIGITS[cast.operand.type.name]


def _is_plain(tree: logical.Expression) -> bool:
    """Return whether SQLite compares values of a type as Postgres does, and has literals for them."""
    return tree.type.name in _LITERALS


def _references(tree: logical.Expression) -> Iterator[logical.Reference]:
    return (node for node in walk(tree) if isinstance(node, logical.Reference))


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
