"""A topic → splits by ranges of offsets → Arrow rows of key, value and metadata.

Offsets: `topic_id`, the id of the topic, which one made anew has not; `partitions`, the next offset of each; `begin`,
where those were begun that were not at 0; and `last`, what the last message of each is known by: its offset, time and
digest. Brokers that lost messages have others at their offsets after a while. A batch ends before what is in open
transactions. Partitions that come later begin at 0, also where messages of theirs are gone by then: that is a loss.
"""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    Reader,
    RefreshableReader,
    RowError,
    Split,
    Tally,
)
from sinkql.connectors.kafka.admin import Admin, Topic, UnknownError, admin_of
from sinkql.connectors.kafka.client import Client
from sinkql.connectors.kafka.consumer import (
    Range,
    compacted,
    end_lost,
    last_message,
    lost_messages,
    lost_place,
    lost_topic,
    messages,
    size_of,
    topic_recreated,
)
from sinkql.connectors.kafka.decode import Headers, Rows, headers_of
from sinkql.errors import SinkqlError
from sinkql.storage.key_value import KeyValueStore

_SPLIT_ROWS = 1 << 18
_SMALL_SPLITS = 8
_SMALL_ROWS = 20_000
_MEASURE_S = 10.0
_PAUSE_S = 60.0
_ENDS = 8640
"""A day of ends that were asked for each ten seconds."""
_UNWEIGHED_ROWS = 4096
_SAMPLE_ROWS = 32
_WEIGHED_FOR_S = 60.0
_VERIFY_S = 10.0
_LAST = 32
"""In how many offsets the last message of a partition is looked for: some are those of transactions' ends."""
_AT_A_TIME = 8


@dataclass(slots=True)
class _Seen:
    """What the driver knows of a topic, and since when; no part of a reader in a task.

    `ends` are how many messages the topic had at which times, in order, each number once. `told` is what the last
    messages are known by, from which offset of a partition up to which. Those that are `known` were read or compared
    within `_VERIFY_S`, and nothing was offered to be read behind them since.
    """

    topic: Topic | None = None
    at: float = 0.0
    asked_at: float = 0.0
    ends: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_ENDS))
    width: int = 0
    weighed_at: float = 0.0
    verified_at: float = float("-inf")
    told: dict[str, tuple[int, int, list[Any] | None]] = field(default_factory=dict)
    known: set[tuple[Any, ...]] = field(default_factory=set)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Seen, ()


