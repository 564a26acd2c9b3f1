"""What planning and purifying ask of a connector: connections, sources and sinks of one kind each."""

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
    """Help a connector plan: find items, and leave notices."""

    @property
    def catalog(self) -> logical.CatalogReader:
        """Return the catalog, read only."""

    def connection(self, name: ast.Name, kind: str) -> logical.Connection:
        """Return the connection of that name; raises SinkqlError at the name if there is none of that kind."""

    def cluster(self, name: ast.Ident) -> logical.Cluster:
        """Return the cluster of that name; raises SinkqlError at the name if there is none."""

    def secret(self, name: ast.Name) -> logical.SecretName:
        """Return the secret of that name; raises SinkqlError at the name if there is none."""

    def format(self, given: ast.Format) -> FormatKind:
        """Return the kind of a format; raises SinkqlError at the format if nobody offers it."""

    def message_format(self, given: ast.Format) -> MessageFormat:
        """Return the kind of a format of messages; raises SinkqlError at the format if nobody offers it."""

    def notice(self, notice: Notice) -> None:
        """Tell the user something that is not an error."""


class OutsideAccess(Protocol):
    """What purification may reach the outside with: values of secrets, planned connections, object stores, paths."""

    def secret(self, full_name: str) -> str:
        """Return a secret's value."""

    def connection(self, full_name: str) -> logical.Connection:
        """Return a planned connection."""

    def store(self, full_name: str) -> ObjectStore:
        """Return the object store that a connection opens (`Registry.store`)."""

    def path(self, option: str) -> Path:
        """Return where the path is that an option has: a relative one begins in the catalog's project."""


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What a source reads: JSON-able options for its reader, and the shape of its rows.

    A source of several `tables` has no rows of its own; each table has options and a shape.
    """

    options: Mapping[str, Any]
    shape: logical.Shape
    tables: tuple[logical.SourceTable, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """What a sink is to write: the connector's own options, JSON-able, and the table's columns, the changelog's too.

    `common` are the options that every sink has: the connector's dataclass of WITH (…), which extends them, will do.
    """

    options: Mapping[str, Any]
    columns: tuple[logical.Column, ...]
    common: SinkOptions


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of a connection's own: facts that everybody may know, and what is kept as a secret's value."""

    facts: Mapping[str, Any]
    kept: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ConnectionKind:
    """One type of CREATE CONNECTION: `TO name (options)`.

    `options` is the dataclass that `sinkql.connector_api.options.bind` fills: its fields are the labels and, by their
    types, say which literals are secrets. `plan` returns the JSON-able options of `logical.Connection`. Of the labels,
    those in `fixed` decide which system is reached, and cannot change; `owner` is what messages call such connections.

    `validate` reaches out and raises SinkqlError (SQ4…) where the system does not answer; None: never validated.
    Without `validates_unasked` that is done only for WITH (VALIDATE). `store` makes an object store of the options, for
    connections that are one. `examine` looks at all that may keep its sources from running, now or later, and raises
    where the system does not answer; without it `validate` is the one check of `doctor`. `keys` makes the keys that a
    new connection has of its own, or others in the place of those that it kept; they are kept as a secret's value is,
    under the connection's own name. `pin` takes options and what is kept, and returns what is to be kept from its first
    use on, with what identifies the server; None where that is there, or the server does not answer. `schemas`: it has
    those of messages. `about` is a paragraph for the page of options, as it is for sources and sinks.
    """

    name: str
    plan: Callable[[ast.CreateConnection, PlanningContext], Mapping[str, Any]]
    options: type
    owner: str = "connections"
    fixed: tuple[str, ...] = ()
    validate: Callable[[logical.Connection, OutsideAccess], None] | None = None
    validates_unasked: bool = True
    examine: Callable[[logical.Connection, CheckContext, OutsideAccess], Iterator[HealthCheck]] | None = None
    store: OpenStore | None = None
    keys: Callable[[str | None], Keys] | None = None
    pin: Callable[[Mapping[str, Any], str], str | None] | None = None
    schemas: bool = False
    about: str = ""


