"""A range of a partition's offsets → its messages, by consumers that a process keeps."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sinkql.connectors.kafka.admin import admin_of
from sinkql.connectors.kafka.client import Client, Troubles
from sinkql.errors import SinkqlError

_KEPT = 32
_MOST_MESSAGES = 8192
_STEP_S = 0.05
_STILL_S = 10.0
_PATIENCE_S = 60.0
_SETTINGS = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 50,
    "queued.min.messages": 30_000,
    "queued.max.messages.kbytes": 16_384,
    "topic.metadata.refresh.interval.ms": 60_000,
    "check.crcs": True,
}


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of a partition from one on, and before another one; `group` is the id of the consumers' group."""

    source: str
    topic: str
    partition: int
    begin: int
    end: int
    group: str


@dataclass(slots=True)
class Consumers:
    """Consumers that nobody uses now, by what they read: to make one takes connections to the brokers."""

    _idle: OrderedDict[tuple[Client, str, int, str], tuple[Any, Troubles]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def one(self, client: Client, wanted: Range) -> Iterator[tuple[Any, Troubles]]:
        """Give a consumer of a partition; one that raised is not used again."""
        key = (client, wanted.topic, wanted.partition, wanted.group)
        with self._lock:
            found = self._idle.pop(key, None)
        consumer, troubles = found or _consumer(client, wanted.group)
        try:
            yield consumer, troubles
        except BaseException:
            consumer.close()
            raise
        with self._lock:
            self._idle[key] = (consumer, troubles)
            oldest = self._idle.popitem(last=False)[1][0] if len(self._idle) > _KEPT else None
        if oldest is not None:
            oldest.close()


@lru_cache(maxsize=1)
def _consumers(process: int) -> Consumers:
    return Consumers()


def _consumer(client: Client, group: str) -> tuple[Any, Troubles]:
    troubles = Troubles()
    try:
        return Consumer({**dict(client.settings), **_SETTINGS, "group.id": group, "error_cb": troubles}), troubles
    except KafkaException as error:
        raise client.unusable(error) from None


def messages(client: Client, wanted: Range) -> Iterator[list[Any]]:
    """Yield the committed messages of a range, in order; raises SQ337x where they are not there any more, and SQ427x.

    Aborted and compacted ones are left out: a range may have fewer messages than offsets, also none at its end.
    """
    if wanted.begin >= wanted.end:
        return
    with _consumers(os.getpid()).one(client, wanted) as (consumer, troubles):
        place = TopicPartition(wanted.topic, wanted.partition, wanted.begin)
        consumer.assign([place])
        yield from _fetched(client, wanted, consumer, troubles)
        consumer.unassign()


def _fetched(client: Client, wanted: Range, consumer: Any, troubles: Troubles) -> Iterator[list[Any]]:
    at, moved_at = wanted.begin, time.monotonic()
    while at < wanted.end:
        with _uncollected():
            found = consumer.consume(min(_MOST_MESSAGES, wanted.end - at), _STEP_S)
        taken, before = [], at
        for message in found:
            error = message.error()
            if error is None:
                if (at := message.offset() + 1) <= wanted.end:
                    taken.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                at = max(at, message.offset())
            else:
                raise _failure(client, wanted, error, troubles)
        if taken:
            yield taken
        if at > before:
            moved_at = time.monotonic()
        elif time.monotonic() - moved_at > _STILL_S:
            _check(client, wanted, at)
            if time.monotonic() - moved_at > _PATIENCE_S:
                raise client.trouble(troubles) or client.unreachable()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Have no garbage looked for: that would take as long as the messages themselves, each of which may hold others."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _check(client: Client, wanted: Range, at: int) -> None:
    """Raise what is wrong with a partition of which nothing comes; the client library says nothing of it."""
    admin = admin_of(client)
    topic = admin.topic(wanted.topic)
    if topic is None or wanted.partition not in topic.partitions:
        raise lost_topic(wanted.source, wanted.topic)
    begin = admin.beginnings(wanted.topic, [wanted.partition])[wanted.partition]
    if begin > at:
        raise lost_messages(wanted.source, wanted.topic, wanted.partition, at, begin)
    end = admin.ends(wanted.topic, [wanted.partition])[wanted.partition]
    if end < wanted.end:
        raise lost_end(wanted.source, wanted.topic, wanted.partition, wanted.end, end)


def _failure(client: Client, wanted: Range, error: Any, troubles: Troubles) -> SinkqlError:
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        _check(client, wanted, wanted.begin)
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION):
        return lost_topic(wanted.source, wanted.topic)
    return client.failure(error, troubles)


_ANEW = "Run CREATE SOURCE with another name, and ALTER SINK … SET FROM it."


def lost_messages(source: str, topic: str, partition: int, at: int, begin: int) -> SinkqlError:
    """Return the error for messages that Kafka deleted before they were read."""
    return SinkqlError(
        "SQ3370",
        f'messages of source "{source}" are gone: {topic}/{partition} from offset {at} to {begin - 1}',
        detail="Kafka deleted them before they were read, as the topic's retention says.",
        hint=f"{_ANEW} Raise retention.ms or retention.bytes of the topic.",
    )


def lost_topic(source: str, topic: str) -> SinkqlError:
    """Return the error for a topic that is another one than was read, or none."""
    return SinkqlError(
        "SQ3371",
        f'the topic of source "{source}" is not the one that was read: "{topic}" was deleted, or made anew',
        hint=_ANEW,
    )


def lost_end(source: str, topic: str, partition: int, read: int, end: int) -> SinkqlError:
    """Return the error for a partition that is shorter than what was read of it."""
    return SinkqlError(
        "SQ3372",
        f'{topic}/{partition} of source "{source}" ends at offset {end}, and was read to {read}',
        detail="Brokers lost messages, as they may after an unclean election of a leader.",
        hint=_ANEW,
    )
