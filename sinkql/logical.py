"""What statements mean: items, relations with their types, keys and change kinds, facts, and the catalog to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Protocol

from sinkql import ast
from sinkql.errors import Span

# --- types -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Type:
    """Hold an SQL type by its canonical name.

    Names: boolean, smallint, integer, bigint, real, double precision, numeric, date, time, timestamp, timestamptz,
    interval, text, bytea, uuid, jsonb, unknown (an untyped NULL). Numeric always has precision and scale.
    """

    name: str
    precision: int | None = None
    scale: int | None = None

    def __str__(self) -> str:
        return f"{self.name}({self.precision},{self.scale})" if self.name == "numeric" else self.name


NUMERIC = Type("numeric", 38, 10)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: Type
    nullable: bool = True


class Change(StrEnum):
    """Say how the rows of a relation change: only come, are overwritten by key, or come and go."""

    APPEND = "append"
    UPSERT = "upsert"
    RETRACT = "retract"


@dataclass(frozen=True, slots=True)
class Shape:
    """Hold what is known of a relation's rows: columns, unique keys (names) and how they change."""

    columns: tuple[Column, ...]
    keys: tuple[frozenset[str], ...] = ()
    change: Change = Change.APPEND


# --- relations: the meaning of a view's query -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expression:
    """Hold Spark SQL text over the columns of a relation's input; the span lies in the view's CREATE statement."""

    sql: str
    type: Type
    nullable: bool = True
    span: Span = field(default=Span(0, 0), repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Output:
    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Get:
    """Read a source or another view by its full name."""

    item: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Project:
    input: Relation
    outputs: tuple[Output, ...]
    shape: Shape


@dataclass(frozen=True, slots=True)
class Filter:
    input: Relation
    predicate: Expression
    shape: Shape


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """Hold one aggregate: `function` is count, sum, min or max; no argument means count(*).

    AVG is planned as a sum and a count below a projection."""

    name: str
    function: str
    argument: Expression | None
    distinct: bool
    type: Type


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Group by `group`; no aggregates is DISTINCT, no group is one row always."""

    input: Relation
    group: tuple[Output, ...]
    calls: tuple[AggregateCall, ...]
    shape: Shape


@dataclass(frozen=True, slots=True)
class Union:
    """Put the rows of all inputs together (UNION ALL); columns go by place, names are the first input's."""

    inputs: tuple[Relation, ...]
    shape: Shape


Relation = Get | Project | Filter | Aggregate | Union

# --- items -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SecretText:
    """Hold an option's text that may take in secrets: literal parts and names of secret items, concatenated."""

    parts: tuple[str | SecretName, ...]


@dataclass(frozen=True, slots=True)
class SecretName:
    """Hold the full name of a secret item."""

    name: str


@dataclass(frozen=True, slots=True)
class Secret:
    """Hold a secret's name; its value never enters the plan."""

    name: str


@dataclass(frozen=True, slots=True)
class Connection:
    """Hold a connection: its kind (ICEBERG CATALOG) and the connector's options as JSON-able data.

    Texts with secrets stand as `{"secret_text": [part, {"secret": name}, …]}`, other connections as their full name.
    """

    name: str
    kind: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Hold one Spark application: its master and configuration."""

    name: str
    master: str
    conf: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Database:
    """Hold a database's full name: what stands before the names of its schemas, with the dot."""

    name: str


@dataclass(frozen=True, slots=True)
class Schema:
    """Hold a schema's full name: what stands before the names of its items, with the dot."""

    name: str


@dataclass(frozen=True, slots=True)
class Source:
    """Hold a source: the connector that reads it, JSON-able options for the reader, and its shape."""

    name: str
    kind: str
    options: Mapping[str, Any]
    shape: Shape
    connection: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """Hold a view: the relation its query means, under the view's own column names."""

    name: str
    relation: Relation
    shape: Shape
    materialized: bool


class SinkMode(StrEnum):
    APPEND = "append"
    UPSERT = "upsert"


@dataclass(frozen=True, slots=True)
class Sink:
    """Hold a sink: where its rows come from and go to, and how."""

    name: str
    relation: str
    kind: str
    connection: str
    aws_connection: str | None
    cluster: str
    mode: SinkMode
    changelog: bool
    key: tuple[str, ...]
    enforced: bool
    commit_interval: timedelta
    options: Mapping[str, Any]
    shape: Shape


Item = Database | Schema | Secret | Connection | Cluster | Source | View | Sink

# --- facts and the catalog ------------------------------------------------------------------------------------------

Facts = Mapping[str, Any]
"""What purification found out from the world for one item, JSON-able; stored with it, to plan again offline."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold an item as the catalog keeps it: identity, kind (as in DROP), canonical statement, facts."""

    id: str
    name: str
    kind: str
    statement: ast.Create
    facts: Facts


class CatalogReader(Protocol):
    """Read the catalog while planning.

    Full names are `database.schema.item`, of a schema `database.schema.`, of a database `database.`; clusters have a
    plain name.
    """

    def resolve(self, name: ast.Name) -> str:
        """Return the full name that `name` stands for, whether or not such an item exists."""

    def locate(self, name: ast.Name) -> str:
        """Return the full name that a new item called `name` gets."""

    def entry(self, full_name: str) -> Entry | None:
        """Return the stored item of that full name."""

    def item(self, full_name: str) -> Item | None:
        """Return the planned item of that full name."""

    def names(self, kind: str) -> tuple[str, ...]:
        """Return the full names of all items of a kind (SECRET, CONNECTION, SOURCE, …), for hints."""

    def setting(self, name: str) -> str:
        """Return the system setting of that name, its default if it was never set."""
