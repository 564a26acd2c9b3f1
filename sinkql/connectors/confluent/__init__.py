"""Confluent's schema registry, and the formats whose schemas are kept there.

* `connection`: the statement's options → the plan's, checked.
* `registry`: a planned connection → schemas, by id and by subject.
* `schema`: FORMAT … USING → the text of a schema, of the statement or the registry.
* `connectors.confluent.avro.avro_plan`, `connectors.confluent.avro.columns`: a schema of Avro → columns, and the
  decoder's options.
* `connectors.confluent.avro.avro`, `connectors.confluent.avro.decode`: messages of Avro → rows, and rows that change,
  by the schemas that they were written with.
* `connectors.confluent.avro.avro_connect`: schemas as Kafka Connect writes them → the same with Avro's own names of
  dates and times.
* `connectors.confluent.avro.resolution`: a writer's and a reader's schema → columns of records.
* `connectors.confluent.avro.column_reader`, `connectors.confluent.avro.cursor`: a writer's schema, and messages all at
  once → arrays, and which messages are wrong.
* `connectors.confluent.avro.plan`, `connectors.confluent.avro.avro_derive`: a sink's columns → the schema that it
  registers. `connectors.confluent.avro.encode`: rows → messages of Avro.
* `protobuf_schema`, `protobuf_schema`: a schema of Protobuf → columns, and the decoder's options.
* `protobuf`: messages of Protobuf → rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sinkql import logical, physical
from sinkql.connector_api.planning import (
    ConnectionKind,
    Connector,
    MessageFormat,
    MessageWriting,
    OutsideAccess,
    UnsupportedKind,
)
from sinkql.connector_api.stream import (
    ChangeDecoder,
    Context,
    MessageDecoder,
    MessageDecoding,
    MessageEncoder,
    MessageEncoding,
)
from sinkql.connectors.confluent.avro.plan import plan as plan_avro
from sinkql.connectors.confluent.avro.plan import plan_avro as plan_written
from sinkql.connectors.confluent.connection import KIND, OWNER, RegistryOptions, plan
from sinkql.connectors.confluent.protobuf_schema import plan as plan_protobuf
from sinkql.connectors.confluent.schema import ask

_ABOUT = """\
The connection is checked when it is created, unless `WITH (VALIDATE = false)` stands after its options. Certificates
and keys are texts in PEM, as `SECRET name`."""


def _validate(connection: logical.Connection, access: OutsideAccess) -> None:
    from sinkql.connector_api.tunnel import planned_tunnel
    from sinkql.connectors.confluent.registry import Registry  # only where one is asked

    tunnel = planned_tunnel(connection, access)
    with closing(Registry(connection.name, connection.options, access.secret, tunnel)) as registry:
        registry.check()


def _open_avro(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> MessageDecoder:
    from sinkql.connectors.confluent.avro.decode import (  # pyarrow and fastavro, only where a job runs
        AvroMessages,
        Writers,
    )

    return AvroMessages(tuple(columns), Writers.of(options, context))


def _open_changes(
    options: Mapping[str, Any], columns: Sequence[physical.Column], key: Sequence[str], context: Context
) -> ChangeDecoder:
    from sinkql.connectors.confluent.avro.decode import AvroChanges, Writers

    return AvroChanges(tuple(columns), tuple(key), Writers.of(options, context))


def _open_protobuf(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> MessageDecoder:
    from sinkql.connectors.confluent.protobuf import ProtobufMessages

    return ProtobufMessages.of(options, columns, context)


def _write_avro(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> MessageEncoder:
    from sinkql.connectors.confluent.avro.encode import AvroRows

    return AvroRows.of(options, columns, context)


def _avro_schema(options: Mapping[str, Any], columns: Sequence[physical.Column]) -> Any:
    from sinkql.connectors.confluent.avro.plan import derived

    return derived(columns, options)


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """The options of FORMAT … USING: those of schemas that sinks make, and of one in the statement."""

    null_defaults: bool = False
    avro_key_fullname: str | None = None
    avro_value_fullname: str | None = None
    compatibility_level: str | None = None
    key_compatibility_level: str | None = None
    value_compatibility_level: str | None = None
    schema_name: str | None = None
    confluent_wire_format: bool = True


connector = Connector(
    "confluent",
    connections=(
        ConnectionKind(KIND, plan, RegistryOptions, OWNER, ("URL",), validate=_validate, schemas=True, about=_ABOUT),
    ),
    messages=(
        MessageFormat(
            "AVRO",
            plan_avro,
            MessageDecoding(_open_avro, _open_changes),
            ask,
            keyed=True,
            writing=MessageWriting(plan_written, MessageEncoding(_write_avro), _avro_schema),
        ),
        MessageFormat("PROTOBUF", plan_protobuf, MessageDecoding(_open_protobuf), ask, keyed=True),
    ),
    later=(UnsupportedKind("FORMAT", "AVRO", SchemaOptions), UnsupportedKind("FORMAT", "PROTOBUF", SchemaOptions)),
    tasks=(
        "sinkql.connectors.confluent.avro.decode",
        "sinkql.connectors.confluent.avro.decode",
        "sinkql.connectors.confluent.avro.encode",
    ),
)
