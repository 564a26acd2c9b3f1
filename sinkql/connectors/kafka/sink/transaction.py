"""Send files of messages and the sink's progress to the brokers in one transaction.

A producer has the sink's transactional id. The producer that begins last fences all earlier ones of the id, and aborts
their open transactions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaException, Producer

from sinkql.connectors.kafka.client import Client, ConnectionErrors, call_outside_handler, mark_lost
from sinkql.errors import SinkqlError
from sinkql.machine import clock
from sinkql.storage import failpoint

_PATIENCE_S = 60.0
"""How long a step may make no progress while all brokers are down."""
PATIENCE_S = 180.0
"""How long a step may make no progress while brokers are up.

If a partition's leader dies just after a commit, brokers may write the end of that commit only a minute later. They
begin no other transaction of the sink before, although they answer.
"""
REFRESH_MS = 300_000
"""The default interval for finding new partitions."""
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
    "socket.timeout.ms": 20_000,  # a connection without an answer for this time is closed and opened again
    "socket.connection.setup.timeout.ms": 10_000,
    "linger.ms": 5,
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 65_536,
    "message.max.bytes": 1_000_000_000,  # the brokers check the size
    "partitioner": "murmur2_random",  # as Kafka's own clients
    "topic.metadata.propagation.max.ms": 5_000,  # the topics existed when the writer was opened
    "delivery.report.only.error": True,
}


_LOGGER = logging.getLogger(f"{__name__}.client")
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False  # a fenced producer would print to the standard error


class ProducerFencedError(Exception):
    """The producer may no longer write: another one has its id, or its transaction was open for too long."""


class UnknownOutcomeError(Exception):
    """It is unknown whether the transaction was committed; the next producer of the id finds out."""

    def __init__(self, cause: SinkqlError) -> None:
        super().__init__()
        self.cause = cause


@dataclass(slots=True)
class Transactions:
    """A producer that sends one transaction after another; it cannot be used after an error."""

    client: Client
    id: str
    compression: str = "none"
    batch_bytes: int = 1_000_000
    refresh_ms: int = REFRESH_MS
    errors: ConnectionErrors = field(default_factory=ConnectionErrors)
    created_at: float = field(default_factory=clock.monotonic)
    _kafka: Any = None
    _topic: str = ""
    _failed: list[Any] = field(default_factory=list)

    def begin(self, topic: str) -> None:
        """Fence other producers of the id and abort their transactions. Raise SinkqlError.

        `topic` may be any topic: a request for it opens a connection first. A client without connections waits half a
        second before it asks for an id.
        """
        settings = {
            **self.client.settings(),
            **_SETTINGS,
            "transactional.id": self.id,
            "compression.type": self.compression,
            "batch.size": self.batch_bytes,
            "topic.metadata.refresh.interval.ms": self.refresh_ms,
            "error_cb": self.errors,
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
        """Commit the messages of files and a progress record, given as topic, key and value.

        Raise ProducerFencedError, UnknownOutcomeError, or a SinkqlError if nothing was committed.
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
            raise self._step_error(error.args[0]) from None
        try:
            self._until_done(self._kafka.commit_transaction)
        except SinkqlError as error:
            if self._failed:
                raise self._delivery_error() from None
            if error.retryable:
                raise UnknownOutcomeError(error) from None
            raise
        failpoint.point("commit-reply")

    def close(self) -> None:
        """Abort the open transaction; if that fails, the next producer of the id aborts it."""
        kafka, self._kafka = self._kafka, None
        if kafka is None:
            return
        with suppress(KafkaException):
            call_outside_handler(lambda: _abort(kafka))

    def is_over(self, since: float) -> bool:
        """Return whether a step has made no progress for too long."""
        alone = self.errors.text_of("_ALL_BROKERS_DOWN", since=since) is not None
        return clock.monotonic() - since > (_PATIENCE_S if alone else PATIENCE_S)

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
                            raise self._delivery_error() from None
            poll(0)
            if self._failed:
                raise self._delivery_error()

    def _deliver(self) -> None:
        """Wait until the brokers have all messages. Raise if delivery fails or makes no progress for too long."""
        left, moved_at = len(self._kafka), clock.monotonic()
        while left:
            self._kafka.poll(0.1)
            if self._failed:
                raise self._delivery_error()
            if self.is_over(moved_at):
                mark_lost(self.client)
                raise self._delivery_error()
            if (now := len(self._kafka)) != left:
                left, moved_at = now, clock.monotonic()

    def _until_done(self, step: Callable[[float], None]) -> None:
        """Repeat a step while its errors are retriable. Raise if it makes no progress for too long."""
        began = clock.monotonic()
        while True:
            try:
                call_outside_handler(lambda: step(_STEP_S))
                return
            except KafkaException as error:
                failure = error.args[0]
            if not failure.retriable():
                raise self._step_error(failure)
            if self.is_over(began):
                mark_lost(self.client)
                raise self._step_error(failure)
            self._kafka.poll(0.1)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and len(self._failed) < 100:
            self._failed.append(error)

    def _delivery_error(self) -> Exception:
        """Return the error for messages that were not delivered."""
        error = next((delivery for delivery in self._failed if not delivery.name().startswith("_PURGE")), None)
        if error is None and self._failed:
            error = self._reason()
        if error is None or error.name() == "_TIMED_OUT":
            return self.client.connection_error(self.errors) or self.client.unreachable()
        return self._coded_error(error)

    def _step_error(self, error: Any) -> Exception:
        if self._failed and error.txn_requires_abort():
            return self._delivery_error()
        return self._coded_error(self._reason() or error if error.name() == "_STATE" else error)

    def _reason(self) -> Any:
        """Return the error of a transaction with missing messages: a commit fails with it."""
        try:
            call_outside_handler(lambda: self._kafka.commit_transaction(1.0))
        except KafkaException as error:
            return error.args[0]
        return None

    def _coded_error(self, error: Any) -> Exception:
        name = error.name()
        if name in _FENCED:
            return ProducerFencedError(error.str())
        if name in _REFUSED:
            return SinkqlError(
                "SQ4281",
                f'Kafka denied write access to the user of connection "{self.client.connection}": {error.str()}',
                hint=f"Grant the user WRITE on the topics, and WRITE and DESCRIBE on the transactional id {self.id}.",
            )
        if name in ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"):
            return SinkqlError(
                "SQ4282",
                f'a message is larger than topic "{self._topic}" allows',
                hint="Increase max.message.bytes of the topic, or leave out columns with a materialized view.",
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
                hint="The sink checks whether the topic exists, and retries.",
            )
        if name == "_FATAL" or error.fatal():
            return ProducerFencedError(error.str())
        return self.client.failure(error, self.errors)


def _abort(kafka: Any) -> None:
    kafka.purge()
    kafka.abort_transaction(_ABORT_S)


def _messages(path: Path) -> Iterable[tuple[list[bytes | None], list[bytes | None], list[dict[str, Any]]]]:
    """Yield the keys, the values and the keyword arguments of a file's messages, by batch."""
    with pa.memory_map(str(path)) as file:
        reader = pa.ipc.open_file(file)
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
            arguments: list[dict[str, Any]] = [{}] * len(keys)
            if "headers" in batch.schema.names:
                listed = batch.column("headers").to_pylist()
                arguments = [
                    {"headers": [(header["key"], header["value"]) for header in headers]} if headers is not None else {}
                    for headers in listed
                ]
            if "partition" in batch.schema.names:
                partitions = batch.column("partition").to_pylist()
                arguments = [
                    {**fields, "partition": partition} for fields, partition in zip(arguments, partitions, strict=True)
                ]
            yield keys, values, arguments
