"""Resolve names in one SELECT: columns of its FROM, columns of outer queries, then the groups of its GROUP BY."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.errors import MissingColumnError, MissingError, SinkqlError, Span, nearest, one_of
from sinkql.keywords import qualified_name
from sinkql.logical.type import shown_name
from sinkql.planner import types
from sinkql.planner.expression.literal import literal
from sinkql.planner.expression.typed_expression import Typed, column
from sinkql.planner.query.expression_context import SubqueryContext, Windowing

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
    "mz_now": types.UINT8,
}
_EPOCH = datetime(1970, 1, 1)


def _part_sql(whole: str, type_: logical.Type, names: tuple[str, ...]) -> str | None:
    """Return the SQL for the part of a value at this path of names, None if the type lacks the part."""
    if not names:
        return whole
    first, rest = names[0], names[1:]
    key = "'{}'".format(first.replace("'", "''"))
    if type_ == types.JSONB:
        return _part_sql(f"{whole} {'->' if rest else '->>'} {key}", type_, rest)
    if type_.name == "map" and type_.value is not None and not rest:
        return f"{whole} -> {key}"
    if type_.name == "record":
        of_field = next((field.type for field in type_.fields if field.name == first), None)
        return None if of_field is None else _part_sql(f"({whole}).{shown_name(first)}", of_field, rest)
    return None


@dataclass(frozen=True, slots=True)
class Named:
    """A column with its name in the query, and the column of the relation that FROM is planned to."""

    name: str
    column: logical.Column

    def at(self, span: Span) -> Typed:
        """Return the column as an expression at a span."""
        return column(self.column.name, self.column.type, nullable=self.column.nullable, span=span)


@dataclass(frozen=True, slots=True)
class Part:
    """One relation of a FROM: its qualifiers (alias, or parts of its full name) and its columns.

    The name of a `scalar` relation also stands for its single column.
    """

    qualifiers: tuple[tuple[str, ...], ...]
    columns: tuple[Named, ...]
    scalar: bool = False

    def covers(self, qualifier: tuple[str, ...]) -> bool:
        """Return whether `t` in `t.c`, or `schema.t` in `schema.t.c`, refers to this relation."""
        return any(full[-len(qualifier) :] == qualifier for full in self.qualifiers)


@dataclass(frozen=True, slots=True)
class Outer:
    """The scope around a query, and the function that maps an outer column to a column within the query."""

    scope: Scope
    within: Callable[[Typed], Typed]

    @classmethod
    def recorded(
        cls, scope: Scope, spoken: dict[str, Typed], fresh: Callable[[], str], there: Callable[[Typed], Typed]
    ) -> Outer:
        """Return an outer scope that gives each outer column that is used a new name and records it in `spoken`.

        `there` maps a column of the scope to the query around.
        """

        def within(value: Typed) -> Typed:
            outer = there(value)
            name = next((name for name, value_ in spoken.items() if value_.tree == outer.tree), None) or fresh()
            spoken[name] = outer
            return column(name, outer.type, nullable=outer.nullable, span=value.span)

        return cls(scope, within)


@dataclass(frozen=True, slots=True)
class Scope:
    """The names of a query: the relations of its FROM, and the columns that need no qualifier, in the order of `*`.

    `now` is the time of a one-shot query, None in a view. A name that no relation here has is looked up in the outer
    scope.
    """

    parts: tuple[Part, ...] = ()
    columns: tuple[Named, ...] = ()
    now: datetime | None = None
    outer: Outer | None = None

    @classmethod
    def of(
        cls,
        qualifiers: tuple[tuple[str, ...], ...],
        columns: Sequence[logical.Column],
        now: datetime | None = None,
        outer: Outer | None = None,
    ) -> Scope:
        """Return the scope of one relation whose columns keep their names."""
        named = tuple(Named(column_.name, column_) for column_ in columns)
        return cls((Part(qualifiers, named),), named, now, outer)

    def resolve(self, name: str, qualifier: tuple[str, ...], span: Span, *, quoted: bool = False) -> Typed:
        """Return a column by its name.

        Raises MissingColumnError, MissingError, or SQ2205 if the name is ambiguous. If the name is in double quotes and
        no column has a similar name, the hint suggests a string.
        """
        typed = self.find(name, qualifier, span)
        if typed is not None:
            return typed
        parts = [part for part in self.parts if part.covers(qualifier)] if qualifier else list(self.parts)
        if qualifier and not parts:
            raise self._missing_relation(name, qualifier, span)
        named = [column_ for part in parts for column_ in part.columns] if qualifier else list(self.columns)
        raise _missing_column_error(name, [candidate.name for candidate in named], span, quoted=quoted)

    def find(self, name: str, qualifier: tuple[str, ...], span: Span) -> Typed | None:
        """Return a column of this scope or of an outer one, None if no column has the name. Raises SQ2205."""
        parts = [part for part in self.parts if part.covers(qualifier)] if qualifier else list(self.parts)
        if qualifier and len(parts) > 1:
            shown = qualified_name(*qualifier)
            names = " or ".join(qualified_name(*part.qualifiers[0]) for part in parts)
            raise SinkqlError("SQ2205", f'relation name "{shown}" is ambiguous', span, hint=f"Write {names}.")
        candidates = parts[0].columns if qualifier and parts else () if qualifier else self.columns
        matches = [candidate for candidate in candidates if candidate.name == name]
        if len(matches) > 1:
            hint = self._qualified(name) or "Rename one of the columns in a subquery."
            raise SinkqlError("SQ2205", f'column "{name}" is ambiguous', span, hint=hint)
        if not matches and not qualifier:
            matches = [part.columns[0] for part in self.parts if part.scalar and part.covers((name,))]
        if matches:
            return matches[0].at(span)
        if self.outer is None or (qualifier and parts):
            return None
        around = self.outer.scope.find(name, qualifier, span)
        return self.outer.within(around) if around is not None else None

    def owns(self, value: Typed) -> bool:
        """Return whether a column belongs to this scope rather than to an outer one."""
        return any(column_.column.name == value.column for part in self.parts for column_ in part.columns) or any(
            column_.column.name == value.column for column_ in self.columns
        )

    def star(self, qualifier: tuple[str, ...]) -> tuple[Named, ...] | None:
        """Return the columns of `*` or `t.*`, None if no relation has this name."""
        if not qualifier:
            return self.columns
        return next((part.columns for part in self.parts if part.covers(qualifier)), None)

    def _qualified(self, name: str) -> str | None:
        """Return a hint with the qualified names of an ambiguous column."""
        parts = [
            part for part in self.parts if part.qualifiers and any(column_.name == name for column_ in part.columns)
        ]
        ways = [f"{shown_name(part.qualifiers[0][-1])}.{shown_name(name)}" for part in parts]
        return f"Write {one_of(ways)}." if len(ways) > 1 else None

    def _missing_relation(self, name: str, qualifier: tuple[str, ...], span: Span) -> MissingError:
        shown = qualified_name(*qualifier)
        names = [part.qualifiers[0][-1] for part in self.parts if part.qualifiers]
        hint = self._part_hint(name, qualifier)
        if hint is None and len(names) == 1:
            hint = f"The relation in FROM is called {shown_name(names[0])}."
        elif hint is None and names:
            close = nearest(qualifier[-1], names)
            listed = ", ".join(map(shown_name, names))
            hint = f"Did you mean {shown_name(close)}?" if close else f"The relations in FROM are called {listed}."
        return MissingError("SQ2202", f'relation "{shown}" is not in FROM', span, name=qualifier[-1], hint=hint)

    def _part_hint(self, name: str, qualifier: tuple[str, ...]) -> str | None:
        """Return a hint if the name looks like a part of a column's value, else None."""
        for place, part in enumerate(qualifier):
            before = qualifier[:place]
            columns = self.star(before) if before else self.columns
            column_ = next((named.column for named in columns or () if named.name == part), None)
            shown = ".".join(map(shown_name, qualifier[: place + 1]))
            written = _part_sql(shown, column_.type, (*qualifier[place + 1 :], name)) if column_ is not None else None
            if written is not None:
                return f"Write {written}."
        return None


