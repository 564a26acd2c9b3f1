"""Random messages, transactions, kills and restarts by seed: a table is its topic up to the committed offsets."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kafka.child import FAULT, PROBLEM, RETRY
from kafka.form import FORMS, Form
from kafka.pipeline import Pipeline
from support.forking import Children
from support.kafka import Kafka
from support.patience import PATIENCE_S, Deadline
from support.readers import Rows, duckdb_folder, open_table

pytestmark = [pytest.mark.server, pytest.mark.long]

_POINTS = (
    "claim", "read-marker", "data-file", "data-files", "index-run", "index-manifest", "commit-request", "commit-reply",
    "committed", "released", "status",
)  # fmt: skip
_KEYS = 12


@dataclass
class Runner:
    """Runs sinks in forked processes, which may die."""

    folder: Path
    children: Children
    epoch: int = 1
    _running: int = 0

    def begin(self, relation: str, failpoints: str, rows: int) -> None:
        self.epoch += 1
        sink = f"materialize.public.{relation}_sink"
        order = {"folder": str(self.folder), "sink": sink, "failpoints": failpoints, "rows": rows, "epoch": self.epoch}
        self._running = self.children.order(do="start", log=str(self.folder / "log"), **order)

    def end(self) -> int:
        """Return the exit code of the process; fail unless a failpoint or an unavailable broker explains it."""
        code: int = self.children.order(do="wait", pid=self._running)
        assert code in (0, RETRY, FAULT, -signal.SIGKILL), f"{code}: {self.problem()}"
        return code

    def problem(self) -> str:
        """Return the traceback of the last error."""
        path = self.folder / PROBLEM
        return path.read_text() if path.exists() else "nothing"

    def run(self, relation: str, failpoints: str = "", rows: int = 5_000_000) -> int:
        self.begin(relation, failpoints, rows)
        return self.end()

    def finish(self, relation: str) -> None:
        """Run a sink until it has read everything."""
        deadline = Deadline()
        while code := self.run(relation):
            deadline.check(f"the end of sink {relation}, which ended with {code} after {self.problem()}")


@dataclass
class Workload:
    """Random messages to a topic of three partitions, in which each key has a fixed partition.

    A header that no source reads holds the meaning of each message: the kind of change, the key and a number.
    """

    broker: Kafka
    topic: str
    form: Form
    rng: random.Random
    count: int = 0
    transactions: dict[str, Any] = field(default_factory=dict)

    def produce(self) -> None:
        """Send some values, tombstones and invalid messages, in a transaction or without one."""
        name = self.rng.choice(["", "", "a", "b"])
        producer = self._producer(name)
        for _ in range(self.rng.randint(1, 40)):
            key = self.rng.randrange(_KEYS)
            self.count += 1
            what = self.rng.choices(("row", "gone", "broken"), (80, 15, 5))[0]
            value = self.form.value(what, key, self.count, self.rng)
            headers = [("truth", f"{what} {key} {self.count}".encode())]
            producer.produce(self.topic, value, self.form.key(key), key % 3, headers=headers)
        assert producer.flush(PATIENCE_S) == 0
        if name and self.rng.random() < 0.7:
            self.finish(name)

    def finish(self, name: str) -> None:
        """Commit or abort a transaction."""
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


def _read(broker: Kafka, topic: str, ends: Mapping[str, int]) -> list[tuple[str, int, int, int]]:
    """Return change, key, number and partition of the committed messages before `ends`, read by another client."""
    found = []
    for message in broker.committed(topic, {int(partition): end for partition, end in ends.items()}):
        ((_, truth),) = message.headers()
        what, key, number = truth.decode().split()
        found.append((what, int(key), int(number), message.partition()))
    return found


def _at(pipeline: Pipeline) -> dict[str, int]:
    """Return the offsets in the table's checkpoint."""
    loop = pipeline.loop("s")
    loop.writer.open()
    checkpoint = loop.writer.load_checkpoint()
    found: dict[str, int] = {} if checkpoint is None else dict(checkpoint.end["materialize.public.s"]["partitions"])
    return found


def _rows(pipeline: Pipeline, columns: str) -> Rows:
    """Read the table from the catalog's metadata file; a killed process may not have updated the table's folder."""
    return duckdb_folder(open_table(pipeline.folder / "lake", "n.s").metadata_location, columns)


