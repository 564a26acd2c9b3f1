"""The planned options of registry connections and formats, as jobs store them.

`connection`, `avro.plan` and `protobuf_schema` write these options as JSON; whatever opens a registry, a decoder or an
encoder converts them here once. The field names are the keys in jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sinkql.connector_api.options import PlannedOptions, PlannedSecret


@dataclass(frozen=True, slots=True)
class RegistryConnection(PlannedOptions):
    """The options of a connection to a schema registry."""

    url: str
    user: PlannedSecret | None = None
    password: PlannedSecret | None = None
    ssl_certificate: PlannedSecret | None = None
    ssl_certificate_authority: PlannedSecret | None = None
    ssl_key: PlannedSecret | None = None
    ssh_tunnel: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """A registry connection in a job: its name, its options, and the options of its SSH tunnel."""

    name: str
    options: Mapping[str, Any]
    tunnel: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ReadTuning:
    """The options of a source's format that do not change its rows."""

    registry: RegistryAccess | None = None


@dataclass(frozen=True, slots=True)
class WriteTuning:
    """The options of a sink's format that do not change its messages."""

    registry: RegistryAccess


@dataclass(frozen=True, slots=True)
class AvroReadOptions(PlannedOptions):
    """The options of FORMAT AVRO in sources.

    `references` are the texts of referenced schemas. With `wire`, a schema's id precedes each message. `name` is the
    column of values that are not records.
    """

    schema: str
    references: tuple[str, ...]
    wire: bool
    name: str
    tuning: ReadTuning = field(default_factory=ReadTuning)


@dataclass(frozen=True, slots=True)
class AvroWriteOptions(PlannedOptions):
    """The options of FORMAT AVRO in sinks; `docs` has the text of each column, and of the relation under ""."""

    subject: str
    fullname: str
    debezium: bool
    null_defaults: bool
    tuning: WriteTuning
    compatibility: str | None = None
    docs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProtobufOptions(PlannedOptions):
    """The options of FORMAT PROTOBUF.

    `schema` is a text or descriptors in hexadecimal digits. `references` are the names and texts of referenced schemas.
    `message` is the full name of the message type.
    """

    schema: str
    references: tuple[tuple[str, str], ...]
    message: str
    tuning: ReadTuning = field(default_factory=ReadTuning)
