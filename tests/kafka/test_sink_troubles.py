"""Failures of a sink's topic, progress and transactions: no message is lost or written twice."""

from __future__ import annotations

import json
import time
from typing import Any, NoReturn

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from kafka.pipeline import Pipeline
from kafka.sinking import committed, folded, topic_sink
from sinkql.connectors.kafka.client import Client, mark_lost
from sinkql.connectors.kafka.sink import progress, transaction
from sinkql.connectors.kafka.sink.transaction import Transactions, UnknownOutcomeError
from sinkql.connectors.kafka.sink.writer import TopicWriter
from sinkql.errors import FencedError, SinkqlError
from sinkql.runtime.batch.loop import BatchLoop
from support.kafka import PASSWORD, USER, Kafka, kafka
from support.patience import PATIENCE_S
from support.running import drain

pytestmark = pytest.mark.server

_UPSERT = "KEY (id) FORMAT JSON ENVELOPE UPSERT"


def _people(pipeline: Pipeline, topic: str, options: str = "") -> None:
    pipeline.run("CREATE TABLE people (id bigint PRIMARY KEY, name text);")
    pipeline.run("INSERT INTO people VALUES (1, 'ann'), (2, 'bob');")
    topic_sink(pipeline, "people", topic, _UPSERT, options)


def _names(pipeline: Pipeline, topic: str) -> dict[int, str]:
    found = folded(committed(pipeline.broker, topic))
    return {json.loads(key or b"")["id"]: row["name"] for key, row in found.items()}


def _fails(pipeline: Pipeline, code: str) -> SinkqlError:
    with pytest.raises(SinkqlError) as raised:
        pipeline.drain("people")
    assert raised.value.code == code
    return raised.value


def _started(pipeline: Pipeline, epoch: int = 1) -> BatchLoop:
    loop = pipeline.loop("people")
    loop.start(epoch=epoch, once=True)
    return loop


def test_a_topic_that_is_recreated_is_another_one(broker: Kafka, pipeline: Pipeline) -> None:
    _people(pipeline, "anew")
    pipeline.drain("people")
    broker.delete("anew")
    assert "no longer exists" in _fails(pipeline, "SQ4280").message
    broker.topic(name="anew")
    assert "deleted and recreated" in _fails(pipeline, "SQ4280").message
    assert committed(broker, "anew") == []


def test_a_sink_whose_progress_is_gone_does_not_begin_again(broker: Kafka, pipeline: Pipeline) -> None:
    pipeline.run(
        f"CREATE CONNECTION other TO KAFKA (BROKER '{broker.address}', SECURITY PROTOCOL = 'PLAINTEXT', "
        "PROGRESS TOPIC 'other-progress');"
    )
    pipeline.run("CREATE TABLE people (id bigint PRIMARY KEY, name text); INSERT INTO people VALUES (1, 'ann');")
    pipeline.run(f"CREATE SINK people_sink FROM people INTO KAFKA CONNECTION other (TOPIC 'lasting') {_UPSERT};")
    pipeline.drain("people")
    broker.delete("other-progress")
    _fails(pipeline, "SQ4288")
    assert len(committed(broker, "lasting")) == 1


def test_a_sink_whose_progress_goes_while_it_runs_is_not_said_to_be_taken_over(
    broker: Kafka, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.run(
        f"CREATE CONNECTION other TO KAFKA (BROKER '{broker.address}', SECURITY PROTOCOL = 'PLAINTEXT', "
        "PROGRESS TOPIC 'going');"
    )
    pipeline.run("CREATE TABLE people (id bigint PRIMARY KEY, name text); INSERT INTO people VALUES (1, 'ann');")
    pipeline.run(f"CREATE SINK people_sink FROM people INTO KAFKA CONNECTION other (TOPIC 'left') {_UPSERT};")
    loop = _started(pipeline)

    def unanswered(*arguments: Any) -> NoReturn:
        raise UnknownOutcomeError(SinkqlError("SQ4271", "no answer"))

    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "send", unanswered)
        with pytest.raises(SinkqlError, match="SQ4271"):
            drain(loop)
    broker.delete("going")
    broker.topic(name="going", cleanup_policy="compact")
    with pytest.raises(SinkqlError, match="SQ4288"):
        drain(loop)


@pytest.mark.soak
def test_no_topic_is_made_by_writing_to_it() -> None:
    with kafka(more={"auto.create.topics.enable": "true"}) as broker:
        client = Client.of("k", {"brokers": [broker.address], "protocol": "PLAINTEXT"}, str)
        transactions = Transactions(client, "nowhere", "none", 1000)
        transactions.begin("_sinkql-progress")
        with pytest.raises(SinkqlError) as raised:
            transactions.send("nowhere", [], ("nowhere", b"k", b"v"))
        assert raised.value.code == "SQ4283"
        assert "nowhere" not in broker.admin.list_topics(timeout=PATIENCE_S).topics
        transactions.close()


