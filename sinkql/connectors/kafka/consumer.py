"""Read the messages of a range of a partition's offsets, with consumers that the process reuses."""

from __future__ import annotations

import gc
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sinkql.connectors.kafka.admin import admin_of
from sinkql.connectors.kafka.client import Client, ConnectionErrors, is_lost, mark_lost
from sinkql.errors import GoneError, SinkqlError
from sinkql.machine import clock

_MOST_IDLE = 32
_FIRST_MESSAGES = 1024
_MOST_MESSAGES = 8192
_LIST_BYTES = 8 << 20
_STEP_S = 0.05
_STILL_S = 10.0
_LOST_S = 15.0
"""A consumer that receives nothing for this time is replaced."""
_PATIENCE_S = 75.0
_SETTINGS = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 10,  # the default of a second delays fetches after a full queue
    "queued.min.messages": 30_000,
    "queued.max.messages.kbytes": 16_384,
    "topic.metadata.refresh.interval.ms": 60_000,
    "check.crcs": True,
}
_UNCOMMITTED = {"isolation.level": "read_uncommitted"}


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets of a partition from `begin` to before `end`; `group` is the consumer group's id.

    Unless `committed`, its messages include messages of open and aborted transactions.
    """

    source: str
    topic: str
    partition: int
    begin: int
    end: int
    group: str
    committed: bool = True


@dataclass(slots=True)
class AssignedConsumer:
    """A consumer to which one partition is assigned."""

    client: Client
    wanted: Range
    consumer: Any
    errors: ConnectionErrors
    created_at: float = field(default_factory=clock.monotonic)

    @classmethod
    def create(cls, client: Client, wanted: Range) -> AssignedConsumer:
        """Return a new consumer."""
        return cls(client, wanted, *_consumer(client, wanted.group, **({} if wanted.committed else _UNCOMMITTED)))

    def replace(self, at: int) -> None:
        """Continue at an offset with a new consumer: the connections of this one may be lost."""
        lost = self.consumer
        self.consumer, self.errors = _consumer(
            self.client, self.wanted.group, **({} if self.wanted.committed else _UNCOMMITTED)
        )
        self.created_at = clock.monotonic()
        self.assign(at)
        lost.close()

    def assign(self, at: int) -> None:
        """Continue at an offset."""
        self.consumer.assign([TopicPartition(self.wanted.topic, self.wanted.partition, at)])


@dataclass(slots=True)
class Consumers:
    """Idle consumers for reuse, by client, partition and group: a new one has to connect to the brokers."""

    _idle: OrderedDict[tuple[Client, str, int, str, bool], AssignedConsumer] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def borrow(self, client: Client, wanted: Range) -> Iterator[AssignedConsumer]:
        """Yield a consumer of a partition; after an exception it is closed."""
        key = (client, wanted.topic, wanted.partition, wanted.group, wanted.committed)
        with self._lock:
            idle = self._idle.pop(key, None)
        if idle is not None and is_lost(client, idle.created_at):
            idle.consumer.close()
            idle = None
        assigned = idle or AssignedConsumer.create(client, wanted)
        assigned.wanted = wanted
        try:
            yield assigned
        except BaseException:
            assigned.consumer.close()
            raise
        with self._lock:
            self._idle[key] = assigned
            oldest = self._idle.popitem(last=False)[1] if len(self._idle) > _MOST_IDLE else None
        if oldest is not None:
            oldest.consumer.close()


@lru_cache(maxsize=1)
def _consumers(process: int) -> Consumers:
    return Consumers()


def _consumer(client: Client, group: str, **more: Any) -> tuple[Any, ConnectionErrors]:
    errors = ConnectionErrors()
    try:
        settings = {**client.settings(), **_SETTINGS, "group.id": group, "error_cb": errors, **more}
        return Consumer(settings), errors
    except KafkaException as error:
        raise client.unusable(error) from None


def messages(client: Client, wanted: Range) -> Iterator[list[Any]]:
    """Yield the messages of a range in order. Raise SQ337x if some no longer exist, or SQ427x.

    Compacted and aborted messages are missing: a range may have fewer messages than offsets, and none at its end. Each
    list is emptied when the next one is requested.
    """
    if wanted.begin >= wanted.end:
        return
    with _consumers(os.getpid()).borrow(client, wanted) as assigned:
        assigned.assign(wanted.begin)
        yield from _fetch(assigned)
        assigned.consumer.unassign()


def _fetch(assigned: AssignedConsumer) -> Iterator[list[Any]]:
    client, wanted, replaced = assigned.client, assigned.wanted, False
    at, moved_at, most = wanted.begin, clock.monotonic(), _FIRST_MESSAGES
    while at < wanted.end:
        before, unknown = at, None
        with _no_garbage_collection():
            batch = assigned.consumer.consume(min(most, wanted.end - at), _STEP_S)
            if batch and _all_in_range(batch, wanted.end):
                received, at = batch, batch[-1].offset() + 1
            else:
                received, at, unknown = _split_errors(batch, client, wanted, assigned.errors, at)
            if received:
                most = _next_count(received)
                yield received
                received.clear()
            batch.clear()
        if at > before:
            moved_at, replaced = clock.monotonic(), False
        elif (still := clock.monotonic() - moved_at) > _STILL_S:
            _check(client, wanted, at)
            if still > _PATIENCE_S:
                raise client.connection_error(assigned.errors) or client.unreachable()
            if still > _LOST_S and not replaced:  # `_check` got an answer, so the brokers are reachable
                replaced = True
                mark_lost(client)
                assigned.replace(at)
        if unknown is not None:  # after a deletion of other messages, brokers briefly reject offsets that exist
            _check(client, wanted, at)
            if clock.monotonic() - moved_at > _STILL_S:
                raise client.failure(unknown, assigned.errors)
            clock.sleep(_STEP_S)
            assigned.assign(at)


def size_of(client: Client, wanted: Range) -> int:
    """Return the size of a range's messages with their keys. Raise as `messages` does."""
    return sum(len(message) + len(message.key() or b"") for batch in messages(client, wanted) for message in batch)


