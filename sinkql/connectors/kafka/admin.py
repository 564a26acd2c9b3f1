"""Ask the brokers about topics: ids, partitions, their first and last offsets, and settings."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec

from sinkql import logical
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connectors.kafka.client import Client, ConnectionErrors, call_outside_handler, is_lost, mark_lost
from sinkql.errors import SinkqlError, nearest
from sinkql.machine import clock

T = TypeVar("T")
_PATIENCE_S = 15.0
_REQUEST_S = 3.0
"""The timeout of one request: a client keeps asking a stopped broker as long as it knows no other one."""
_STEP_S = 0.25
_NOT_CREATED = (
    "INVALID_REPLICATION_FACTOR", "INVALID_PARTITIONS", "INVALID_CONFIG", "INVALID_REQUEST", "POLICY_VIOLATION",
    "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "TOPIC_EXCEPTION",
)  # fmt: skip
_METADATA_S = 2.0
_RECONNECT_S = 2.5
"""How long a client may take to notice that brokers are back: longer than `reconnect.backoff.max.ms`."""
_TRANSIENT = ("_NOENT", "_TIMED_OUT", "_TRANSPORT")
_MOVED = (
    "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH",
    "REPLICA_NOT_AVAILABLE", "OFFSET_NOT_AVAILABLE",
)  # fmt: skip
"""Errors for a partition whose leader is another broker, is missing, or has only just been elected."""
_SETTINGS = {"socket.timeout.ms": 10_000, "socket.connection.setup.timeout.ms": 10_000}
"""A connection without an answer for this time is closed and opened again."""
_UNKNOWN = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")


class UnknownError(SinkqlError):
    """The brokers do not know a partition: it is not known to them yet, or was deleted."""


class _MovedError(Exception):
    """The client has outdated leaders of partitions; the arguments are the topic and the partitions."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its name, its id, which changes if the topic is recreated, and its partitions."""

    name: str
    id: str
    partitions: tuple[int, ...]


