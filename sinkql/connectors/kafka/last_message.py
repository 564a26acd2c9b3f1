"""Identify the last message of each partition, to notice that brokers lost messages and wrote others since.

A fingerprint is the offset, the time and a digest of a message. The offsets of a batch contain the fingerprints of the
last messages before its end, under `last`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sinkql.connector_api.stream import Offsets
from sinkql.connectors.kafka.client import Client
from sinkql.connectors.kafka.consumer import Range, last_message
from sinkql.machine import clock

T = TypeVar("T")
_VERIFY_S = 10.0
_LAST = 32
"""How many offsets before an end are searched for the last message: the end of a transaction takes an offset, too."""
_AT_A_TIME = 8


@dataclass(slots=True)
class LastMessages:
    """The last messages of a topic's partitions, as the driver knows them; a pickled copy knows none.

    `_by_partition` has the last fingerprint of each partition and the offsets between which it was searched. The
    messages of `_verified` were read or compared in the last `_VERIFY_S` seconds.
    """

    client: Client
    source: str
    topic: str
    group: str
    _verified_at: float = float("-inf")
    _by_partition: dict[str, tuple[int, int, list[Any] | None]] = field(default_factory=dict)
    _verified: set[tuple[Any, ...]] = field(default_factory=set)

    def __reduce__(self) -> tuple[Any, ...]:
        return LastMessages, (self.client, self.source, self.topic, self.group)

    def is_outdated(self) -> bool:
        """Return whether the last messages have to be compared again."""
        return clock.monotonic() - self._verified_at > _VERIFY_S

    def before(self, start: Offsets, ends: Mapping[str, int]) -> dict[str, list[Any]]:
        """Return the fingerprints of the last messages before the ends of partitions, if the last offsets have one."""

        def search(partition: str, end: int) -> list[Any] | None:
            first = max(start["partitions"].get(partition, 0), end - _LAST)
            previous = self._by_partition.get(partition)
            if previous is not None and previous[:2] == (first, end):
                return previous[2]
            fingerprint = last_message(self.client, self._range(partition, first, end))
            self._by_partition[partition] = first, end, fingerprint
            self._verified.discard((partition, *start.get("last", {}).get(partition, ())))
            if fingerprint is not None:
                self._verified.add((partition, *fingerprint))
            return fingerprint

        fingerprints = _in_parallel(search, ends)
        return {partition: value for partition, value in fingerprints.items() if value is not None}

    def verify(self, offsets: Offsets, begin: Mapping[int, int], end: Mapping[int, int]) -> dict[int, int]:
        """Return what `changed` returns, for messages that were not compared recently."""
        if self.is_outdated():
            self._by_partition.clear()
            self._verified.clear()
            self._verified_at = clock.monotonic()
        last = offsets.get("last", {}).items()
        unverified = {partition: value for partition, value in last if (partition, *value) not in self._verified}
        changed = self.changed({**offsets, "last": unverified}, begin, end)
        if not changed:
            self._verified.update((partition, *value) for partition, value in unverified.items())
        return changed

    def changed(self, offsets: Offsets, begin: Mapping[int, int], end: Mapping[int, int]) -> dict[int, int]:
        """Return the partitions that have a different message at the last offset that was read, with that offset.

        A message outside of `begin` and `end` is not compared.
        """
        last = {partition: value for partition, value in offsets.get("last", {}).items() if int(partition) in begin}
        compared = {
            partition: value[0]
            for partition, value in last.items()
            if begin[int(partition)] <= value[0] < end[int(partition)]
        }

        def differs(partition: str, offset: int) -> bool:
            fingerprint = last_message(self.client, self._range(partition, offset, offset + 1))
            return fingerprint is not None and fingerprint != last[partition]

        results = _in_parallel(differs, compared)
        return {int(partition): compared[partition] for partition, is_changed in results.items() if is_changed}

    def _range(self, partition: str, begin: int, end: int) -> Range:
        return Range(self.source, self.topic, int(partition), begin, end, self.group)


def _in_parallel(call: Callable[[str, int], T], offsets: Mapping[str, int]) -> dict[str, T]:
    """Return the results of a call for each partition and its offset, several at a time."""
    if len(offsets) <= 1:
        return {partition: call(partition, offset) for partition, offset in offsets.items()}
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return dict(zip(offsets, pool.map(call, offsets, offsets.values()), strict=True))
