"""Options of sinks into topics, as the broker reports them and another client sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicCollection
from confluent_kafka.admin import ConfigResource

from kafka.pipeline import Pipeline
from kafka.sinking import committed, topic_sink
from sinkql.connectors.kafka import consumer
from sinkql.errors import SinkqlError

pytestmark = pytest.mark.server
_COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
_ATTRIBUTES = 22
"""The offset of the attributes in a record batch, which hold its compression type."""


def test_messages_of_a_key_are_in_the_partition_of_its_number(pipeline: Pipeline) -> None:
    pipeline.run("CREATE TABLE t (id integer, part text, n integer, PRIMARY KEY (id, part));")
    pipeline.run("INSERT INTO t VALUES " + ", ".join(f"({x}, 'a', {x})" for x in range(-5, 21)) + ";")
    options = ", TOPIC PARTITION COUNT 3, PARTITION BY = id + length(part)"
    topic_sink(pipeline, "t", "by-key", "KEY (id, part) FORMAT JSON ENVELOPE UPSERT", options)
    pipeline.drain("t")
    pipeline.run("UPDATE t SET n = 0 WHERE id > 10; DELETE FROM t WHERE id < 0;")
    pipeline.drain("t")
    found = committed(pipeline.broker, "by-key")
    assert len(found) == 26 + 10 + 5
    for each in found:
        assert (json.loads(each.key or b"")["id"] + 1) % 3 == each.partition


def test_messages_without_a_key_go_by_any_column(pipeline: Pipeline) -> None:
    pipeline.run("CREATE TABLE t (id integer PRIMARY KEY, n bigint); INSERT INTO t VALUES (1, 5), (2, NULL), (3, -1);")
    topic_sink(pipeline, "t", "keyless", "FORMAT JSON ENVELOPE DEBEZIUM", ", TOPIC PARTITION COUNT 4, PARTITION BY (n)")
    pipeline.drain("t")
    pipeline.run("UPDATE t SET n = 6 WHERE id = 1;")
    pipeline.drain("t")
    found: list[tuple[int, int | None, bool]] = []
    for each in committed(pipeline.broker, "keyless"):
        value: dict[str, Any] = json.loads(each.value or b"")
        row = value["after"] or value["before"]
        found.append((each.partition, row["n"], value["after"] is not None))
    assert sorted(found, key=str) == [(0, None, True), (1, 5, False), (1, 5, True), (2, 6, True), (3, -1, True)]


def test_an_expression_that_fails_names_its_row(pipeline: Pipeline) -> None:
    pipeline.run("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1), (0);")
    topic_sink(pipeline, "t", "failing", "KEY (id) FORMAT JSON ENVELOPE UPSERT", ", PARTITION BY = 10 / id")
    with pytest.raises(SinkqlError) as caught:
        pipeline.drain("t")
    assert (caught.value.code, caught.value.detail) == ("SQ3201", "The row is {'id': '0'}.")
    assert committed(pipeline.broker, "failing") == []


@pytest.mark.parametrize("compression", _COMPRESSIONS)
def test_messages_are_compressed_as_the_sink_says(compression: str, pipeline: Pipeline) -> None:
    pipeline.run("CREATE TABLE t (id integer PRIMARY KEY, name text);")
    pipeline.run("INSERT INTO t VALUES " + ", ".join(f"({x}, 'always the same text')" for x in range(500)) + ";")
    topic = f"as-{compression}"
    topic_sink(pipeline, "t", topic, "KEY (id) FORMAT JSON ENVELOPE UPSERT", f", COMPRESSION TYPE {compression}")
    pipeline.drain("t")
    segment = pipeline.broker.folder / "data" / f"{topic}-0" / f"{0:020}.log"
    assert _COMPRESSIONS.index(compression) == segment.read_bytes()[_ATTRIBUTES] & 7
    assert len(committed(pipeline.broker, topic)) == 500


def test_a_topic_is_made_as_the_sink_says(pipeline: Pipeline) -> None:
    pipeline.run("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1);")
    options = (
        ", TOPIC PARTITION COUNT 5, TOPIC REPLICATION FACTOR 1, "
        "TOPIC CONFIG MAP['cleanup.policy' => 'compact', 'retention.ms' => '123456789']"
    )
    topic_sink(pipeline, "t", "as-said", "KEY (id) FORMAT JSON ENVELOPE UPSERT", options)
    pipeline.drain("t")
    admin = pipeline.broker.admin
    described = admin.describe_topics(TopicCollection(["as-said"]))["as-said"].result()
    assert [len(each.replicas) for each in described.partitions] == [1] * 5
    resource = ConfigResource(ConfigResource.Type.TOPIC, "as-said")
    config = admin.describe_configs([resource])[resource].result()
    assert (config["cleanup.policy"].value, config["retention.ms"].value) == ("compact", "123456789")


def test_ids_begin_as_the_sink_says(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: set[str] = set()

    def make(settings: dict[str, Any]) -> Any:
        groups.add(settings["group.id"])
        return Consumer(settings)

    monkeypatch.setattr(consumer, "Consumer", make)
    pipeline.run("CREATE TABLE t (id integer PRIMARY KEY); INSERT INTO t VALUES (1);")
    options = ", PROGRESS GROUP ID PREFIX 'team-a', TRANSACTIONAL ID PREFIX 'team-b'"
    topic_sink(pipeline, "t", "ids", "KEY (id) FORMAT JSON ENVELOPE UPSERT", options)
    pipeline.drain("t")
    pipeline.drain("t")
    sink = pipeline.job("t").sink_id
    assert {f"team-a-{sink}"} == groups
    state = "__transaction_state"
    keys = {each.key()[4:].decode() for each in pipeline.broker.committed(state, pipeline.broker.ends(state))}
    assert f"team-b-{sink}" in keys


def test_a_sink_without_a_snapshot_writes_what_comes_later_also_once_it_was_altered(pipeline: Pipeline) -> None:
    topic = pipeline.broker.topic()
    pipeline.broker.send(topic, '{"id": 1}')
    pipeline.source("t", "(id bigint)", topic, "FORMAT JSON")
    topic_sink(pipeline, "t", "later", "FORMAT JSON ENVELOPE DEBEZIUM WITH (SNAPSHOT = false)")
    pipeline.drain("t")
    pipeline.broker.send(topic, '{"id": 2}')
    pipeline.drain("t")
    pipeline.run("ALTER SINK t_sink SET (COMMIT INTERVAL = '5s', MAX ROWS PER COMMIT = 1);")
    pipeline.broker.send(topic, '{"id": 3}', '{"id": 4}')
    pipeline.drain("t")
    found = [json.loads(each.value or b"")["after"]["id"] for each in committed(pipeline.broker, "later")]
    assert found == [2, 3, 4]
