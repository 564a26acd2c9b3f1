"""Topics of a real broker become tables that DuckDB reads."""

from __future__ import annotations

import pytest

from kafka.pipeline import Pipeline
from support.kafka import Kafka

pytestmark = pytest.mark.server


def test_messages_become_rows(broker: Kafka, pipeline: Pipeline) -> None:
    topic = broker.topic(2)
    broker.send(topic, '{"id": 1, "name": "a"}', '{"id": 2}')
    broker.send(topic, '{"id": 3, "name": "c"}', partition=1)
    pipeline.source("s", "(id bigint, name text)", topic, "FORMAT JSON")
    pipeline.sink("s")
    pipeline.drain("s")
    assert pipeline.rows("s") == [(1, "a"), (2, None), (3, "c")]
    broker.send(topic, '{"id": 4}')
    pipeline.drain("s")
    assert pipeline.rows("s") == [(1, "a"), (2, None), (3, "c"), (4, None)]