def test_progress_is_kept_in_no_topic_that_deletes_it(broker: Kafka, pipeline: Pipeline) -> None:
    broker.topic(name="deleting", cleanup_policy="delete")
    pipeline.run(
        f"CREATE CONNECTION other TO KAFKA (BROKER '{broker.address}', SECURITY PROTOCOL = 'PLAINTEXT', "
        "PROGRESS TOPIC 'deleting');"
    )
    pipeline.run("CREATE TABLE people (id bigint PRIMARY KEY, name text); INSERT INTO people VALUES (1, 'ann');")
    pipeline.run(f"CREATE SINK people_sink FROM people INTO KAFKA CONNECTION other (TOPIC 'kept') {_UPSERT};")
    assert "cleanup.policy=compact" in str(_fails(pipeline, "SQ4289").hint)
    setting = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    compacted = ConfigResource(ConfigResource.Type.TOPIC, "deleting", incremental_configs=[setting])
    broker.admin.incremental_alter_configs([compacted])[compacted].result()
    pipeline.drain("people")
    assert _names(pipeline, "kept") == {1: "ann"}


def test_a_run_that_was_taken_over_does_not_commit(broker: Kafka, pipeline: Pipeline) -> None:
    _people(pipeline, "taken")
    older = _started(pipeline)
    newer = _started(pipeline, epoch=2)
    with pytest.raises(FencedError):
        drain(older)
    with pytest.raises(FencedError):  # also before it writes
        older.writer.refresh()
    assert committed(broker, "taken", settle=False) == []
    assert drain(newer) == 1
    assert _names(pipeline, "taken") == {1: "ann", 2: "bob"}


def test_a_transaction_that_kafka_ends_is_written_again(broker: Kafka, pipeline: Pipeline) -> None:
    _people(pipeline, "ended")
    loop = _started(pipeline)
    broker.producer(transactional_id=f"sinkql-{loop.job.sink_id}")  # as the coordinator does after ten minutes
    with pytest.raises(SinkqlError) as raised:
        drain(loop)
    assert raised.value.code == "SQ4287", raised.value
    assert drain(loop) == 1
    assert _names(pipeline, "ended") == {1: "ann", 2: "bob"}


