"""Kafka: declared, not supported yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from sinkql import ast
from sinkql.connectors.kafka.formats import FORMATS
from sinkql.extension.options import SecretOnly, SecretPart
from sinkql.extension.plan import Connector, Later
from sinkql.logical import SecretText


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """The options of TO KAFKA."""

    broker: str | None = None
    brokers: tuple[str, ...] = ()
    aws_privatelink: ast.Name | None = None
    security_protocol: str | None = None
    sasl_mechanisms: str | None = None
    sasl_username: SecretPart | None = None
    sasl_password: SecretOnly | None = None
    ssl_certificate: SecretText | None = None
    ssl_certificate_authority: SecretText | None = None
    ssl_key: SecretOnly | None = None
    ssh_tunnel: ast.Name | None = None
    aws_connection: ast.Name | None = None
    progress_topic: str | None = None
    progress_topic_replication_factor: int | None = None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of FROM KAFKA CONNECTION."""

    topic: str
    group_id_prefix: str | None = None
    start_offset: tuple[str, ...] = ()
    start_timestamp: int | None = None
    topic_metadata_refresh_interval: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of INTO KAFKA CONNECTION."""

    topic: str
    compression_type: str | None = None
    partition_by: str | None = None
    progress_group_id_prefix: str | None = None
    transactional_id_prefix: str | None = None
    legacy_ids: bool = False
    topic_partition_count: int | None = None
    topic_replication_factor: int | None = None
    topic_config: dict[str, str] = field(default_factory=dict)
    topic_metadata_refresh_interval: timedelta = timedelta(seconds=60)


connector = Connector(
    "kafka",
    messages=FORMATS,
    later=(
        Later("CONNECTION", "KAFKA", KafkaOptions),
        Later("SOURCE", "KAFKA", SourceOptions),
        Later("SINK", "KAFKA", SinkOptions),
    ),
)
