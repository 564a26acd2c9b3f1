"""The items that CREATE statements define, as the catalog holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal

from sinkql.keywords import qualified_name
from sinkql.logical.expression import Expression
from sinkql.logical.relation import Relation, Shape

PROGRESS = "PROGRESS"
"""The kind of progress subsources, which no connector reads."""


@dataclass(frozen=True, slots=True)
class SecretText:
    """The text of an option that may contain secrets: literal parts and names of secret items, concatenated."""

    parts: tuple[str | SecretName, ...]


@dataclass(frozen=True, slots=True)
class SecretName:
    """The full name of a secret item."""

    name: str


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret by its name: its value never enters a plan."""

    name: str


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection: its kind (ICEBERG CATALOG) and the connector's options as JSON-able data.

    A text with secrets is `{"secret_text": [part, {"secret": name}, …]}`, another connection
    `{"connection": full name}`.
    """

    name: str
    kind: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StatePath:
    """A bucket and the full name of its connection, or a folder without a connection."""

    path: str
    connection: str | None = None


Execution = Literal["AUTO", "SPARK"]
"""Where a cluster runs batches: in the process or in Spark, as each batch needs, or always in Spark."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One Spark application: its master and configuration, and the place of its sinks' state.

    With `execution` AUTO, Spark stops when no batch has needed it for `spark_idle`.
    """

    name: str
    master: str
    conf: Mapping[str, str]
    state: StatePath | None = None
    execution: Execution = "AUTO"
    spark_idle: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Database:
    """A database by its full name, which is the prefix of its schemas' names, with the dot."""

    name: str


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema by its full name, which is the prefix of its items' names, with the dot."""

    name: str


@dataclass(frozen=True, slots=True)
class SourceTable:
    """One of the tables of a source: its upstream name, JSON-able options for the reader, and its shape.

    FOR ALL TABLES and FOR SCHEMAS skip a table that is `aside`.
    """

    name: tuple[str, ...]
    options: Mapping[str, Any]
    shape: Shape
    aside: bool = field(default=False, repr=False)


@dataclass(frozen=True, slots=True)
class Source:
    """A source: the connector that reads it, JSON-able options for the reader, and its shape.

    A source with `tables` has no rows itself: subsources and tables FROM SOURCE, which are sources too, read them.
    `common`: several jobs may read it up to the same position, and get exactly the same rows.
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
    """A view: the relation of its query, under the view's own column names.

    A materialized view with a separate job also has its cluster, its commit interval (None for the interval of its
    sinks) and the minimum time for which it retains its changes.
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
    """The target of a sink: its kind, such as `table`, and the names of its path, which may contain dots.

    `refused` is the hint if the sink is refused because of rows of others; None if it appends to them. An `alone`
    target stops a sink if another sink writes to it. `apart` is the hint for separating two sinks. `branch` is the
    branch that the sink writes to, invisible to other readers until it is published. `replaces` is true if the sink
    removes rows of others before it writes.
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
        """The name in messages; two targets may have the same name."""
        return qualified_name(*self.path)

    @property
    def shared(self) -> bool:
        """Return whether other sinks of this kind may write there too."""
        return self.refused is None and not self.alone


@dataclass(frozen=True, slots=True)
class Index:
    """An index of a materialized view: its rows arranged by the values of `key`, in the view's job."""

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
    """A sink: its relation, target, mode and options; without `snapshot` it starts at its sources' present end.

    The rows of a `final` sink stay: they can neither be computed again nor be removed together.
    Large: one field for each clause of the statement.
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
