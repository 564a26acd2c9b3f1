"""What names mean in one SELECT: the columns of its FROM and of queries around it, then the groups of its GROUP BY."""

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
class Named:
    """A column as a query calls it, and as the relation does that FROM is planned to."""

    name: str
    column: logical.Column

    def at(self, span: Span) -> Typed:
        """Return the column, as it is named at a place."""
        return column(self.column.name, self.column.type, nullable=self.column.nullable, span=span)


@dataclass(frozen=True, slots=True)
class Part:
    """One relation of a FROM: the names it goes by, alias or parts of its full name, and its columns.

    The name of a `scalar` one stands for its column, too.
    """

    qualifiers: tuple[tuple[str, ...], ...]
    columns: tuple[Named, ...]
    scalar: bool = False

    def covers(self, qualifier: tuple[str, ...]) -> bool:
        """Tell whether `t.c` or `schema.t.c` speaks of this relation."""
        return any(known[-len(qualifier) :] == qualifier for known in self.qualifiers)


@dataclass(frozen=True, slots=True)
class Outer:
    """The scope around a query, and what a column of it is within the query."""

    scope: Scope
    within: Callable[[Typed], Typed]

    @classmethod
    def recorded(
        cls, scope: Scope, spoken: dict[str, Typed], fresh: Callable[[], str], there: Callable[[Typed], Typed]
    ) -> Outer:
        """Return a scope whose columns have names of their own within the query, under which `spoken` gets them.

        `there` says what a column of the scope is for the query around.
        """

        def within(value: Typed) -> Typed:
            outer = there(value)
            name = next((name for name, each in spoken.items() if each.tree == outer.tree), None) or fresh()
            spoken[name] = outer
            return column(name, outer.type, nullable=outer.nullable, span=value.span)

        return cls(scope, within)


@dataclass(frozen=True, slots=True)
class Scope:
    """What names mean in a query: the relations of its FROM, and the columns that need no qualifier, as * gives them.

    `now` is the time of a statement that runs once, None in a view. A name that no relation here has is looked for in
    the scope around the query.
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
        """Return the scope of one relation whose columns are called as the query calls them."""
        named = tuple(Named(each.name, each) for each in columns)
        return cls((Part(qualifiers, named),), named, now, outer)

    def resolve(self, name: str, qualifier: tuple[str, ...], span: Span, *, quoted: bool = False) -> Typed:
        """Return a column by its name; raises MissingColumnError, MissingError, and SQ2205 for an ambiguous one.

        Of a name in double quotes that no column is near to, the hint is that it may have been meant as a string.
        """
        found = self.find(name, qualifier, span)
        if found is not None:
            return found
        parts = [each for each in self.parts if each.covers(qualifier)] if qualifier else list(self.parts)
        if qualifier and not parts:
            raise self._not_there(name, qualifier, span)
        named = [each for part in parts for each in part.columns] if qualifier else list(self.columns)
        raise _unknown(name, [each.name for each in named], span, quoted=quoted)

    def find(self, name: str, qualifier: tuple[str, ...], span: Span) -> Typed | None:
        """Return a column of this scope or of those around it; None where there is none. Raises SQ2205."""
        parts = [each for each in self.parts if each.covers(qualifier)] if qualifier else list(self.parts)
        if qualifier and len(parts) > 1:
            shown = qualified_name(*qualifier)
            names = " or ".join(qualified_name(*part.qualifiers[0]) for part in parts)
            raise SinkqlError("SQ2205", f'relation name "{shown}" is ambiguous', span, hint=f"Write {names}.")
        known = parts[0].columns if qualifier and parts else () if qualifier else self.columns
        found = [each for each in known if each.name == name]
        if len(found) > 1:
            hint = self._qualified(name) or "Rename one of the columns in a subquery."
            raise SinkqlError("SQ2205", f'column "{name}" is ambiguous', span, hint=hint)
        if not found and not qualifier:
            found = [part.columns[0] for part in self.parts if part.scalar and part.covers((name,))]
        if found:
            return found[0].at(span)
        if self.outer is None or (qualifier and parts):
            return None
        around = self.outer.scope.find(name, qualifier, span)
        return self.outer.within(around) if around is not None else None

    def own(self, value: Typed) -> bool:
        """Tell whether a column is one of this scope, and not of those around it."""
        return any(each.column.name == value.column for part in self.parts for each in part.columns) or any(
            each.column.name == value.column for each in self.columns
        )

    def star(self, qualifier: tuple[str, ...]) -> tuple[Named, ...] | None:
        """Return what `*` or `t.*` stands for; None where no relation has this name."""
        if not qualifier:
            return self.columns
        return next((part.columns for part in self.parts if part.covers(qualifier)), None)

    def _qualified(self, name: str) -> str | None:
        """Return the ways to write an ambiguous name."""
        parts = [part for part in self.parts if part.qualifiers and any(each.name == name for each in part.columns)]
        ways = [f"{shown_name(part.qualifiers[0][-1])}.{shown_name(name)}" for part in parts]
        return f"Write {one_of(ways)}." if len(ways) > 1 else None

    def _not_there(self, name: str, qualifier: tuple[str, ...], span: Span) -> MissingError:
        shown = qualified_name(*qualifier)
        known = [part.qualifiers[0][-1] for part in self.parts if part.qualifiers]
        hint = self._within(name, qualifier)
        if hint is None and len(known) == 1:
            hint = f"The relation in FROM is called {shown_name(known[0])}."
        elif hint is None and known:
            close = nearest(qualifier[-1], known)
            listed = ", ".join(map(shown_name, known))
            hint = f"Did you mean {shown_name(close)}?" if close else f"The relations in FROM are called {listed}."
        return MissingError("SQ2202", f'relation "{shown}" is not in FROM', span, name=qualifier[-1], hint=hint)

    def _within(self, name: str, qualifier: tuple[str, ...]) -> str | None:
        """Return how to write what looks like a part of a column; None where it is none."""
        for place, part in enumerate(qualifier):
            before = qualifier[:place]
            known = self.star(before) if before else self.columns
            whole = next((each.column for each in known or () if each.name == part), None)
            shown = ".".join(map(shown_name, qualifier[: place + 1]))
            written = _part(shown, whole.type, (*qualifier[place + 1 :], name)) if whole is not None else None
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


def _unknown(name: str, names: list[str], span: Span, *, quoted: bool) -> MissingColumnError:
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
    if type_ == types.UINT8:
        return literal(str((now - _EPOCH) // timedelta(milliseconds=1)), type_, span)
    text = f"{now:%Y-%m-%d}" if type_ == types.DATE else f"{now:%Y-%m-%d %H:%M:%S.%f}"
    return literal(text, type_, span)
