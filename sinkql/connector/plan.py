"""What planning and purifying ask of a connector: connections, sources and sinks of one kind each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from sinkql import ast, logical, physical
from sinkql.connector.store import ObjectStore, OpenStore
from sinkql.connector.stream import Context, Offsets, OpenReader, OpenWriter
from sinkql.errors import Notice

if TYPE_CHECKING:
    import pyarrow as pa


class Planning(Protocol):
    """Help a connector plan: find items, and leave notices."""

    @property
    def catalog(self) -> logical.CatalogReader:
        """Return the catalog, read only."""

    def connection(self, name: ast.Name, kind: str) -> logical.Connection:
        """Return the connection of that name; raises SinkqlError at the name if there is none of that kind."""

    def secret(self, name: ast.Name) -> logical.SecretName:
        """Return the secret of that name; raises SinkqlError at the name if there is none."""

    def notice(self, notice: Notice) -> None:
        """Tell the user something that is no error."""


class World(Protocol):
    """Give purification what it needs to reach the outside: secrets' values and planned connections."""

    def secret(self, full_name: str) -> str:
        """Return a secret's value."""

    def connection(self, full_name: str) -> logical.Connection:
        """Return a planned connection."""

    def store(self, full_name: str) -> ObjectStore:
        """Return the object store that a connection opens (`Registry.store`)."""


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """Hold a planned source: JSON-able options for its reader, and its shape."""

    options: Mapping[str, Any]
    shape: logical.Shape


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """Hold a planned sink's options, JSON-able, the columns that the table will have (changelog's included), its pace.

    The options also hold `snapshot` (bool) and `max_rows_per_commit` (int), which every sink has.
    """

    options: Mapping[str, Any]
    columns: tuple[logical.Column, ...]
    commit_interval: timedelta


@dataclass(frozen=True, slots=True)
class ConnectionKind:
    """One type of CREATE CONNECTION. `plan` gives the JSON-able options of `logical.Connection`.

    `validate` reaches out and raises SinkqlError (SQ4…) where the system does not answer; None: never validated.
    `store` makes an object store of the options, for connections that are one. Of `options`, the names of all, those in
    `fixed` decide which system is reached, and cannot change; `owner` is what messages call such connections. `takes`
    is the dataclass of the options.
    """

    name: str
    plan: Callable[[ast.CreateConnection, Planning], Mapping[str, Any]]
    validate: Callable[[logical.Connection, World], None] | None = None
    store: OpenStore | None = None
    owner: str = "connections"
    options: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    takes: type | None = None


@dataclass(frozen=True, slots=True)
class SourceKind:
    """One kind of CREATE SOURCE … FROM. `facts` may reach out; `plan` may not.

    `takes` and `takes_with` are the dataclasses of the options of FROM and of WITH.
    `first` tells for a source without an end where its first rows after some offsets end, as many as are wanted.
    """

    name: str
    plan: Callable[[ast.CreateSource, logical.Facts, Planning], SourcePlan]
    reader: OpenReader
    facts: Callable[[ast.CreateSource, Planning, World], logical.Facts] | None = None
    first: Callable[[Offsets, int], Offsets] | None = None
    takes: type | None = None
    takes_with: type | None = None


class ReadRows(Protocol):
    def __call__(
        self, write: physical.Write, context: Context, columns: tuple[physical.Column, ...], limit: int
    ) -> pa.Table:
        """Return up to `limit` rows of what a sink wrote, in the columns' Arrow types; none without a table."""


@dataclass(frozen=True, slots=True)
class SinkKind:
    """One kind of CREATE SINK … INTO. `plan` binds the connector's own options and checks what it can hold.

    `facts` reaches out: the catalog answers, the target table's schema. `shape` is what the sink reads; the
    statement's key and mode are checked by the planner before. `check` comes after all
    other rules: it refuses what is right but cannot be done yet. `reading` gives lines that tell how to read what the
    sink wrote, `rows` up to so many of its rows, in Arrow, `count_rows` how many there are. Of `options`, the names
    of all in WITH (…), those in `fixed` matter when a sink is created, and cannot change; `owner` is what messages
    call such sinks.
    `takes` and `takes_with` are the dataclasses of the options of INTO and of WITH.
    """

    name: str
    plan: Callable[[ast.CreateSink, logical.Shape, logical.Facts, Planning], SinkPlan]
    writer: OpenWriter
    facts: Callable[[ast.CreateSink, logical.Sink, World], logical.Facts] | None = None
    check: Callable[[ast.CreateSink, logical.Sink, Planning], None] | None = None
    reading: Callable[[physical.Write, Context], list[str]] | None = None
    count_rows: Callable[[physical.Write, Context], int | None] | None = None
    rows: ReadRows | None = None
    owner: str = "sinks"
    options: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    takes: type | None = None
    takes_with: type | None = None


@dataclass(frozen=True, slots=True)
class Connector:
    """One external system: what it offers, by the words that SQL uses (upper case)."""

    name: str
    connections: tuple[ConnectionKind, ...] = field(default=())
    sources: tuple[SourceKind, ...] = field(default=())
    sinks: tuple[SinkKind, ...] = field(default=())
