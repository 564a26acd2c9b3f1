"""What may happen to a topic that is read: nothing is left out, or read twice, without a word."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kafka.pipeline import Pipeline
from sinkql.connectors.kafka import consume
from sinkql.connectors.kafka.client import Client, Troubles
from sinkql.errors import SinkqlError
from sinkql.extension.stream import Limit
from support.kafka import Kafka
from support.patience import PATIENCE_S
from support.running import drain

pytestmark = pytest.mark.server


def _numbers(pipeline: Pipeline, topic: str, options: str = "") -> None:
    pipeline.source("s", "(n bigint)", topic, "FORMAT TEXT", options)
    pipeline.sink("s")


def _texts(*numbers: int) -> list[str]:
    return [str(each) for each in numbers]


def test_open_and_aborted_transactions_are_not_read(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    producer = broker.producer(transactional_id=f"{topic}-a")
    for number, end in ((1, producer.commit_transaction), (2, producer.abort_transaction), (3, None)):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(topic, str(number))
        producer.flush(PATIENCE_S)
        if end is not None:
            end(PATIENCE_S)
            broker.settle(topic)
    broker.send(topic, "4")  # behind the open one
    _numbers(pipeline, topic)
    pipeline.drain("s")
    assert pipeline.rows("s") == [(1,)] * 5
    producer.abort_transaction(PATIENCE_S)
    broker.settle(topic)
    pipeline.drain("s")
    assert pipeline.rows("s") == [(1,)] * 5 + [(4,)]
    producer.begin_transaction()
    producer.produce(topic, "5")
    producer.flush(PATIENCE_S)
    producer.abort_transaction(PATIENCE_S)  # a range without any message
    broker.settle(topic)
    pipeline.drain("s")
    assert len(pipeline.rows("s")) == 6


def test_what_compaction_left_is_read(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic(cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.001")
    producer = broker.producer()
    for turn in range(4):
        for key in range(5):
            producer.produce(topic, f"{turn}{key}", key=str(key))
        producer.flush(PATIENCE_S)
    _numbers(pipeline, topic)
    pipeline.drain("s")
    assert pipeline.rows("s")[-5:] == [(30 + key,) for key in range(5)]


def test_messages_that_are_gone_stop_the_sink(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(*range(20)))
    _numbers(pipeline, topic)
    pipeline.drain("s")
    broker.send(topic, *_texts(20, 21, 22))
    broker.forget(topic, 22)
    with pytest.raises(SinkqlError, match=f"SQ3370.*\n?.*{topic}/0 from offset 20 to 21"):
        pipeline.drain("s")
    assert pipeline.rows("s") == [(each,) for each in range(20)]


def test_messages_that_go_while_a_split_is_read_are_told(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(*range(20)))
    _numbers(pipeline, topic)
    loop = pipeline.loop("s")
    loop.start(epoch=1, once=True)
    (reader,) = loop.readers.values()
    found = consume.Range("s", topic, 0, 3, 20, "sinkql")
    broker.forget(topic, 10)
    with pytest.raises(SinkqlError, match="SQ3370"):
        list(consume.messages(reader.client, found))  # type: ignore[attr-defined]  # a KafkaReader


def test_a_topic_made_anew_stops_the_sink(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(*range(5)))
    _numbers(pipeline, topic)
    pipeline.drain("s")
    broker.delete(topic)
    with pytest.raises(SinkqlError, match="SQ3371"):
        pipeline.drain("s")
    broker.topic(name=topic)
    broker.send(topic, *_texts(*range(100, 110)))
    with pytest.raises(SinkqlError, match="SQ3371"):
        pipeline.drain("s")
    assert pipeline.rows("s") == [(each,) for each in range(5)]


@dataclass(frozen=True)
class _Meanwhile:
    """Run batches as an engine does, and do something before they are committed."""

    engine: Any
    deed: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def run(self, *arguments: Any) -> Any:
        found = self.engine.run(*arguments)
        self.deed()
        return found


def test_what_is_read_while_a_topic_is_made_anew_is_not_committed(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(*range(5)))
    _numbers(pipeline, topic)

    def remake() -> None:
        broker.delete(topic)
        broker.topic(name=topic)
        broker.send(topic, *_texts(*range(100, 110)))

    loop = pipeline.loop("s")
    loop.engine = _Meanwhile(loop.engine, remake)
    loop.start(epoch=1, once=True)
    with pytest.raises(SinkqlError, match="SQ3371"):
        drain(loop)
    assert pipeline.rows("s") == []


def test_partitions_that_are_added_are_read_from_their_beginning(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(1, 2))
    _numbers(pipeline, topic)
    pipeline.drain("s")
    broker.grow(topic, 3)
    broker.send(topic, *_texts(3, 4), partition=2)
    pipeline.drain("s")
    assert pipeline.rows("s") == [(1,), (2,), (3,), (4,)]


def test_a_target_of_before_partitions_came_or_messages_went_is_reached(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(1, 2))
    _numbers(pipeline, topic)
    (reader,) = pipeline.loop("s").readers.values()
    target = reader.target(reader.initial(at_end=False))
    assert not reader.reached(reader.initial(at_end=False), target)
    broker.grow(topic, 2)
    broker.send(topic, *_texts(3))
    broker.send(topic, *_texts(4), partition=1)
    assert reader.reached(reader.latest(reader.initial(at_end=False), Limit(100), target), target)
    broker.forget(topic, 3)
    assert reader.reached(reader.latest(reader.initial(at_end=False), Limit(100), target), target)


def test_a_source_begins_where_it_says(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic(2, retention_ms="-1")  # or its old messages go
    broker.send(topic, *_texts(1, 2, 3), timestamp=1000)
    broker.send(topic, *_texts(4, 5), timestamp=5000)
    broker.send(topic, *_texts(6), partition=1, timestamp=1000)
    _numbers(pipeline, topic, ", START OFFSET (2)")
    pipeline.drain("s")
    assert pipeline.rows("s") == [(3,), (4,), (5,), (6,)]
    pipeline.source("late", "(n bigint)", topic, "FORMAT TEXT", ", START TIMESTAMP 2000")
    pipeline.sink("late")
    broker.send(topic, *_texts(7), partition=1, timestamp=1000)
    pipeline.drain("late")
    assert pipeline.rows("late") == [(4,), (5,), (7,)]


def test_a_sink_without_a_snapshot_begins_at_the_end(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(1, 2))
    pipeline.source("s", "(n bigint)", topic, "FORMAT TEXT")
    pipeline.sink("s", more=", SNAPSHOT = false")
    pipeline.drain("s")
    broker.send(topic, *_texts(3))
    pipeline.drain("s")
    assert pipeline.rows("s") == [(3,)]


def test_a_broker_that_is_killed_and_comes_back_is_read_on(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(1, 2))
    _numbers(pipeline, topic)
    loop = pipeline.drain("s")
    broker.stop()
    (reader,) = loop.readers.values()
    with pytest.raises(SinkqlError) as caught:
        reader.target(loop.marker.end["materialize.public.s"])
    assert caught.value.retryable
    broker.start()
    broker.send(topic, *_texts(3))
    _drain_in_the_end(pipeline)
    assert pipeline.rows("s") == [(1,), (2,), (3,)]


def _drain_in_the_end(pipeline: Pipeline) -> None:
    """Have the sink try again what may pass, as a run does: the client may not know yet that the broker is back."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            pipeline.drain("s")
        except SinkqlError as error:
            if not error.retryable or time.monotonic() > until:
                raise
        else:
            return