def _check(pipeline: Pipeline, topic: str, form: Form) -> None:
    """Assert that the table is the fold of its topic up to the offsets in its checkpoint."""
    messages = _read(pipeline.broker, topic, _at(pipeline))
    expected: list[tuple[Any, ...]]
    if form.envelope == "":
        expected = [(n if what == "row" else -1, place) for what, _, n, place in messages if what != "broken"]
        found = _rows(pipeline, "coalesce(n, -1), partition")
    elif form.inline:
        last = {key: (what, n) for what, key, n, _ in messages}
        expected = [(key, n if what == "row" else -1, what) for key, (what, n) in last.items() if what != "gone"]
        found = _rows(pipeline, "id, coalesce(n, -1), CASE WHEN error IS NULL THEN 'row' ELSE 'broken' END")
    else:
        last = {key: (what, n) for what, key, n, _ in messages if what != "broken"}
        expected = [(key, n) for key, (what, n) in last.items() if what == "row"]
        found = _rows(pipeline, "id, n")
    assert sorted(found) == sorted(expected)


@dataclass
class Play:
    """One form with its topic, and a sink in a separate catalog."""

    form: Form
    rng: random.Random
    pipeline: Pipeline
    work: Workload
    runner: Runner

    def enter(self) -> Play:
        """Change to the folder of the catalog."""
        os.chdir(self.pipeline.folder)
        return self

    def begin(self) -> None:
        """Send messages and start the sink, which may die."""
        rng = self.rng
        self.work.produce()
        failpoints = (
            f"{rng.choice(_POINTS)}#{rng.randint(1, 3)}={rng.choice(['kill', 'fail'])}" if rng.random() < 0.5 else ""
        )
        self.runner.begin("s", failpoints, rng.choice([20, 60, 1000]))

    def check(self) -> None:
        """Assert that the table matches its topic."""
        self.enter()
        _check(self.pipeline, self.work.topic, self.form)

    def finish(self) -> None:
        """End open transactions, run the sink to the end and check the table."""
        broker, topic = self.pipeline.broker, self.work.topic
        for name in list(self.work.transactions):
            self.work.finish(name)
        broker.settle(topic)
        self.enter().runner.finish("s")
        self.check()
        assert _at(self.pipeline) == {str(each): end for each, end in broker.ends(topic).items()}


def _play(
    seed: int,
    names: Sequence[str],
    broker: Kafka,
    folder: Path,
    children: Children,
    *,
    steps: int,
    restarts: int,
) -> None:
    """Run several forms in parallel, since a restart of the broker takes longer than everything else."""
    with ExitStack() as stack:
        stack.callback(os.chdir, os.getcwd())
        plays = []
        for name in names:
            form, rng, own = FORMS[name], random.Random(f"{name} {seed}"), folder / name
            own.mkdir()
            os.chdir(own)
            pipeline, topic = stack.enter_context(Pipeline.at(broker, own)), broker.topic(3)
            pipeline.source("s", form.columns, topic, form.clauses)
            pipeline.sink("s", form.mode)
            plays.append(Play(form, rng, pipeline, Workload(broker, topic, form, rng), Runner(own, children)))
        rng = random.Random(seed)
        restarting = set(rng.sample(range(steps), restarts))
        for step in range(steps):
            for each in plays:
                each.begin()
            if step in restarting:
                broker.restart(rng.choice([signal.SIGKILL, signal.SIGTERM]))
            for each in plays:
                each.runner.end()
                if each.rng.random() < 0.3:
                    each.check()
        for each in plays:
            each.finish()


def test_a_table_is_what_its_topic_says(broker: Kafka, tmp_path: Path, children: Children) -> None:
    _play(1, ["upsert-inline", "debezium-avro"], broker, tmp_path, children, steps=4, restarts=0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_a_table_is_what_its_topic_says_at_length(seed: int, broker: Kafka, tmp_path: Path, children: Children) -> None:
    """The seed selects a format for each envelope."""
    names = [[each.name for each in FORMS.values() if each.envelope == kind] for kind in ("", "upsert", "debezium")]
    _play(seed, [each[seed % len(each)] for each in names], broker, tmp_path, children, steps=15, restarts=1)
