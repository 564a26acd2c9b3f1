"""What brokers say of a topic: its id, its partitions, where they begin and end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from sinkql.connectors.kafka.client import Client, Troubles
from sinkql.errors import SinkqlError

T = TypeVar("T")
_PATIENCE_S = 15.0
_STEP_S = 0.25
_TRANSIENT = ("_NOENT", "_TIMED_OUT", "_TRANSPORT", "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its id, which one made anew has not, and its partitions."""

    name: str
    id: str
    partitions: tuple[int, ...]


@dataclass(slots=True)
class Admin:
    """Ask the brokers of a connection; any number of threads may."""

    client: Client
    troubles: Troubles = field(default_factory=Troubles)
    _kafka: Any = None

    def __post_init__(self) -> None:
        try:
            self._kafka = AdminClient({**dict(self.client.settings), "error_cb": self.troubles})
        except KafkaException as error:
            raise self.client.unusable(error) from None

    def check(self) -> None:
        """Raise SQ427x where no broker answers, or not to this user."""
        self._patiently(lambda: self._kafka.list_topics(timeout=_STEP_S))

    def topics(self) -> list[str]:
        """Return the names of the topics that the user may see, but for Kafka's own."""
        found = self._patiently(lambda: self._kafka.list_topics(timeout=_STEP_S))
        return sorted(name for name in found.topics if not name.startswith("__"))

    def topic(self, name: str) -> Topic | None:
        """Return a topic; None where there is none of that name."""
        try:
            asked = self._kafka.describe_topics(TopicCollection([name]), request_timeout=_PATIENCE_S)[name]
            found = self._awaited(asked)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise self.client.failure(error.args[0], self.troubles) from None
        return Topic(name, str(found.topic_id), tuple(sorted(each.id for each in found.partitions)))

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return where partitions end: before what is in open transactions."""
        return self._offsets(topic, dict.fromkeys(partitions, OffsetSpec.latest()))

    def beginnings(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the first offsets that are kept."""
        return self._offsets(topic, dict.fromkeys(partitions, OffsetSpec.earliest()))

    def at_time(self, topic: str, partitions: Iterable[int], time_ms: int) -> dict[int, int]:
        """Return the first offsets of messages that are not older; the ends where there are none."""
        asked = list(partitions)
        found = self._offsets(topic, dict.fromkeys(asked, OffsetSpec.for_timestamp(time_ms)))
        ends = self.ends(topic, [each for each in asked if found[each] < 0])
        return {**found, **ends}

    def _offsets(self, topic: str, asked: Mapping[int, Any]) -> dict[int, int]:
        if not asked:
            return {}
        specs = {TopicPartition(topic, partition): spec for partition, spec in asked.items()}

        def ask() -> dict[int, int]:
            futures = self._kafka.list_offsets(
                specs, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_PATIENCE_S
            )
            return {place.partition: self._awaited(future).offset for place, future in futures.items()}

        return self._patiently(ask)

    def _awaited(self, future: Future[T]) -> T:
        """Wait for an answer, as long as the brokers may be there; raises KafkaException, and SQ427x."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return future.result(_STEP_S)
            except FutureTimeoutError:
                self._check_down(until)

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask again while there is no answer; raises SQ427x."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                found = ask()
                self.troubles.last.clear()
                return found
            except KafkaException as error:
                if error.args[0].name() not in _TRANSIENT:
                    raise self.client.failure(error.args[0], self.troubles) from None
                self._check_down(until)

    def _check_down(self, until: float) -> None:
        """Raise SQ427x where all brokers are known to be down, or the time is over."""
        while self._kafka.poll(0.05):
            pass
        if self.troubles.of("_ALL_BROKERS_DOWN") is not None:
            found = self.client.trouble(self.troubles)
            if found is not None:
                raise found
        if time.monotonic() > until:
            raise self.client.trouble(self.troubles) or self.client.unreachable()


@lru_cache(maxsize=64)
def _shared(client: Client, process: int) -> Admin:
    return Admin(client)


def admin_of(client: Client) -> Admin:
    """Return the one of a connection in this process: it keeps its connections to the brokers."""
    return _shared(client, os.getpid())


def gone(client: Client, topic: str) -> SinkqlError:
    """Return the error for a topic that is not there."""
    return SinkqlError(
        "SQ4274",
        f'topic "{topic}" does not exist on the brokers of connection {client.connection}',
        hint="Check TOPIC, or create the topic.",
        option="TOPIC",
    )