def test_a_partition_that_lost_its_end_stops_the_sink(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(1, 2))
    _numbers(pipeline, topic)
    loop = pipeline.drain("s")
    (reader,) = loop.readers.values()
    (end,) = loop.marker.end.values()
    reader.verify(end)
    with pytest.raises(SinkqlError, match=f"SQ3372.*{topic}/0 .* ends at offset 2, and was read to 3"):
        reader.verify({**end, "partitions": {"0": 3}})


def test_an_error_that_nobody_foresaw_is_told_as_kafka_tells_it() -> None:
    client = Client("k", "a:1", "SSL", ())
    error = client.failure(KafkaError(KafkaError.INVALID_CONFIG), Troubles())
    assert error.code == "SQ4277"
    assert "Configuration is invalid" in error.message


def test_each_range_gives_just_its_own_messages(broker: Kafka) -> None:
    topic = broker.topic()
    producer = broker.producer(transactional_id=f"{topic}-a")
    for turn in range(4):
        producer.begin_transaction()
        producer.produce(topic, str(turn))
        producer.produce(topic, str(turn))
        producer.flush(PATIENCE_S)  # or there is nothing to abort
        (producer.abort_transaction if turn % 2 else producer.commit_transaction)(PATIENCE_S)
        broker.send(topic, f"after {turn}")
    broker.settle(topic)
    client = Client.of("k", {"brokers": [broker.address], "protocol": "PLAINTEXT"}, lambda _: "")
    (end,) = broker.ends(topic).values()

    def read(begin: int, to: int) -> list[int]:
        found = consume.messages(client, consume.Range("s", topic, 0, begin, to, "sinkql"))
        return [message.offset() for each in found for message in each]

    there = read(0, end)
    assert len(there) == 8
    assert end == 16  # with the aborted ones, and a mark behind each transaction
    for begin, to in itertools.combinations(range(end + 1), 2):
        assert read(begin, to) == [each for each in there if begin <= each < to]
