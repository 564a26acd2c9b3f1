"""CREATE of sources, tables from sources, views and sinks."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql.ast.clause import ColumnDef, Key, Mode, Query, Sorting, Transform
from sinkql.ast.dml import TableConstraint
from sinkql.ast.value import Expression, Ident, Name, Option, Phrase, at
from sinkql.errors import Span


@dataclass(frozen=True, slots=True)
class Seed:
    """The schema that SEED gives for keys or values; `message` is of Protobuf."""

    text: str
    message: str | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Schema:
    """Where the schema of a format is: in a registry, or in `text`.

    `registry` is the kind of the connection to it, all words in upper case; a strategy is ID n, LATEST or INLINE '…'.
    """

    registry: str | None = None
    connection: Name | None = None
    options: tuple[Option, ...] = ()
    key_strategy: Phrase | None = None
    value_strategy: Phrase | None = None
    key_seed: Seed | None = None
    value_seed: Seed | None = None
    message: str | None = None
    text: str | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Format:
    """A format by its name in upper case: JSON, CSV, PARQUET, …

    `array` is for JSON; `header` is true for CSV WITH HEADER, `names` its column list; `pattern` is for REGEX. CSV,
    and formats without special syntax, have `options`.
    """

    name: str
    array: bool = False
    header: bool = False
    names: tuple[Ident, ...] = ()
    column_count: int | None = None
    delimiter: str | None = None
    schema: Schema | None = None
    pattern: str | None = None
    options: tuple[Option, ...] = ()
    span: Span = at()


@dataclass(frozen=True, slots=True)
class HeaderFilter:
    """A header's name in INCLUDE HEADERS (…); `excluded` stands for NOT before it."""

    name: str
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class Include:
    """An item of INCLUDE: KEY, TIMESTAMP, PARTITION, OFFSET, HEADERS or HEADER, with its alias.

    `header` is the name of the one header, `binary` is BYTES; `filters` are of a webhook's HEADERS.
    """

    name: str
    alias: Ident | None = None
    header: str | None = None
    binary: bool = False
    filters: tuple[HeaderFilter, ...] = ()
    span: Span = at()


@dataclass(frozen=True, slots=True)
class InlineErrors:
    """`(VALUE DECODING ERRORS = INLINE)` of ENVELOPE UPSERT, with the name of its column."""

    alias: Ident | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Reference:
    """An upstream table, and its name in SinkQL."""

    upstream: Name
    name: Name | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Subsources:
    """FOR TABLES (references), FOR SCHEMAS (schemas), or FOR ALL TABLES if both are empty."""

    references: tuple[Reference, ...] = ()
    schemas: tuple[Ident, ...] = ()
    span: Span = at()


@dataclass(frozen=True, slots=True)
class CheckInput:
    """An input of a webhook's CHECK: HEADERS, BODY or a SECRET; `binary` stands for BYTES."""

    kind: str
    secret: Name | None = None
    alias: Ident | None = None
    binary: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Check:
    """CHECK of a webhook: its expression and the expression's inputs."""

    expression: Expression
    inputs: tuple[CheckInput, ...] = ()
    span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateSource:
    """CREATE SOURCE; `kind` is the words after FROM in upper case: FILES, LOAD GENERATOR COUNTER, …
    `progress` is the name in EXPOSE PROGRESS. A `pushed` source has BODY FORMAT, and may have a `check`.
    Large: one field for each clause of the statement.
    """

    name: Name
    kind: str
    options: tuple[Option, ...] = ()
    columns: tuple[ColumnDef, ...] = ()
    primary_key: tuple[Ident, ...] = ()
    cluster: Ident | None = None
    connection: Name | None = None
    format: Format | None = None
    include: tuple[Include, ...] = ()
    envelope: str | None = None
    with_options: tuple[Option, ...] = ()
    if_not_exists: bool = False
    key_format: Format | None = None
    inline_errors: InlineErrors | None = None
    subsources: Subsources | None = None
    progress: Name | None = None
    check: Check | None = None
    pushed: bool = False
    span: Span = at()
    kind_span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateTableFrom:
    """CREATE TABLE … FROM SOURCE or, without a source, FROM a `kind` that is pushed; columns may lack types.

    A `subsource` is CREATE SUBSOURCE … OF SOURCE: a table with the kind of its source.
    Large: one field for each clause of the statement.
    """

    name: Name
    source: Name | None
    reference: Name | None = None
    columns: tuple[ColumnDef, ...] = ()
    constraints: tuple[TableConstraint, ...] = ()
    format: Format | None = None
    include: tuple[Include, ...] = ()
    envelope: str | None = None
    with_options: tuple[Option, ...] = ()
    if_not_exists: bool = False
    key_format: Format | None = None
    inline_errors: InlineErrors | None = None
    check: Check | None = None
    kind: str = ""
    subsource: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateProgress:
    """CREATE SUBSOURCE … OF SOURCE … (PROGRESS): the relation of EXPOSE PROGRESS, with the source's read position."""

    name: Name
    source: Name
    if_not_exists: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE VIEW or, if `materialized`, CREATE MATERIALIZED VIEW; a `replacement` names the view that it `replaces`.

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
    """USING kind CONNECTION name: the store of a sink's files, if the sink's connection does not name one."""

    kind: str
    connection: Name
    span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateSink:
    """CREATE SINK; `kind` is the words after INTO in upper case; `mode` is None if omitted.

    Each kind accepts some of the clauses. `headers` is the column of HEADERS.
    Large: one field for each clause of the statement.
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

    `sink` has the clauses that all sinks share; its relation is the source, or the first of the `tables`.
    """

    sink: CreateSink
    tables: tuple[Name, ...] = ()
    span: Span = at()
