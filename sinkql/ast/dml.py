"""Tables and indexes, and the statements that change rows."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql.ast.clause import ColumnDef, Query
from sinkql.ast.value import Expression, Ident, Name, Option, at
from sinkql.errors import Span


@dataclass(frozen=True, slots=True)
class TableConstraint:
    """A constraint in a list of columns; `kind` is PRIMARY KEY, UNIQUE, CHECK or FOREIGN KEY."""

    kind: str
    columns: tuple[Ident, ...] = ()
    name: Ident | None = None
    expression: Expression | None = None
    table: Name | None = None
    referenced: tuple[Ident, ...] = ()
    span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE whose rows come from INSERT."""

    name: Name
    columns: tuple[ColumnDef, ...] = ()
    constraints: tuple[TableConstraint, ...] = ()
    with_options: tuple[Option, ...] = ()
    temporary: bool = False
    if_not_exists: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateIndex:
    """CREATE INDEX; without `key` it is CREATE DEFAULT INDEX."""

    relation: Name
    name: Ident | None = None
    key: tuple[Expression, ...] | None = None
    cluster: Ident | None = None
    with_options: tuple[Option, ...] = ()
    if_not_exists: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT; `query` is None for DEFAULT VALUES, `returning` the text after RETURNING."""

    table: Name
    query: Query | None
    columns: tuple[Ident, ...] = ()
    returning: Expression | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Assignment:
    column: Ident
    value: Expression
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Update:
    table: Name
    assignments: tuple[Assignment, ...]
    alias: Ident | None = None
    where: Expression | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE; `using` is the text between USING and WHERE."""

    table: Name
    alias: Ident | None = None
    using: Expression | None = None
    where: Expression | None = None
    span: Span = at()