@dataclass(slots=True)
class Admin:
    """A client that asks the brokers of a connection about topics, safe to use from several threads."""

    client: Client
    errors: ConnectionErrors = field(default_factory=ConnectionErrors)
    _kafka: Any = None
    _created_at: float = field(default_factory=clock.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self._kafka = self._open(self.errors)

    def _open(self, errors: ConnectionErrors) -> Any:
        try:
            return AdminClient({**self.client.settings(), **_SETTINGS, "error_cb": errors})
        except KafkaException as error:
            raise self.client.unusable(error) from None

    def _replace(self, lost: Any) -> None:
        """Replace a client that got no answer: the brokers may answer another one.

        Threads that still wait for the old client keep it. The first of them that fails replaces it for all.
        """
        with self._lock:
            if self._kafka is lost:
                errors = ConnectionErrors(answered=self.errors.answered)
                self._kafka, self.errors = self._open(errors), errors
                self._created_at = clock.monotonic()

    def check(self) -> None:
        """Raise SQ427x if no broker answers, or if the brokers reject the user."""
        self._retry(lambda _: self._kafka.list_topics(timeout=_STEP_S))

    def topics(self) -> list[str]:
        """Return the names of the topics that the user may see, without Kafka's internal topics."""
        metadata = self._retry(lambda _: self._kafka.list_topics(timeout=_STEP_S))
        return sorted(name for name in metadata.topics if not name.startswith("__"))

    def topic(self, name: str) -> Topic | None:
        """Return a topic; None if it does not exist. The brokers learn of a new topic one after another."""
        began = clock.monotonic()
        while True:
            topic = self._describe(name)
            if topic is not None or name not in self.topics() or clock.monotonic() - began > _PATIENCE_S:
                return topic
            self._kafka.poll(_STEP_S)

    def _describe(self, name: str) -> Topic | None:
        """Return a topic; None if the broker that answers does not know it yet."""

        def ask(began: float) -> Topic | None:
            future = self._kafka.describe_topics(TopicCollection([name]), request_timeout=_REQUEST_S)[name]
            try:
                description = self._wait(future, began)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                return None
            return Topic(name, str(description.topic_id), tuple(sorted(part.id for part in description.partitions)))

        return self._retry(ask)

    def brokers(self) -> list[tuple[str, int]]:
        """Return the addresses that the brokers advertise."""
        metadata = self._retry(lambda _: self._kafka.list_topics(timeout=_STEP_S))
        return sorted(self.client.broker(broker.host, broker.port) for broker in metadata.brokers.values())

    def operations(self, topic: str) -> frozenset[str]:
        """Return the operations that the user may perform on a topic. Raise SQ427x."""

        def ask(began: float) -> frozenset[str]:
            described = self._kafka.describe_topics(
                TopicCollection([topic]), include_authorized_operations=True, request_timeout=_REQUEST_S
            )
            description = self._wait(described[topic], began)
            return frozenset(operation.name for operation in description.authorized_operations or ())

        return self._retry(ask)

    def config(self, topic: str) -> dict[str, str]:
        """Return a topic's settings; an empty dict if the user may not see them."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)

        def ask(began: float) -> dict[str, str]:
            (future,) = self._kafka.describe_configs([resource], request_timeout=_REQUEST_S).values()
            try:
                return {name: entry.value for name, entry in self._wait(future, began).items()}
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise
                return {}

        return self._retry(ask)

    def create(self, name: str, partitions: int, replication: int, config: Mapping[str, str]) -> Topic:
        """Create a topic and return it, or return the existing one; -1 means the default of the brokers.

        Raise SQ4284 if the brokers refuse to create it.
        """
        new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(config))

        def ask(began: float) -> None:
            try:
                self._wait(self._kafka.create_topics([new], request_timeout=_REQUEST_S)[name], began)
            except KafkaException as error:
                if error.args[0].name() in _NOT_CREATED:
                    raise self._creation_error(name, error.args[0].str()) from None
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

        self._retry(ask)
        began = clock.monotonic()
        while True:  # some brokers learn of it a little later
            topic = self.topic(name)
            if topic is not None:
                with suppress(UnknownError):
                    self.ends(name, topic.partitions)
                    return topic
            self._check_down(began)

    def _creation_error(self, name: str, reason: str) -> SinkqlError:
        return SinkqlError(
            "SQ4284",
            f'the brokers of connection "{self.client.connection}" did not create topic "{name}": {reason}',
            hint="Correct the options of the topic, or create the topic as a user with the privilege.",
        )

    def ends(self, topic: str, partitions: Iterable[int], *, committed: bool = True) -> dict[int, int]:
        """Return the end offsets of partitions: before open transactions if `committed`."""
        return self._offsets(topic, dict.fromkeys(partitions, OffsetSpec.latest()), committed=committed)

    def beginnings(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the first offsets that still exist."""
        return self._offsets(topic, dict.fromkeys(partitions, OffsetSpec.earliest()))

    def at_time(self, topic: str, partitions: Iterable[int], time_ms: int) -> dict[int, int]:
        """Return the first offsets whose messages are not older than a time; the end of a partition without one."""
        numbers = list(partitions)
        offsets = self._offsets(topic, dict.fromkeys(numbers, OffsetSpec.for_timestamp(time_ms)))
        ends = self.ends(topic, [number for number in numbers if offsets[number] < 0])
        return {**offsets, **ends}

    def is_compacted(self, topic: str) -> bool:
        """Return whether the topic keeps only the last message of each key; False if the user may not see it."""
        return "compact" in self.config(topic).get("cleanup.policy", "")

    def newest(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the latest message time of each partition, in milliseconds since 1970; -1 if it has no message."""
        answers = self._list_offsets(topic, dict.fromkeys(partitions, OffsetSpec.max_timestamp()))
        return {partition: answer.timestamp for partition, answer in answers.items()}

    def _offsets(self, topic: str, specs: Mapping[int, Any], *, committed: bool = True) -> dict[int, int]:
        answers = self._list_offsets(topic, specs, committed=committed)
        return {partition: answer.offset for partition, answer in answers.items()}

    def _list_offsets(self, topic: str, specs: Mapping[int, Any], *, committed: bool = True) -> dict[int, Any]:
        """Return the answers of the partitions' leaders."""
        if not specs:
            return {}
        wanted = {TopicPartition(topic, partition): spec for partition, spec in specs.items()}
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

        def ask(began: float) -> dict[int, Any]:
            futures = self._kafka.list_offsets(wanted, isolation_level=level, request_timeout=_REQUEST_S)
            answers, moved = {}, []
            for requested, future in futures.items():
                try:
                    answers[requested.partition] = self._wait(future, began)
                except KafkaException as error:
                    if error.args[0].name() not in (*_MOVED, *_TRANSIENT):
                        raise
                    moved.append(requested.partition)
            moved += [number for number, answer in answers.items() if answer.offset == OFFSET_INVALID]  # no leader
            if moved:
                raise _MovedError(topic, moved)
            return answers

        return self._retry(ask)

    def _wait(self, future: Future[T], began: float) -> T:
        """Wait for an answer while the brokers may be reachable. Raise KafkaException or SQ427x."""
        until = clock.monotonic() + _REQUEST_S + _STEP_S  # the client may wait longer than the request's timeout
        while True:
            try:
                return future.result(_STEP_S)
            except FutureTimeoutError:
                self._check_down(began)
            if clock.monotonic() > until:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _retry(self, ask: Callable[[float], T]) -> T:
        """Repeat a request until it is answered; `ask` takes the time of the first attempt. Raise SQ427x.

        A client that got no answer in all that time is replaced.
        """
        used = self._kafka
        if is_lost(self.client, self._created_at):
            self._replace(used)
            used = self._kafka
        try:
            return call_outside_handler(lambda: self._ask(ask))
        except UnknownError:
            raise
        except SinkqlError:
            mark_lost(self.client)
            self._replace(used)
            del used  # the error's traceback must not keep the client alive
            raise

    def _ask(self, ask: Callable[[float], T]) -> T:
        self._poll_all()
        began = clock.monotonic()
        while True:
            moved: tuple[Any, ...] = ()
            try:
                answer = ask(began)
            except KafkaException as error:
                failure = error.args[0]
            except _MovedError as error:
                moved = error.args
            else:
                self.errors.clear()
                return answer
            if not moved and failure.name() in _UNKNOWN:
                raise UnknownError("SQ4277", self.client.failure(failure, self.errors).message)
            if not moved and failure.name() not in (*_MOVED, *_TRANSIENT):
                raise self.client.failure(failure, self.errors)
            if not self._refresh_metadata():  # outside the exception handler: see `call_outside_handler`
                self._check_down(began)
            elif clock.monotonic() - began > _PATIENCE_S:
                raise self.client.leaderless(*moved) if moved else self.client.unreachable()

    def _refresh_metadata(self) -> bool:
        """Update the client's knowledge of the partitions' leaders; return whether a broker answers."""
        self._kafka.poll(0.1)
        self._poll_all()
        try:
            self._kafka.list_topics(timeout=_METADATA_S)
        except KafkaException:
            return False
        return True

    def _poll_all(self) -> None:
        """Run all callbacks that the client has ready."""
        while self._kafka.poll(0):
            pass

    def _check_down(self, began: float) -> None:
        """Raise SQ427x if all brokers are down or the time is over.

        The client reports once that the brokers are down, and never that they are back. So reports from before the
        request count only after a while.
        """
        self._kafka.poll(0.05)
        self._poll_all()
        waited = clock.monotonic() - began
        since = 0.0 if waited > _RECONNECT_S else began
        if self.errors.text_of("_ALL_BROKERS_DOWN", since=since) is not None:
            error = self.client.connection_error(self.errors)
            if error is not None:
                raise error
        if waited > _PATIENCE_S:
            raise self.client.connection_error(self.errors) or self.client.unreachable()


@lru_cache(maxsize=64)
def _admin(client: Client, process: int) -> Admin:
    return Admin(client)


def admin_of(client: Client) -> Admin:
    """Return the shared `Admin` of a connection in this process, which keeps its connections to the brokers."""
    return _admin(client, os.getpid())


def planned_admin(connection: logical.Connection, access: OutsideAccess) -> Admin:
    """Return the shared `Admin` of a connection in the catalog."""
    return admin_of(Client.planned(connection, access))


def missing_topic_error(client: Client, topic: str) -> SinkqlError:
    """Return the error for a topic that does not exist, with the most similar name as a hint."""
    near = None
    with suppress(SinkqlError):
        near = nearest(topic, admin_of(client).topics())
    return SinkqlError(
        "SQ4274",
        f'topic "{topic}" does not exist on the brokers of connection "{client.connection}"',
        hint=f"Did you mean '{near}'?" if near else "Check TOPIC, or create the topic.",
        option="TOPIC",
    )
