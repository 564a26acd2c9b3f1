"""The parts that statements are made of: columns, keys, modes, queries, secrets."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql.ast.value import Expression, Ident, Name, Text, at
from sinkql.errors import Span


@dataclass(frozen=True, slots=True)
class Query:
    """Hold the text of a SELECT as written, from its first to its last token; spans in it start at `span.start`."""

    text: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class TypeName:
    """Hold a data type as written, in lower case with single spaces."""

    text: str
    span: Span = at()


@dataclass(frozen=True, slots=True)
class ColumnConstraint:
    """Hold what a table's column is bound to but NOT NULL; `kind` is NULL, DEFAULT, PRIMARY KEY, UNIQUE, CHECK or
    REFERENCES."""

    kind: str
    name: Ident | None = None
    expression: Expression | None = None
    table: Name | None = None
    referenced: tuple[Ident, ...] = ()
    span: Span = at()


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """Hold a column of a source or a table: its name, for typed columns the type, a table's constraints."""

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
    """Hold MODE or its synonym ENVELOPE: `mode` is upsert or append; `changelog` is false for ENVELOPE NONE."""

    mode: str
    changelog: bool = True
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Transform:
    """Hold one PARTITION BY term: `function` is identity, year, month, day, hour, bucket or truncate."""

    function: str
    column: Ident
    argument: int | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Call:
    """Hold a function of a secret: `decode('…', 'hex')`, or a reference such as `env_var('X')`."""

    function: str
    arguments: tuple[Text, ...]
    span: Span = at()

    @property
    def refers(self) -> bool:
        """Say whether the value is elsewhere, and only its place is written here."""
        return self.function != "decode"


@dataclass(frozen=True, slots=True)
class Joined:
    """Hold `part || part …` of a secret's value."""

    parts: tuple[Text | Call, ...]
    span: Span = at()


SecretValue = Text | Joined | Call
