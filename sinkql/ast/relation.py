"""Views and sinks."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql.ast.part import Key, Mode, Query, Transform
from sinkql.ast.source import Format
from sinkql.ast.value import Ident, Name, Option, at
from sinkql.errors import Span


@dataclass(frozen=True, slots=True)
class CreateView:
    """Hold CREATE VIEW or, if `materialized`, CREATE MATERIALIZED VIEW; `replacement` is one that `replaces` another.

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
class CreateSink:
    """Hold CREATE SINK; `kind` is the connection's words in upper case, `mode` None if not given.

    ICEBERG CATALOG has a mode, transforms and the format PARQUET; KAFKA the fields at the end.
    """

    relation: Name
    kind: str
    connection: Name
    name: Name | None = None
    options: tuple[Option, ...] = ()
    cluster: Ident | None = None
    aws_connection: Name | None = None
    format: str | None = None
    key: Key | None = None
    mode: Mode | None = None
    partition_by: tuple[Transform, ...] = ()
    with_options: tuple[Option, ...] = ()
    if_not_exists: bool = False
    headers: Ident | None = None
    value_format: Format | None = None
    key_format: Format | None = None
    envelope: str | None = None
    span: Span = at()
    kind_span: Span = at()
