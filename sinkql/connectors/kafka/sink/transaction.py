"""Messages that were put by, and the sink's progress → the broker, in one transaction.

A producer has the sink's transactional id. The one that begins last fences all others of the id, and ends what they
left open.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaException, Producer

from sinkql.connectors.kafka.client import Client, Troubles, apart, lose
from sinkql.errors import SinkqlError
from sinkql.storage import failpoint

_PATIENCE_S = 60.0
"""How long nothing may come through while no broker is there."""
PATIENCE_S = 180.0
"""The same while there are brokers.

Where a partition's leader dies just after a commit, they have been seen to write the mark of that commit a minute
later, and they begin no other transaction of the sink before: that is no reason to say that nobody answers.
"""
REFRESH_MS = 300_000
"""How often partitions are looked for that a topic has got since, unless the sink says so."""
_TIMEOUT_MS = 600_000
_STEP_S = 10.0
_ABORT_S = 5.0
_CONNECT_S = 1.0
_FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING")
_REFUSED = (
    "TOPIC_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
)  # fmt: skip
_SETTINGS = {
    "transaction.timeout.ms": _TIMEOUT_MS,
    "socket.timeout.ms": 20_000,  # a connection that has answered nothing for so long is closed and opened again
    "socket.connection.setup.timeout.ms": 10_000,
    "linger.ms": 5,
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 65_536,
    "message.max.bytes": 1_000_000_000,  # the broker says what is too large
    "partitioner": "murmur2_random",  # as Kafka's own
    "topic.metadata.propagation.max.ms": 5_000,  # the topics were there at the beginning
    "delivery.report.only.error": True,
}


_LOGGER = logging.getLogger(f"{__name__}.client")
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False  # a producer that is fenced says so to the standard error


class ProducerFencedError(Exception):
    """The producer may not write any more: another one has its id, or its transaction was open for too long."""


class UnknownOutcomeError(Exception):
    """Nobody knows whether the transaction was committed; the next producer of the id finds out."""

    def __init__(self, cause: SinkqlError) -> None:
        super().__init__()
        self.cause = cause


@dataclass(slots=True)
class Transactions:
    """Send transactions, one after the other; after an error there are no more."""

    client: Client
    id: str
    compression: str = "none"
    batch_bytes: int = 1_000_000
    refresh_ms: int = REFRESH_MS
    troubles: Troubles = field(default_factory=Troubles)
    made_at: float = field(default_factory=time.monotonic)
    _kafka: Any = None
    _topic: str = ""
    _failed: list[Any] = field(default_factory=list)

    def begin(self, topic: str) -> None:
        """Fence other producers of the id, and end their transactions; raises SinkqlError.

        Any topic of the brokers will do: a client without connections waits half a second before it asks for an id.
        """
        settings = {
            **self.client.settings(),
            **_SETTINGS,
            "transactional.id": self.id,
            "compression.type": self.compression,
            "batch.size": self.batch_bytes,
            "topic.metadata.refresh.interval.ms": self.refresh_ms,
            "error_cb": self.troubles,
            "on_delivery": self._delivered,
            "logger": _LOGGER,
        }
        try:
            self._kafka = Producer(settings)
        except KafkaException as error:
            raise self.client.unusable(error) from None
        with suppress(KafkaException):
            self._kafka.list_topics(topic, timeout=_CONNECT_S)
        self._until_done(self._kafka.init_transactions)

    def send(self, topic: str, paths: Iterable[Path], progress: tuple[str, bytes, bytes]) -> None:
        """Commit the messages of files, and a record of progress: its topic, key and value.

        Raises OustedError, UndecidedError, and SinkqlError where nothing is committed.
        """
        self._failed.clear()
        self._topic = topic
        try:
            self._kafka.begin_transaction()
            for path in paths:
                self._produce(topic, path)
            self._deliver()
            failpoint.point("messages")
            name, key, value = progress
            self._kafka.produce(name, value, key, partition=0)
            failpoint.point("commit-request")
        except KafkaException as error:
            raise self._wrong(error.args[0]) from None
        try:
            self._until_done(self._kafka.commit_transaction)
        except SinkqlError as error:
            if self._failed:
                raise self._undelivered() from None
            if error.retryable:
                raise UnknownOutcomeError(error) from None
            raise
        failpoint.point("commit-reply")

    def close(self) -> None:
        """Abort what is not committed; the next producer of the id does that where this one cannot."""
        kafka, self._kafka = self._kafka, None
        if kafka is None:
            return
        with suppress(KafkaException):
            apart(lambda: _abort(kafka))

    def over(self, since: float) -> bool:
        """Tell whether nothing has come through for too long."""
        alone = self.troubles.of("_ALL_BROKERS_DOWN", since=since) is not None
        return time.monotonic() - since > (_PATIENCE_S if alone else PATIENCE_S)

    def _produce(self, topic: str, path: Path) -> None:
        produce, poll = self._kafka.produce, self._kafka.poll
        for keys, values, others in _messages(path):
            for key, value, more in zip(keys, values, others, strict=True):
                while True:
                    try:
                        produce(topic, value, key, **more)
                        break
                    except BufferError:  # the queue is full
                        poll(0.1)
                        if self._failed:
                            raise self._undelivered() from None
            poll(0)
            if self._failed:
                raise self._undelivered()

    def _deliver(self) -> None:
        """Wait until the brokers have all messages; raises what is wrong once nothing comes through for long."""
        left, moved_at = len(self._kafka), time.monotonic()
        while left:
            self._kafka.poll(0.1)
            if self._failed:
                raise self._undelivered()
            if self.over(moved_at):
                lose(self.client)
                raise self._undelivered()
            if (now := len(self._kafka)) != left:
                left, moved_at = now, time.monotonic()

    def _until_done(self, step: Callable[[float], None]) -> None:
        """Try a step again while that may help."""
        began = time.monotonic()
        while True:
            try:
                apart(lambda: step(_STEP_S))
                return
            except KafkaException as error:
                told = error.args[0]
            if not told.retriable():
                raise self._wrong(told)
            if self.over(began):
                lose(self.client)
                raise self._wrong(told)
            self._kafka.poll(0.1)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and len(self._failed) < 100:
            self._failed.append(error)

    def _undelivered(self) -> Exception:
        """Return why messages were not delivered."""
        own = next((each for each in self._failed if not each.name().startswith("_PURGE")), None)
        if own is None and self._failed:
            own = self._reason()
        if own is None or own.name() == "_TIMED_OUT":
            return self.client.trouble(self.troubles) or self.client.unreachable()
        return self._meaning(own)

    def _wrong(self, told: Any) -> Exception:
        if self._failed and told.txn_requires_abort():
            return self._undelivered()
        return self._meaning(self._reason() or told if told.name() == "_STATE" else told)

    def _reason(self) -> Any:
        """Return what went wrong with a transaction that lacks messages, by an attempt at its commit, which fails."""
        try:
            apart(lambda: self._kafka.commit_transaction(1.0))
        except KafkaException as error:
            return error.args[0]
        return None

    def _meaning(self, error: Any) -> Exception:
        name = error.name()
        if name in _FENCED:
            return ProducerFencedError(error.str())
        if name in _REFUSED:
            return SinkqlError(
                "SQ4281",
                f'Kafka does not let the user of connection "{self.client.connection}" write: {error.str()}',
                hint=f"Grant the user WRITE on the topics, and WRITE and DESCRIBE on the transactional id {self.id}.",
            )
        if name in ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"):
            return SinkqlError(
                "SQ4282",
                f'a message is larger than topic "{self._topic}" takes',
                hint="Give the topic a greater max.message.bytes, or leave out columns in a materialized view.",
            )
        if name == "INVALID_TRANSACTION_TIMEOUT":
            return SinkqlError(
                "SQ4286",
                f'the brokers of connection "{self.client.connection}" do not allow transactions of '
                f"{_TIMEOUT_MS // 60_000} minutes",
                hint=f"Set transaction.max.timeout.ms = {_TIMEOUT_MS} or more on the brokers.",
            )
        if name in ("_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION", "UNKNOWN_TOPIC_OR_PART"):
            return SinkqlError(
                "SQ4283",
                "the topic was deleted while the sink wrote to it",
                hint="The sink looks again by itself whether the topic is there.",
            )
        if name == "_FATAL" or error.fatal():
            return ProducerFencedError(error.str())
        return self.client.failure(error, self.troubles)


def _abort(kafka: Any) -> None:
    kafka.purge()
    kafka.abort_transaction(_ABORT_S)


def _messages(path: Path) -> Iterable[tuple[list[bytes | None], list[bytes | None], list[dict[str, Any]]]]:
    """Yield keys, values, and what else messages have."""
    with pa.memory_map(str(path)) as file:
        reader = pa.ipc.open_file(file)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            others: list[dict[str, Any]] = [{}] * len(keys)
            if "headers" in batch.schema.names:
                listed = batch.column("headers").to_pylist()
                others = [
                    {"headers": [(header["key"], header["value"]) for header in each]} if each is not None else {}
                    for each in listed
                ]
            if "partition" in batch.schema.names:
                places = batch.column("partition").to_pylist()
                others = [{**more, "partition": place} for more, place in zip(others, places, strict=True)]
            yield keys, values, others
