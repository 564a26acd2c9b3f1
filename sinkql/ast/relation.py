"""Views and sinks."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql.ast.clause import Key, Mode, Query, Sorting, Transform
from sinkql.ast.create import Format
from sinkql.ast.value import Ident, Name, Option, at
from sinkql.errors import Span


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE VIEW or, if `materialized`, CREATE MATERIALIZED VIEW; `replacement` is one that `replaces` another.

    `replica` is IN CLUSTER … REPLICA, or IN REPLICA alone.
    """

    name: Name
    query: Query
    materialized: bool = False
    columns: tuple[Ident, ...] = ()
    cluster: Ident | None = None
    with_options: tuple[Option, ...] = ()
    if_not_exists: bool = False
    or_replace: bool = False
    temporary: bool = False
    replacement: bool = False
    replaces: Name | None = None
    replica: Ident | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Using:
    """USING kind CONNECTION name: the store that a sink's files are in, where its own connection does not tell."""

    kind: str
    connection: Name
    span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateSink:
    """CREATE SINK; `kind` is what INTO names, all its words in upper case; `mode` is None if not given.

    Each kind says which of the other clauses it takes. `headers` is the column of HEADERS.
    """

    relation: Name
    kind: str
    connection: Name
    name: Name | None = None
    options: tuple[Option, ...] = ()
    cluster: Ident | None = None
    using: Using | None = None
    format: Format | None = None
    key_format: Format | None = None
    key: Key | None = None
    mode: Mode | None = None
    partition_by: tuple[Transform, ...] = ()
    sort_by: tuple[Sorting, ...] = ()
    with_options: tuple[Option, ...] = ()
    if_not_exists: bool = False
    headers: Ident | None = None
    span: Span = at()
    kind_span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateSinks:
    """CREATE SINKS FOR ALL TABLES OF SOURCE, or FOR TABLES (…): a sink for each table.

    `sink` is what they have in common; its relation is the source, or the first of the `tables`.
    """

    sink: CreateSink
    tables: tuple[Name, ...] = ()
    span: Span = at()