@dataclass(frozen=True, slots=True)
class KafkaReader(Reader, RefreshableReader):
    """Read one topic."""

    source: str
    client: Client
    topic: str
    start: Mapping[str, int]
    rows: Rows
    policy: OnError
    refresh_s: float
    group: str
    notes: KeyValueStore | None = None
    known_as: str = ""
    _seen: _Seen = field(default_factory=_Seen, repr=False, compare=False)

    @classmethod
    def of(cls, read: physical.Read, context: Context) -> KafkaReader:
        """Return the reader of a planned source."""
        options = read.options
        assert read.connection is not None
        tuning = options["tuning"]
        return cls(
            read.name,
            Client.carried(read.connection, context.secret),
            options["topic"],
            options.get("start", {}),
            Rows.of(read, context),
            on_error(options),
            tuning["refresh_s"],
            f"{tuning['group']}sinkql",
            context.notes,
            read.source,
        )

    # --- in the driver -----------------------------------------------------------------------------------------------

    @property
    def _admin(self) -> Admin:
        return admin_of(self.client)

    def initial(self, *, at_end: bool) -> Offsets:
        """Return where the source begins: the first messages that are kept, or later ones that it names."""
        topic = self._topic(fresh=True)
        if at_end:
            return _begun(topic, self._asked(self._admin.ends, topic.partitions))
        begin = self._asked(self._admin.beginnings, topic.partitions)
        return _begun(topic, {each: max(at, self.start.get(str(each), 0)) for each, at in begin.items()})

    @property
    def full_refresh(self) -> KafkaReader:
        """Return the reader itself: a topic can lose its first messages."""
        return self

    def restart_of(self, offsets: Offsets) -> Offsets:
        """Return where the reading up to `offsets` began; raises SQ3370 where messages from there on may be gone.

        SQ3371 where it began in a topic of the same name.
        """
        begun = {each: offsets["begin"].get(each, 0) for each in offsets["partitions"]}
        if begun != offsets["partitions"] and not self.rows.upsert and self._admin.compacted(self.topic):
            raise compacted(self.source, self.topic)
        kept = self._asked(self._admin.beginnings, map(int, begun))
        for each, at in begun.items():
            if at < 0:
                raise topic_recreated(self.source, self.topic)
            if kept[int(each)] > at and offsets["partitions"][each] > at:
                raise lost_messages(self.source, self.topic, int(each), at, kept[int(each)])
        return {**{name: each for name, each in offsets.items() if name != "last"}, "partitions": begun}

    def target(self, start: Offsets) -> Offsets:
        """Return where the partitions end now."""
        topic, start = self._topic(fresh=True), self._going_on(start)
        return _further(start, topic, self._asked(self._admin.ends, topic.partitions))

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Tell whether a target is reached, of which newer partitions are no part, nor what was deleted since."""
        read = offsets["partitions"]
        if offsets["topic_id"] != target["topic_id"]:
            return False  # what it had of the other topic
        return all(read.get(each, 0) >= to for each, to in target["partitions"].items())

    def comparable_position(self, offsets: Offsets) -> Offsets | None:
        """Return how far the partitions were read: not where that began."""
        return {"topic_id": offsets["topic_id"], "partitions": offsets["partitions"]}

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return as many messages as there are, by offsets, within the limit, of all partitions alike.

        Brokers say nothing of bytes: where a batch would have many rows, a few of them tell how large they are.
        """
        ends: Mapping[str, int]
        start = self._going_on(start)
        if until is not None:
            ends = until["partitions"]
        else:
            topic = self._topic(fresh=False)
            if topic.id != start["topic_id"]:
                raise lost_topic(self.source, self.topic)
            ends = _further(start, topic, self._asked(self._admin.ends, topic.partitions))["partitions"]
        rows = max(limit.rows, 1)
        places = _within(start["partitions"], ends, rows)
        if _count(start["partitions"], places) > _UNWEIGHED_ROWS:
            light = max(limit.bytes // max(self._width(start["partitions"], places), 1), 1)
            places = places if light >= rows else _within(start["partitions"], ends, light)
        moved = {each: at for each, at in places.items() if at > start["partitions"].get(each, 0)}
        if not moved:
            return {**start, "partitions": places}
        if time.monotonic() - self._seen.verified_at > _VERIFY_S:
            self.verify(start)
        return {**start, "partitions": places, "last": {**start.get("last", {}), **self._last(start, moved)}}

    def _last(self, start: Offsets, moved: Mapping[str, int]) -> dict[str, list[Any]]:
        """Return what the last messages of partitions are known by; not all of the last offsets have one."""

        def of(each: str, at: int) -> list[Any] | None:
            first = max(start["partitions"].get(each, 0), at - _LAST)
            before = seen.told.get(each)
            if before is not None and before[:2] == (first, at):
                return before[2]
            told = last_message(self.client, Range(self.source, self.topic, int(each), first, at, self.group))
            seen.told[each] = first, at, told
            seen.known.discard((each, *start.get("last", {}).get(each, ())))
            if told is not None:
                seen.known.add((each, *told))
            return told

        seen = self._seen
        found = self._each(of, moved)
        return {each: told for each, told in found.items() if told is not None}

    def _each(self, of: Callable[[str, int], Any], places: Mapping[str, int]) -> dict[str, Any]:
        """Return what is found of partitions, of several at a time."""
        if len(places) <= 1:
            return {each: of(each, at) for each, at in places.items()}
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            return dict(zip(places, pool.map(of, places, places.values()), strict=True))

    def _width(self, start: Mapping[str, int], end: Mapping[str, int]) -> int:
        """Return how many bytes there are to an offset, by some at the begin, in the middle and at the end of a
        partition: where a topic is compacted, most have no message.
        """
        seen = self._seen
        if seen.weighed_at and time.monotonic() - seen.weighed_at < _WEIGHED_FOR_S:
            return seen.width
        longest = max(end, key=lambda each: end[each] - start.get(each, 0))
        begin, stop = start.get(longest, 0), end[longest]
        last = max(stop - _SAMPLE_ROWS, begin)
        count = size = 0
        with suppress(SinkqlError):  # of messages that are gone whoever reads them tells
            for at in (begin, (begin + last) // 2, last):
                some = Range(self.source, self.topic, int(longest), at, min(at + _SAMPLE_ROWS, stop), self.group)
                size += size_of(self.client, some)
                count += some.end - some.begin
        seen.width, seen.weighed_at = size // max(count, 1), time.monotonic()
        return seen.width

    def verify(self, offsets: Offsets) -> None:
        """Raise SQ3370 to SQ3372 where the topic is another one, or messages from there on are gone."""
        try:
            self._check_there(offsets)
        except SinkqlError as error:
            if error.of_loss and self.notes is not None:
                requests.report_loss(self.notes, self.known_as, offsets)
            raise

    def _check_there(self, offsets: Offsets) -> None:
        topic, offsets = self._topic(fresh=True), self._going_on(offsets)
        if topic.id != offsets["topic_id"]:
            raise lost_topic(self.source, self.topic)
        read = {int(each): at for each, at in offsets["partitions"].items()}
        if not set(read) <= set(topic.partitions):
            raise lost_topic(self.source, self.topic)
        begin, end = self._asked(self._admin.beginnings, read), self._ends(offsets)
        for each, at in read.items():
            if begin[each] > max(at, self.start.get(str(each), 0)):
                raise lost_messages(self.source, self.topic, each, at, begin[each])
            if end[each] < at and at > self.start.get(str(each), 0):
                raise end_lost(self.source, self.topic, each, at, end[each])
        seen, now = self._seen, time.monotonic()
        if now - seen.verified_at > _VERIFY_S:
            seen.told.clear()
            seen.known.clear()
            seen.verified_at = now
        last = {each: told for each, told in offsets.get("last", {}).items() if (each, *told) not in seen.known}
        for number, at in self._others({**offsets, "last": last}, begin, end).items():
            raise lost_place(self.source, self.topic, number, read[number], at)
        seen.known.update((each, *told) for each, told in last.items())

    def _others(self, offsets: Offsets, begin: Mapping[int, int], end: Mapping[int, int]) -> dict[int, int]:
        """Return partitions that have another message than was read, and where; none where it is gone."""
        last = {each: told for each, told in offsets.get("last", {}).items() if int(each) in begin}
        places = {each: told[0] for each, told in last.items() if begin[int(each)] <= told[0] < end[int(each)]}

        def of(each: str, at: int) -> bool:
            found = last_message(self.client, Range(self.source, self.topic, int(each), at, at + 1, self.group))
            return found is not None and found != last[each]

        return {int(each): places[each] for each, other in self._each(of, places).items() if other}

    def translate_end(self, start: Offsets, end: Offsets) -> Offsets | None:
        """Return the end; None where what is between the two is lost, and a user has accepted that."""
        return end if self._going_on(start) == start else None

    def after_commit(self, end: Offsets) -> None:
        """Forget what was accepted: it was of a place from before."""
        if self.notes is not None:
            requests.forget(self.notes, self.known_as)

    def _going_on(self, start: Offsets) -> Offsets:
        """Return where a sink goes on from a place: somewhere else where a user has accepted what is lost there."""
        found = requests.accepted(self.notes, self.known_as, start) if self.notes is not None else None
        if self.notes is None or found is None:
            return start
        if found.end is not None:
            return found.end
        topic = self._topic(fresh=True)
        first, last = (self._asked(ask, topic.partitions) for ask in (self._admin.beginnings, self._admin.ends))
        if topic.id == start["topic_id"]:
            read = start["partitions"]  # a later one, which is not in it, may have lost its first messages too
            places = {each: min(max(read.get(str(each), 0), at), last[each]) for each, at in first.items()}
            begin = start["begin"]
            for each in self._others(start, first, last):
                later = start["last"][str(each)][1] + 1  # what was read of it is not as late
                places[each] = min(places[each], self._admin.at_time(self.topic, [each], later)[each])
        else:
            places = {each: max(at, self.start.get(str(each), 0)) for each, at in first.items()}
            begin = dict.fromkeys(map(str, places), -1)  # rows of the other topic cannot be computed again
        end = {**_offsets(topic, places), "begin": begin}
        requests.settle(self.notes, self.known_as, found, end)
        return end

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return ranges of offsets of each partition, of a quarter of a million at most."""
        start = self._going_on(start)
        return [
            {"partition": int(each), "from": at, "to": min(at + _SPLIT_ROWS, to)}
            for each, to in end["partitions"].items()
            for at in range(start["partitions"].get(each, 0), to, _SPLIT_ROWS)
        ]

    # --- how far that is ---------------------------------------------------------------------------------------------

    def measure(self, offsets: Offsets) -> Measure:
        """Return how many messages were read of how many, by offsets; the brokers are asked each ten seconds.

        Those that do not answer are let alone for a while: somebody else says so.
        """
        seen, now = self._seen, time.monotonic()
        if now >= seen.asked_at + _MEASURE_S:
            seen.asked_at = now + _PAUSE_S
            self._ends(offsets)
        read = _total(offsets["partitions"])
        return Measure(max(read, seen.ends[-1][1]) if seen.ends else None, read, "messages")

    def lag(self, offsets: Offsets) -> float:
        """Return for how long it is known here that there is more."""
        read = _total(offsets["partitions"])
        return next((time.time() - at for at, total in self._seen.ends if total > read), 0.0)

    def _ends(self, offsets: Offsets) -> Mapping[int, int]:
        """Ask where the partitions end that were read, and note how many messages that are."""
        return self._noted(self._asked(self._admin.ends, map(int, offsets["partitions"])))

    def _noted(self, ends: Mapping[int, int]) -> Mapping[int, int]:
        seen, total = self._seen, sum(ends.values())
        seen.asked_at = time.monotonic()
        if not seen.ends or seen.ends[-1][1] < total:
            seen.ends.append((time.time(), total))
        return ends

    def _asked(self, what: Callable[[str, Iterable[int]], dict[int, int]], partitions: Iterable[int]) -> dict[int, int]:
        """Ask for offsets; raises SQ3371 where the topic is gone."""
        try:
            return what(self.topic, partitions)
        except UnknownError:
            self._topic(fresh=True)
            raise

    def fits_in_process(self, splits: Sequence[Split]) -> bool:
        """Tell by the number of offsets: what is in messages is not known before they are read."""
        return len(splits) <= _SMALL_SPLITS and sum(split["to"] - split["from"] for split in splits) <= _SMALL_ROWS

    def _topic(self, *, fresh: bool) -> Topic:
        seen = self._seen
        if fresh or seen.topic is None or time.monotonic() - seen.at > self.refresh_s:
            seen.topic, seen.at = self._admin.topic(self.topic), time.monotonic()
        if seen.topic is None:
            raise lost_topic(self.source, self.topic)
        return seen.topic

    # --- in a task ---------------------------------------------------------------------------------------------------

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range, less those that do not decode; raises SQ3101 where these stop the sinks."""
        wanted = Range(self.source, self.topic, split["partition"], split["from"], split["to"], self.group)
        bad = RecordErrorPolicy(self.source, self.policy)
        for found in messages(self.client, wanted):
            size = sum(map(len, found))
            tally.rows += len(found)
            tally.bytes += size
            for batch, failures, dropped in self.rows.decoded(found, size):
                for message, why in failures:
                    bad.take(tally, self._error(message, why))
                tally.dropped += dropped
                yield batch

    def retry_dead_letters(self, records: Sequence[RowError]) -> Iterator[DecodedMessages]:
        """Decode messages, of which all is kept that rows may have."""
        for record in records:
            ((rows, failed, dropped),) = self.rows.decoded([KeptMessage(record)], len(record.raw))
            yield DecodedMessages(rows, dict(enumerate(why for _, why in failed)), rowless=range(dropped))

    def _error(self, message: Any, why: str) -> RowError:
        position = f"{self.topic}/{message.partition()}/{message.offset()}"
        return RowError(position, "SQ3101", why, message.value() or b"", message.key(), _about(message))


@dataclass(frozen=True, slots=True)
class KeptMessage:
    """A message that did not decode, as `confluent_kafka.Message` gives it."""

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
        found = self.record.about.get("headers", [])
        if found is None:
            raise ValueError("the name of a header is not UTF-8")
        return [(key, None if value is None else b64decode(value)) for key, value in found]


def _about(message: Any) -> dict[str, Any]:
    """Return what else is known of a message; values of headers in base64."""
    kind, at = message.timestamp()
    found: dict[str, Any] = {"timestamp": at} if kind else {}
    if message.value() is None:
        found["value"] = None
    try:
        headers = headers_of(message)
    except ValueError:
        return {**found, "headers": None}
    if headers:
        found["headers"] = [[key, None if value is None else b64encode(value).decode()] for key, value in headers]
    return found


def _offsets(topic: Topic, places: Mapping[int, int]) -> Offsets:
    return {"topic_id": topic.id, "partitions": {str(each): places[each] for each in sorted(places)}}


def _total(partitions: Mapping[str, int]) -> int:
    return sum(partitions.values())


def _begun(topic: Topic, places: Mapping[int, int]) -> Offsets:
    """Return offsets at which a sink begins."""
    found = _offsets(topic, places)
    return {**found, "begin": {each: at for each, at in found["partitions"].items() if at}}


def _further(start: Offsets, topic: Topic, ends: Mapping[int, int]) -> Offsets:
    """Return the ends of partitions, none before where it was read to; of one that is not there any more that place."""
    read = {int(each): at for each, at in start["partitions"].items()}
    places = {**read, **{each: max(end, read.get(each, 0)) for each, end in ends.items()}}
    return {**start, **_offsets(topic, places), "topic_id": start["topic_id"]}


def _count(start: Mapping[str, int], end: Mapping[str, int]) -> int:
    return sum(at - start.get(each, 0) for each, at in end.items())


def _within(start: Mapping[str, int], ends: Mapping[str, int], rows: int) -> dict[str, int]:
    """Return ends of partitions that take so many offsets in all: of each the same number, where it has them."""
    left, found = rows, {**start, **dict.fromkeys(ends, 0)}
    waiting = sorted(ends, key=lambda each: ends[each] - start.get(each, 0))
    for number, each in enumerate(waiting):
        at = start.get(each, 0)
        taken = min(max(ends[each] - at, 0), left // (len(waiting) - number))
        found[each], left = at + taken, left - taken
    if left == rows and waiting:  # fewer than partitions: one message of the longest
        at = start.get(waiting[-1], 0)
        found[waiting[-1]] = min(at + 1, max(ends[waiting[-1]], at))
    return {each: found[each] for each in sorted(found, key=int)}
