"""Sinks into topics, run here without Spark, and their messages as another client reads them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kafka.pipeline import Pipeline
from support.kafka import Kafka


@dataclass(frozen=True, slots=True)
class Message:
    """A committed message, as another client reads it."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def committed(broker: Kafka, topic: str, *, settle: bool = True) -> list[Message]:
    """Return the committed messages of a topic by partition; if `settle`, wait until its transactions have ended."""
    if settle:
        broker.settle(topic)
    found = broker.committed(topic, broker.ends(topic))
    return [Message(each.partition(), each.key(), each.value(), tuple(each.headers() or ())) for each in found]


def folded(messages: list[Message]) -> dict[bytes | None, Any]:
    """Return the last JSON value of each key."""
    found: dict[bytes | None, Any] = {}
    for each in messages:
        if each.value is None:
            found.pop(each.key, None)
        else:
            found[each.key] = json.loads(each.value)
    return found


def topic_sink(pipeline: Pipeline, relation: str, topic: str, clauses: str, options: str = "") -> None:
    """Create a sink of a relation into a topic."""
    pipeline.run(
        f"CREATE SINK {relation}_sink FROM {relation} INTO KAFKA CONNECTION kafka (TOPIC '{topic}'{options}) {clauses};"
    )
