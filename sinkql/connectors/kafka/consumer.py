"""A range of a partition's offsets → its messages, by consumers that a process keeps."""

from __future__ import annotations

import gc
import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sinkql.connectors.kafka.admin import admin_of
from sinkql.connectors.kafka.client import Client, Troubles, is_lost, lose
from sinkql.errors import GoneError, SinkqlError

_KEPT = 32
_FIRST_MESSAGES = 1024
_MOST_MESSAGES = 8192
_LIST_BYTES = 8 << 20
_STEP_S = 0.05
_STILL_S = 10.0
_LOST_S = 15.0
"""After how long a consumer to which nothing comes is replaced."""
_PATIENCE_S = 75.0
_SETTINGS = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 50,
    "fetch.queue.backoff.ms": 10,  # a second by default, for which nothing is fetched once the queue was full
    "queued.min.messages": 30_000,
    "queued.max.messages.kbytes": 16_384,
    "topic.metadata.refresh.interval.ms": 60_000,
    "check.crcs": True,
}
_UNCOMMITTED = {"isolation.level": "read_uncommitted"}


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of a partition from one on, and before another one; `group` is the id of the consumers' group.

    Unless `committed`, what is in open and aborted transactions is among its messages.
    """

    source: str
    topic: str
    partition: int
    begin: int
    end: int
    group: str
    committed: bool = True


@dataclass(slots=True)
class Assigned:
    """A consumer of one partition."""

    client: Client
    wanted: Range
    consumer: Any
    troubles: Troubles
    made_at: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, client: Client, wanted: Range) -> Assigned:
        """Return a new one."""
        return cls(client, wanted, *_consumer(client, wanted.group, **({} if wanted.committed else _UNCOMMITTED)))

    def replace(self, at: int) -> None:
        """Go on at an offset with a new consumer: the brokers may have lost this one's connections."""
        lost = self.consumer
        self.consumer, self.troubles = _consumer(
            self.client, self.wanted.group, **({} if self.wanted.committed else _UNCOMMITTED)
        )
        self.made_at = time.monotonic()
        self.assign(at)
        lost.close()

    def assign(self, at: int) -> None:
        """Read on from an offset."""
        self.consumer.assign([TopicPartition(self.wanted.topic, self.wanted.partition, at)])


@dataclass(slots=True)
class Consumers:
    """Consumers that nobody uses now, by what they read: to make one takes connections to the brokers."""

    _idle: OrderedDict[tuple[Client, str, int, str, bool], Assigned] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def one(self, client: Client, wanted: Range) -> Iterator[Assigned]:
        """Give a consumer of a partition; one that raised is not used again."""
        key = (client, wanted.topic, wanted.partition, wanted.group, wanted.committed)
        with self._lock:
            found = self._idle.pop(key, None)
        if found is not None and is_lost(client, found.made_at):
            found.consumer.close()
            found = None
        assigned = found or Assigned.of(client, wanted)
        assigned.wanted = wanted
        try:
            yield assigned
        except BaseException:
            assigned.consumer.close()
            raise
        with self._lock:
            self._idle[key] = assigned
            oldest = self._idle.popitem(last=False)[1] if len(self._idle) > _KEPT else None
        if oldest is not None:
            oldest.consumer.close()


@lru_cache(maxsize=1)
def _consumers(process: int) -> Consumers:
    return Consumers()


def _consumer(client: Client, group: str, **more: Any) -> tuple[Any, Troubles]:
    troubles = Troubles()
    try:
        settings = {**client.settings(), **_SETTINGS, "group.id": group, "error_cb": troubles, **more}
        return Consumer(settings), troubles
    except KafkaException as error:
        raise client.unusable(error) from None


def messages(client: Client, wanted: Range) -> Iterator[list[Any]]:
    """Yield the messages of a range, in order; raises SQ337x where they are not there any more, and SQ427x.

    Compacted ones are left out, and aborted ones: a range may have fewer messages than offsets, also none at its end.
    Each list is emptied when the next one is asked for.
    """
    if wanted.begin >= wanted.end:
        return
    with _consumers(os.getpid()).one(client, wanted) as assigned:
        assigned.assign(wanted.begin)
        yield from _fetched(assigned)
        assigned.consumer.unassign()


def _fetched(assigned: Assigned) -> Iterator[list[Any]]:
    client, wanted, replaced = assigned.client, assigned.wanted, False
    at, moved_at, most = wanted.begin, time.monotonic(), _FIRST_MESSAGES
    while at < wanted.end:
        before, unknown = at, None
        with _uncollected():
            found = assigned.consumer.consume(min(most, wanted.end - at), _STEP_S)
            if found and _all_wanted(found, wanted.end):
                taken, at = found, found[-1].offset() + 1
            else:
                taken, at, unknown = _wanted(found, client, wanted, assigned.troubles, at)
            if taken:
                most = _next(taken)
                yield taken
                taken.clear()
            found.clear()
        if at > before:
            moved_at, replaced = time.monotonic(), False
        elif (still := time.monotonic() - moved_at) > _STILL_S:
            _check(client, wanted, at)
            if still > _PATIENCE_S:
                raise client.trouble(assigned.troubles) or client.unreachable()
            if still > _LOST_S and not replaced:  # a client that asks for the end gets an answer
                replaced = True
                lose(client)
                assigned.replace(at)
        if unknown is not None:  # right after others were deleted, brokers do not know messages that they have
            _check(client, wanted, at)
            if time.monotonic() - moved_at > _STILL_S:
                raise client.failure(unknown, assigned.troubles)
            time.sleep(_STEP_S)
            assigned.assign(at)


