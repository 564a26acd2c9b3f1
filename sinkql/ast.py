"""The syntax of statements as frozen dataclasses: what was written and where, nothing that it means."""

from __future__ import annotations

from dataclasses import dataclass, field

from sinkql.errors import Span

_NOWHERE = Span(0, 0)


def _span() -> Span:
    """Declare a span: it takes no part in comparison, so that printed and parsed again means equal."""
    return field(repr=False, compare=False, default=_NOWHERE)


@dataclass(frozen=True, slots=True)
class Ident:
    """Hold one identifier, folded to lower case unless it was quoted."""

    value: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Name:
    """Hold an item's name: `item`, `schema.item` or `database.schema.item`."""

    parts: tuple[Ident, ...]
    span: Span = _span()

    @property
    def text(self) -> str:
        return ".".join(part.value for part in self.parts)


# --- option values -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """Hold a string literal's value."""

    value: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Number:
    """Hold a number as written, sign included."""

    text: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Boolean:
    value: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Null:
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Interval:
    """Hold the text of `INTERVAL '…'`, unit words included."""

    text: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class SecretRef:
    """Hold `SECRET name`."""

    name: Name
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Word:
    """Hold a bare name where a value stands: a text without quotes, or the name of an item."""

    name: Name
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Concat:
    """Hold `part || part …`, each part a string literal or a secret."""

    parts: tuple[Text | SecretRef, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Value, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class MapEntry:
    key: str
    value: Value


@dataclass(frozen=True, slots=True)
class Map:
    """Hold `MAP['key' => value, …]`."""

    entries: tuple[MapEntry, ...]
    span: Span = _span()


Value = Text | Number | Boolean | Null | Interval | SecretRef | Word | Concat | Sequence | Map


@dataclass(frozen=True, slots=True)
class Option:
    """Hold `NAME = value`; the name in upper case with single spaces, the value None where it is left out."""

    name: str
    value: Value | None
    span: Span = _span()
    name_span: Span = _span()


# --- parts of statements -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Query:
    """Hold the text of a SELECT as written, from its first to its last token; spans in it start at `span.start`."""

    text: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TypeName:
    """Hold a data type as written, in lower case with single spaces."""

    text: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """Hold a source's column: its name, and for typed columns the type."""

    name: Ident
    type: TypeName | None = None
    not_null: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Format:
    """Hold `FORMAT JSON [ARRAY]` or `FORMAT CSV …`; `header` is true for WITH HEADER, `names` its column list."""

    name: str
    array: bool = False
    header: bool = False
    names: tuple[Ident, ...] = ()
    column_count: int | None = None
    delimiter: str | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Include:
    """Hold one INCLUDE item: KEY, TIMESTAMP, PARTITION, OFFSET or HEADERS, and its alias."""

    name: str
    alias: Ident | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Key:
    columns: tuple[Ident, ...]
    enforced: bool = True
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Mode:
    """Hold MODE or its synonym ENVELOPE: `mode` is upsert or append; `changelog` is false for ENVELOPE NONE."""

    mode: str
    changelog: bool = True
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Transform:
    """Hold one PARTITION BY term: `function` is identity, year, month, day, hour, bucket or truncate."""

    function: str
    column: Ident
    argument: int | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Call:
    """Hold a secret's reference: `env_var('X')`, `file('p')` and the like."""

    function: str
    arguments: tuple[Text, ...]
    span: Span = _span()


SecretValue = Text | Concat | Call


# --- statements --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateSecret:
    name: Name
    value: SecretValue = field(repr=False)
    if_not_exists: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class CreateConnection:
    """Hold CREATE CONNECTION; `kind` is the type's words in upper case: AWS, ICEBERG CATALOG, …"""

    name: Name
    kind: str
    options: tuple[Option, ...]
    validate: bool | None = None
    if_not_exists: bool = False
    span: Span = _span()
    kind_span: Span = _span()


@dataclass(frozen=True, slots=True)
class CreateCluster:
    name: Ident
    options: tuple[Option, ...]
    if_not_exists: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class CreateSource:
    """Hold CREATE SOURCE; `kind` is FILES or LOAD GENERATOR, `generator` the latter's name in upper case."""

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
    span: Span = _span()
    kind_span: Span = _span()


@dataclass(frozen=True, slots=True)
class CreateView:
    """Hold CREATE VIEW or, if `materialized`, CREATE MATERIALIZED VIEW."""

    name: Name
    query: Query
    materialized: bool = False
    columns: tuple[Ident, ...] = ()
    cluster: Ident | None = None
    with_options: tuple[Option, ...] = ()
    if_not_exists: bool = False
    or_replace: bool = False
    temporary: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class CreateSink:
    """Hold CREATE SINK; `kind` is the connection's words in upper case (ICEBERG CATALOG), `mode` None if not given."""

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
    span: Span = _span()
    kind_span: Span = _span()


@dataclass(frozen=True, slots=True)
class Drop:
    """Hold DROP; `kind` is SECRET, CONNECTION, CLUSTER, SOURCE, VIEW, MATERIALIZED VIEW or SINK."""

    kind: str
    names: tuple[Name, ...]
    if_exists: bool = False
    cascade: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Show:
    """Hold SHOW of a kind of items; `kind` is the plural in upper case: SINKS, MATERIALIZED VIEWS, …"""

    kind: str
    schema: Name | None = None
    cluster: Ident | None = None
    like: Text | None = None
    where: Query | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ShowCreate:
    kind: str
    name: Name
    redacted: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ShowVariable:
    """Hold SHOW of a variable; `name` is None for SHOW ALL."""

    name: Ident | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class AlterSystem:
    """Hold ALTER SYSTEM SET (value None: DEFAULT)."""

    name: Ident
    value: Value | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class SetVariable:
    """Hold SET (value None: DEFAULT); `scope` is SESSION or LOCAL where it was written."""

    name: Ident
    value: Value | None
    scope: str | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ItemRef:
    """Hold what EXPLAIN may name: a kind in upper case and an item's name."""

    kind: str
    name: Name
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Explain:
    """Hold EXPLAIN; `stage` is RAW, OPTIMIZED, PHYSICAL or SPARK SQL, `output` TEXT or JSON."""

    explainee: ItemRef | Query | CreateSink | CreateView
    stage: str = "PHYSICAL"
    output: str = "TEXT"
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Select:
    query: Query
    span: Span = _span()


Create = CreateSecret | CreateConnection | CreateCluster | CreateSource | CreateView | CreateSink
Statement = Create | Drop | Show | ShowCreate | ShowVariable | AlterSystem | SetVariable | Explain | Select
