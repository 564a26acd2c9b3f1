"""A full refresh or a state recovery of a sink whose topic has lost messages."""

from __future__ import annotations

import shutil

import pytest

from kafka.pipeline import Pipeline
from sinkql.errors import SinkqlError
from support.kafka import Kafka

pytestmark = pytest.mark.server

_UPSERT = "KEY FORMAT TEXT VALUE FORMAT TEXT ENVELOPE UPSERT"


def _send(broker: Kafka, topic: str, *pairs: tuple[str, str | None]) -> None:
    for key, value in pairs:
        broker.send(topic, value, key=key)


def _view(pipeline: Pipeline, select: str) -> None:
    pipeline.run(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {select};")


def test_rows_whose_messages_are_gone_are_not_computed_again(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    _send(broker, topic, ("a", "1"), ("b", "2"))
    pipeline.source("s", "", topic, _UPSERT)
    _view(pipeline, "SELECT key, text FROM s")
    pipeline.sink("v", "KEY (key) MODE UPSERT")
    pipeline.drain("v")
    broker.forget(topic, 1)
    _view(pipeline, "SELECT key, text || '!' AS text FROM s")
    with pytest.raises(SinkqlError, match=f"SQ3415.*{topic}/0 from offset 0 to 0"):
        pipeline.drain("v")
    assert pipeline.rows("v") == [("a", "1"), ("b", "2")]


def test_rows_are_computed_again_from_where_a_sink_began(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic(2)
    _send(broker, topic, ("a", "1"), ("b", "2"), ("c", "3"))
    broker.forget(topic, 1)
    pipeline.source("s", "", topic, _UPSERT, ", START OFFSET (2)")
    _view(pipeline, "SELECT key, text FROM s")
    pipeline.sink("v", "KEY (key) MODE UPSERT")
    pipeline.drain("v")
    _send(broker, topic, ("d", "4"))
    broker.forget(topic, 2)
    _view(pipeline, "SELECT key, text || '!' AS text FROM s")
    pipeline.drain("v")
    assert pipeline.rows("v") == [("c", "3!"), ("d", "4!")]


def test_what_compaction_took_is_missed_where_all_messages_count(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic(cleanup_policy="compact")
    _send(broker, topic, ("a", "1"), ("a", "2"))
    pipeline.source("log", "", topic, "FORMAT TEXT")
    pipeline.source("now", "", topic, _UPSERT)
    for name, select in (("counts", "SELECT 0 AS key, count(*) AS n FROM log"), ("rows", "SELECT key, text FROM now")):
        pipeline.run(f"CREATE MATERIALIZED VIEW {name} AS {select};")
        pipeline.sink(name, "KEY (key) NOT ENFORCED MODE UPSERT")
        pipeline.drain(name)
    pipeline.run("CREATE OR REPLACE MATERIALIZED VIEW rows AS SELECT key, text || '!' AS text FROM now;")
    pipeline.drain("rows")
    assert pipeline.rows("rows") == [("a", "2!")]
    pipeline.run("CREATE OR REPLACE MATERIALIZED VIEW counts AS SELECT 0 AS key, count(*) + 1 AS n FROM log;")
    with pytest.raises(SinkqlError, match=r"SQ3415.*keeps only the last message of each key"):
        pipeline.drain("counts")
    assert pipeline.rows("counts") == [(0, 2)]


def test_lost_state_is_not_made_of_fewer_messages(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    _send(broker, topic, ("a", "1"), ("a", "2"))
    pipeline.source("s", "", topic, "KEY FORMAT TEXT VALUE FORMAT TEXT INCLUDE KEY")
    _view(pipeline, "SELECT key, count(*) AS n FROM s GROUP BY key")
    pipeline.sink("v", "KEY (key) MODE UPSERT")
    folder = pipeline.drain("v").folder
    shutil.rmtree(folder)
    folder.mkdir()
    _send(broker, topic, ("a", "3"))
    pipeline.drain("v")
    assert pipeline.rows("v") == [("a", 3)]
    broker.forget(topic, 1)
    shutil.rmtree(folder)
    folder.mkdir()
    _send(broker, topic, ("a", "4"))
    with pytest.raises(SinkqlError, match=f"it cannot be rebuilt from the sources: .*{topic}/0 from offset 0 to 0"):
        pipeline.drain("v")
    assert pipeline.rows("v") == [("a", 3)]


def test_rows_of_an_earlier_topic_are_not_computed_again(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic()
    _send(broker, topic, ("a", "1"))
    pipeline.source("s", "", topic, _UPSERT)
    _view(pipeline, "SELECT key, text FROM s")
    pipeline.sink("v", "KEY (key) MODE UPSERT")
    pipeline.drain("v")
    broker.delete(topic)
    broker.topic(name=topic)
    _send(broker, topic, ("b", "2"))
    control, sink_id = pipeline.session.catalog.control, pipeline.job("v").sink_id
    control.status(sink_id, "failed", error="SQ3371: made anew")
    pipeline.run("ALTER SOURCE s SKIP;")
    pipeline.drain("v")
    _view(pipeline, "SELECT key, text || '!' AS text FROM s")
    with pytest.raises(SinkqlError, match=r"SQ3415.*has read an earlier topic"):
        pipeline.drain("v")
    assert pipeline.rows("v") == [("a", "1"), ("b", "2")]
