"""Connections to a real broker: CREATE CONNECTION reports each error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from kafka.pipeline import Pipeline
from sinkql.connectors.kafka import admin
from sinkql.errors import SinkqlError
from support.kafka import PASSWORD, USER, Kafka
from support.port import free_ports

pytestmark = pytest.mark.server


@dataclass(frozen=True, slots=True)
class Access:
    """A pipeline with the secrets that connections need."""

    pipeline: Pipeline
    broker: Kafka

    def open(self, options: str) -> str | None:
        """Create a connection; return the code of its error, which must show no secret."""
        found = None
        try:
            self.pipeline.run(f"CREATE CONNECTION c TO KAFKA ({options});")
        except SinkqlError as error:
            found = error
        if found is None:
            self.pipeline.run("DROP CONNECTION c;")
            return None
        assert PASSWORD not in found.shown()
        assert found.hint is not None
        return found.code


@pytest.fixture
def access(broker: Kafka, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Access:
    identity = broker.identity.read_text()
    texts = {
        "password": PASSWORD,
        "ca": broker.trusted.read_text(),
        "own_key": identity[: identity.index("-----BEGIN CERTIFICATE")],
        "own": identity[identity.index("-----BEGIN CERTIFICATE") :],
    }
    for name, text in texts.items():
        monkeypatch.setenv(f"SINKQL_{name.upper()}", text)
        pipeline.run(f"CREATE SECRET {name} AS env_var('SINKQL_{name.upper()}');")
    pipeline.run("CREATE SECRET wrong AS 'nonsense';")
    monkeypatch.setattr(admin, "_METADATA_S", 0.2)
    return Access(pipeline, broker)


def _sasl(mechanism: str, protocol: str, password: str = "password") -> str:
    return (
        f"SECURITY PROTOCOL '{protocol}', SASL MECHANISMS '{mechanism}', SASL USERNAME '{USER}', "
        f"SASL PASSWORD SECRET {password}"
    )


def test_each_way_into_a_broker_is_open(access: Access) -> None:
    broker, ca = access.broker, "SSL CERTIFICATE AUTHORITY SECRET ca"
    ways = [
        f"BROKER '{broker.address}', SECURITY PROTOCOL 'PLAINTEXT'",
        f"BROKERS ('127.0.0.1:1', '{broker.address}'), SECURITY PROTOCOL 'PLAINTEXT'",
        f"BROKER '{broker.ssl_address}', {ca}",
        f"BROKER '{broker.ssl_address}', {ca}, SSL CERTIFICATE SECRET own, SSL KEY SECRET own_key",
        f"BROKER '{broker.sasl_ssl_address}', {ca}, {_sasl('SCRAM-SHA-512', 'SASL_SSL')}",
        *(
            f"BROKER '{broker.sasl_address}', {_sasl(mechanism, 'SASL_PLAINTEXT')}"
            for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        ),
    ]
    assert [access.open(way) for way in ways] == [None] * len(ways)


def test_what_is_wrong_with_a_connection_is_said(access: Access) -> None:
    broker, ca = access.broker, "SSL CERTIFICATE AUTHORITY SECRET ca"
    wrong = {
        f"BROKER '127.0.0.1:{free_ports(1)[0]}', SECURITY PROTOCOL 'PLAINTEXT'": "SQ4270",
        "BROKER 'no-such-host.invalid:9092', SECURITY PROTOCOL 'PLAINTEXT'": "SQ4270",
        f"BROKER '{broker.sasl_address}', {_sasl('PLAIN', 'SASL_PLAINTEXT', 'wrong')}": "SQ4271",
        f"BROKER '{broker.sasl_address}', {_sasl('SCRAM-SHA-256', 'SASL_PLAINTEXT', 'wrong')}": "SQ4271",
        f"BROKER '{broker.ssl_address}'": "SQ4272",
        f"BROKER '{broker.address}', {ca}": "SQ4273",
        f"BROKER '{broker.ssl_address}', SECURITY PROTOCOL 'PLAINTEXT'": "SQ4273",
        f"BROKER '{broker.sasl_address}', SECURITY PROTOCOL 'PLAINTEXT'": "SQ4273",
        f"BROKER '{broker.sasl_address}', {ca}, {_sasl('PLAIN', 'SASL_SSL')}": "SQ4273",
        f"BROKER '{broker.ssl_address}', SSL CERTIFICATE AUTHORITY SECRET wrong": "SQ4276",
        f"BROKER '{broker.ssl_address}', {ca}, SSL CERTIFICATE SECRET own, SSL KEY SECRET wrong": "SQ4276",
    }
    assert {way: access.open(way) for way in wrong} == wrong


def _denied(topic: str, operation: Any) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        operation,
        AclPermissionType.DENY,
    )


def test_a_topic_that_the_user_may_not_read_is_told(access: Access) -> None:
    topic = access.broker.topic()
    for done in access.broker.admin.create_acls([_denied(topic, AclOperation.DESCRIBE)]).values():
        done.result()
    way = f"BROKER '{access.broker.sasl_address}', {_sasl('PLAIN', 'SASL_PLAINTEXT')}"
    access.pipeline.run(f"CREATE CONNECTION ann TO KAFKA ({way});")
    with pytest.raises(SinkqlError, match="SQ4275"):
        access.pipeline.run(f"CREATE SOURCE s FROM KAFKA CONNECTION ann (TOPIC '{topic}') FORMAT TEXT;")


def test_a_topic_that_is_not_there_is_told_at_its_name(pipeline: Pipeline) -> None:
    with pytest.raises(SinkqlError, match="SQ4274") as caught:
        pipeline.source("s", "", "no_such_topic", "FORMAT TEXT")
    assert "^" in caught.value.shown()
    assert "TOPIC 'no_such_topic'" in caught.value.shown()


def test_offsets_of_partitions_that_are_not_there_are_told(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic(2)
    with pytest.raises(SinkqlError, match=r"SQ4279.*has 3 offsets, but topic .* has 2 partitions") as caught:
        pipeline.source("s", "", topic, "FORMAT TEXT", ", START OFFSET (0, 1, 2)")
    assert caught.value.span is not None


def test_a_topic_that_is_misspelt_is_told(pipeline: Pipeline, broker: Kafka) -> None:
    topic = broker.topic(name=f"shop_orders_{broker.topic()}")
    with pytest.raises(SinkqlError, match="SQ4274") as caught:
        pipeline.source("s", "", topic.replace("orders", "ordres"), "FORMAT TEXT")
    assert caught.value.hint == f"Did you mean '{topic}'?"
