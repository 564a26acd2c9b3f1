"""What handlers of sqlglot's nodes work with: the query's text, what names mean, the translation of nodes below."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sqlglot import exp

from sinkql.errors import SinkqlError, Span
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed
from sinkql.planner.syntax.sqlglot_tree import Syntax
from sinkql.planner.syntax.unsupported import unsupported


class Windowing(Protocol):
    """Say what window functions mean in one SELECT."""

    def call(self, t: Translation, node: Any) -> Typed:
        """Return what a window function gives, whose arguments are translated as `t` does."""


class Context(Protocol):
    """Say what names and aggregates mean where an expression stands."""

    windows: Windowing | None
    """What window functions mean; None where none are allowed."""
    where: str
    subqueries: SubqueryContext | None
    """What plans subqueries; None where none may stand."""

    def column(self, node: Any, span: Span) -> Typed:
        """Return the column that a name stands for."""

    def aggregate(self, node: Any, span: Span, filter_: Any | None) -> Typed:
        """Return what an aggregate call gives."""

    def known(self, node: Any) -> Typed | None:
        """Return the value of a whole subtree that the context already has: a GROUP BY expression."""


class SubqueryContext(Protocol):
    """Plan the subqueries of the expressions that stand somewhere."""

    def exists(self, node: Any, span: Span) -> Typed:
        """Return whether a query has a row."""

    def scalar(self, node: Any, span: Span) -> Typed:
        """Return the value of a query's one row."""

    def member(self, values: Sequence[Typed], node: Any, span: Span) -> Typed:
        """Return whether values are the columns of one of a query's rows."""

    def compared(self, operator: str, value: Typed, node: Any, span: Span, *, every: bool) -> Typed:
        """Return whether a comparison is true of one of a query's values, or of every one."""


class Translation(ABC):
    """The translation of one query's expressions, as a handler of a node sees it."""

    def __init__(self, syntax: Syntax, context: Context) -> None:
        self.syntax = syntax
        self.context = context

    @abstractmethod
    def translate(self, node: Any) -> Typed:
        """Return the expression that a node means; raises SinkqlError at the innermost node that is wrong."""

    def boolean(self, node: Any, where: str) -> Typed:
        """Return a condition; raises SinkqlError (SQ2219) if it is not boolean."""
        value = self.translate(node)
        if value.type == types.UNKNOWN:
            value = coerced(value, types.BOOLEAN)
        if value.type != types.BOOLEAN:
            message = f"argument of {where} must be type boolean, not type {value.type.name}"
            raise SinkqlError("SQ2219", message, value.span, hint=f"Compare it, as in value {_compared(value.type)}.")
        return value

    def subqueries(self, node: Any) -> SubqueryContext:
        """Return what plans a subquery; raises SQ2926 where none may stand."""
        found = self.context.subqueries
        if found is None:
            message = "a subquery is not allowed here"
            hint = "Write the value itself, or run INSERT INTO … SELECT …."
            if self.context.where == "a function in FROM":
                hint = "Compute it in a query in FROM before the function, and use its column."
            raise SinkqlError("SQ2926", message, self.span(node), hint=hint)
        return found

    def only(self, node: Any, *names: str) -> None:
        """Refuse a node that carries more than the named parts: nothing that was written is dropped."""
        for name, part in node.args.items():
            if name in names or part is None or part is False or part == []:
                continue
            place = part if isinstance(part, exp.Expr) else node
            raise unsupported(node, self.syntax.span(place), name)

    def span(self, node: Any) -> Span:
        return self.syntax.span(node)


Handler = Callable[[Translation, Any], Typed]
"""How the nodes of one class are translated."""


def _compared(type_: types.Type) -> str:
    """Return what makes a condition of a value of a type."""
    if types.number(type_):
        return "<> 0"
    return "<> ''" if type_ == types.TEXT else "IS NOT NULL"
