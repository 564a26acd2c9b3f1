"""What brokers say of a topic: its id, its partitions, where they begin and end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec

from sinkql.connectors.kafka.client import Client, Troubles, apart, is_lost, lose
from sinkql.errors import SinkqlError, nearest

T = TypeVar("T")
_PATIENCE_S = 15.0
_REQUEST_S = 3.0
"""How long one broker has: a client asks one that is gone as long as it knows of no other."""
_STEP_S = 0.25
_NOT_MADE = (
    "INVALID_REPLICATION_FACTOR", "INVALID_PARTITIONS", "INVALID_CONFIG", "INVALID_REQUEST", "POLICY_VIOLATION",
    "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "TOPIC_EXCEPTION",
)  # fmt: skip
_LOOK_S = 2.0
_RECONNECT_S = 2.5
"""How long a client may take to find out that brokers are back: longer than `reconnect.backoff.max.ms`."""
_TRANSIENT = ("_NOENT", "_TIMED_OUT", "_TRANSPORT")
_MOVED = (
    "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH",
    "REPLICA_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE",
)  # fmt: skip
"""What is answered where another broker leads a partition, or none, or one that has only begun to."""
_SETTINGS = {"socket.timeout.ms": 10_000, "socket.connection.setup.timeout.ms": 10_000}
"""A connection that has answered nothing for so long is closed and opened again."""
_UNKNOWN = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")


class UnknownError(SinkqlError):
    """Say that brokers do not know a partition, at least not yet, or not any more."""


class _MovedError(Exception):
    """Say that partitions are not where the client knows them: the topic, and their numbers."""


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
    _made_at: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._kafka = self._opened(self.troubles)

    def _opened(self, troubles: Troubles) -> Any:
        try:
            return AdminClient({**self.client.settings(), **_SETTINGS, "error_cb": troubles})
        except KafkaException as error:
            raise self.client.unusable(error) from None

    def _replace(self, lost: Any) -> None:
        """Replace a client that got no answer: the brokers may be there for any other one.

        Threads that still wait for the old client keep it; the first of them that fails replaces it for all.
        """
        with self._lock:
            if self._kafka is lost:
                troubles = Troubles(answered=self.troubles.answered)
                self._kafka, self.troubles = self._opened(troubles), troubles
                self._made_at = time.monotonic()

    def check(self) -> None:
        """Raise SQ427x where no broker answers, or not to this user."""
        self._patiently(lambda _: self._kafka.list_topics(timeout=_STEP_S))

    def topics(self) -> list[str]:
        """Return the names of the topics that the user may see, but for Kafka's own."""
        found = self._patiently(lambda _: self._kafka.list_topics(timeout=_STEP_S))
        return sorted(name for name in found.topics if not name.startswith("__"))

    def topic(self, name: str) -> Topic | None:
        """Return a topic; None where there is none of that name: all brokers hear of a new one, one after the other."""
        began = time.monotonic()
        while True:
            found = self._described(name)
            if found is not None or name not in self.topics() or time.monotonic() - began > _PATIENCE_S:
                return found
            self._kafka.poll(_STEP_S)

    def _described(self, name: str) -> Topic | None:
        """Return a topic; None where the broker that is asked has heard of none."""

        def ask(began: float) -> Topic | None:
            asked = self._kafka.describe_topics(TopicCollection([name]), request_timeout=_REQUEST_S)[name]
            try:
                found = self._awaited(asked, began)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                return None
            return Topic(name, str(found.topic_id), tuple(sorted(each.id for each in found.partitions)))

        return self._patiently(ask)

    def brokers(self) -> list[tuple[str, int]]:
        """Return where the brokers say that each of them is."""
        found = self._patiently(lambda _: self._kafka.list_topics(timeout=_STEP_S))
        return sorted(self.client.broker(each.host, each.port) for each in found.brokers.values())

    def operations(self, topic: str) -> frozenset[str]:
        """Return what the user may do with a topic; raises SQ427x."""

        def ask(began: float) -> frozenset[str]:
            described = self._kafka.describe_topics(
                TopicCollection([topic]), include_authorized_operations=True, request_timeout=_REQUEST_S
            )
            found = self._awaited(described[topic], began)
            return frozenset(each.name for each in found.authorized_operations or ())

        return self._patiently(ask)

    def config(self, topic: str) -> dict[str, str]:
        """Return a topic's settings; none where the user may not see them."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)

        def ask(began: float) -> dict[str, str]:
            (future,) = self._kafka.describe_configs([resource], request_timeout=_REQUEST_S).values()
            try:
                return {name: entry.value for name, entry in self._awaited(future, began).items()}
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise
                return {}

        return self._patiently(ask)

    def create(self, name: str, partitions: int, replication: int, config: Mapping[str, str]) -> Topic:
        """Return a new topic, or the one that somebody has made before; -1 for what the brokers have.

        Raises SQ4284 where they refuse to.
        """
        new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(config))

        def ask(began: float) -> None:
            try:
                self._awaited(self._kafka.create_topics([new], request_timeout=_REQUEST_S)[name], began)
            except KafkaException as error:
                if error.args[0].name() in _NOT_MADE:
                    raise self._not_made(name, error.args[0].str()) from None
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

        self._patiently(ask)
        began = time.monotonic()
        while True:  # all brokers know of it a little later
            found = self.topic(name)
            if found is not None:
                with suppress(UnknownError):
                    self.ends(name, found.partitions)
                    return found
            self._check_down(began)

    def _not_made(self, name: str, told: str) -> SinkqlError:
        return SinkqlError(
            "SQ4284",
            f'the brokers of connection "{self.client.connection}" do not make topic "{name}": {told}',
            hint="Correct the options of the topic, or let somebody make it who may.",
        )

    def ends(self, topic: str, partitions: Iterable[int], *, committed: bool = True) -> dict[int, int]:
        """Return where partitions end: before what is in open transactions, unless that is asked for, too."""
        return self._offsets(topic, dict.fromkeys(partitions, OffsetSpec.latest()), committed=committed)

    def beginnings(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the first offsets that are kept."""
        return self._offsets(topic, dict.fromkeys(partitions, OffsetSpec.earliest()))

    def at_time(self, topic: str, partitions: Iterable[int], time_ms: int) -> dict[int, int]:
        """Return the first offsets of messages that are not older; the ends where there are none."""
        asked = list(partitions)
        found = self._offsets(topic, dict.fromkeys(asked, OffsetSpec.for_timestamp(time_ms)))
        ends = self.ends(topic, [each for each in asked if found[each] < 0])
        return {**found, **ends}

    def compacted(self, topic: str) -> bool:
        """Tell whether messages go that are not the last of their key; no where the user may not ask."""
        return "compact" in self.config(topic).get("cleanup.policy", "")

    def newest(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the greatest time of a message of each partition, in milliseconds since 1970; -1 without any."""
        found = self._listed(topic, dict.fromkeys(partitions, OffsetSpec.max_timestamp()))
        return {partition: each.timestamp for partition, each in found.items()}

    def _offsets(self, topic: str, asked: Mapping[int, Any], *, committed: bool = True) -> dict[int, int]:
        found = self._listed(topic, asked, committed=committed)
        return {partition: each.offset for partition, each in found.items()}

    def _listed(self, topic: str, asked: Mapping[int, Any], *, committed: bool = True) -> dict[int, Any]:
        """Return what the leaders of partitions answer."""
        if not asked:
            return {}
        specs = {TopicPartition(topic, partition): spec for partition, spec in asked.items()}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

        def ask(began: float) -> dict[int, Any]:
            futures = self._kafka.list_offsets(specs, isolation_level=level, request_timeout=_REQUEST_S)
            found, moved = {}, []
            for place, future in futures.items():
                try:
                    found[place.partition] = self._awaited(future, began)
                except KafkaException as error:
                    if error.args[0].name() not in (*_MOVED, *_TRANSIENT):
                        raise
                    moved.append(place.partition)
            moved += [each for each, answer in found.items() if answer.offset == OFFSET_INVALID]  # there was none
            if moved:
                raise _MovedError(topic, moved)
            return found

        return self._patiently(ask)

    def _awaited(self, future: Future[T], began: float) -> T:
        """Wait for an answer, as long as the brokers may be there; raises KafkaException, and SQ427x."""
        until = time.monotonic() + _REQUEST_S + _STEP_S  # the client may wait longer than it is told to
        while True:
            try:
                return future.result(_STEP_S)
            except FutureTimeoutError:
                self._check_down(began)
            if time.monotonic() > until:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _patiently(self, ask: Callable[[float], T]) -> T:
        """Ask again while there is no answer; `ask` takes when that began. Raises SQ427x.

        A client that got nothing in all that time is replaced.
        """
        used = self._kafka
        if is_lost(self.client, self._made_at):
            self._replace(used)
            used = self._kafka
        try:
            return apart(lambda: self._asked(ask))
        except UnknownError:
            raise
        except SinkqlError:
            lose(self.client)
            self._replace(used)
            del used  # whoever keeps the error does not keep the client
            raise

    def _asked(self, ask: Callable[[float], T]) -> T:
        self._listen()
        began = time.monotonic()
        while True:
            moved: tuple[Any, ...] = ()
            try:
                found = ask(began)
            except KafkaException as error:
                told = error.args[0]
            except _MovedError as error:
                moved = error.args
            else:
                self.troubles.clear()
                return found
            if not moved and told.name() in _UNKNOWN:
                raise UnknownError("SQ4277", self.client.failure(told, self.troubles).message)
            if not moved and told.name() not in (*_MOVED, *_TRANSIENT):
                raise self.client.failure(told, self.troubles)
            if not self._look_again():  # outside of what handles the error: see `apart`
                self._check_down(began)
            elif time.monotonic() - began > _PATIENCE_S:
                raise self.client.leaderless(*moved) if moved else self.client.unreachable()

    def _look_again(self) -> bool:
        """Have the client learn who leads the partitions; return whether a broker answers."""
        self._kafka.poll(0.1)
        self._listen()
        try:
            self._kafka.list_topics(timeout=_LOOK_S)
        except KafkaException:
            return False
        return True

    def _listen(self) -> None:
        """Take what the client has to tell."""
        while self._kafka.poll(0):
            pass

    def _check_down(self, began: float) -> None:
        """Raise SQ427x where all brokers are known to be down, or the time is over.

        The client tells once that they are down, and not that they are back: what it told before counts after a while.
        """
        self._kafka.poll(0.05)
        self._listen()
        waited = time.monotonic() - began
        since = 0.0 if waited > _RECONNECT_S else began
        if self.troubles.of("_ALL_BROKERS_DOWN", since=since) is not None:
            found = self.client.trouble(self.troubles)
            if found is not None:
                raise found
        if waited > _PATIENCE_S:
            raise self.client.trouble(self.troubles) or self.client.unreachable()


@lru_cache(maxsize=64)
def _shared(client: Client, process: int) -> Admin:
    return Admin(client)


def admin_of(client: Client) -> Admin:
    """Return the one of a connection in this process: it keeps its connections to the brokers."""
    return _shared(client, os.getpid())


def gone(client: Client, topic: str) -> SinkqlError:
    """Return the error for a topic that is not there, which may be misspelt."""
    near = None
    with suppress(SinkqlError):
        near = nearest(topic, admin_of(client).topics())
    return SinkqlError(
        "SQ4274",
        f'topic "{topic}" does not exist on the brokers of connection "{client.connection}"',
        hint=f"Did you mean '{near}'?" if near else "Check TOPIC, or create the topic.",
        option="TOPIC",
    )