def size_of(client: Client, wanted: Range) -> int:
    """Return how large the messages of a range are with their keys; raises as `messages`."""
    return sum(len(each) + len(each.key() or b"") for found in messages(client, wanted) for each in found)


def last_message(client: Client, wanted: Range) -> list[Any] | None:
    """Return what tells the last message of a range from any other: its offset, its time, and a digest of it."""
    found = None
    for each in messages(client, wanted):
        found = _told(each[-1])
    return found


def _told(message: Any) -> list[Any]:
    digest = hashlib.blake2b(digest_size=8)
    for part in (message.key(), message.value()):
        digest.update(b"\0" if part is None else b"\1%d:" % len(part) + part)
    return [message.offset(), message.timestamp()[1], digest.hexdigest()]


def written_at(client: Client, topic: str, partition: int, offset: int) -> float | None:
    """Return when the message at an offset was written, in seconds since 1970, though its transaction is open.

    None where there is no message within a while.
    """
    consumer, _ = _consumer(client, "sinkql", **_UNCOMMITTED)
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        until = time.monotonic() + _STILL_S
        while time.monotonic() < until:
            for message in consumer.consume(1, _STEP_S):
                return None if message.error() is not None else message.timestamp()[1] / 1000
        return None
    finally:
        consumer.close()


def _all_wanted(found: list[Any], end: int) -> bool:
    """Tell whether all are messages before an offset: a partition's come in order."""
    return not any(map(Message.error, found)) and found[-1].offset() < end


def _next(taken: list[Any]) -> int:
    """Return how many messages to ask for next: as many as have the bytes of a list, if they are like the last ones."""
    return max(1, min(_MOST_MESSAGES, _LIST_BYTES * len(taken) // max(1, sum(map(len, taken)))))


def _wanted(
    found: list[Any], client: Client, wanted: Range, troubles: Troubles, at: int
) -> tuple[list[Any], int, KafkaError | None]:
    """Return the messages before the end of the range, how far it was read, and why a broker does not know the next.

    Raises what came instead of one otherwise.
    """
    taken, unknown = [], None
    for message in found:
        error = message.error()
        if error is None:
            if (at := message.offset() + 1) <= wanted.end:
                taken.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            at = max(at, message.offset())
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            unknown = error
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # the library looks for its group, which none needs
            raise _failure(client, wanted, error, troubles)
    return taken, at, unknown


@contextmanager
def _uncollected() -> Iterator[None]:
    """Have no garbage looked for: that takes as long as the messages themselves, each of which may hold others.

    It is looked for again in any case: a range that nobody reads to its end may be garbage itself.
    """
    gc.disable()
    try:
        yield
    finally:
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
    end = admin.ends(wanted.topic, [wanted.partition], committed=wanted.committed)[wanted.partition]
    if end < wanted.end:
        raise end_lost(wanted.source, wanted.topic, wanted.partition, wanted.end, end)


def _failure(client: Client, wanted: Range, error: Any, troubles: Troubles) -> SinkqlError:
    if error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION):
        return lost_topic(wanted.source, wanted.topic)
    return client.failure(error, troubles)


def lost_messages(source: str, topic: str, partition: int, at: int, begin: int) -> GoneError:
    """Return the error for messages that Kafka deleted before they were read."""
    return GoneError(
        "SQ3370",
        f'messages of source "{source}" are gone: {topic}/{partition} from offset {at} to {begin - 1}',
        detail="Kafka deleted them, as the topic's retention says.",
        hint="Run ALTER SOURCE … SKIP to go on with what is kept; rows that the others would have changed stay as "
        "they are. Raise retention.ms or retention.bytes of the topic.",
    )


def compacted(source: str, topic: str) -> GoneError:
    """Return the error for messages of which Kafka keeps the last of each key, where all are to be read again."""
    return GoneError(
        "SQ3370",
        f'messages of source "{source}" may be gone: topic "{topic}" keeps those that are the last of their key',
        detail='The topic has cleanup.policy = "compact".',
        hint="ENVELOPE UPSERT reads such topics as tables.",
    )


def lost_topic(source: str, topic: str) -> SinkqlError:
    """Return the error for a topic that is another one than was read, or none."""
    return SinkqlError(
        "SQ3371",
        f'the topic of source "{source}" is not the one that was read: "{topic}" was deleted, or made anew',
        hint="Run ALTER SOURCE … SKIP to read the topic that has this name now from its beginning.",
    )


def topic_recreated(source: str, topic: str) -> GoneError:
    """Return the error for rows to be computed again of a topic that is gone, as a user has accepted."""
    return GoneError(
        "SQ3371",
        f'source "{source}" has read an earlier topic "{topic}", which is gone',
        hint="Keep the sink as it is, or create another one, into a new table.",
    )


def lost_place(source: str, topic: str, partition: int, read: int, offset: int) -> SinkqlError:
    """Return the error for a partition that has another message than was read."""
    return SinkqlError(
        "SQ3372",
        f'{topic}/{partition} of source "{source}", read to {read}, has another message at offset {offset} than it had',
        detail="Brokers lost messages, as they may after an unclean election, or were put back from a copy. "
        "Others were written since.",
        hint="Run ALTER SOURCE … SKIP to go on with the messages that are later than the last one that was read.",
    )


def end_lost(source: str, topic: str, partition: int, read: int, end: int) -> SinkqlError:
    """Return the error for a partition that is shorter than what was read of it."""
    return SinkqlError(
        "SQ3372",
        f'{topic}/{partition} of source "{source}" ends at offset {end}, and was read to {read}',
        detail="Brokers lost messages, as they may after an unclean election of a leader.",
        hint="Run ALTER SOURCE … SKIP to go on where the partition ends.",
    )
