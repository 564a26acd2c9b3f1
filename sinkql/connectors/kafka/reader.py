"""Read a topic: split ranges of offsets, and decode their messages to Arrow rows of key, value and metadata.

Offsets have `topic_id`, which changes if the topic is recreated; `partitions`, the next offset of each partition;
`begin`, the first offsets of partitions that did not begin at 0; and `last`, the fingerprints of the last messages that
were read (`last_message`). A batch ends before open transactions. A partition that is added later begins at 0. If its
first messages are deleted by then, they count as lost.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sinkql import physical
from sinkql.connector_api import requests
from sinkql.connector_api.source_options import OnError, RecordErrorPolicy, on_error
from sinkql.connector_api.stream import (
    Context,
    DecodedMessages,
    Limit,
    Measure,
    Offsets,
    ReadCounts,
    Reader,
    RefreshableReader,
    RowError,
    Size,
    Split,
)
from sinkql.connectors.kafka.admin import Admin, Topic, UnknownError, admin_of
from sinkql.connectors.kafka.client import Client
from sinkql.connectors.kafka.consumer import (
    Range,
    changed_message_error,
    compacted_error,
    lost_end_error,
    lost_messages_error,
    lost_topic_error,
    messages,
    recreated_topic_error,
    size_of,
)
from sinkql.connectors.kafka.decode import Headers, MessageRows, headers_of
from sinkql.connectors.kafka.last_message import LastMessages
from sinkql.connectors.kafka.options import ReadOptions
from sinkql.errors import SinkqlError
from sinkql.machine import clock
from sinkql.storage.key_value import KeyValueStore

_SPLIT_ROWS = 1 << 18
_GUESSED_BYTES = 250
"""The bytes of an offset, as long as no messages were weighed."""
_MEASURE_S = 10.0
_PAUSE_S = 60.0
_ENDS = 8640
"""The ends of a day, if they are asked for every ten seconds."""
_UNWEIGHED_ROWS = 4096
_SAMPLE_ROWS = 32
_WEIGHED_FOR_S = 60.0


@dataclass(slots=True)
class _Cache:
    """What the driver knows about a topic; a pickled copy is empty.

    `ends` has the total number of messages with the time at which it was first seen, in order. `width` is the average
    number of bytes of an offset.
    """

    topic: Topic | None = None
    topic_at: float = 0.0
    ends_at: float = 0.0
    ends: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_ENDS))
    width: int = 0
    width_at: float = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return _Cache, ()


@dataclass(frozen=True, slots=True)
class KafkaReader(Reader, RefreshableReader):
    """The reader of one topic.

    `source` is the name in messages, `offsets_name` the one under which a sink stores the offsets.
    """

    source: str
    client: Client
    topic: str
    start: Mapping[str, int]
    rows: MessageRows
    policy: OnError
    refresh_s: float
    group: str
    last_messages: LastMessages = field(repr=False, compare=False)
    store: KeyValueStore | None = None
    offsets_name: str = ""
    _cache: _Cache = field(default_factory=_Cache, repr=False, compare=False)

    @classmethod
    def of(cls, read: physical.Read, context: Context) -> KafkaReader:
        """Return the reader of a planned source."""
        options = ReadOptions.from_plan(read.options)
        assert read.connection is not None
        client, group = Client.carried(read.connection, context.secret), f"{options.tuning.group}sinkql"
        return cls(
            read.name,
            client,
            options.topic,
            options.start,
            MessageRows.from_plan(read, options, context),
            on_error(read.options),
            options.tuning.refresh_s,
            group,
            LastMessages(client, read.name, options.topic, group),
            context.notes,
            read.source,
        )

    # --- in the driver -----------------------------------------------------------------------------------------------

    @property
    def _admin(self) -> Admin:
        return admin_of(self.client)

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the offsets of a new sink: the first messages that exist, or the later ones that its options set."""
        topic = self._topic(fresh=True)
        if at_end:
            return _first_offsets(topic, self._query(self._admin.ends, topic.partitions))
        begin = self._query(self._admin.beginnings, topic.partitions)
        return _first_offsets(topic, {number: max(at, self.start.get(str(number), 0)) for number, at in begin.items()})

    @property
    def full_refresh(self) -> KafkaReader:
        """Return the reader itself: a topic can lose its first messages."""
        return self

    def restart_of(self, offsets: Offsets) -> Offsets:
        """Return the offsets at which reading up to `offsets` began.

        Raise SQ3370 if messages since then may be lost, and SQ3371 if it began in an earlier topic of the same name.
        """
        first = {partition: offsets["begin"].get(partition, 0) for partition in offsets["partitions"]}
        if first != offsets["partitions"] and not self.rows.upsert and self._admin.is_compacted(self.topic):
            raise compacted_error(self.source, self.topic)
        begin = self._query(self._admin.beginnings, map(int, first))
        for partition, at in first.items():
            number = int(partition)
            if at < 0:
                raise recreated_topic_error(self.source, self.topic)
            if begin[number] > at and offsets["partitions"][partition] > at:
                raise lost_messages_error(self.source, self.topic, number, at, begin[number])
        return {**{name: value for name, value in offsets.items() if name != "last"}, "partitions": first}

    def target(self, start: Offsets) -> Offsets:
        """Return the present ends of the partitions."""
        topic, start = self._topic(fresh=True), self._after_loss(start)
        return _advanced(start, topic, self._query(self._admin.ends, topic.partitions))

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Return whether a target is reached; partitions that were added or deleted since do not count."""
        read = offsets["partitions"]
        if offsets["topic_id"] != target["topic_id"]:
            return False  # the offsets belong to another topic
        return all(read.get(partition, 0) >= end for partition, end in target["partitions"].items())

    def comparable_position(self, offsets: Offsets) -> Offsets | None:
        """Return the next offsets, without those at which reading began."""
        return {"topic_id": offsets["topic_id"], "partitions": offsets["partitions"]}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the ends of the next batch: as many offsets as the limit allows, equally from all partitions.

        Brokers do not report sizes. So a large batch is limited in bytes by the average size of a few messages.
        """
        ends: Mapping[str, int]
        start = self._after_loss(start)
        if until is not None:
            ends = until["partitions"]
        else:
            topic = self._topic(fresh=False)
            if topic.id != start["topic_id"]:
                raise lost_topic_error(self.source, self.topic)
            ends = _advanced(start, topic, self._query(self._admin.ends, topic.partitions))["partitions"]
        rows = max(limit.rows, 1)
        batch_ends = _limited(start["partitions"], ends, rows)
        if _count(start["partitions"], batch_ends) > _UNWEIGHED_ROWS:
            affordable = max(limit.bytes // max(self._width(start["partitions"], batch_ends), 1), 1)
            batch_ends = batch_ends if affordable >= rows else _limited(start["partitions"], ends, affordable)
        moved = {partition: end for partition, end in batch_ends.items() if end > start["partitions"].get(partition, 0)}
        if not moved:
            return {**start, "partitions": batch_ends}
        if self.last_messages.is_outdated():
            self.verify(start)
        last = {**start.get("last", {}), **self.last_messages.before(start, moved)}
        return {**start, "partitions": batch_ends, "last": last}

    def _width(self, start: Mapping[str, int], end: Mapping[str, int]) -> int:
        """Return the average number of bytes of an offset.

        The samples are at the beginning, in the middle and at the end of the longest partition: in a compacted topic,
        most offsets have no message.
        """
        cache = self._cache
        if cache.width_at and clock.monotonic() - cache.width_at < _WEIGHED_FOR_S:
            return cache.width
        longest = max(end, key=lambda partition: end[partition] - start.get(partition, 0))
        begin, stop = start.get(longest, 0), end[longest]
        last = max(stop - _SAMPLE_ROWS, begin)
        count = size = 0
        with suppress(SinkqlError):  # the batch that reads lost messages reports them
            for at in (begin, (begin + last) // 2, last):
                sample = Range(self.source, self.topic, int(longest), at, min(at + _SAMPLE_ROWS, stop), self.group)
                size += size_of(self.client, sample)
                count += sample.end - sample.begin
        cache.width, cache.width_at = size // max(count, 1), clock.monotonic()
        return cache.width

    def verify(self, offsets: Offsets) -> None:
        """Raise SQ3370 to SQ3372 if the topic was recreated, or if messages after the offsets are lost."""
        try:
            self._verify(offsets)
        except SinkqlError as error:
            if error.of_loss and self.store is not None:
                requests.report_loss(self.store, self.offsets_name, offsets)
            raise

    def _verify(self, offsets: Offsets) -> None:
        topic, offsets = self._topic(fresh=True), self._after_loss(offsets)
        if topic.id != offsets["topic_id"]:
            raise lost_topic_error(self.source, self.topic)
        read = {int(partition): at for partition, at in offsets["partitions"].items()}
        if not set(read) <= set(topic.partitions):
            raise lost_topic_error(self.source, self.topic)
        begin, end = self._query(self._admin.beginnings, read), self._ends(offsets)
        for number, at in read.items():
            if begin[number] > max(at, self.start.get(str(number), 0)):
                raise lost_messages_error(self.source, self.topic, number, at, begin[number])
            if end[number] < at and at > self.start.get(str(number), 0):
                raise lost_end_error(self.source, self.topic, number, at, end[number])
        for number, at in self.last_messages.verify(offsets, begin, end).items():
            raise changed_message_error(self.source, self.topic, number, read[number], at)

    def translate_end(self, start: Offsets, end: Offsets) -> Offsets | None:
        """Return the end; None if messages before it are lost and a user accepted that."""
        return end if self._after_loss(start) == start else None

    def after_commit(self, end: Offsets) -> None:
        """Delete the accepted loss: the sink has passed it."""
        if self.store is not None:
            requests.clear_loss(self.store, self.offsets_name)

    def _after_loss(self, start: Offsets) -> Offsets:
        """Return the offsets at which a sink continues: later ones if a user accepted the loss of messages."""
        accepted = requests.accepted_loss(self.store, self.offsets_name, start) if self.store is not None else None
        if self.store is None or accepted is None:
            return start
        if accepted.end is not None:
            return accepted.end
        topic = self._topic(fresh=True)
        first, last = (self._query(ask, topic.partitions) for ask in (self._admin.beginnings, self._admin.ends))
        if topic.id == start["topic_id"]:
            read = start["partitions"]  # a partition that was added since may have lost its first messages, too
            positions = {number: min(max(read.get(str(number), 0), at), last[number]) for number, at in first.items()}
            begin = start["begin"]
            for number in self.last_messages.changed(start, first, last):
                later = start["last"][str(number)][1] + 1  # after the time of the last message that was read
                positions[number] = min(positions[number], self._admin.at_time(self.topic, [number], later)[number])
        else:
            positions = {number: max(at, self.start.get(str(number), 0)) for number, at in first.items()}
            begin = dict.fromkeys(map(str, positions), -1)  # rows of the earlier topic cannot be recomputed
        end = {**_offsets(topic, positions), "begin": begin}
        requests.set_loss_end(self.store, self.offsets_name, accepted, end)
        return end

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return ranges of at most `_SPLIT_ROWS` offsets for each partition."""
        start = self._after_loss(start)
        return [
            {"partition": int(partition), "from": at, "to": min(at + _SPLIT_ROWS, to)}
            for partition, to in end["partitions"].items()
            for at in range(start["partitions"].get(partition, 0), to, _SPLIT_ROWS)
        ]

    # --- progress ----------------------------------------------------------------------------------------------------

    def measure(self, offsets: Offsets) -> Measure:
        """Return how many messages exist and how many were read, by offsets; the brokers are asked every ten seconds.

        After a failure they are not asked for a minute: the batch reports the failure.
        """
        cache, now = self._cache, clock.monotonic()
        if now >= cache.ends_at + _MEASURE_S:
            cache.ends_at = now + _PAUSE_S
            self._ends(offsets)
        read = _total(offsets["partitions"])
        return Measure(max(read, cache.ends[-1][1]) if cache.ends else None, read, "messages")

    def lag(self, offsets: Offsets) -> float:
        """Return the seconds since the first unread message was noticed; 0 if all were read."""
        read = _total(offsets["partitions"])
        return next((clock.time() - at for at, total in self._cache.ends if total > read), 0.0)

    def _ends(self, offsets: Offsets) -> Mapping[int, int]:
        """Return the ends of the partitions that were read, and record their total for `measure` and `lag`."""
        ends = self._query(self._admin.ends, map(int, offsets["partitions"]))
        cache, total = self._cache, sum(ends.values())
        cache.ends_at = clock.monotonic()
        if not cache.ends or cache.ends[-1][1] < total:
            cache.ends.append((clock.time(), total))
        return ends

    def _query(
        self, query: Callable[[str, Iterable[int]], dict[int, int]], partitions: Iterable[int]
    ) -> dict[int, int]:
        """Return the offsets that the brokers answer. Raise SQ3371 if the topic was deleted."""
        try:
            return query(self.topic, partitions)
        except UnknownError:
            self._topic(fresh=True)
            raise

    def size(self, splits: Sequence[Split]) -> Size:
        """Return the number of offsets, and their bytes at the last average; a guess if no messages were weighed."""
        offsets = sum(split["to"] - split["from"] for split in splits)
        return Size(offsets, offsets * (self._cache.width or _GUESSED_BYTES))

    def _topic(self, *, fresh: bool) -> Topic:
        """Return the topic, from the cache unless `fresh` or older than `refresh_s`. Raise SQ3371 without one."""
        cache = self._cache
        if fresh or cache.topic is None or clock.monotonic() - cache.topic_at > self.refresh_s:
            cache.topic, cache.topic_at = self._admin.topic(self.topic), clock.monotonic()
        if cache.topic is None:
            raise lost_topic_error(self.source, self.topic)
        return cache.topic

    # --- in a task ---------------------------------------------------------------------------------------------------

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range, without messages that do not decode. Raise SQ3101 if these stop the sinks."""
        wanted = Range(self.source, self.topic, split["partition"], split["from"], split["to"], self.group)
        policy = RecordErrorPolicy(self.source, self.policy)
        for received in messages(self.client, wanted):
            size = sum(map(len, received))
            read_counts.rows += len(received)
            read_counts.bytes += size
            for batch, failures, dropped in self.rows.decode(received, size):
                for message, reason in failures:
                    policy.handle(read_counts, self._row_error(message, reason))
                read_counts.dropped += dropped
                yield batch

    def retry_dead_letters(self, records: Sequence[RowError]) -> Iterator[DecodedMessages]:
        """Decode dead letters, which have everything that rows may need."""
        for record in records:
            ((rows, failures, dropped),) = self.rows.decode([DeadLetter(record)], len(record.raw))
            yield DecodedMessages(rows, dict(enumerate(reason for _, reason in failures)), rowless=range(dropped))

    def _row_error(self, message: Any, reason: str) -> RowError:
        position = f"{self.topic}/{message.partition()}/{message.offset()}"
        return RowError(position, "SQ3101", reason, message.value() or b"", message.key(), _about(message))


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter with the methods of `confluent_kafka.Message`."""

    record: RowError

    def __len__(self) -> int:
        return len(self.record.raw)

    def key(self) -> bytes | None:
        return self.record.key

    def value(self) -> bytes | None:
        return None if "value" in self.record.about else self.record.raw

    def partition(self) -> int:
        return int(self.record.position.rsplit("/", 2)[1])

    def offset(self) -> int:
        return int(self.record.position.rsplit("/", 2)[2])

    def timestamp(self) -> tuple[int, int]:
        at = self.record.about.get("timestamp")
        return (0, 0) if at is None else (1, at)

    def headers(self) -> Headers:
        headers = self.record.about.get("headers", [])
        if headers is None:
            raise ValueError("the name of a header is not UTF-8")
        return [(key, None if value is None else b64decode(value)) for key, value in headers]


def _about(message: Any) -> dict[str, Any]:
    """Return the metadata of a dead letter; values of headers are in base64."""
    kind, at = message.timestamp()
    about: dict[str, Any] = {"timestamp": at} if kind else {}
    if message.value() is None:
        about["value"] = None
    try:
        headers = headers_of(message)
    except ValueError:
        return {**about, "headers": None}
    if headers:
        about["headers"] = [[key, None if value is None else b64encode(value).decode()] for key, value in headers]
    return about


def _offsets(topic: Topic, positions: Mapping[int, int]) -> Offsets:
    return {"topic_id": topic.id, "partitions": {str(number): positions[number] for number in sorted(positions)}}


def _total(partitions: Mapping[str, int]) -> int:
    return sum(partitions.values())


def _first_offsets(topic: Topic, positions: Mapping[int, int]) -> Offsets:
    """Return the offsets at which a sink begins."""
    offsets = _offsets(topic, positions)
    return {**offsets, "begin": {partition: at for partition, at in offsets["partitions"].items() if at}}


def _advanced(start: Offsets, topic: Topic, ends: Mapping[int, int]) -> Offsets:
    """Return offsets at the ends of partitions, but never before the start; a deleted partition keeps its offset."""
    read = {int(partition): at for partition, at in start["partitions"].items()}
    positions = {**read, **{number: max(end, read.get(number, 0)) for number, end in ends.items()}}
    return {**start, **_offsets(topic, positions), "topic_id": start["topic_id"]}


def _count(start: Mapping[str, int], end: Mapping[str, int]) -> int:
    return sum(at - start.get(partition, 0) for partition, at in end.items())


def _limited(start: Mapping[str, int], ends: Mapping[str, int], rows: int) -> dict[str, int]:
    """Return ends that span `rows` offsets in total: the same number from each partition that has as many."""
    left, limited = rows, {**start, **dict.fromkeys(ends, 0)}
    by_length = sorted(ends, key=lambda partition: ends[partition] - start.get(partition, 0))
    for index, partition in enumerate(by_length):
        at = start.get(partition, 0)
        count = min(max(ends[partition] - at, 0), left // (len(by_length) - index))
        limited[partition], left = at + count, left - count
    if left == rows and by_length:  # fewer rows than partitions: take one message of the longest
        longest = by_length[-1]
        at = start.get(longest, 0)
        limited[longest] = min(at + 1, max(ends[longest], at))
    return {partition: limited[partition] for partition in sorted(limited, key=int)}
