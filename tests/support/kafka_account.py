"""Describe a broker that a test waits for in vain: process, leaders, transactions, threads and log."""

from __future__ import annotations

import signal
import struct
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

_TRANSACTIONS = "__transaction_state"
_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")
_FAMILY = ("TxnMarker", "AddPartitionsToTxn", "quorum-controller", "ProducerId")
_PATIENCE_S = 10.0
_LINES = 60


def account(process: subprocess.Popen[bytes] | None, admin: Any, address: str, log: Path) -> str:
    """Describe a broker in any state, within half a minute."""
    lines = log.read_text(errors="replace").splitlines()[-_LINES:]
    if process is None or process.poll() is not None:
        return "\n".join(["no process", *lines])
    parts = [*_leaders(admin), *_transactions(address), *_threads(process, log)]
    return "\n".join([f"process {process.pid}", *parts, *lines])


def _leaders(admin: Any) -> list[str]:
    try:
        topics = admin.list_topics(timeout=_PATIENCE_S).topics
    except KafkaException as error:
        return [f"it does not answer: {error}"]
    places = [(name, each) for name, topic in topics.items() for each in topic.partitions.values()]
    return [f"{name}/{each.id} has no leader" for name, each in places if each.leader < 0]


def _transactions(address: str) -> list[str]:
    """Return the last states of transactional ids in their log."""
    settings = {"bootstrap.servers": address, "group.id": "account", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({**settings, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    found: dict[str, str] = {}
    until = time.monotonic() + _PATIENCE_S
    try:
        consumer.assign([TopicPartition(_TRANSACTIONS, 0, 0)])
        while time.monotonic() < until:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                if message.error().code() == KafkaError._PARTITION_EOF:
                    break
                return [f"{_TRANSACTIONS}: {message.error()}"]
            id_, state = _state(message)
            found.pop(id_, None)
            found[id_] = state
    finally:
        consumer.close()
    return [f"transaction {id_}: {state}" for id_, state in list(found.items())[-_LINES:]]


def _state(message: Any) -> tuple[str, str]:
    id_ = message.key()[4:].decode()
    if message.value() is None:
        return id_, "forgotten"
    _, producer, epoch, _, state = struct.unpack_from(">hqhib", message.value())
    at = time.strftime("%H:%M:%S", time.gmtime(message.timestamp()[1] / 1000))
    return id_, f"{_STATES[state]} at {at}, producer {producer}, epoch {epoch}"


def _threads(process: subprocess.Popen[bytes], log: Path) -> list[str]:
    """Return the stacks of threads that wait for a lock or end transactions."""
    begin = log.stat().st_size
    process.send_signal(signal.SIGQUIT)
    dump, until = "", time.monotonic() + _PATIENCE_S
    while "JNI global refs" not in dump and time.monotonic() < until:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
        with log.open(errors="replace") as file:
            file.seek(begin)
            dump = file.read()
    told = [block for block in dump.split("\n\n") if "BLOCKED" in block or block.lstrip('"').startswith(_FAMILY)]
    return [*told, *(["its threads wait for each other"] if "deadlock" in dump else [])]
