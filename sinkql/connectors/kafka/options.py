"""The planned options of connections, sources and sinks, as jobs store them.

`connection`, `plan` and `sink.plan` write these options as JSON; whatever opens a client, a reader or a writer converts
them here once. The field names are the keys in jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sinkql.connector_api.options import PlannedOptions, PlannedSecret

PROGRESS_TOPIC = "_sinkql-progress"
"""The default topic in which sinks write their progress."""


@dataclass(frozen=True, slots=True)
class BrokerTunnel:
    """The SSH tunnel of one broker, or of all brokers without a separate tunnel."""

    connection: str
    broker: str | None = None


@dataclass(frozen=True, slots=True)
class KafkaConnection(PlannedOptions):
    """The options of a connection."""

    brokers: tuple[str, ...]
    protocol: str
    progress_topic: str = PROGRESS_TOPIC
    progress_replication: int | None = None
    sasl_mechanism: str | None = None
    sasl_username: PlannedSecret | None = None
    sasl_password: PlannedSecret | None = None
    ssl_certificate_authority: PlannedSecret | None = None
    ssl_certificate: PlannedSecret | None = None
    ssl_key: PlannedSecret | None = None
    ssh_tunnels: tuple[BrokerTunnel, ...] = ()


@dataclass(frozen=True, slots=True)
class PartFormat:
    """The format of keys or values: its name, its columns, and `whole` if FORMAT JSON reads a value as one column."""

    format: str
    columns: tuple[str, ...]
    whole: bool | None = None


@dataclass(frozen=True, slots=True)
class Metadata:
    """One column of message metadata; `name` and `binary` describe a header."""

    part: Literal["partition", "offset", "timestamp", "headers", "header"]
    name: str = ""
    binary: bool = False


@dataclass(frozen=True, slots=True)
class ReadTuning:
    """Options of a source that do not change its rows."""

    refresh_s: float
    group: str


@dataclass(frozen=True, slots=True)
class ReadOptions(PlannedOptions):
    """The options of a source."""

    topic: str
    envelope: Literal["none", "upsert", "debezium"]
    value: PartFormat
    include: dict[str, Metadata]
    tuning: ReadTuning
    key: PartFormat | None = None
    error: str | None = None
    start: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """The expression of PARTITION BY as a JSON tree, and the columns that it reads."""

    tree: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteOptions(PlannedOptions):
    """The options of a sink.

    `partitions`, `replication` and `config` apply to a topic that the sink creates. `row` is the type of a whole row,
    with ENVELOPE DEBEZIUM. `letters` marks the topic for dead letters. Large: a job has a field for each option.
    """

    topic: str
    value_format: str
    value_options: Mapping[str, Any]
    progress_topic: str
    compression: str = "lz4"
    key_format: str | None = None
    key_options: Mapping[str, Any] | None = None
    row: str | None = None
    headers: str | None = None
    partition_by: PartitionBy | None = None
    partitions: int = -1
    replication: int = -1
    config: dict[str, str] = field(default_factory=dict)
    refresh_ms: int | None = None
    transactional_id: str = "sinkql"
    group: str = "sinkql"
    progress_replication: int = -1
    letters: bool = False
