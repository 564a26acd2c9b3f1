"""Define what the handlers of sqlglot nodes use: the query's text, the context of names, and the translator."""

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
    """The window functions of one SELECT."""

    def call(self, t: Translation, node: Any) -> Typed:
        """Return the value of a window function whose arguments `t` translates."""


class Context(Protocol):
    """The names and aggregates that an expression may use at its place in the query."""

    windows: Windowing | None
    """The window functions; None if they are not allowed here."""
    where: str
    subqueries: SubqueryContext | None
    """The planner of subqueries; None if they are not allowed here."""

    def column(self, node: Any, span: Span) -> Typed:
        """Return the column that a name refers to."""

    def aggregate(self, node: Any, span: Span, filter_: Any | None) -> Typed:
        """Return the value of an aggregate call."""

    def computed(self, node: Any) -> Typed | None:
        """Return the value of a subtree if the context has one, for example a GROUP BY expression."""


class SubqueryContext(Protocol):
    """The planner of subqueries in expressions."""

    def exists(self, node: Any, span: Span) -> Typed:
        """Return whether a query has a row."""

    def scalar(self, node: Any, span: Span) -> Typed:
        """Return the value of a query's single row."""

    def member(self, values: Sequence[Typed], node: Any, span: Span) -> Typed:
        """Return whether values equal the columns of a row of the query."""

    def compared(self, operator: str, value: Typed, node: Any, span: Span, *, every: bool) -> Typed:
        """Return whether a comparison is true of at least one of a query's values, or of all of them."""


class Translation(ABC):
    """The translation of one query's expressions, as the handlers of nodes use it."""

    def __init__(self, syntax: Syntax, context: Context) -> None:
        self.syntax = syntax
        self.context = context

    @abstractmethod
    def translate(self, node: Any) -> Typed:
        """Return the expression of a node; raise SinkqlError with the span of the innermost wrong node."""

    def boolean(self, node: Any, where: str) -> Typed:
        """Return a condition; raise SQ2219 if it is not boolean."""
        value = self.translate(node)
        if value.type == types.UNKNOWN:
            value = coerced(value, types.BOOLEAN)
        if value.type != types.BOOLEAN:
            message = f"argument of {where} must be type boolean, not type {value.type.name}"
            raise SinkqlError(
                "SQ2219", message, value.span, hint=f"Compare it, as in value {_condition_suffix(value.type)}."
            )
        return value

    def subqueries(self, node: Any) -> SubqueryContext:
        """Return the planner of a subquery; raise SQ2926 if subqueries are not allowed here."""
        context = self.context.subqueries
        if context is None:
            message = "a subquery is not allowed here"
            hint = "Write the value itself, or run INSERT INTO … SELECT …."
            if self.context.where == "a function in FROM":
                hint = "Compute it in a query in FROM before the function, and use its column."
            raise SinkqlError("SQ2926", message, self.span(node), hint=hint)
        return context

    def only(self, node: Any, *names: str) -> None:
        """Raise an error if a node has parts other than these, so that no part of the text is ignored."""
        for name, part in node.args.items():
            if name in names or part is None or part is False or part == []:
                continue
            part_node = part if isinstance(part, exp.Expr) else node
            raise unsupported(node, self.syntax.span(part_node), name)

    def span(self, node: Any) -> Span:
        return self.syntax.span(node)


Handler = Callable[[Translation, Any], Typed]
"""A function that translates the nodes of one class."""


def _condition_suffix(type_: types.Type) -> str:
    """Return the text that turns a value of a type into a condition."""
    if types.is_number(type_):
        return "<> 0"
    return "<> ''" if type_ == types.TEXT else "IS NOT NULL"