_IN_SUBQUERY = "Compute it in a subquery in FROM."
_OF_QUERIES = ("an aggregate", "GROUP BY", "JOIN conditions", "a function in FROM")


_ELSEWHERE = {
    "rownum": "Write LIMIT at the end of the query, or row_number() OVER (ORDER BY …) in a subquery in FROM.",
    "sysdate": "Let the source carry the time as a column.",
}
_UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")


def _missing_column_error(name: str, names: list[str], span: Span, *, quoted: bool) -> MissingColumnError:
    """Return the error for a column name that does not exist."""
    names = list(dict.fromkeys(names))
    close = nearest(name, names)
    listed = ", ".join(map(shown_name, names))
    hint = f"Did you mean {shown_name(close)}?" if close else f"The columns are {listed}." if names else None
    if quoted and names and not close:
        hint = f"Write '{name}' for a string; double quotes are for names."
    elif quoted and close and close.lower() != name.lower():
        hint = f"Did you mean {shown_name(close)}? A string would be '{name}', in single quotes."
    elif name in _ELSEWHERE and not close:
        hint = _ELSEWHERE[name]
    elif name in _UNITS and not close:
        hint = f"Write a part of a time as a string, as in date_trunc('{name}', a)."
    return MissingColumnError("SQ2204", f'column "{name}" does not exist', span, hint=hint)


