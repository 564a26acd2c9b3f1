"""Sources, and tables that are fed by one: where rows come from, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql.ast.part import ColumnDef
from sinkql.ast.table import TableConstraint
from sinkql.ast.value import Expression, Ident, Name, Option, Phrase, at
from sinkql.errors import Span


@dataclass(frozen=True, slots=True)
class Schema:
    """Hold where the schema of AVRO or PROTOBUF is: in a registry, or in `text`.

    `registry` is CONFLUENT SCHEMA REGISTRY or AWS GLUE SCHEMA REGISTRY; a strategy is ID n, LATEST or INLINE '…'.
    """

    registry: str | None = None
    connection: Name | None = None
    options: tuple[Option, ...] = ()
    key_strategy: Phrase | None = None
    value_strategy: Phrase | None = None
    message: str | None = None
    text: str | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Format:
    """Hold a format by name: JSON, CSV, PARQUET, AVRO, PROTOBUF, REGEX, TEXT or BYTES.

    `array` is of JSON; `header` is true for CSV WITH HEADER, `names` its column list; `pattern` is of REGEX.
    """

    name: str
    array: bool = False
    header: bool = False
    names: tuple[Ident, ...] = ()
    column_count: int | None = None
    delimiter: str | None = None
    schema: Schema | None = None
    pattern: str | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class HeaderFilter:
    """Hold one name of INCLUDE HEADERS (…); `excluded` is NOT."""

    name: str
    excluded: bool = False


@dataclass(frozen=True, slots=True)
class Include:
    """Hold one INCLUDE item: KEY, TIMESTAMP, PARTITION, OFFSET, HEADERS or HEADER, and its alias.

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
    """Hold ENVELOPE UPSERT (VALUE DECODING ERRORS = INLINE), and what the column is called."""

    alias: Ident | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Reference:
    """Hold one upstream table, and the name it gets here."""

    upstream: Name
    name: Name | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Subsources:
    """Hold FOR TABLES (references), FOR SCHEMAS (schemas), or with neither FOR ALL TABLES."""

    references: tuple[Reference, ...] = ()
    schemas: tuple[Ident, ...] = ()
    span: Span = at()


@dataclass(frozen=True, slots=True)
class CheckInput:
    """Hold what a webhook's CHECK reads: HEADERS, BODY or a SECRET; `binary` is BYTES."""

    kind: str
    secret: Name | None = None
    alias: Ident | None = None
    binary: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Check:
    """Hold a webhook's CHECK."""

    expression: Expression
    inputs: tuple[CheckInput, ...] = ()
    span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateSource:
    """Hold CREATE SOURCE; `kind` is FILES, LOAD GENERATOR, KAFKA, POSTGRES, MYSQL, SQL SERVER or WEBHOOK.

    `generator` is the load generator's name in upper case, `progress` what EXPOSE PROGRESS names, `check` a webhook's.
    """

    name: Name
    kind: str
    options: tuple[Option, ...] = ()
    columns: tuple[ColumnDef, ...] = ()
    primary_key: tuple[Ident, ...] = ()
    cluster: Ident | None = None
    connection: Name | None = None
    generator: str | None = None
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
    span: Span = at()
    kind_span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateTableFrom:
    """Hold CREATE TABLE … FROM SOURCE or, without a source, FROM WEBHOOK; columns may lack their types."""

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
    span: Span = at()
