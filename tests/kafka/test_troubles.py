"""Failures of a topic that a sink reads: no message is lost or read twice without an error."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message

from kafka.pipeline import Pipeline
from sinkql.catalog.address import VARIABLE
from sinkql.catalog.secret.cipher import KEY_VARIABLE
from sinkql.connector_api.stream import Limit, Measure
from sinkql.connectors.kafka import consumer
from sinkql.connectors.kafka import last_message as last_message_module
from sinkql.connectors.kafka import reader as reader_module
from sinkql.connectors.kafka.client import Client, ConnectionErrors
from sinkql.connectors.kafka.consumer import Range, last_message
from sinkql.connectors.kafka.reader import KafkaReader
from sinkql.errors import SinkqlError
from sinkql.session import Session
from support.catalog import server_address
from support.kafka import PASSWORD, USER, Kafka
from support.patience import PATIENCE_S
from support.postgres import Postgres
from support.running import drain, use_engine

pytestmark = pytest.mark.server


def _numbers(pipeline: Pipeline, topic: str, options: str = "") -> None:
    pipeline.source("s", "(n bigint)", topic, "FORMAT TEXT", options)
    pipeline.sink("s")


def _texts(*numbers: int) -> list[str]:
    return [str(each) for each in numbers]


def _skipped(
    pipeline: Pipeline, code: str, *, source: str = "s", sink: str = "s", message: str = "as it says"
) -> list[str]:
    """Skip the loss that a sink reports; return the codes of the notices."""
    job = pipeline.job(sink)
    pipeline.session.catalog.control.status(job.sink_id, "failed", error=f"{code}: {message}")
    (done,) = pipeline.session.execute(f"ALTER SOURCE {source} SKIP;")
    return [each.code for each in done.notices]


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
    broker.send(topic, "4")  # after the open transaction
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
    producer.abort_transaction(PATIENCE_S)  # leaves a range without messages
    broker.settle(topic)
    pipeline.drain("s")
    assert len(pipeline.rows("s")) == 6


def test_messages_that_are_not_read_yet_are_counted(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic(partitions=2)
    broker.send(topic, *_texts(*range(6)))
    _numbers(pipeline, topic)
    loop = pipeline.drain("s")
    (reader,), (end,) = loop.readers.values(), loop.checkpoint.end.values()
    assert isinstance(reader, KafkaReader)
    assert reader.measure(end) == Measure(6, 6, "messages")
    assert reader.lag(end) == 0.0
    broker.send(topic, "6", "7")
    assert reader.measure(end).known == 6  # the brokers are asked only periodically
    reader._cache.ends_at = -reader_module._MEASURE_S
    assert reader.measure(end) == Measure(8, 6, "messages")
    assert reader.lag(end) > 0.0


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
    assert _skipped(pipeline, "SQ3370") == ["SQ2353"]
    broker.forget(topic, 23)
    broker.send(topic, *_texts(23, 24))
    for _ in range(2):
        pipeline.drain("s")
        assert pipeline.rows("s") == [(each,) for each in (*range(20), 23, 24)]
    broker.send(topic, "25")
    broker.forget(topic, 26)
    with pytest.raises(SinkqlError, match="SQ3370"):  # another loss
        pipeline.drain("s")


def test_a_loss_of_a_sink_is_skipped_on_another_host(
    broker: Kafka, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(KEY_VARIABLE, "A" * 43 + "=")
    address = server_address(postgres, tmp_path / ".sinkql")
    monkeypatch.setenv(VARIABLE, address.text)
    topic = broker.topic()
    with Pipeline.at(broker, tmp_path) as pipeline, Session(replace(address, folder=tmp_path / "two")) as other:
        broker.send(topic, *_texts(1, 2))
        _numbers(pipeline, topic)
        pipeline.drain("s")
        broker.send(topic, *_texts(3, 4))
        broker.forget(topic, 4)
        with pytest.raises(SinkqlError, match="SQ3370"):
            pipeline.drain("s")
        assert _skipped(replace(pipeline, session=other), "SQ3370") == ["SQ2353"]
        broker.send(topic, "5")
        for _ in range(2):
            pipeline.drain("s")
            assert pipeline.rows("s") == [(1,), (2,), (5,)]


def test_place_that_the_catalog_was_not_told_of_is_skipped(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, "1", "2")
    _numbers(pipeline, topic)
    early = pipeline.drain("s").checkpoint
    broker.send(topic, "3", "4")
    pipeline.drain("s")
    pipeline.session.catalog.control.committed(
        pipeline.job("s").sink_id, rows=2, size=1, offsets=early.end, epoch=early.epoch
    )
    broker.send(topic, "5", "6")
    broker.forget(topic, 5)
    with pytest.raises(SinkqlError, match="SQ3370"):
        pipeline.drain("s")
    assert _skipped(pipeline, "SQ3370") == ["SQ2353"]
    pipeline.drain("s")
    assert pipeline.rows("s") == [(1,), (2,), (3,), (4,), (6,)]


def test_messages_of_a_later_partition_that_are_gone_are_skipped(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, "1")
    _numbers(pipeline, topic)
    pipeline.drain("s")
    broker.grow(topic, 2)
    broker.send(topic, "2", "3", partition=1)
    broker.forget(topic, 1, partition=1)
    with pytest.raises(SinkqlError, match=f"SQ3370.*{topic}/1 from offset 0 to 0"):
        pipeline.drain("s")
    assert _skipped(pipeline, "SQ3370") == ["SQ2353"]
    pipeline.drain("s")
    assert pipeline.rows("s") == [(1,), (3,)]


def test_what_one_source_of_a_sink_lost_is_not_skipped_with_another(broker: Kafka, pipeline: Pipeline) -> None:
    topics = broker.topic(), broker.topic()
    for name, topic in zip(("s", "other"), topics, strict=True):
        broker.send(topic, "1")
        pipeline.source(name, "(n bigint)", topic, "FORMAT TEXT")
    pipeline.run("CREATE MATERIALIZED VIEW both AS SELECT n FROM s UNION ALL SELECT n FROM other;")
    pipeline.sink("both")
    pipeline.drain("both")
    broker.send(topics[1], "2", "3")
    broker.forget(topics[1], 2)
    with pytest.raises(SinkqlError, match="SQ3370") as lost:
        pipeline.drain("both")
    assert _skipped(pipeline, "SQ3370", sink="both", message=lost.value.message) == ["SQ2354"]
    assert _skipped(pipeline, "SQ3370", source="other", sink="both", message=lost.value.message) == ["SQ2353"]
    pipeline.drain("both")
    assert pipeline.rows("both") == [(1,), (1,), (3,)]


def test_messages_that_go_while_a_split_is_read_are_told(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(*range(20)))
    _numbers(pipeline, topic)
    loop = pipeline.loop("s")
    loop.start(epoch=1, once=True)
    (reader,) = loop.readers.values()
    found = consumer.Range("s", topic, 0, 3, 20, "sinkql")
    broker.forget(topic, 10)
    with pytest.raises(SinkqlError, match="SQ3370"):
        list(consumer.messages(reader.client, found))  # type: ignore[attr-defined]  # a KafkaReader


@pytest.mark.parametrize("count", [4, pytest.param(12, marks=pytest.mark.soak)], ids=["fewer", "more"])
def test_a_recreated_topic_stops_the_sink(broker: Kafka, pipeline: Pipeline, count: int) -> None:
    others = range(100, 100 + count)
    topic = broker.topic()
    broker.send(topic, *_texts(*range(5)))
    _numbers(pipeline, topic)
    pipeline.drain("s")
    broker.delete(topic)
    with pytest.raises(SinkqlError, match="SQ3371"):
        pipeline.drain("s")
    broker.topic(name=topic)
    broker.send(topic, *_texts(*others))
    with pytest.raises(SinkqlError, match="SQ3371"):
        pipeline.drain("s")
    assert pipeline.rows("s") == [(each,) for each in range(5)]
    assert _skipped(pipeline, "SQ3371") == ["SQ2353"]
    loop = pipeline.loop("s")
    loop.start(epoch=1, once=True)
    assert not loop.caught_up(), "offsets of the deleted topic do not count"
    drain(loop)
    assert pipeline.rows("s") == [(each,) for each in (*range(5), *others)]
    assert _skipped(pipeline, "SQ3431") == ["SQ2354"]


@dataclass(frozen=True)
class _Meanwhile:
    """An engine that runs `deed` after each batch, before the commit."""

    engine: Any
    deed: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def execute(self, *arguments: Any) -> Any:
        found = self.engine.execute(*arguments)
        self.deed()
        return found


def test_what_is_read_while_a_topic_is_recreated_is_not_committed(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(*range(5)))
    _numbers(pipeline, topic)

    def remake() -> None:
        broker.delete(topic)
        broker.topic(name=topic)
        broker.send(topic, *_texts(*range(100, 110)))

    loop = pipeline.loop("s")
    use_engine(loop, _Meanwhile(loop.computation.engine, remake))
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
    assert not reader.target_reached(reader.initial(at_end=False), target)
    broker.grow(topic, 2)
    broker.send(topic, *_texts(3))
    broker.send(topic, *_texts(4), partition=1)
    assert reader.target_reached(reader.latest(reader.initial(at_end=False), Limit(100), target), target)
    broker.forget(topic, 3)
    assert reader.target_reached(reader.latest(reader.initial(at_end=False), Limit(100), target), target)


def test_a_source_begins_where_it_says(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic(2, retention_ms="-1")  # the messages have old timestamps
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


def test_offsets_that_are_not_there_yet_are_waited_for(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(0, 1))
    _numbers(pipeline, topic, ", START OFFSET (4)")
    pipeline.drain("s")
    broker.send(topic, *_texts(2, 3))
    pipeline.drain("s")
    broker.send(topic, *_texts(4, 5))
    pipeline.drain("s")
    assert pipeline.rows("s") == [(4,), (5,)]


def test_a_user_without_rights_to_groups_reads(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(1, 2))
    pipeline.run(
        f"CREATE SECRET p AS '{PASSWORD}'; CREATE CONNECTION asked TO KAFKA (BROKER '{broker.sasl_address}', SECURITY "
        f"PROTOCOL 'SASL_PLAINTEXT', SASL MECHANISMS 'PLAIN', SASL USERNAME '{USER}', SASL PASSWORD SECRET p);"
    )
    wanted = f"TOPIC '{topic}', GROUP ID PREFIX 'barred'"
    pipeline.run(f"CREATE SOURCE s (n bigint) FROM KAFKA CONNECTION asked ({wanted}) FORMAT TEXT;")
    broker.reserve_group("barredsinkql", "somebody")
    pipeline.sink("s")
    pipeline.drain("s")
    assert pipeline.rows("s") == [(1,), (2,)]


def test_a_sink_without_a_snapshot_begins_at_the_end(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(1, 2))
    pipeline.source("s", "(n bigint)", topic, "FORMAT TEXT")
    pipeline.sink("s", more=", SNAPSHOT = false")
    pipeline.drain("s")
    broker.send(topic, *_texts(3))
    pipeline.drain("s")
    assert pipeline.rows("s") == [(3,)]


@pytest.mark.soak
def test_a_broker_that_is_killed_and_comes_back_is_read_on(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(1, 2))
    _numbers(pipeline, topic)
    loop = pipeline.drain("s")
    broker.stop()
    (reader,) = loop.readers.values()
    with pytest.raises(SinkqlError) as caught:
        reader.target(loop.checkpoint.end["materialize.public.s"])
    assert caught.value.retryable
    broker.start()
    broker.send(topic, *_texts(3))
    pipeline.drain("s")  # succeeds although the client has not reconnected yet
    assert pipeline.rows("s") == [(1,), (2,), (3,)]


def test_a_topic_that_goes_while_a_sink_looks_for_more_is_told(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, "1")
    _numbers(pipeline, topic)
    loop = pipeline.drain("s")
    (reader,) = loop.readers.values()
    (end,) = loop.checkpoint.end.values()
    broker.delete(topic)
    with pytest.raises(SinkqlError, match="SQ3371"):
        all(reader.latest(end, Limit(100)) for _ in itertools.count())  # until the broker has noticed it, too


def test_a_partition_that_lost_its_end_stops_the_sink(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(1, 2))
    _numbers(pipeline, topic)
    loop = pipeline.drain("s")
    (reader,) = loop.readers.values()
    (end,) = loop.checkpoint.end.values()
    reader.verify(end)
    with pytest.raises(SinkqlError, match=f"SQ3372.*{topic}/0 .* ends at offset 2, but was read to 3"):
        reader.verify({**end, "partitions": {"0": 3}})


def test_a_batch_looks_at_the_last_messages_once(
    broker: Kafka, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic(2)
    for partition in range(2):
        broker.send(topic, "1", partition=partition)
    _numbers(pipeline, topic)
    (start,) = pipeline.drain("s").checkpoint.end.values()
    broker.send(topic, "2", partition=1)
    (reader,) = pipeline.loop("s").readers.values()
    looked: list[tuple[int, int]] = []

    def look(client: Client, wanted: Range) -> list[Any] | None:
        looked.append((wanted.partition, wanted.end))
        return last_message(client, wanted)

    monkeypatch.setattr(last_message_module, "last_message", look)
    monkeypatch.setattr(last_message_module, "_VERIFY_S", 600.0)
    reader.verify(start)
    assert sorted(looked) == [(0, 1), (1, 1)]
    looked.clear()
    for _ in range(2):
        end = reader.latest(start, Limit(100))
    for each in (start, end, end):
        reader.verify(each)
    assert sorted(looked) == [(1, 1), (1, 2)]  # the messages before the start and before the end
    changed = {**start, "last": {**start["last"], "1": [0, 0, "of another message"]}}
    with pytest.raises(SinkqlError, match="SQ3372"):
        reader.verify(changed)


def _breaks(*arguments: object) -> None:
    raise OSError("the catalog is gone")


def test_a_topic_is_another_one_after_dead_letters_were_committed(
    broker: Kafka, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic()
    broker.send(topic, *_texts(1, 2))
    pipeline.source("s", "(n bigint)", topic, "FORMAT TEXT WITH (ON ERROR = 'DEAD LETTER')")
    pipeline.sink("s")
    loop = pipeline.drain("s")
    broker.send(topic, "bad", "3")
    start, ((name, reader),) = loop.checkpoint.end, loop.readers.items()
    monkeypatch.setattr(loop.writer, "commit", _breaks)
    with pytest.raises(OSError, match="gone"):
        loop.commit_batch(start, {name: reader.target(start[name])})
    broker.delete(topic)
    broker.topic(name=topic)
    broker.send(topic, *_texts(4, 5))
    with pytest.raises(SinkqlError, match="SQ3371"):
        pipeline.drain("s")
    assert _skipped(pipeline, "SQ3371") == ["SQ2353"]
    pipeline.drain("s")
    assert pipeline.rows("s", "n") == [(1,), (2,), (4,), (5,)]


def test_an_error_that_nobody_foresaw_is_told_as_kafka_tells_it() -> None:
    client = Client("k", "a:1", "SSL", ())
    error = client.failure(KafkaError(KafkaError.INVALID_CONFIG), ConnectionErrors())
    assert error.code == "SQ4277"
    assert "Configuration is invalid" in error.message


def test_a_transaction_that_kafka_has_not_ended_is_waited_for() -> None:
    error = Client("k", "a:1", "SSL", ()).failure(KafkaError(KafkaError.CONCURRENT_TRANSACTIONS), ConnectionErrors())
    assert (error.code, error.message) == ("SQ4277", "Kafka has not completed an earlier transaction of the sink")
    assert error.hint is not None
    assert error.hint.startswith("SinkQL retries")


@pytest.mark.share(4)
@pytest.mark.parametrize("first", range(4))
def test_each_range_gives_just_its_own_messages(broker: Kafka, first: int) -> None:
    topic = broker.topic()
    producer = broker.producer(transactional_id=f"{topic}-a")
    for turn in range(4):
        producer.begin_transaction()
        producer.produce(topic, str(turn))
        producer.produce(topic, str(turn))
        producer.flush(PATIENCE_S)  # otherwise there would be no messages to abort
        (producer.abort_transaction if turn % 2 else producer.commit_transaction)(PATIENCE_S)
        broker.send(topic, f"after {turn}")
    broker.settle(topic)
    client = Client.of("k", {"brokers": [broker.address], "protocol": "PLAINTEXT"}, lambda _: "")
    (end,) = broker.ends(topic).values()

    def read(begin: int, to: int) -> list[int]:
        found = consumer.messages(client, consumer.Range("s", topic, 0, begin, to, "sinkql"))
        return [message.offset() for each in found for message in each]

    there = read(0, end)
    assert len(there) == 8
    assert end == 16  # with aborted messages, and a control record after each transaction
    for begin, to in list(itertools.combinations(range(end + 1), 2))[first::4]:
        assert read(begin, to) == [each for each in there if begin <= each < to]


@dataclass(slots=True)
class _Refused:
    """A consumer whose broker refuses the next offset `times` times, each time after `few` messages."""

    consumer: Any
    code: int
    few: int
    times: int = sys.maxsize

    def __getattr__(self, name: str) -> Any:
        return getattr(self.consumer, name)

    def consume(self, most: int, seconds: float) -> list[Any]:
        if self.times == 0:
            return list(self.consumer.consume(most, seconds))
        self.times -= 1
        before = self.consumer.consume(min(self.few, most), seconds) if self.few else []
        return [*before, Message(error=KafkaError(self.code, "requested offset not available on the broker"))]


_UNKNOWN = pytest.mark.parametrize("code", [KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE])


def _refused(broker: Kafka, group: str) -> tuple[Client, consumer.Range]:
    topic = broker.topic()
    broker.send(topic, *_texts(*range(9)))
    client = Client.of("k", {"brokers": [broker.address], "protocol": "PLAINTEXT"}, lambda _: "")
    return client, consumer.Range("s", topic, 0, 1, 9, group)


@_UNKNOWN
def test_messages_that_a_broker_does_not_know_for_a_moment_are_read(
    broker: Kafka, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(consumer, "Consumer", lambda settings: _Refused(Consumer(settings), code, few=2, times=2))
    client, wanted = _refused(broker, f"moment{code}")
    found = [message.offset() for each in consumer.messages(client, wanted) for message in each]
    assert found == [*range(1, 9)]


@_UNKNOWN
def test_messages_that_a_broker_never_knows_are_told(broker: Kafka, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(consumer, "Consumer", lambda settings: _Refused(Consumer(settings), code, few=0))
    monkeypatch.setattr(consumer, "_STILL_S", 0.2)
    client, wanted = _refused(broker, f"never{code}")
    with pytest.raises(SinkqlError, match=r"SQ4277.*requested offset"):
        list(consumer.messages(client, wanted))