def last_message(client: Client, wanted: Range) -> list[Any] | None:
    """Return the fingerprint of the last message of a range: its offset, its time and a digest; None without one."""
    fingerprint = None
    for batch in messages(client, wanted):
        fingerprint = _fingerprint(batch[-1])
    return fingerprint


def _fingerprint(message: Any) -> list[Any]:
    digest = hashlib.blake2b(digest_size=8)
    for part in (message.key(), message.value()):
        digest.update(b"\0" if part is None else b"\1%d:" % len(part) + part)
    return [message.offset(), message.timestamp()[1], digest.hexdigest()]


def written_at(client: Client, topic: str, partition: int, offset: int) -> float | None:
    """Return the time of the message at an offset, also of an open transaction, in seconds since 1970.

    None if no message arrives within ten seconds.
    """
    consumer, _ = _consumer(client, "sinkql", **_UNCOMMITTED)
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        until = clock.monotonic() + _STILL_S
        while clock.monotonic() < until:
            for message in consumer.consume(1, _STEP_S):
                return None if message.error() is not None else message.timestamp()[1] / 1000
        return None
    finally:
        consumer.close()


def _all_in_range(batch: list[Any], end: int) -> bool:
    """Return whether all are messages before an offset; a partition's messages arrive in order."""
    return not any(map(Message.error, batch)) and batch[-1].offset() < end