PlanSource = Callable[[ast.CreateSource, logical.Facts, PlanningContext], SourcePlan]
PlanTable = Callable[[logical.Source, logical.SourceTable, ast.CreateTableFrom], logical.SourceTable]


@dataclass(frozen=True, slots=True)
class Progress:
    """What EXPOSE PROGRESS shows of sources of a kind: columns, and rows.

    `rows` gets the offsets that each sink has committed of the source, and the position up to which a capture has all
    changes, None where there is none.
    """

    columns: tuple[logical.Column, ...]
    rows: Callable[[Sequence[Offsets], str | None], Sequence[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class SourceKind:
    """One kind of CREATE SOURCE: `FROM name (options) … WITH (with_options)`.

    `plan` reads the statement and reaches nothing; `facts` may reach out, and what it returns `plan` gets. `reader`
    opens what a running job reads with. `sample` looks at what the source begins with before the first planning, also
    where scripts are compiled, but there without access to what is not on this machine; the `columns` among its facts,
    names and types as SQL, stand for those that the statement does not declare. `first` tells for a source without an
    end where its first rows after some offsets end, as many as are wanted. `named` tells by a source's options whether
    its columns are found by their names, so that it may lose some while sinks go on. `table` plans a table of a source
    that somebody reads, by the options of its own statement, and raises what is wrong with it; None: it is as the
    source has it. With `messages` its records are messages: it takes KEY FORMAT, INCLUDE HEADER and VALUE DECODING
    ERRORS, which are refused for others.

    A server that keeps nothing for its readers is captured (`sinkql.connector_api.cdc`): `stream` opens what its
    capture reads it with, `forget` takes away what a dropped source left on it; a new source has a `source_id` among
    its facts. Where sources are captured `together`, by one process, its context gives what opens their streams.
    `examine` yields what keeps a source without a connection from running; it raises SinkqlError. `progress` is what
    EXPOSE PROGRESS shows, which is refused without it. `common` tells of what sources offsets mean the same to all who
    read one (`Reader.comparable_position`), as those of a captured one always do.
    """

    name: str
    plan: PlanSource
    reader: OpenReader
    options: type | None = None
    with_options: type | None = None
    facts: Callable[[ast.CreateSource, PlanningContext, OutsideAccess], logical.Facts] | None = None
    sample: Callable[[ast.CreateSource, PlanningContext, OutsideAccess | None], logical.Facts] | None = None
    first: Callable[[Offsets, int], Offsets] | None = None
    named: Callable[[Mapping[str, Any]], bool] = lambda options: False
    table: PlanTable | None = None
    messages: bool = False
    stream: OpenStream | None = None
    together: Callable[[], AbstractContextManager[OpenStream]] | None = None
    forget: DropSlot | None = None
    examine: Callable[[logical.Source, OutsideAccess], Iterator[HealthCheck]] | None = None
    progress: Progress | None = None
    about: str = ""
    common: Callable[[SourcePlan], bool] = lambda planned: False


@dataclass(frozen=True, slots=True)
class FormatPlan:
    """A planned format: JSON-able options for its decoder, and the columns that it makes; None: the declared ones."""

    options: Mapping[str, Any]
    columns: tuple[logical.Column, ...] | None = None


@dataclass(frozen=True, slots=True)
class FormatKind:
    """One kind of FORMAT: `FORMAT name (options)`, for every source whose records are bytes.

    `plan` gets the source and the format, and checks what stands there; it reaches nothing.
    """

    name: str
    plan: Callable[[ast.CreateSource, ast.Format], FormatPlan]
    decoding: Decoding
    options: type | None = None


@dataclass(frozen=True, slots=True)
class SourceMessages:
    """What a format of messages is planned for: the keys or the values of a topic.

    `columns` are those that it is to decode, where the statement says which; without any the format says itself.
    `facts` is what the format's own `facts` returned.
    """

    part: Literal["key", "value"]
    topic: str
    statement: ast.CreateSource
    format: ast.Format
    columns: tuple[logical.Column, ...] = ()
    facts: logical.Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkMessages:
    """What a format of messages is planned for that a sink writes: the keys or the values of a topic.

    With ENVELOPE DEBEZIUM the `columns` of values are `before` and `after`, two records. `relation` names all columns
    of what the sink reads, `comments` has those on them, and under no name that on the relation.
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
    """How sinks write a format of messages: `plan` returns the encoder's options, JSON-able, and reaches nothing.

    `schema` returns by these what the messages of some columns are like, JSON-able; None where they have no schema.
    """

    plan: Callable[[SinkMessages, PlanningContext], Mapping[str, Any]]
    encoding: MessageEncoding
    schema: Callable[[Mapping[str, Any], Sequence[physical.Column]], Any] | None = None


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """One kind of FORMAT, KEY FORMAT and VALUE FORMAT of sources whose records are messages, as of Kafka.

    `plan` reaches nothing; its columns are those of the format, None for those that were asked for. With ENVELOPE
    DEBEZIUM (`SourceMessages.statement` tells) the columns of values are those of the rows that change. `facts` may
    reach out, as to a registry of schemas; its facts, JSON-able, are stored with the source. With `keyed`, FORMAT alone
    is that of keys as well, where these are read. `writing` is how sinks write it, None where they cannot.
    """

    name: str
    plan: Callable[[SourceMessages, PlanningContext], FormatPlan]
    decoding: MessageDecoding
    facts: Callable[[SourceMessages, PlanningContext, OutsideAccess], logical.Facts] | None = None
    keyed: bool = False
    options: type | None = None
    writing: MessageWriting | None = None


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
        """Return up to `limit` rows of what a sink wrote, in the columns' Arrow types; none without a table.

        What was written by a plan that `switch` follows has the columns' names of then.
        """


class FindTarget(Protocol):
    def __call__(
        self, statement: ast.CreateSink, sink: logical.Sink, access: OutsideAccess, *, job: physical.Job | None = None
    ) -> logical.Facts:
        """Return what the target of a sink says; raises where the sink, new or with this job, could not write to it."""


PlanSink = Callable[[ast.CreateSink, logical.Shape, logical.Facts, PlanningContext], SinkPlan]


FindEncoded = Callable[
    [physical.Write, Literal["key", "value"]], tuple[str, Mapping[str, Any], tuple[physical.Column, ...]] | None
]
"""Return a format, its planned options, and what it is given as columns."""


class DropTarget(Protocol):
    """Drop what a sink that is stopped writes to."""

    def __call__(self, write: physical.Write, context: Context, *, dry: bool) -> bool:
        """Drop it, or with `dry` only raise what dropping it would; return whether it is there.

        Raises a SinkqlError where it is not the sink's own, or rows are in it.
        """


@dataclass(frozen=True, slots=True)
class SinkKind:
    """One kind of CREATE SINK: `INTO name CONNECTION … (options) … WITH (with_options)`.

    `plan` binds the connector's own options and checks what it can hold. It gets the shape of what the sink reads; the
    statement's key and mode are checked by the planner before. `check` comes after all other rules: it refuses what is
    right but cannot be done yet. `writer` opens what a running job writes with. `facts` reaches out: the system
    answers, the target's schema.

    Sinks of the kind take `modes` (in lower case), FORMAT with one of `formats`; PARTITION BY and SORT BY if
    `partitions`; with `messages` they write messages, and take FORMAT, KEY FORMAT, VALUE FORMAT and HEADERS, which are
    refused for others. What a `final` sink has written stays: its rows can be neither computed again nor taken out at
    once.

    `reading` gives lines that tell how to read what the sink wrote, `rows` up to so many of its rows, in Arrow,
    `count_rows` how many there are; None where there is no such way. `destination` tells what a planned sink writes to,
    by which a second sink into the same is refused; where that has a branch, `publish` lets all read what is on it.
    `forget` takes away what the target keeps for a sink that is dropped, but for its rows; `drop` the target itself, if
    the sink has made it and no row is in it.
    Of the labels in WITH (…), those in `fixed` matter when a sink is created, and cannot change; of these a sink that
    is created again may have those in `anew` for the same target. `owner` is what messages call such sinks. `letters`
    returns what writes, beside a sink, its records that do not decode, which only come, with the columns given.
    `encoded` tells how a sink that writes messages writes their keys, None without any, or their values.
    """

    name: str
    plan: PlanSink
    writer: OpenWriter
    options: type
    with_options: type
    owner: str = "sinks"
    fixed: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()
    modes: tuple[str, ...] = ("append", "upsert")
    formats: tuple[str, ...] = ()
    partitions: bool = False
    messages: bool = False
    final: bool = False
    facts: FindTarget | None = None
    check: Callable[[ast.CreateSink, logical.Sink, PlanningContext], None] | None = None
    reading: Callable[[physical.Write, Context], list[str]] | None = None
    count_rows: Callable[[physical.Write, Context], int | None] | None = None
    rows: ReadRows | None = None
    publish: Callable[[physical.Write, Context], Published] | None = None
    forget: Callable[[physical.Write, Context], None] | None = None
    drop: DropTarget | None = None
    destination: Callable[[logical.Sink], logical.Destination] | None = None
    letters: Callable[[physical.Write, Sequence[physical.Column]], physical.Write] | None = None
    encoded: FindEncoded | None = None
    about: str = ""


class Scan(Protocol):
    """Rows of files that a query names."""

    @property
    def columns(self) -> tuple[physical.Column, ...]:
        """Return the columns that the files have."""

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, reading on as they are taken; raises SinkqlError."""


@dataclass(frozen=True, slots=True)
class ScanKind:
    """A function of queries that reads files: `FROM name('path')`, and `FROM 'path'` where it ends in a suffix.

    `open` takes the path, which may be a folder or a pattern, the formats that the installed connectors decode, and the
    store of a connection of the kind `connection`, where one is named.
    After a suffix one of `compressed` may stand, the endings of compressed files.
    """

    name: str
    suffixes: tuple[str, ...]
    open: Callable[[str, Mapping[str, Decoding], ObjectStore | None], Scan]
    connection: str
    compressed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnsupportedKind:
    """A kind that is not supported yet, declared so that its statements are read, kept secret and refused by name.

    `options` and `with_options` are dataclasses as those of the kinds that are supported.
    """

    role: Role
    name: str
    options: type | None = None
    with_options: type | None = None


@dataclass(frozen=True, slots=True)
class AddressKind:
    """What a connector does with addresses of its servers.

    `connection` drafts a connection, and raises SQ4039; `sources` asks the server through it. `options` gives what
    follows CREATE TABLE … FROM SOURCE … (REFERENCE …) for a table of a source, so that all its columns can be read.
    `sample` stands in for that of the kind of source `source` where rows are only looked at: it needs nothing to be set
    up on the server.
    """

    schemes: tuple[str, ...]
    connection: Callable[[Address], ConnectionScaffold]
    sources: Callable[[logical.Connection, ScaffoldRequest, OutsideAccess], Iterable[SourceScaffold]]
    options: Callable[[logical.SourceTable], str] = lambda table: ""
    source: str = ""
    sample: Callable[[ast.CreateSource, PlanningContext, OutsideAccess | None], logical.Facts] | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """One external system: what it offers, by the words that SQL uses (upper case, single spaces).

    A connector's module must import nothing heavy: it is loaded to learn its words. `tasks` names the modules that
    tasks of jobs import; they are loaded once, before tasks start. `readers` and `writers` are of what jobs read and
    write that no statement names, by the connector of their Read and Write.
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
