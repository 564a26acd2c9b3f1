"""A client of brokers that have lost it is replaced: any other one that is made now would get an answer."""

from __future__ import annotations

from typing import Any

import pytest

from sinkql.connectors.kafka import admin as admin_module
from sinkql.connectors.kafka import consume
from sinkql.connectors.kafka.admin import Admin
from sinkql.connectors.kafka.client import Client
from sinkql.connectors.kafka.consume import Range, messages
from sinkql.errors import SinkqlError
from support.kafka import Kafka
from support.silent import silent

pytestmark = pytest.mark.server


def _client(address: str) -> Client:
    return Client.of("kafka", {"brokers": [address], "protocol": "PLAINTEXT"}, lambda name: name)


def test_an_admin_client_that_got_no_answer_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_module, "_PATIENCE_S", 0.1)
    with silent() as (url, _):
        admin = Admin(_client(url.removeprefix("http://")))
        before = admin._kafka
        with pytest.raises(SinkqlError, match="SQ4270"):
            admin.check()
        assert admin._kafka is not before
        after = admin._kafka
        admin._replace(before)  # another thread, whose client was replaced already
        assert admin._kafka is after


def test_a_client_that_gets_answers_stays(broker: Kafka) -> None:
    admin = Admin(_client(broker.address))
    before = admin._kafka
    admin.check()
    assert admin.topic("none") is None
    assert admin._kafka is before


def test_a_consumer_to_which_nothing_comes_is_replaced(broker: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume, "_STILL_S", 0.1)
    monkeypatch.setattr(consume, "_LOST_S", 0.2)
    topic = broker.topic()
    broker.send(topic, *map(str, range(5)))
    made, found = [], list[bytes]()
    with silent() as (url, _):
        lost, there = _client(url.removeprefix("http://")), _client(broker.address)
        make = consume._consumer

        def consumer(client: Client, group: str, **more: Any) -> Any:
            made.append(client)
            return make(lost if len(made) == 1 else there, group, **more)

        monkeypatch.setattr(consume, "_consumer", consumer)
        for batch in messages(there, Range("s", topic, 0, 0, 5, "group")):
            found += [each.value() for each in batch]
    assert found == [b"0", b"1", b"2", b"3", b"4"]
    assert len(made) == 2