def _left_open(broker: Kafka, sink: str, prefix: str = "other") -> Any:
    """Write progress in a transaction that stays open, like a sink that dies during its commit."""
    producer = broker.producer(transactional_id=f"{prefix}-{sink}")
    producer.begin_transaction()
    producer.produce("_sinkql-progress", "{}", sink, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    return producer


def test_an_open_transaction_of_another_sink_is_waited_for_where_it_hides_progress(
    broker: Kafka, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    _people(pipeline, "waiting")
    pipeline.drain("people")
    producer = _left_open(broker, "another")
    with monkeypatch.context() as patch:
        patch.setattr(progress, "PATIENCE_S", 0.2)
        pipeline.run("INSERT INTO people VALUES (3, 'cid'); DELETE FROM people WHERE id = 1;")
        pipeline.drain("people")  # its last progress precedes the open transaction, its next progress follows it
        pipeline.run("INSERT INTO people VALUES (4, 'dan');")
        _fails(pipeline, "SQ4285")
    producer.abort_transaction(PATIENCE_S)
    pipeline.drain("people")
    assert _names(pipeline, "waiting") == {2: "bob", 3: "cid", 4: "dan"}


def test_first_progress_after_an_open_transaction_of_another_sink_is_not_lost(
    broker: Kafka, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    _people(pipeline, "first")
    producer = _left_open(broker, "before")
    _started(pipeline)  # its first progress cannot be read yet
    with monkeypatch.context() as patch:
        patch.setattr(progress, "PATIENCE_S", 0.2)
        _fails(pipeline, "SQ4285")
    producer.abort_transaction(PATIENCE_S)
    pipeline.drain("people")
    assert _names(pipeline, "first") == {1: "ann", 2: "bob"}


def test_what_a_sink_left_open_that_died_is_ended_by_another_one(
    broker: Kafka, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    _people(pipeline, "abandoned")
    pipeline.drain("people")
    first, second = _left_open(broker, "dead", "sinkql"), _left_open(broker, "gone", "sinkql")
    monkeypatch.setattr(progress, "_ABANDONED_S", 0.2)
    for id_ in (3, 4):
        pipeline.run(f"INSERT INTO people VALUES ({id_}, 'new');")
        pipeline.drain("people")
    assert _names(pipeline, "abandoned") == {1: "ann", 2: "bob", 3: "new", 4: "new"}
    for producer in (first, second):
        with pytest.raises(KafkaException):
            producer.commit_transaction(PATIENCE_S)


def test_an_answer_that_is_lost_while_another_sink_writes_doubles_nothing(
    broker: Kafka, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    _people(pipeline, "unanswered")
    loop = _started(pipeline)
    send = Transactions.send

    def unanswered(*arguments: Any) -> NoReturn:
        send(*arguments)
        raise UnknownOutcomeError(SinkqlError("SQ4271", "no answer"))

    producer = _left_open(broker, "meanwhile")
    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "send", unanswered)
        with pytest.raises(SinkqlError, match="SQ4271"):
            drain(loop)
    with monkeypatch.context() as patch:
        patch.setattr(progress, "PATIENCE_S", 0.2)
        with pytest.raises(SinkqlError, match="SQ4285"):
            drain(loop)
    producer.abort_transaction(PATIENCE_S)
    drain(loop)
    assert len(committed(broker, "unanswered")) == 2


def test_a_message_that_is_too_large_is_told(broker: Kafka, pipeline: Pipeline) -> None:
    broker.topic(name="narrow", max_message_bytes="1000")
    _people(pipeline, "narrow", ", COMPRESSION TYPE none")
    pipeline.run(f"INSERT INTO people VALUES (3, '{'x' * 2000}');")
    _fails(pipeline, "SQ4282")
    assert committed(broker, "narrow") == []
    setting = ConfigEntry("max.message.bytes", "10000", incremental_operation=AlterConfigOpType.SET)
    wider = ConfigResource(ConfigResource.Type.TOPIC, "narrow", incremental_configs=[setting])
    broker.admin.incremental_alter_configs([wider])[wider].result()
    pipeline.drain("people")
    assert set(_names(pipeline, "narrow")) == {1, 2, 3}


def test_many_small_messages_fit_into_a_topic_of_small_batches(broker: Kafka, pipeline: Pipeline) -> None:
    broker.topic(name="small", max_message_bytes="1000")
    pipeline.run("CREATE SOURCE people FROM LOAD GENERATOR COUNTER (UP TO 2000, ROWS PER SECOND 1000000);")
    topic_sink(pipeline, "people", "small", "KEY (counter) NOT ENFORCED FORMAT JSON ENVELOPE UPSERT")
    pipeline.drain("people")
    assert len(committed(broker, "small")) == 2000


def test_brokers_refuse_to_make_a_topic(pipeline: Pipeline) -> None:
    _people(pipeline, "impossible", ", TOPIC REPLICATION FACTOR 3")
    assert "replication factor" in _fails(pipeline, "SQ4284").message.lower()


def test_brokers_refuse_long_transactions(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(transaction._SETTINGS, "transaction.timeout.ms", 3_600_000)
    _people(pipeline, "long")
    _fails(pipeline, "SQ4286")


def test_a_user_who_may_not_write_is_told_what_to_grant(broker: Kafka, pipeline: Pipeline) -> None:
    broker.topic(name="closed")
    principal, any_ = f"User:{USER}", "*"
    for operation in (AclOperation.DESCRIBE, AclOperation.READ):
        allowed = AclBinding(
            ResourceType.TOPIC, "closed", ResourcePatternType.LITERAL, principal, any_, operation,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        broker.admin.create_acls([allowed])[allowed].result()
    pipeline.run(
        f"CREATE SECRET word AS '{PASSWORD}'; CREATE CONNECTION ours TO KAFKA (BROKER '{broker.sasl_address}', "
        f"SECURITY PROTOCOL = 'SASL_PLAINTEXT', SASL MECHANISMS = 'PLAIN', SASL USERNAME '{USER}', "
        "SASL PASSWORD SECRET word);"
    )
    pipeline.run("CREATE TABLE people (id bigint PRIMARY KEY, name text); INSERT INTO people VALUES (1, 'ann');")
    pipeline.run(f"CREATE SINK people_sink FROM people INTO KAFKA CONNECTION ours (TOPIC 'closed') {_UPSERT};")
    assert "WRITE" in str(_fails(pipeline, "SQ4281").hint)


def test_a_topic_that_goes_while_it_is_written_is_looked_for_again(
    broker: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(transaction._SETTINGS, "topic.metadata.propagation.max.ms", 200)
    client = Client.of("k", {"brokers": [broker.address], "protocol": "PLAINTEXT"}, str)
    transactions = Transactions(client, "nowhere", "none", 1000)
    transactions.begin("nowhere")
    with pytest.raises(SinkqlError) as raised:
        transactions.send("nowhere", [], ("nowhere", b"k", b"v"))
    assert raised.value.code == "SQ4283"
    transactions.close()


def test_brokers_that_are_there_are_waited_for_longer_than_those_that_are_gone(broker: Kafka) -> None:
    options = {"brokers": [broker.address], "protocol": "PLAINTEXT"}
    found = Transactions(Client.of("k", options, lambda name: ""), "waits")
    began = time.monotonic() - 100
    assert not found.is_over(began)
    found.errors(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert found.is_over(began)
    assert not found.is_over(time.monotonic() - 10)


def test_a_producer_that_brokers_may_have_lost_is_replaced_before_the_next_batch(
    broker: Kafka, pipeline: Pipeline
) -> None:
    topic = broker.topic()
    _people(pipeline, topic)
    loop = pipeline.loop("people")
    loop.start(epoch=1)
    drain(loop)
    writer = loop.writer
    assert isinstance(writer, TopicWriter)
    before = writer._transactions
    writer.refresh()
    assert writer._transactions is before
    mark_lost(writer.client)
    pipeline.run("INSERT INTO people VALUES (3, 'cid');")
    drain(loop)
    assert writer._transactions is not before
    assert _names(pipeline, topic) == {1: "ann", 2: "bob", 3: "cid"}
