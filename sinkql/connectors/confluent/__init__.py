"""Confluent's schema registry, and the formats Avro and Protobuf, whose schemas it stores.

* `connection`: Check the options of CREATE CONNECTION … TO CONFLUENT SCHEMA REGISTRY.
* `options`: Convert the planned options of connections and formats to dataclasses.
* `registry`: Read and register schemas over HTTP.
* `schema`: Find the schema of FORMAT … USING in the statement or the registry.
* `avro`: Plan, decode and encode Avro messages.
* `protobuf_schema`: Compile Protobuf schemas, and plan their columns.
* `protobuf`: Decode Protobuf messages.
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
from sinkql.connectors.confluent.avro.plan import derive_schema
from sinkql.connectors.confluent.avro.plan import plan_sink as plan_avro_sink
from sinkql.connectors.confluent.avro.plan import plan_source as plan_avro
from sinkql.connectors.confluent.connection import KIND, OWNER, RegistryOptions, plan
from sinkql.connectors.confluent.options import AvroWriteOptions
from sinkql.connectors.confluent.protobuf_schema import plan as plan_protobuf
from sinkql.connectors.confluent.schema import schema_facts

_ABOUT = """\
SinkQL checks the connection when you create it, unless `WITH (VALIDATE = false)` follows its options. Certificates and
keys are PEM texts, specified as `SECRET name`."""


def _validate(connection: logical.Connection, access: OutsideAccess) -> None:
    from sinkql.connectors.confluent.registry import planned_registry  # imports httpx

    with closing(planned_registry(connection, access)) as registry:
        registry.check()


def _open_avro(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> MessageDecoder:
    from sinkql.connectors.confluent.avro.decode import (  # imports pyarrow and fastavro
        AvroMessages,
        WriterSchemas,
    )

    return AvroMessages(tuple(columns), WriterSchemas.from_plan(options, context))


def _open_changes(
    options: Mapping[str, Any], columns: Sequence[physical.Column], key: Sequence[str], context: Context
) -> ChangeDecoder:
    from sinkql.connectors.confluent.avro.decode import AvroChanges, WriterSchemas

    return AvroChanges(tuple(columns), tuple(key), WriterSchemas.from_plan(options, context))


def _open_protobuf(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> MessageDecoder:
    from sinkql.connectors.confluent.protobuf import ProtobufMessages

    return ProtobufMessages.from_plan(options, columns, context)


def _write_avro(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> MessageEncoder:
    from sinkql.connectors.confluent.avro.encode import AvroRows

    return AvroRows.from_plan(options, columns, context)


def _avro_schema(options: Mapping[str, Any], columns: Sequence[physical.Column]) -> Any:
    return derive_schema(columns, AvroWriteOptions.from_plan(options))


@dataclass(frozen=True, slots=True)
class SchemaOptions:
    """The options of FORMAT … USING that are not supported everywhere."""

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
            schema_facts,
            keyed=True,
            writing=MessageWriting(plan_avro_sink, MessageEncoding(_write_avro), _avro_schema),
        ),
        MessageFormat("PROTOBUF", plan_protobuf, MessageDecoding(_open_protobuf), schema_facts, keyed=True),
    ),
    later=(UnsupportedKind("FORMAT", "AVRO", SchemaOptions), UnsupportedKind("FORMAT", "PROTOBUF", SchemaOptions)),
    tasks=(
        "sinkql.connectors.confluent.avro.decode",
        "sinkql.connectors.confluent.avro.encode",
    ),
)
