"""Sinks into topics, which run here without Spark, and what a consumer of its own reads of them."""

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
    """Return the committed messages of a topic, a partition after the other; with `settle` all transactions end."""
    if settle:
        broker.settle(topic)
    found = broker.committed(topic, broker.ends(topic))
    return [Message(each.partition(), each.key(), each.value(), tuple(each.headers() or ())) for each in found]


def folded(messages: list[Message]) -> dict[bytes | None, Any]:
    """Return what each key has, of values of JSON."""
    found: dict[bytes | None, Any] = {}
    for each in messages:
        if each.value is None:
            found.pop(each.key, None)
        else:
            found[each.key] = json.loads(each.value)
    return found


def topic_sink(pipeline: Pipeline, relation: str, topic: str, clauses: str, options: str = "") -> None:
    """Make a sink of a relation into a topic."""
    pipeline.run(
        f"CREATE SINK {relation}_sink FROM {relation} INTO KAFKA CONNECTION kafka (TOPIC '{topic}'{options}) {clauses};"
    )
