"""What CREATE statements mean: the items that a catalog holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from sinkql.keywords import qualified_name
from sinkql.logical.expression import Expression
from sinkql.logical.relation import Relation, Shape

PROGRESS = "PROGRESS"
"""The kind of sources that tell how far another one is read, which no connector reads."""


@dataclass(frozen=True, slots=True)
class SecretText:
    """An option's text that may take in secrets: literal parts and names of secret items, concatenated."""

    parts: tuple[str | SecretName, ...]


@dataclass(frozen=True, slots=True)
class SecretName:
    """The full name of a secret item."""

    name: str


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret, by its name: its value never enters the plan."""

    name: str


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection: its kind (ICEBERG CATALOG) and the connector's options as JSON-able data.

    Texts with secrets stand as `{"secret_text": [part, {"secret": name}, …]}`, other connections as
    `{"connection": full name}`.
    """

    name: str
    kind: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StatePath:
    """A bucket, and the full name of the connection that reaches it; or a folder, without one."""

    path: str
    connection: str | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """One Spark application: its master and configuration, and where its sinks keep their state."""

    name: str
    master: str
    conf: Mapping[str, str]
    state: StatePath | None = None


@dataclass(frozen=True, slots=True)
class Database:
    """A database, by its full name: what stands before the names of its schemas, with the dot."""

    name: str


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema, by its full name: what stands before the names of its items, with the dot."""

    name: str


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One of the tables of a source: its upstream name, JSON-able options for the reader, and its shape.

    FOR ALL TABLES and FOR SCHEMAS do not take one that is `aside`.
    """

    name: tuple[str, ...]
    options: Mapping[str, Any]
    shape: Shape
    aside: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True)
class Source:
    """A source: the connector that reads it, JSON-able options for the reader, and its shape.

    One that has `tables` has no rows of its own: they are read by subsources, and by tables FROM SOURCE, which are
    sources themselves. `common`: how far one job has read it, others may read it too, for exactly the same rows.
    """

    name: str
    kind: str
    options: Mapping[str, Any]
    shape: Shape
    connection: str | None = None
    tables: tuple[SourceTable, ...] = ()
    common: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """A view: the relation its query means, under the view's own column names.

    Of a materialized one also what its job has, if it is one of its own: its cluster, how often it commits, None as its
    sinks do, and for how long it keeps its changes at least.
    """

    name: str
    relation: Relation
    shape: Shape
    materialized: bool
    cluster: str = ""
    commit_interval: timedelta | None = None
    retain: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Destination:
    """What a sink writes to: its kind, such as `table`, and the names that lead to it, which may have dots.

    `refused` says what to do where the sink is refused because others' rows are there; None if it adds to them. `alone`
    is one that stops where another sink writes to the same. `apart` says how two sinks get out of each other's way.
    `branch` is the one that it writes to, apart from what everybody reads, until it is published.
    `replaces`: rows of others go once the sink writes.
    """

    kind: str
    path: tuple[str, ...]
    refused: str | None = None
    alone: bool = False
    apart: str | None = None
    branch: str | None = None
    replaces: bool = False

    @property
    def name(self) -> str:
        """What messages call it; two may have one name."""
        return qualified_name(*self.path)

    @property
    def shared(self) -> bool:
        """Tell whether other sinks like this one may write there too."""
        return self.refused is None and not self.alone


@dataclass(frozen=True, slots=True)
class Index:
    """An index of a materialized view: its rows by what `key` gives of them, which is kept in the view's job."""

    name: str
    relation: str
    key: tuple[Expression, ...]
    cluster: str


class SinkMode(StrEnum):
    APPEND = "append"
    UPSERT = "upsert"
    DEBEZIUM = "debezium"


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a sink's rows come from and go to, and how; without `snapshot` it starts at its sources' present end.

    What a `final` one has written stays: its rows can be neither computed again nor taken out at once.
    """

    name: str
    relation: str
    kind: str
    connection: str
    store: str | None
    cluster: str
    mode: SinkMode
    changelog: bool
    key: tuple[str, ...]
    enforced: bool
    commit_interval: timedelta
    max_rows_per_commit: int
    snapshot: bool
    options: Mapping[str, Any]
    shape: Shape
    destination: Destination | None = None
    final: bool = False
    buckets: int | None = None


Item = Database | Schema | Secret | Connection | Cluster | Source | View | Index | Sink
