"""Confluent's schema registry, and the formats whose schemas are kept there: declared, not supported yet."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql import ast
from sinkql.extension.options import SecretOnly, SecretPart
from sinkql.extension.plan import Connector, Later
from sinkql.logical import SecretText


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """The options of TO CONFLUENT SCHEMA REGISTRY."""

    url: str
    user: SecretPart | None = None
    username: SecretPart | None = None
    password: SecretOnly | None = None
    ssl_certificate: SecretText | None = None
    ssl_certificate_authority: SecretText | None = None
    ssl_key: SecretOnly | None = None
    ssh_tunnel: ast.Name | None = None
    aws_privatelink: ast.Name | None = None


@dataclass(frozen=True, slots=True)
class AvroOptions:
    """The options of FORMAT AVRO USING: of the registry's connection, and of a schema in the statement."""

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
    later=(
        Later("CONNECTION", "CONFLUENT SCHEMA REGISTRY", RegistryOptions),
        Later("FORMAT", "AVRO", AvroOptions),
        Later("FORMAT", "PROTOBUF", AvroOptions),
    ),
)
