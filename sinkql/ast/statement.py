"""All other statements, and the union of all statements."""

from __future__ import annotations

from dataclasses import dataclass, field

from sinkql.ast.alter import Alter
from sinkql.ast.clause import Query, SecretValue
from sinkql.ast.create import CreateProgress, CreateSink, CreateSinks, CreateSource, CreateTableFrom, CreateView
from sinkql.ast.dml import CreateIndex, CreateTable, Delete, Insert, Update
from sinkql.ast.value import Expression, Ident, Name, Option, Text, Value, at
from sinkql.errors import Span


@dataclass(frozen=True, slots=True)
class CreateSecret:
    name: Name
    value: SecretValue = field(repr=False)
    if_not_exists: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateConnection:
    """CREATE CONNECTION; `kind` is the type's words in upper case: AWS, ICEBERG CATALOG, …"""

    name: Name
    kind: str
    options: tuple[Option, ...]
    validate: bool | None = None
    if_not_exists: bool = False
    span: Span = at()
    kind_span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateCluster:
    name: Ident
    options: tuple[Option, ...]
    if_not_exists: bool = False
    features: tuple[Option, ...] = ()
    span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    name: Ident
    if_not_exists: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class CreateSchema:
    """CREATE SCHEMA; the name is `schema` or `database.schema`."""

    name: Name
    if_not_exists: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP; `kind` is in upper case: SECRET, MATERIALIZED VIEW, … DROP DATABASE cascades by default.

    `with_table` drops a sink's table together with the sink.
    """

    kind: str
    names: tuple[Name, ...]
    if_exists: bool = False
    cascade: bool = False
    with_table: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW of a kind of items; `kind` is the plural in upper case: SINKS, MATERIALIZED VIEWS, COLUMNS, …

    `relation` is the relation after FROM (of COLUMNS) or ON (of INDEXES, SUBSOURCES and TABLES).
    """

    kind: str
    schema: Name | None = None
    cluster: Ident | None = None
    like: Text | None = None
    where: Query | None = None
    relation: Name | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class ShowCreate:
    kind: str
    name: Name
    redacted: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class ShowVariable:
    """SHOW of a variable; `name` is None for SHOW ALL."""

    name: Ident | None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class AlterSystem:
    """ALTER SYSTEM SET or RESET; `value` is None for DEFAULT, and `name` is None for RESET ALL."""

    name: Ident | None
    value: Value | None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class SetVariable:
    """SET; `value` is None for DEFAULT, `scope` is SESSION, LOCAL or None if omitted."""

    name: Ident
    value: Value | None
    scope: str | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Transaction:
    """BEGIN, COMMIT, ROLLBACK, or SET TRANSACTION, which changes the modes of the open transaction.

    `modes` are in upper case: `ISOLATION LEVEL SERIALIZABLE`, `READ ONLY`; `chain` is AND CHAIN.
    """

    action: str
    modes: tuple[str, ...] = ()
    chain: bool = False
    span: Span = at()


@dataclass(frozen=True, slots=True)
class CommentOn:
    """COMMENT ON; for a COLUMN the last part of the name is the column's. `text` is None for IS NULL."""

    kind: str
    name: Name
    text: Text | None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class ValidateConnection:
    name: Name
    span: Span = at()


@dataclass(frozen=True, slots=True)
class OptimizeSink:
    name: Name
    span: Span = at()


@dataclass(frozen=True, slots=True)
class ReplayErrors:
    name: Name
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Subscribe:
    """SUBSCRIBE; `output` is the text that begins with ENVELOPE or WITHIN."""

    relation: Name | Query
    output: Expression | None = None
    options: tuple[Option, ...] = ()
    as_of: Expression | None = None
    at_least: bool = False
    up_to: Expression | None = None
    span: Span = at()


@dataclass(frozen=True, slots=True)
class ItemRef:
    """An item that EXPLAIN names: its kind in upper case and its name; `replan` stands for REPLAN."""

    kind: str
    name: Name
    replan: bool = False
    span: Span = at()


Explainee = ItemRef | Query | CreateSink | CreateView | CreateIndex | Subscribe


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN; `stage` is RAW, OPTIMIZED, PHYSICAL or SPARK SQL.

    SinkQL parses and refuses the stages DECORRELATED, LOCALLY OPTIMIZED, OPTIMIZER TRACE, INSIGHTS, TIMESTAMP, FILTER
    PUSHDOWN, ANALYZE …, KEY SCHEMA and VALUE SCHEMA.

    `output` is TEXT, VERBOSE TEXT, JSON, DOT or SQL. ANALYZE CLUSTER has no explainee.
    """

    explainee: Explainee | None
    stage: str = "PHYSICAL"
    output: str = "TEXT"
    options: tuple[Option, ...] = ()
    span: Span = at()


@dataclass(frozen=True, slots=True)
class Select:
    query: Query
    span: Span = at()


Create = (
    CreateSecret
    | CreateConnection
    | CreateCluster
    | CreateDatabase
    | CreateSchema
    | CreateSource
    | CreateTable
    | CreateTableFrom
    | CreateProgress
    | CreateView
    | CreateIndex
    | CreateSink
)
RowChange = Insert | Update | Delete
"""Statements that change a table's rows."""

Statement = (
    Create
    | CreateSinks
    | Alter
    | Drop
    | RowChange
    | Show
    | ShowCreate
    | ShowVariable
    | AlterSystem
    | SetVariable
    | Transaction
    | CommentOn
    | ValidateConnection
    | OptimizeSink
    | ReplayErrors
    | Subscribe
    | Explain
    | Select
)
