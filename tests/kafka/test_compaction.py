"""A topic that Kafka compacts all the time, while sinks read it as a table."""

from __future__ import annotations

import random

import pytest

from kafka.pipeline import Pipeline
from support.kafka import Kafka
from support.patience import Deadline

pytestmark = pytest.mark.server
_ROUNDS = 25


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_a_table_is_the_fold_of_a_topic_that_is_compacted_under_it(
    seed: int, broker: Kafka, pipeline: Pipeline
) -> None:
    """One sink reads while messages are written, sometimes late; another sink starts after the last message."""
    rng = random.Random(seed)
    topic = broker.topic(
        2, cleanup_policy="compact", segment_ms="50", min_cleanable_dirty_ratio="0", max_compaction_lag_ms="1"
    )
    pipeline.source("s", "", topic, "KEY FORMAT TEXT VALUE FORMAT TEXT ENVELOPE UPSERT")
    pipeline.sink("s", "KEY (key) ENVELOPE UPSERT")
    expected: dict[str, str] = {}
    for number in range(_ROUNDS):
        producer = broker.producer()
        for each in range(rng.randrange(1, 200)):
            key = f"k{rng.randrange(40)}"
            value = None if rng.random() < 0.2 else f"{number}/{each}"
            producer.produce(topic, value, key, partition=int(key[1:]) % 2)
            expected.pop(key, None) if value is None else expected.update({key: value})
        producer.flush()
        if rng.random() < 0.4:
            pipeline.drain("s")
    deadline = Deadline()
    while len(broker.committed(topic, broker.ends(topic))) > sum(broker.ends(topic).values()) / 2:
        broker.send(topic, "last", key="k0")  # Kafka does not compact the active segment
        broker.send(topic, "last", key="k1", partition=1)
        expected |= {"k0": "last", "k1": "last"}
        deadline.check("compaction")
    pipeline.drain("s")
    assert sorted(expected.items()) == pipeline.rows("s")
    pipeline.source("late", "", topic, "KEY FORMAT TEXT VALUE FORMAT TEXT ENVELOPE UPSERT")
    pipeline.sink("late", "KEY (key) ENVELOPE UPSERT")
    pipeline.drain("late")
    assert sorted(expected.items()) == pipeline.rows("late")
