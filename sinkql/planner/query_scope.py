"""What names mean in one SELECT: the columns of its FROM, then the groups and aggregates of its GROUP BY."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NoReturn

from sinkql import logical
from sinkql.errors import SinkqlError, Span, nearest
from sinkql.planner.expressions_typed import Typed, column
from sinkql.planner.moment import moment


@dataclass(frozen=True, slots=True)
class Scope:
    """Hold the one relation of a FROM: the names it goes by, alias or parts of its full name, and its columns.

    `now` is the time of a statement that runs once, None in a view.
    """

    qualifiers: tuple[tuple[str, ...], ...]
    columns: tuple[logical.Column, ...]
    now: datetime | None = None

    def covers(self, qualifier: tuple[str, ...]) -> bool:
        """Tell whether `t.c` or `schema.t.c` speaks of this relation."""
        return any(known[-len(qualifier) :] == qualifier for known in self.qualifiers)

    def resolve(self, name: str, qualifier: tuple[str, ...], span: Span) -> Typed:
        """Return a column by its name; raises SinkqlError: unknown (SQ2204), ambiguous (SQ2205)."""
        if qualifier and not self.covers(qualifier):
            shown = ".".join(qualifier)
            known = self.qualifiers[0][-1] if self.qualifiers else None
            hint = f"The relation in FROM is called {known}." if known else None
            raise SinkqlError("SQ2202", f'relation "{shown}" is not in FROM', span, hint=hint)
        found = [each for each in self.columns if each.name == name]
        if len(found) > 1:
            raise SinkqlError("SQ2205", f'column "{name}" is ambiguous', span, hint="Name the columns differently.")
        if not found:
            self._unknown(name, span)
        if found[0].type.name in ("time", "interval"):
            message = f'column "{name}" has type {found[0].type.name}, which views do not support yet'
            raise SinkqlError("SQ2934", message, span, hint="Leave it out of the view.")
        return column(name, found[0].type, nullable=found[0].nullable, span=span)

    def _unknown(self, name: str, span: Span) -> NoReturn:
        names = [each.name for each in self.columns]
        close = nearest(name, names)
        hint = f"Did you mean {close}?" if close else f"The columns are {', '.join(names)}." if names else None
        raise SinkqlError("SQ2204", f'column "{name}" does not exist', span, hint=hint)


def identifier(node: Any) -> str:
    """Return an identifier's value, folded to lower case unless it was quoted."""
    return str(node.this) if node.args.get("quoted") else str(node.this).lower()


def qualifier(node: Any) -> tuple[str, ...]:
    """Return what stands before a column's name."""
    parts = (node.args.get(part) for part in ("catalog", "db", "table"))
    return tuple(identifier(part) for part in parts if part is not None)


def resolved(scope: Scope, node: Any, span: Span) -> Typed:
    """Return the column that a node names; the hint for an unknown one in double quotes is that it may be a string."""
    try:
        return scope.resolve(identifier(node.this), qualifier(node), span)
    except SinkqlError as error:
        if error.code == "SQ2204" and node.this.args.get("quoted") and (error.hint or "").startswith("The columns"):
            error.hint = f"Write '{node.this.this}' for a string; double quotes are for names."
        raise


class RowContext:
    """Names in WHERE, in GROUP BY, inside an aggregate, and in a SELECT without aggregates."""

    def __init__(self, scope: Scope, where: str) -> None:
        self.scope = scope
        self.where = where

    def column(self, node: Any, span: Span) -> Typed:
        return resolved(self.scope, node, span)

    def aggregate(self, node: Any, span: Span, filter_: Any | None) -> Typed:
        message = f"aggregate {str(node.this).lower()}() cannot stand in {self.where}"
        hint = "Use HAVING." if self.where == "WHERE" else None
        raise SinkqlError("SQ2216", message, span, hint=hint)

    def known(self, node: Any) -> Typed | None:
        return moment(node, self.scope.now, Span(0, 0)) if self.scope.now is not None else None


@dataclass(frozen=True, slots=True)
class Groups:
    """Hold the group expressions by their text over the input, as columns of the aggregate's output."""

    by_sql: Mapping[str, Typed]

    def find(self, value: Typed, span: Span) -> Typed | None:
        found = self.by_sql.get(value.sql)
        return replace(found, span=span) if found is not None else None
