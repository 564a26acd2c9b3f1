"""Random messages, transactions, kills and restarts by seed: a table is its topic up to the committed offsets."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka.child import FAULT, RETRY, WRONG
from kafka.pipeline import Pipeline
from support.kafka import Kafka
from support.patience import PATIENCE_S, Deadline

pytestmark = [pytest.mark.server, pytest.mark.long]

_POINTS = (
    "claim", "read-marker", "data-file", "data-files", "index-run", "index-manifest", "commit-request", "commit-reply",
    "committed", "released", "status",
)  # fmt: skip
_SINKS = ("log", "now")
_KEYS = 12


@dataclass
class Runner:
    """Run sinks in processes that may die."""

    folder: Path
    process: subprocess.Popen[str]
    epoch: int = 1

    def begin(self, relation: str, faults: str, rows: int) -> None:
        self.epoch += 1
        sink = f"materialize.public.{relation}_sink"
        order = {"folder": str(self.folder), "sink": sink, "faults": faults, "rows": rows, "epoch": self.epoch}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Return how the process ended; fails for what neither a fault nor a broker that is away explains."""
        assert self.process.stdout is not None
        code = int(self.process.stdout.readline())
        problem = self.folder / "problem"
        assert code in (0, RETRY, FAULT, -signal.SIGKILL), problem.read_text() if problem.exists() else code
        assert code != WRONG
        return code

    def run(self, relation: str, faults: str = "", rows: int = 5_000_000) -> int:
        self.begin(relation, faults, rows)
        return self.end()


@dataclass
class Workload:
    """What a seed does to one topic of three partitions, where a key stays in its partition."""

    broker: Kafka
    topic: str
    rng: random.Random
    count: int = 0
    transactions: dict[str, Any] = field(default_factory=dict)

    def produce(self) -> None:
        """Send some messages: values, tombstones, what does not decode; in a transaction, or in none."""
        name = self.rng.choice(["", "", "a", "b"])
        producer = self._producer(name)
        for _ in range(self.rng.randint(1, 40)):
            key = f"k{self.rng.randrange(_KEYS)}"
            self.count += 1
            value: str | None = f'{{"n": {self.count}}}'
            if self.rng.random() < 0.15:
                value = None
            elif self.rng.random() < 0.05:
                value = "{broken"
            producer.produce(self.topic, value, key=key, partition=crc32(key.encode()) % 3)
        assert producer.flush(PATIENCE_S) == 0
        if name and self.rng.random() < 0.7:
            self.finish(name)

    def finish(self, name: str) -> None:
        """End a transaction, one way or the other."""
        producer = self.transactions.pop(name)
        if self.rng.random() < 0.4:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)

    def _producer(self, name: str) -> Any:
        if not name:
            return self.broker.producer()
        if name not in self.transactions:
            made = self.broker.producer(transactional_id=f"{self.topic}-{name}", transaction_timeout_ms=600_000)
            made.begin_transaction()
            self.transactions[name] = made
        return self.transactions[name]


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-c", "from kafka.child import serve; serve()"]
    process = subprocess.Popen(command, cwd=tests, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def _read(broker: Kafka, topic: str, ends: Mapping[str, int]) -> list[tuple[int, str | None, str | None]]:
    """Return the committed messages before some offsets, as another client reads them: partition, key and value."""
    settings = {"bootstrap.servers": broker.address, "group.id": "check", "auto.offset.reset": "error"}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    found: list[tuple[int, str | None, str | None]] = []
    deadline = Deadline()
    for partition, end in ends.items():
        consumer.assign([TopicPartition(topic, int(partition), 0)])
        at = 0
        while at < end:
            deadline.check("the messages of a topic")
            for message in consumer.consume(500, 0.1):
                if message.error() is not None:
                    at = max(at, message.offset())
                elif message.offset() < end:
                    at = message.offset() + 1
                    key, value = message.key(), message.value()
                    found.append((int(partition), key.decode(), value and value.decode()))
                else:
                    at = end
    consumer.close()
    return found


def _at(pipeline: Pipeline, relation: str) -> dict[str, int]:
    """Return the offsets up to which a table was written."""
    loop = pipeline.loop(relation)
    loop.writer.open()
    marker = loop.writer.marker()
    found: dict[str, int] = {} if marker is None else dict(marker.end[f"materialize.public.{relation}"]["partitions"])
    return found


def _check(pipeline: Pipeline, topic: str, relation: str) -> None:
    """Assert that a table is the fold of its topic up to where its marker says that it was read."""
    messages = [each for each in _read(pipeline.broker, topic, _at(pipeline, relation)) if each[2] != "{broken"]
    if relation == "log":
        expected = sorted((json.loads(value)["n"] if value else -1, partition) for partition, _, value in messages)
        found = pipeline.rows("log", "coalesce(n, -1), partition")
    else:
        last = {key: value for _, key, value in messages}
        expected = sorted((key, json.loads(value)["n"]) for key, value in last.items() if key and value)
        found = pipeline.rows("now", "key, n")
    assert sorted(found) == expected


def _play(seed: int, pipeline: Pipeline, server: subprocess.Popen[str], *, steps: int, restarts: int) -> None:
    rng = random.Random(seed)
    broker = pipeline.broker
    topic = broker.topic(3)
    work = Workload(broker, topic, rng)
    pipeline.source("log", "(n bigint)", topic, "FORMAT JSON INCLUDE PARTITION WITH (ON ERROR = SKIP)")
    pipeline.source(
        "now", "(n bigint)", topic, "KEY FORMAT TEXT VALUE FORMAT JSON ENVELOPE UPSERT WITH (ON ERROR = SKIP)"
    )
    pipeline.sink("log")
    pipeline.sink("now", "KEY (key) MODE UPSERT")
    runner = Runner(pipeline.folder, server)
    restarting = set(rng.sample(range(steps), restarts))
    for step in range(steps):
        work.produce()
        relation = rng.choice(_SINKS)
        faults = (
            f"{rng.choice(_POINTS)}#{rng.randint(1, 3)}={rng.choice(['kill', 'fail'])}" if rng.random() < 0.5 else ""
        )
        runner.begin(relation, faults, rng.choice([20, 60, 1000]))
        if step in restarting:
            broker.restart(rng.choice([signal.SIGKILL, signal.SIGTERM]))
        runner.end()
        if rng.random() < 0.3:
            _check(pipeline, topic, relation)
    for name in list(work.transactions):
        work.finish(name)
    broker.settle(topic)
    deadline = Deadline()
    for relation in _SINKS:
        while runner.run(relation):
            deadline.check("the end of a sink")
        _check(pipeline, topic, relation)
        assert _at(pipeline, relation) == {str(each): end for each, end in broker.ends(topic).items()}


@pytest.mark.parametrize("seed", [1, 2])
def test_tables_are_what_their_topics_say(seed: int, pipeline: Pipeline, server: subprocess.Popen[str]) -> None:
    _play(seed, pipeline, server, steps=6, restarts=0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
def test_tables_are_what_their_topics_say_at_length(
    seed: int, pipeline: Pipeline, server: subprocess.Popen[str]
) -> None:
    _play(seed, pipeline, server, steps=40, restarts=3)
