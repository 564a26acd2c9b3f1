"""The clauses of statements: columns, keys, modes, queries, secrets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sinkql.ast.value import Expression, Ident, Name, Text, at, made
from sinkql.errors import Span


@dataclass(frozen=True, slots=True)
class Edit:
    """A replaced stretch of a query's text: from `start` to `end`, now `length` characters long."""

    start: int
    end: int
    length: int


@dataclass(frozen=True, slots=True)
class Query:
    """The text of a SELECT from its first to its last token.

    Spans inside the query start at `span.start`. They point into the text before the `edits`, which are in order.
    """

    text: str
    span: Span = at()
    edits: tuple[Edit, ...] = field(default=(), repr=False, compare=False)
    made: dict[str, Any] = made()

    def place(self, span: Span) -> Span:
        """Return the place in `text` of a span inside the query."""
        return Span(self._place(span.start - self.span.start), self._place(span.end - self.span.start))

    def _place(self, at: int) -> int:
        grown = 0
        for edit in self.edits:
            if at <= edit.start:
                break
            if at < edit.end:
                return edit.start + grown
            grown += edit.length - (edit.end - edit.start)
        return at + grown


@dataclass(frozen=True, slots=True)
class TypeName:
    """A data type as written, in lower case with single spaces: `numeric(12,2)`, `timestamp with time zone`."""

    text: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class ColumnConstraint:
    """A column's constraint other than NOT NULL; `kind` is NULL, DEFAULT, PRIMARY KEY, UNIQUE, CHECK or
    REFERENCES."""

    kind: str
    name: Ident | None = None
    expression: Expression | None = None
    table: Name | None = None
    referenced: tuple[Ident, ...] = ()
    span: Span = at()


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """A column of a source or a table; `type` is None where only names are listed. Constraints are a table's."""

    name: Ident
    type: TypeName | None = None
    not_null: bool = False
    collation: Name | None = None
    constraints: tuple[ColumnConstraint, ...] = ()
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Key:
    columns: tuple[Ident, ...]
    enforced: bool = True
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Mode:
    """MODE or its synonym ENVELOPE: `mode` is upsert, append or debezium; `changelog` is false for ENVELOPE NONE.

    `word` is MODE or ENVELOPE as written; each kind of sink is printed with one of them.
    """

    mode: str
    changelog: bool = True
    word: str = field(default="MODE", repr=False, compare=False)
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Transform:
    """A term of PARTITION BY; `function` is identity, year, month, day, hour, bucket or truncate."""

    function: str
    column: Ident
    argument: int | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Sorting:
    """A term of SORT BY; without NULLS in the text, `nulls_first` is Postgres's default for the direction."""

    column: Ident
    descending: bool = False
    nulls_first: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Call:
    """A function in a secret's value: `decode('…', 'hex')`, or a reference like `env_var('X')`."""

    function: str
    arguments: tuple[Text, ...]
    span: Span = at()

    @property
    def refers(self) -> bool:
        """Whether this is a reference, with the value stored elsewhere."""
        return self.function != "decode"


@dataclass(frozen=True, slots=True)
class Joined:
    """A secret's value of several parts: `part || part …`."""

    parts: tuple[Text | Call, ...]
    span: Span = at()


SecretValue = Text | Joined | Call
