"""State that is recovered from a topic equals the lost state, row by row."""

from __future__ import annotations

import random

import pytest

from kafka.pipeline import Pipeline
from support.kafka import Kafka
from support.rebuilt import Rows, run_history, sink_views

pytestmark = [pytest.mark.server, pytest.mark.long]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 50))])
def test_state_computed_again_is_the_state_that_was(broker: Kafka, pipeline: Pipeline, seed: int) -> None:
    dice, topic = random.Random(f"rebuilt kafka {seed}"), broker.topic()
    upsert = dice.random() < 0.5
    columns = (
        "(k bigint, v bigint, id bigint, PRIMARY KEY (id) NOT ENFORCED)"
        if upsert
        else "(id bigint, k bigint, v bigint)"
    )
    envelope = "KEY FORMAT TEXT VALUE FORMAT JSON ENVELOPE UPSERT" if upsert else "FORMAT JSON"
    pipeline.source("t", columns, topic, envelope)
    rows = Rows(dice)

    def change() -> None:
        for line in rows.lines():
            broker.send(topic, line, key=str(dice.randrange(30) if upsert else 0))
        if upsert:
            broker.send(topic, None, key=str(dice.randrange(30)))

    run_history(pipeline.session, dice, sink_views(pipeline.session, dice), change)
