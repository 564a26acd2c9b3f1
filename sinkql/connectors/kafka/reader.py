"""A topic → splits by ranges of offsets → Arrow rows of key, value and metadata.

Offsets: `topic_id`, the id of the topic, which one made anew has not, and `partitions`, the next offset of each. A
batch ends before what is in open transactions. Partitions that come later begin at their beginning.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sinkql import physical
from sinkql.connectors.kafka.admin import Admin, Topic, admin_of
from sinkql.connectors.kafka.client import Client
from sinkql.connectors.kafka.consume import Range, lost_end, lost_messages, lost_topic, messages
from sinkql.connectors.kafka.rows import Rows
from sinkql.extension.stream import (
    Context,
    Limit,
    Offsets,
    Reader,
    RowError,
    Split,
    Tally,
    invalid_row,
)

_SPLIT_ROWS = 1 << 18
_MOST_ERRORS = 20
_HINT = "Create the source WITH (ON ERROR = SKIP) to leave such messages out."


@dataclass(slots=True)
class _Seen:
    """What the driver knows of a topic, and since when; no part of a reader in a task."""

    topic: Topic | None = None
    at: float = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return _Seen, ()


@dataclass(frozen=True, slots=True)
class KafkaReader(Reader):
    """Read one topic."""

    source: str
    client: Client
    topic: str
    start: Mapping[str, int]
    rows: Rows
    skip_errors: bool
    refresh_s: float
    group: str
    _seen: _Seen = field(default_factory=_Seen, repr=False, compare=False)

    @classmethod
    def of(cls, read: physical.Read, context: Context) -> KafkaReader:
        """Return the reader of a planned source."""
        options = read.options
        assert read.connection is not None
        tuning = options["tuning"]
        return cls(
            read.name,
            Client.of(read.connection.name, read.connection.options, context.secret),
            options["topic"],
            options.get("start", {}),
            Rows.of(read, context),
            options["on_error"] == "skip",
            tuning["refresh_s"],
            f"{tuning['group']}sinkql",
        )

    # --- in the driver -----------------------------------------------------------------------------------------------

    @property
    def _admin(self) -> Admin:
        return admin_of(self.client)

    def initial(self, *, at_end: bool) -> Offsets:
        """Return where the source begins: the first messages that are kept, or later ones that it names."""
        topic = self._topic(fresh=True)
        if at_end:
            return _offsets(topic, self._admin.ends(self.topic, topic.partitions))
        begin = self._admin.beginnings(self.topic, topic.partitions)
        return _offsets(topic, {each: max(at, self.start.get(str(each), 0)) for each, at in begin.items()})

    def target(self, start: Offsets) -> Offsets:
        """Return where the partitions end now."""
        topic = self._topic(fresh=True)
        return _further(start, topic, self._admin.ends(self.topic, topic.partitions))

    def reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Tell whether a target is reached, of which newer partitions are no part, nor what was deleted since."""
        read = offsets["partitions"]
        return all(read.get(each, 0) >= to for each, to in target["partitions"].items())

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return as many messages as there are, by offsets, within the limit of rows, of all partitions alike."""
        ends: Mapping[str, int]
        if until is not None:
            ends = until["partitions"]
        else:
            topic = self._topic(fresh=False)
            if topic.id != start["topic_id"]:
                raise lost_topic(self.source, self.topic)
            ends = _further(start, topic, self._admin.ends(self.topic, topic.partitions))["partitions"]
        return {**start, "partitions": _within(start["partitions"], ends, max(limit.rows, 1))}

    def verify(self, offsets: Offsets) -> None:
        """Raise SQ3370 to SQ3372 where the topic is another one, or messages from there on are gone."""
        topic = self._topic(fresh=True)
        if topic.id != offsets["topic_id"]:
            raise lost_topic(self.source, self.topic)
        read = {int(each): at for each, at in offsets["partitions"].items()}
        if not set(read) <= set(topic.partitions):
            raise lost_topic(self.source, self.topic)
        begin, end = self._admin.beginnings(self.topic, read), self._admin.ends(self.topic, read)
        for each, at in read.items():
            if begin[each] > max(at, self.start.get(str(each), 0)):
                raise lost_messages(self.source, self.topic, each, at, begin[each])
            if end[each] < at and at > self.start.get(str(each), 0):
                raise lost_end(self.source, self.topic, each, at, end[each])

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return ranges of offsets of each partition, of a quarter of a million at most."""
        return [
            {"partition": int(each), "from": at, "to": min(at + _SPLIT_ROWS, to)}
            for each, to in end["partitions"].items()
            for at in range(start["partitions"].get(each, 0), to, _SPLIT_ROWS)
        ]

    def _topic(self, *, fresh: bool) -> Topic:
        seen = self._seen
        if fresh or seen.topic is None or time.monotonic() - seen.at > self.refresh_s:
            seen.topic, seen.at = self._admin.topic(self.topic), time.monotonic()
        if seen.topic is None:
            raise lost_topic(self.source, self.topic)
        return seen.topic

    # --- in a task ---------------------------------------------------------------------------------------------------

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range, less those that do not decode; raises SQ3101 for the first one unless skipping."""
        wanted = Range(self.source, self.topic, split["partition"], split["from"], split["to"], self.group)
        for found in messages(self.client, wanted):
            tally.rows += len(found)
            tally.bytes += sum(map(len, found))
            for batch, failures in self.rows.decoded(found):
                for place, why in failures:
                    self._failed(place, why, tally)
                yield batch

    def _failed(self, message: Any, why: str, tally: Tally) -> None:
        position = f"{self.topic}/{message.partition()}/{message.offset()}"
        raw = message.value() or message.key() or b""
        if not self.skip_errors:
            raise invalid_row(self.source, position, why, raw, hint=_HINT)
        tally.failed += 1
        if len(tally.errors) < _MOST_ERRORS:
            tally.errors.append(RowError(position, "SQ3101", why, raw[:1000]))


def _offsets(topic: Topic, places: Mapping[int, int]) -> Offsets:
    return {"topic_id": topic.id, "partitions": {str(each): places[each] for each in sorted(places)}}


def _further(start: Offsets, topic: Topic, ends: Mapping[int, int]) -> Offsets:
    """Return the ends of partitions, none before where it was read to; of one that is not there any more that place."""
    read = {int(each): at for each, at in start["partitions"].items()}
    places = {**read, **{each: max(end, read.get(each, 0)) for each, end in ends.items()}}
    return {**start, **_offsets(topic, places), "topic_id": start["topic_id"]}


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