def _next_count(received: list[Any]) -> int:
    """Return the number of messages to request next: a list of `_LIST_BYTES`, by the size of the last messages."""
    return max(1, min(_MOST_MESSAGES, _LIST_BYTES * len(received) // max(1, sum(map(len, received)))))


def _split_errors(
    batch: list[Any], client: Client, wanted: Range, errors: ConnectionErrors, at: int
) -> tuple[list[Any], int, KafkaError | None]:
    """Return the messages before the end of the range, the next offset, and the error of an unknown offset.

    Raise every other error.
    """
    received, unknown = [], None
    for message in batch:
        error = message.error()
        if error is None:
            if (at := message.offset() + 1) <= wanted.end:
                received.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            at = max(at, message.offset())
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            unknown = error
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # the library asks for the group, which is not used
            raise _failure(client, wanted, error, errors)
    return received, at, unknown


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection, which would take as long as reading: each message is an object to traverse.

    It is enabled again in any case: a generator that is not read to its end may be garbage itself.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _check(client: Client, wanted: Range, at: int) -> None:
    """Raise the error of a partition that returns no messages; the client library does not report it."""
    admin = admin_of(client)
    topic = admin.topic(wanted.topic)
    if topic is None or wanted.partition not in topic.partitions:
        raise lost_topic_error(wanted.source, wanted.topic)
    begin = admin.beginnings(wanted.topic, [wanted.partition])[wanted.partition]
    if begin > at:
        raise lost_messages_error(wanted.source, wanted.topic, wanted.partition, at, begin)
    end = admin.ends(wanted.topic, [wanted.partition], committed=wanted.committed)[wanted.partition]
    if end < wanted.end:
        raise lost_end_error(wanted.source, wanted.topic, wanted.partition, wanted.end, end)


def _failure(client: Client, wanted: Range, error: Any, errors: ConnectionErrors) -> SinkqlError:
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION):
        return lost_topic_error(wanted.source, wanted.topic)
    return client.failure(error, errors)


def lost_messages_error(source: str, topic: str, partition: int, at: int, begin: int) -> GoneError:
    """Return the error for messages that Kafka deleted before the source read them."""
    return GoneError(
        "SQ3370",
        f'messages of source "{source}" are lost: {topic}/{partition} from offset {at} to {begin - 1}',
        detail="Kafka deleted them because of the topic's retention.",
        hint="Run ALTER SOURCE … SKIP to continue with the remaining messages; rows that the lost messages would have "
        "changed keep their values. Increase retention.ms or retention.bytes of the topic.",
    )


def compacted_error(source: str, topic: str) -> GoneError:
    """Return the error for a full refresh from a topic that keeps only the last message of each key."""
    return GoneError(
        "SQ3370",
        f'messages of source "{source}" may be lost: topic "{topic}" keeps only the last message of each key',
        detail='The topic has cleanup.policy = "compact".',
        hint="Use ENVELOPE UPSERT, which reads compacted topics as tables.",
    )


def lost_topic_error(source: str, topic: str) -> SinkqlError:
    """Return the error for a topic that was deleted or recreated."""
    return SinkqlError(
        "SQ3371",
        f'topic "{topic}" of source "{source}" was deleted or recreated since it was read',
        hint="Run ALTER SOURCE … SKIP to read the topic that has this name now from its beginning.",
    )


def recreated_topic_error(source: str, topic: str) -> GoneError:
    """Return the error for a full refresh from a deleted topic whose loss a user accepted."""
    return GoneError(
        "SQ3371",
        f'source "{source}" has read an earlier topic "{topic}", which was deleted',
        hint="Keep the sink unchanged, or create another sink with a new table.",
    )


def changed_message_error(source: str, topic: str, partition: int, read: int, offset: int) -> SinkqlError:
    """Return the error for a partition that has another message at an offset than the source read."""
    return SinkqlError(
        "SQ3372",
        f'{topic}/{partition} of source "{source}", read to {read}, has a different message at offset {offset}',
        detail="Brokers lost messages after an unclean leader election, or were restored from a backup. Other messages "
        "were written since.",
        hint="Run ALTER SOURCE … SKIP to continue with messages that are later than the last message that was read.",
    )


def lost_end_error(source: str, topic: str, partition: int, read: int, end: int) -> SinkqlError:
    """Return the error for a partition that ends before the offset up to which the source read it."""
    return SinkqlError(
        "SQ3372",
        f'{topic}/{partition} of source "{source}" ends at offset {end}, but was read to {read}',
        detail="Brokers lost messages, for example after an unclean leader election.",
        hint="Run ALTER SOURCE … SKIP to continue at the end of the partition.",
    )
