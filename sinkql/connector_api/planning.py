"""Define a connector and its kinds of connections, sources, sinks and formats: what planning and purification call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sinkql import ast, logical, physical
from sinkql.connector_api.cdc import DropSlot, OpenStream
from sinkql.connector_api.health_check import CheckContext, HealthCheck
from sinkql.connector_api.scaffold import Address, ConnectionScaffold, ScaffoldRequest, SourceScaffold
from sinkql.connector_api.sink_options import SinkOptions
from sinkql.connector_api.stream import (
    Context,
    Decoding,
    MessageDecoding,
    MessageEncoding,
    Offsets,
    OpenReader,
    OpenWriter,
    PlanChange,
    Published,
)
from sinkql.errors import Notice
from sinkql.keywords import Role
from sinkql.object_store.store import ObjectStore, OpenStore

if TYPE_CHECKING:
    import pyarrow as pa


class PlanningContext(Protocol):
    """The planner, as a connector's `plan` sees it: finds items and adds notices."""

    @property
    def catalog(self) -> logical.CatalogReader:
        """Return the catalog, read-only."""

    def connection(self, name: ast.Name, kind: str) -> logical.Connection:
        """Return a connection of a kind by name; raises SinkqlError at the name if it does not exist."""

    def cluster(self, name: ast.Ident) -> logical.Cluster:
        """Return a cluster by name; raises SinkqlError at the name if it does not exist."""

    def secret(self, name: ast.Name) -> logical.SecretName:
        """Return a secret by name; raises SinkqlError at the name if it does not exist."""

    def format(self, format_: ast.Format) -> FormatKind:
        """Return the kind of a format; raises SinkqlError at the format if no connector offers it."""

    def message_format(self, format_: ast.Format) -> MessageFormat:
        """Return the kind of a message format; raises SinkqlError at the format if no connector offers it."""

    def notice(self, notice: Notice) -> None:
        """Add a notice for the user."""


