"""Confluent's schema registry, and the formats whose schemas are kept there.

* `connection`: the statement's options → the plan's, checked.
* `registry`: a planned connection → schemas, by id and by subject.
"""

from __future__ import annotations

from dataclasses import dataclass

from sinkql import logical
from sinkql.connectors.confluent.connection import KIND, OWNER, RegistryOptions, plan
from sinkql.extension.plan import Access, ConnectionKind, Connector, Later


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


_ABOUT = """\
The connection is checked when it is created, unless `WITH (VALIDATE = false)` stands after its options. Certificates
and keys are texts in PEM, as `SECRET name`."""


def _validate(connection: logical.Connection, access: Access) -> None:
    from sinkql.connectors.confluent.registry import Registry  # only where one is asked

    Registry(connection.name, connection.options, access.secret).check()


connector = Connector(
    "confluent",
    connections=(ConnectionKind(KIND, plan, RegistryOptions, OWNER, ("URL",), validate=_validate, about=_ABOUT),),
    later=(
        Later("FORMAT", "AVRO", AvroOptions),
        Later("FORMAT", "PROTOBUF", AvroOptions),
    ),
)