def identifier(node: Any) -> str:
    """Return an identifier's value, folded to lower case unless it is quoted."""
    return str(node.this) if node.args.get("quoted") else str(node.this).lower()


def qualifier(node: Any) -> tuple[str, ...]:
    """Return the parts before a column's name."""
    parts = (node.args.get(part) for part in ("catalog", "db", "table"))
    return tuple(identifier(part) for part in parts if part is not None)


def resolved(scope: Scope, node: Any, span: Span) -> Typed:
    """Return the column that a node names."""
    return scope.resolve(identifier(node.this), qualifier(node), span, quoted=bool(node.this.args.get("quoted")))


class RowContext:
    """Name resolution in WHERE, in GROUP BY, inside an aggregate, and in a SELECT without aggregates."""

    def __init__(
        self,
        scope: Scope,
        where: str,
        windows: Windowing | None = None,
        subqueries: SubqueryContext | None = None,
    ) -> None:
        self.scope = scope
        self.where = where
        self.windows = windows
        self.subqueries = subqueries

    def column(self, node: Any, span: Span) -> Typed:
        return resolved(self.scope, node, span)

    def aggregate(self, node: Any, span: Span, filter_: Any | None) -> Typed:
        message = f"aggregate {str(node.this).lower()}() is not allowed in {self.where}"
        hint = "Use HAVING." if self.where == "WHERE" else _IN_SUBQUERY if self.where in _OF_QUERIES else None
        raise SinkqlError("SQ2216", message, span, hint=hint)

    def computed(self, node: Any) -> Typed | None:
        return _clock(node, self.scope.now, Span(0, 0)) if self.scope.now is not None else None


@dataclass(frozen=True, slots=True)
class Groups:
    """The group expressions, by their trees over the input, as columns of the aggregate's output."""

    by_tree: Mapping[logical.Expression, Typed]

    def find(self, value: Typed, span: Span) -> Typed | None:
        column_ = self.by_tree.get(value.tree)
        return column_.at(span) if column_ is not None else None


def _clock(node: Any, now: datetime | None, span: Span) -> Typed | None:
    """Return the value of a clock function at `now` (UTC). None for other nodes, and if `now` is None."""
    if now is None:
        return None
    name = _CLOCKS.get(type(node))
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str) and not node.expressions:
        name = node.this.lower()
    type_ = _CLOCK_TYPES.get(name or "")
    if type_ is None:
        return None
    if type_ == types.UINT8:
        return literal(str((now - _EPOCH) // timedelta(milliseconds=1)), type_, span)
    text = f"{now:%Y-%m-%d}" if type_ == types.DATE else f"{now:%Y-%m-%d %H:%M:%S.%f}"
    return literal(text, type_, span)