class OutsideAccess(Protocol):
    """What purification may use outside the catalog: values of secrets, planned connections, object stores, paths."""

    def secret(self, full_name: str) -> str:
        """Return the value of a secret."""

    def connection(self, full_name: str) -> logical.Connection:
        """Return a planned connection."""

    def store(self, full_name: str) -> ObjectStore:
        """Return the object store that a connection opens (`Registry.store`)."""

    def path(self, option: str) -> Path:
        """Return the path that an option names; a relative one begins in the catalog's project."""


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """A planned source: options for its reader, as JSON, and the shape of its rows.

    A source with `tables` has no rows; each table has options and a shape.
    """

    options: Mapping[str, Any]
    shape: logical.Shape
    tables: tuple[logical.SourceTable, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """A planned sink: options for its writer, as JSON, and the columns of the table, including columns of a changelog.

    `common` has the options that all sinks have. The connector's dataclass of WITH (…) extends `SinkOptions`, so it
    can be passed.
    """

    options: Mapping[str, Any]
    columns: tuple[logical.Column, ...]
    common: SinkOptions


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that SinkQL creates for a connection: public `facts`, and `secret`, a text that is stored as a
    secret."""

    facts: Mapping[str, Any]
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ConnectionKind:
    """One kind of CREATE CONNECTION: `TO name (options)`."""

    name: str
    plan: Callable[[ast.CreateConnection, PlanningContext], Mapping[str, Any]]
    """Return the options of `logical.Connection`, as JSON."""
    options: type
    """The dataclass that `sinkql.connector_api.options.bind` fills. The types of its fields mark secrets."""
    owner: str = "connections"
    """What messages call connections of the kind."""
    fixed: tuple[str, ...] = ()
    """The labels that select the system; ALTER CONNECTION cannot change them."""
    validate: Callable[[logical.Connection, OutsideAccess], None] | None = None
    """Connect, and raise SinkqlError (SQ4…) if the system does not answer."""
    validates_unasked: bool = True
    """Whether CREATE CONNECTION validates without WITH (VALIDATE)."""
    examine: Callable[[logical.Connection, CheckContext, OutsideAccess], Iterator[HealthCheck]] | None = None
    """Yield all checks of `sinkql doctor`, and raise if the system does not answer; without it, `validate` is used."""
    store: OpenStore | None = None
    """Open the object store that the connection is."""
    keys: Callable[[str | None], Keys] | None = None
    """Create keys for a new connection, or replace the stored ones. They are stored as a secret under its name."""
    pin: Callable[[Mapping[str, Any], str], str | None] | None = None
    """Return the stored keys with the identity of the server, at the first use.

    None if they have it already, or if the server does not answer.
    """
    schemas: bool = False
    """Whether the connection is a registry of message schemas."""
    about: str = ""
    """A paragraph for the page of options."""


PlanSource = Callable[[ast.CreateSource, logical.Facts, PlanningContext], SourcePlan]
PlanTable = Callable[[logical.Source, logical.SourceTable, ast.CreateTableFrom], logical.SourceTable]


@dataclass(frozen=True, slots=True)
class Progress:
    """The relation that EXPOSE PROGRESS creates for a source.

    `rows` receives the offsets that each sink has committed, and the position up to which a capture has all changes;
    None without a capture.
    """

    columns: tuple[logical.Column, ...]
    rows: Callable[[Sequence[Offsets], str | None], Sequence[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class SourceKind:
    """One kind of CREATE SOURCE: `FROM name (options) … WITH (with_options)`.

    If its server must be read by one process for all sinks, the source is captured (`sinkql.connector_api.cdc`): the
    kind has a `stream`, and the facts of a new source have a `source_id`.

    Large: each field is a feature of the kind, and most kinds need only some of them.
    """

    name: str
    plan: PlanSource
    """Plan a statement with the facts of `facts`, without access to the outside."""
    reader: OpenReader
    """Open the reader of a running job."""
    options: type | None = None
    with_options: type | None = None
    facts: Callable[[ast.CreateSource, PlanningContext, OutsideAccess], logical.Facts] | None = None
    """Learn facts from the outside."""
    sample: Callable[[ast.CreateSource, PlanningContext, OutsideAccess | None], logical.Facts] | None = None
    """Learn facts from the first rows, before the first planning.

    Their `columns`, names and SQL types, are used if the statement declares none. When a script is compiled, only files
    of this machine are accessible.
    """
    first: Callable[[Offsets, int], Offsets] | None = None
    """Return where a number of rows after the offsets ends, for a source without an end."""
    has_named_columns: Callable[[Mapping[str, Any]], bool] = lambda options: False
    """Return whether columns are found by name, so that the source may lose a column while sinks continue."""
    table: PlanTable | None = None
    """Plan a table of a source with the options of CREATE TABLE … FROM SOURCE; None if it has no options."""
    messages: bool = False
    """Whether records are messages, with KEY FORMAT, INCLUDE HEADER and VALUE DECODING ERRORS."""
    stream: OpenStream | None = None
    """Open the stream with which a capture reads the server."""
    open_shared: Callable[[], AbstractContextManager[OpenStream]] | None = None
    """Open what the streams of all sources of the kind share, if one process captures them."""
    forget: DropSlot | None = None
    """Remove what a dropped source left on its server."""
    examine: Callable[[logical.Source, OutsideAccess], Iterator[HealthCheck]] | None = None
    """Yield the checks of a source without a connection; raises SinkqlError."""
    progress: Progress | None = None
    """The relation of EXPOSE PROGRESS; None if the kind does not support it."""
    about: str = ""
    """A paragraph for the page of options."""
    has_common_positions: Callable[[SourcePlan], bool] = lambda planned: False
    """Return whether offsets mean the same to all readers (`Reader.comparable_position`); captured ones always do."""


@dataclass(frozen=True, slots=True)
class FormatPlan:
    """A planned format: options for its decoder, as JSON, and its columns; None for the declared columns."""

    options: Mapping[str, Any]
    columns: tuple[logical.Column, ...] | None = None


@dataclass(frozen=True, slots=True)
class FormatKind:
    """One kind of FORMAT: `FORMAT name (options)`, for sources whose records are bytes.

    `plan` checks the statement and the format, without access to the outside.
    """

    name: str
    plan: Callable[[ast.CreateSource, ast.Format], FormatPlan]
    decoding: Decoding
    options: type | None = None


@dataclass(frozen=True, slots=True)
class SourceMessages:
    """The keys or the values of a topic that a source reads, for which a message format is planned.

    `columns` are the columns to decode; empty if the format determines them. `facts` is the result of the format's
    `facts`.
    """

    part: Literal["key", "value"]
    topic: str
    statement: ast.CreateSource
    format: ast.Format
    columns: tuple[logical.Column, ...] = ()
    facts: logical.Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkMessages:
    """The keys or the values of a topic that a sink writes, for which a message format is planned.

    With ENVELOPE DEBEZIUM, the `columns` of values are the records `before` and `after`. `relation` has the names of
    all columns that the sink reads. `comments` has their comments, and under the empty name that of the relation.
    """

    part: Literal["key", "value"]
    topic: str
    statement: ast.CreateSink
    format: ast.Format
    columns: tuple[logical.Column, ...]
    relation: tuple[str, ...] = ()
    comments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MessageWriting:
    """How sinks write a message format. `plan` returns the encoder's options, as JSON, without access to the outside.

    `schema` returns the schema of messages with some columns by these options, as JSON; None if they have none.
    """

    plan: Callable[[SinkMessages, PlanningContext], Mapping[str, Any]]
    encoding: MessageEncoding
    schema: Callable[[Mapping[str, Any], Sequence[physical.Column]], Any] | None = None


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """One kind of FORMAT, KEY FORMAT and VALUE FORMAT of sources whose records are messages, for example of Kafka."""

    name: str
    plan: Callable[[SourceMessages, PlanningContext], FormatPlan]
    """Plan the format without access to the outside.

    With ENVELOPE DEBEZIUM in the statement, the columns of values are the columns of the changed rows.
    """
    decoding: MessageDecoding
    facts: Callable[[SourceMessages, PlanningContext, OutsideAccess], logical.Facts] | None = None
    """Learn facts, for example from a schema registry. They are stored with the source, as JSON."""
    keyed: bool = False
    """Whether FORMAT alone is also the format of keys, if they are read."""
    options: type | None = None
    writing: MessageWriting | None = None
    """How sinks write the format; None if they cannot."""


class ReadRows(Protocol):
    def __call__(
        self,
        write: physical.Write,
        context: Context,
        columns: tuple[physical.Column, ...],
        limit: int,
        *,
        switch: PlanChange | None = None,
    ) -> pa.Table:
        """Return up to `limit` rows that a sink wrote, in the columns' Arrow types; no row without a table.

        Rows that an earlier plan of `switch` wrote have the column names of that plan.
        """


class FindTarget(Protocol):
    def __call__(
        self, statement: ast.CreateSink, sink: logical.Sink, access: OutsideAccess, *, job: physical.Job | None = None
    ) -> logical.Facts:
        """Return facts of the target; raises if the sink, a new one or one with this job, could not write to it."""


PlanSink = Callable[[ast.CreateSink, logical.Shape, logical.Facts, PlanningContext], SinkPlan]


FindEncoded = Callable[
    [physical.Write, Literal["key", "value"]], tuple[str, Mapping[str, Any], tuple[physical.Column, ...]] | None
]
"""Return a format, its planned options and its columns; None if the messages have no such part."""


class DropTarget(Protocol):
    """Drops the target of a stopped sink."""

    def __call__(self, write: physical.Write, context: Context, *, dry: bool) -> bool:
        """Drop the target and return whether it existed; with `dry`, only check that it could be dropped.

        Raises a SinkqlError if the sink did not create it, or if it has rows.
        """


@dataclass(frozen=True, slots=True)
class SinkKind:
    """One kind of CREATE SINK: `INTO name CONNECTION … (options) … WITH (with_options)`.

    Large: each field is a feature of the kind, and most kinds need only some of them.
    """

    name: str
    plan: PlanSink
    """Bind the connector's options and check that the target can store the rows of this shape.

    The planner has checked the key and the mode before.
    """
    writer: OpenWriter
    """Open the writer of a running job."""
    options: type
    with_options: type
    owner: str = "sinks"
    """What messages call sinks of the kind."""
    fixed: tuple[str, ...] = ()
    """The labels in WITH (…) that ALTER SINK cannot change."""
    recreatable: tuple[str, ...] = ()
    """The fixed labels that may differ if the sink is created again for the same target."""
    modes: tuple[str, ...] = ("append", "upsert")
    """The supported modes, in lower case."""
    formats: tuple[str, ...] = ()
    """The supported words of FORMAT."""
    partitions: bool = False
    """Whether sinks support PARTITION BY and SORT BY."""
    messages: bool = False
    """Whether sinks write messages, with FORMAT, KEY FORMAT, VALUE FORMAT and HEADERS."""
    final: bool = False
    """Whether written rows can be neither recomputed nor deleted."""
    facts: FindTarget | None = None
    """Learn facts from the outside, for example the schema of the target."""
    check: Callable[[ast.CreateSink, logical.Sink, PlanningContext], None] | None = None
    """Refuse, after all other checks, a valid statement that is not supported yet."""
    reading_help: Callable[[physical.Write, Context], list[str]] | None = None
    """Return lines of text on how to read the target."""
    count_rows: Callable[[physical.Write, Context], int | None] | None = None
    """Return the number of rows in the target."""
    rows: ReadRows | None = None
    """Return rows of the target."""
    publish: Callable[[physical.Write, Context], Published] | None = None
    """Publish the branch on which the sink writes, for all readers of the table."""
    forget: Callable[[physical.Write, Context], None] | None = None
    """Remove what the target stores for a dropped sink, except its rows."""
    drop: DropTarget | None = None
    """Drop the target if the sink created it and it has no row."""
    destination: Callable[[logical.Sink], logical.Destination] | None = None
    """Return the target of a planned sink. The planner refuses a second sink into the same target."""
    dead_letter_write: Callable[[physical.Write, Sequence[physical.Column]], physical.Write] | None = None
    """Return the append-only write of a sink's dead letters, with these columns."""
    find_encoding: FindEncoded | None = None
    """Return how a sink encodes the keys or the values of messages."""
    about: str = ""
    """A paragraph for the page of options."""


class Scan(Protocol):
    """The files that a query names."""

    @property
    def columns(self) -> tuple[physical.Column, ...]:
        """Return the columns of the files."""

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Read and yield the rows lazily; raises SinkqlError."""


@dataclass(frozen=True, slots=True)
class ScanKind:
    """A function of queries that reads files: `FROM name('path')`, or `FROM 'path'` if the path ends in a suffix.

    `open` receives the path of a file or folder, or a pattern; the formats of the installed connectors; and the store
    of a connection of the kind `connection`, if the query names one. One of `compressed`, the suffixes of compressed
    files, may follow a suffix.
    """

    name: str
    suffixes: tuple[str, ...]
    open: Callable[[str, Mapping[str, Decoding], ObjectStore | None], Scan]
    connection: str
    compressed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnsupportedKind:
    """A kind that is not supported yet. Its statements are parsed, their secrets redacted, and refused by name.

    `options` and `with_options` are dataclasses, as of a supported kind.
    """

    role: Role
    name: str
    options: type | None = None
    with_options: type | None = None


@dataclass(frozen=True, slots=True)
class AddressKind:
    """The drafts that `sinkql init` writes for the address of a server.

    * `connection` drafts a connection, and raises SQ4039.
    * `sources` drafts sources from what the server has.
    * `options` returns what follows CREATE TABLE … FROM SOURCE … (REFERENCE …), so that all columns can be read.
    * `sample` replaces the `sample` of the source kind `source` for a preview of rows. It needs no setup on the server.
    """

    schemes: tuple[str, ...]
    connection: Callable[[Address], ConnectionScaffold]
    sources: Callable[[logical.Connection, ScaffoldRequest, OutsideAccess], Iterable[SourceScaffold]]
    options: Callable[[logical.SourceTable], str] = lambda table: ""
    source: str = ""
    sample: Callable[[ast.CreateSource, PlanningContext, OutsideAccess | None], logical.Facts] | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """One external system and the kinds that it offers, by their keywords (upper case, single spaces).

    Each command loads the module of a connector to learn its keywords, so the module must not import slow libraries.
    `tasks` names the modules that tasks of jobs import; they are loaded once, before tasks start. `readers` and
    `writers` are for reads and writes that no statement names, by their connector.
    """

    name: str
    connections: tuple[ConnectionKind, ...] = field(default=())
    sources: tuple[SourceKind, ...] = field(default=())
    sinks: tuple[SinkKind, ...] = field(default=())
    formats: tuple[FormatKind, ...] = field(default=())
    messages: tuple[MessageFormat, ...] = field(default=())
    later: tuple[UnsupportedKind, ...] = field(default=())
    scans: tuple[ScanKind, ...] = field(default=())
    addresses: tuple[AddressKind, ...] = field(default=())
    tasks: tuple[str, ...] = field(default=())
    readers: Mapping[str, OpenReader] = field(default_factory=dict)
    writers: Mapping[str, OpenWriter] = field(default_factory=dict)
