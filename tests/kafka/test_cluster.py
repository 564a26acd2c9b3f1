"""A cluster in which a broker stops and returns: partitions change their leader or have none for a while."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kafka.pipeline import Pipeline
from kafka.sinking import committed, topic_sink
from sinkql.connector_api.stream import ReadCounts
from sinkql.connectors.kafka import admin, consumer
from sinkql.connectors.kafka.options import PROGRESS_TOPIC
from sinkql.errors import SinkqlError
from sinkql.storage import failpoint
from support.kafka import Kafka, another, kafka
from support.patience import PATIENCE_S
from support.running import drain

pytestmark = [pytest.mark.server, pytest.mark.long]


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    """Run a cluster for this module; its first broker, which never stops, stores the state of transactions.

    Other tests cannot share it: partitions of new topics are assigned to a stopped broker until the cluster notices.
    """
    with kafka() as found:
        found.topic(name=PROGRESS_TOPIC, cleanup_policy="compact")
        producer = found.producer(transactional_id="first")
        producer.begin_transaction()
        producer.abort_transaction(PATIENCE_S)
        yield found


@pytest.fixture(scope="module")
def second(broker: Kafka) -> Iterator[Kafka]:
    with another(broker) as found:
        yield found


@pytest.fixture(scope="module")
def third(broker: Kafka) -> Iterator[Kafka]:
    with another(broker, 3) as found:
        yield found


def test_partitions_are_read_on_from_whoever_leads_them(broker: Kafka, pipeline: Pipeline, second: Kafka) -> None:
    topic = broker.topic(brokers=[[1, 2], [2, 1]])
    pipeline.source("s", "(n bigint)", topic, "FORMAT TEXT")
    pipeline.sink("s")
    sent = 0

    def send() -> None:
        nonlocal sent
        for partition in (0, 1):
            broker.send(topic, *(str(sent + each) for each in range(100)), partition=partition)
            sent += 100

    loop = pipeline.loop("s")
    (reader,) = loop.readers.values()
    send()
    pipeline.drain("s")
    second.stop()
    send()
    pipeline.drain("s")
    second.start()
    broker.follow(topic)
    broker.elect(topic)
    send()
    pipeline.drain("s")
    assert pipeline.rows("s") == [(each,) for each in range(sent)]
    reader.verify(reader.target(reader.initial(at_end=False)))


@pytest.mark.soak
def test_a_partition_without_a_leader_is_waited_for(
    broker: Kafka, pipeline: Pipeline, second: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic(brokers=[[1], [2]])
    pipeline.source("s", "(n bigint)", topic, "FORMAT TEXT")
    pipeline.sink("s")
    broker.send(topic, "1")
    broker.send(topic, "2", partition=1)
    loop = pipeline.drain("s")
    broker.send(topic, "3", partition=1)
    (reader,) = loop.readers.values()
    (end,) = loop.checkpoint.end.values()
    target = reader.target(end)
    second.stop()
    (split,) = reader.splits(end, target)
    with monkeypatch.context() as hurry:
        hurry.setattr(admin, "_REQUEST_S", 0.5)
        hurry.setattr(admin, "_PATIENCE_S", 5.0)
        hurry.setattr(consumer, "_STILL_S", 1.0)
        for ask in (lambda: reader.target(end), lambda: list(reader.read(split, ReadCounts()))):
            with pytest.raises(SinkqlError, match=f"SQ4278.*answers for {topic}/1") as caught:
                ask()
            assert caught.value.retryable
    second.start()
    pipeline.drain("s")
    assert pipeline.rows("s") == [(1,), (2,), (3,)]


@pytest.mark.soak
def test_a_range_is_read_on_when_its_leader_is_killed(
    broker: Kafka, pipeline: Pipeline, second: Kafka, third: Kafka
) -> None:
    """The range is larger than a client's prefetch."""
    topic = broker.topic(brokers=[[2, 3]])
    broker.send(topic, *(f"{each:04}".ljust(200_000, ".") for each in range(300)))
    broker.follow(topic)
    pipeline.source("s", "(line text)", topic, "FORMAT TEXT")
    pipeline.sink("s")
    (reader,) = pipeline.loop("s").readers.values()
    start = reader.initial(at_end=False)
    (split,) = reader.splits(start, reader.target(start))
    found: list[str] = []
    for batch in reader.read(split, ReadCounts()):
        if not found:
            second.stop()
        found += [line[:4] for line in batch.column("line").to_pylist()]
    second.start()
    assert [f"{each:04}" for each in range(300)] == found


@pytest.mark.soak
@pytest.mark.parametrize("place", ["messages", "commit-request"])
def test_a_transaction_is_written_once_when_a_leader_is_killed_in_it(
    place: str, broker: Kafka, pipeline: Pipeline, second: Kafka, third: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic(brokers=[[2, 3], [3, 2]])
    pipeline.run("CREATE TABLE t (id integer PRIMARY KEY, name text);")
    pipeline.run("INSERT INTO t VALUES " + ", ".join(f"({each}, 'x')" for each in range(500)) + ";")
    topic_sink(pipeline, "t", topic, "KEY (id) FORMAT JSON ENVELOPE UPSERT")
    loop = pipeline.loop("t")
    loop.start(epoch=1, once=True)
    killed: list[str] = []

    def point(name: str) -> None:
        if name == place and not killed:
            killed.append(name)
            second.stop()

    monkeypatch.setattr(failpoint, "point", point)
    drain(loop)
    second.start()
    broker.follow(topic)
    found = committed(broker, topic)
    assert [place] == killed
    assert sorted(range(500)) == sorted(json.loads(each.key or b"")["id"] for each in found)
