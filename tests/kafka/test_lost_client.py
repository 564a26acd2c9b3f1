"""A client whose brokers have lost it is replaced, since a new client would get an answer."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from sinkql.connectors.kafka import admin as admin_module
from sinkql.connectors.kafka import consumer as kafka_consumer
from sinkql.connectors.kafka.admin import Admin
from sinkql.connectors.kafka.client import Client
from sinkql.connectors.kafka.consumer import Range, messages
from sinkql.connectors.kafka.sink import transaction
from sinkql.connectors.kafka.sink.transaction import Transactions
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
        admin._replace(before)  # like another thread whose client was already replaced
        assert admin._kafka is after


def test_a_client_that_is_replaced_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the caller is still handling an earlier error of the client."""
    monkeypatch.setattr(admin_module, "_PATIENCE_S", 0.1)
    gc.collect()
    before = _admins()
    with silent() as (url, _):
        admin = Admin(_client(url.removeprefix("http://")))
        for _ in range(3):
            kept = _asked_twice(admin)
        assert [each.code for each in kept] == ["SQ4270", "SQ4270"]
        assert _admins() == before + 1


def test_a_producer_that_brokers_left_without_an_answer_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "_PATIENCE_S", 0.1)
    monkeypatch.setattr(transaction, "PATIENCE_S", 0.1)
    monkeypatch.setattr(transaction, "_ABORT_S", 0.1)
    monkeypatch.setattr(transaction, "_STEP_S", 0.1)
    monkeypatch.setattr(transaction, "_CONNECT_S", 0.1)
    gc.collect()
    threads = _threads()
    with silent() as (url, _):
        producer = Transactions(_client(url.removeprefix("http://")), "id")
        for _ in range(3):
            try:
                producer.begin("t")
            except SinkqlError:
                producer.close()
    del producer
    gc.collect()
    assert _threads() == threads


def _asked_twice(admin: Admin) -> list[SinkqlError]:
    try:
        admin.check()
    except SinkqlError as first:
        try:
            admin.check()
        except SinkqlError as second:
            return [first, second]
    return []


def _admins() -> int:
    return sum(isinstance(each, AdminClient) for each in gc.get_objects())


def _threads() -> int:
    """Return the number of clients of the library."""
    count = 0
    for path in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            count += (path / "comm").read_text().strip() == "rdk:main"
    return count


def test_a_client_that_gets_answers_stays(broker: Kafka) -> None:
    admin = Admin(_client(broker.address))
    before = admin._kafka
    admin.check()
    assert admin.topic("none") is None
    assert admin._kafka is before


def test_a_consumer_to_which_nothing_comes_is_replaced(broker: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_consumer, "_STILL_S", 0.1)
    monkeypatch.setattr(kafka_consumer, "_LOST_S", 0.2)
    topic = broker.topic()
    broker.send(topic, *map(str, range(5)))
    made, found = [], list[bytes]()
    with silent() as (url, _):
        lost, there = _client(url.removeprefix("http://")), _client(broker.address)
        make = kafka_consumer._consumer

        def consumer(client: Client, group: str, **more: Any) -> Any:
            made.append(client)
            return make(lost if len(made) == 1 else there, group, **more)

        monkeypatch.setattr(kafka_consumer, "_consumer", consumer)
        for batch in messages(there, Range("s", topic, 0, 0, 5, "group")):
            found += [each.value() for each in batch]
    assert found == [b"0", b"1", b"2", b"3", b"4"]
    assert len(made) == 2
