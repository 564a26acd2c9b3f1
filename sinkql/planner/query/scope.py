"""What names mean in one SELECT: the columns of its FROM, then the groups and aggregates of its GROUP BY."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.errors import MissingColumnError, MissingError, SinkqlError, Span, nearest
from sinkql.logical.typetext import shown_name
from sinkql.planner import types
from sinkql.planner.expression.literal import literal
from sinkql.planner.expression.typed import Typed, column
from sinkql.vocabulary import join_name

_CLOCKS: dict[type, str] = {
    exp.CurrentTimestamp: "now",
    exp.CurrentDate: "current_date",
    exp.Localtimestamp: "localtimestamp",
}
_CLOCK_TYPES = {
    "now": types.TIMESTAMPTZ,
    "statement_timestamp": types.TIMESTAMPTZ,
    "transaction_timestamp": types.TIMESTAMPTZ,
    "clock_timestamp": types.TIMESTAMPTZ,
    "current_date": types.DATE,
    "localtimestamp": types.TIMESTAMP,
}


def _part(whole: str, type_: logical.Type, names: tuple[str, ...]) -> str | None:
    """Return the part of a value that these names lead to as it is written here, None where there is none."""
    if not names:
        return whole
    first, rest = names[0], names[1:]
    key = "'{}'".format(first.replace("'", "''"))
    if type_ == types.JSONB:
        return _part(f"{whole} {'->' if rest else '->>'} {key}", type_, rest)
    if type_.name == "map" and type_.value is not None and not rest:
        return f"{whole} -> {key}"
    if type_.name == "record":
        of_field = next((each.type for each in type_.fields if each.name == first), None)
        return None if of_field is None else _part(f"({whole}).{shown_name(first)}", of_field, rest)
    return None


@dataclass(frozen=True, slots=True)
class Scope:
    """The one relation of a FROM: the names it goes by, alias or parts of its full name, and its columns.

    `now` is the time of a statement that runs once, None in a view.
    """

    qualifiers: tuple[tuple[str, ...], ...]
    columns: tuple[logical.Column, ...]
    now: datetime | None = None

    def covers(self, qualifier: tuple[str, ...]) -> bool:
        """Tell whether `t.c` or `schema.t.c` speaks of this relation."""
        return any(known[-len(qualifier) :] == qualifier for known in self.qualifiers)

    def resolve(self, name: str, qualifier: tuple[str, ...], span: Span, *, quoted: bool = False) -> Typed:
        """Return a column by its name; raises MissingColumnError, and SQ2205 for an ambiguous one.

        Of a name in double quotes that no column is near to, the hint is that it may have been meant as a string.
        """
        if qualifier and not self.covers(qualifier):
            shown = join_name(*qualifier)
            known = self.qualifiers[0][-1] if self.qualifiers else None
            hint = self._within(name, qualifier) or (f"The relation in FROM is called {known}." if known else None)
            raise MissingError("SQ2202", f'relation "{shown}" is not in FROM', span, name=qualifier[-1], hint=hint)
        found = [each for each in self.columns if each.name == name]
        if len(found) > 1:
            raise SinkqlError(
                "SQ2205", f'column "{name}" is ambiguous', span, hint="Rename one of the columns in a subquery."
            )
        if not found:
            raise self._unknown(name, span, quoted=quoted)
        return column(name, found[0].type, nullable=found[0].nullable, span=span)

    def _within(self, name: str, qualifier: tuple[str, ...]) -> str | None:
        """Return how to write what looks like a part of a column; None where it is none."""
        for place, part in enumerate(qualifier):
            if place and not self.covers(qualifier[:place]):
                continue
            whole = next((each for each in self.columns if each.name == part), None)
            shown = ".".join(map(shown_name, qualifier[: place + 1]))
            written = _part(shown, whole.type, (*qualifier[place + 1 :], name)) if whole is not None else None
            if written is not None:
                return f"Write {written}."
        return None

    def _unknown(self, name: str, span: Span, *, quoted: bool) -> MissingColumnError:
        names = [each.name for each in self.columns]
        close = nearest(name, names)
        hint = f"Did you mean {close}?" if close else f"The columns are {', '.join(names)}." if names else None
        if quoted and names and not close:
            hint = f"Write '{name}' for a string; double quotes are for names."
        return MissingColumnError("SQ2204", f'column "{name}" does not exist', span, hint=hint)


def identifier(node: Any) -> str:
    """Return an identifier's value, folded to lower case unless it was quoted."""
    return str(node.this) if node.args.get("quoted") else str(node.this).lower()


def qualifier(node: Any) -> tuple[str, ...]:
    """Return what stands before a column's name."""
    parts = (node.args.get(part) for part in ("catalog", "db", "table"))
    return tuple(identifier(part) for part in parts if part is not None)


def resolved(scope: Scope, node: Any, span: Span) -> Typed:
    """Return the column that a node names."""
    return scope.resolve(identifier(node.this), qualifier(node), span, quoted=bool(node.this.args.get("quoted")))


class RowContext:
    """Names in WHERE, in GROUP BY, inside an aggregate, and in a SELECT without aggregates."""

    def __init__(self, scope: Scope, where: str) -> None:
        self.scope = scope
        self.where = where

    def column(self, node: Any, span: Span) -> Typed:
        return resolved(self.scope, node, span)

    def aggregate(self, node: Any, span: Span, filter_: Any | None) -> Typed:
        message = f"aggregate {str(node.this).lower()}() is not allowed in {self.where}"
        hint = "Use HAVING." if self.where == "WHERE" else None
        raise SinkqlError("SQ2216", message, span, hint=hint)

    def known(self, node: Any) -> Typed | None:
        return _clock(node, self.scope.now, Span(0, 0)) if self.scope.now is not None else None


@dataclass(frozen=True, slots=True)
class Groups:
    """The group expressions by their trees over the input, as columns of the aggregate's output."""

    by_tree: Mapping[logical.Expression, Typed]

    def find(self, value: Typed, span: Span) -> Typed | None:
        found = self.by_tree.get(value.tree)
        return found.at(span) if found is not None else None


def _clock(node: Any, now: datetime | None, span: Span) -> Typed | None:
    """Return what a call of a clock gives at `now` (UTC); None for any other node, and where there is no now."""
    if now is None:
        return None
    name = _CLOCKS.get(type(node))
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str) and not node.expressions:
        name = node.this.lower()
    type_ = _CLOCK_TYPES.get(name or "")
    if type_ is None:
        return None
    text = f"{now:%Y-%m-%d}" if type_ == types.DATE else f"{now:%Y-%m-%d %H:%M:%S.%f}"
    return literal(text, type_, span)
