"""A source, a materialized view, and two jobs that read its log. They run in turns, fail at random and restart."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from operators.pipeline import Change, Listed, Row, call, columns, source
from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Context, Reader
from sinkql.connectors.view.log import Entry, ViewLog, view_folder
from sinkql.connectors.view.rows import read_runs, schema_of
from sinkql.errors import FencedError, SinkqlError
from sinkql.runtime.batch.attempt import OutdatedStartError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local.engine import LocalEngine
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint
from support.running import MemoryControl, contexts, drain

Rows = Counter[Row]
REGISTRY = discover()
_TRIES = 8


def view_job(name: str, body: physical.Operator, key: tuple[str, ...]) -> physical.Job:
    """Return the job of a view over `body`, whose rows are inserted and deleted."""
    columns_ = physical.columns_of(body)
    write = physical.Write(
        body, physical.VIEW, physical.Connection(name, physical.VIEW, {}), columns_, "upsert", "retract", False, key,
        True, {"view_id": name},
    )  # fmt: skip
    return physical.Job(name, name, "quickstart", "local[*]", {}, timedelta(seconds=1), 1_000, write, {})


def reading(view: physical.Job) -> physical.Read:
    """Return the operator that reads the log of a view's job."""
    return physical.Read(view.sink, physical.VIEW, {"view_id": view.sink}, view.write.columns, "retract")


SOURCE = source("e", "retract", g="integer", x="bigint")
MV = view_job(
    "mv",
    physical.Aggregate(
        SOURCE, "a1", columns(g="integer"),
        (call("n", "count", None, "bigint"), call("s", "max", "x", "bigint")), "retract",
    ),
    ("g",),
)  # fmt: skip
COPY = view_job("copy", reading(MV), ("g",))
TOP = view_job(
    "top",
    physical.Aggregate(
        reading(MV), "a1", columns(n="bigint"),
        (call("groups", "count", "g", "bigint"), call("best", "max", "s", "bigint")), "retract",
    ),
    ("n",),
)  # fmt: skip
JOBS = {"mv": MV, "copy": COPY, "top": TOP}


def contents(log: ViewLog, job: physical.Job, entry: Entry) -> Rows:
    """Return the rows of a view at an entry."""
    found: Rows = Counter()
    for kept in entry.contents.values():
        log.fetch_runs(kept)
        table = read_runs(log.stored_runs(kept), schema_of(job.write.columns))
        for *row, diff in zip(*(column.to_pylist() for column in table.columns), strict=True):
            found[tuple(row)] += diff
    assert all(count >= 0 for count in found.values())
    return +found


def grouped(rows: Rows) -> Rows:
    """Return `SELECT g, count(*), max(x) … GROUP BY g`."""
    groups: dict[Any, tuple[int, Any]] = {}
    for (g, x), count in rows.items():
        before = groups.get(g, (0, None))
        groups[g] = (before[0] + count, x if before[1] is None else max(before[1], x))
    return Counter((g, n, s) for g, (n, s) in groups.items())


def topped(rows: Rows) -> Rows:
    """Return `SELECT n, count(g), max(s) … GROUP BY n`."""
    groups: dict[Any, tuple[int, Any]] = {}
    for g, n, s in rows:
        count, best = groups.get(n, (0, None))
        groups[n] = (count + (g is not None), s if best is None else max(best, s))
    return Counter((n, count, best) for n, (count, best) in groups.items())


class BoomError(Exception):
    """A simulated crash at a failpoint."""


@dataclass
class History:
    """One random history. `check` compares each published entry of a log with the expected rows."""

    folder: Path
    rng: random.Random
    listed: Listed = field(default_factory=lambda: Listed(SOURCE, []))
    present: Rows = field(default_factory=Counter)
    known: dict[tuple[str, int], Rows] = field(default_factory=dict)
    loops: dict[str, BatchLoop] = field(default_factory=dict)
    commits: int = 0
    failures: int = 0
    fenced: int = 0
    rebuilt: int = 0
    left: int | None = None

    @property
    def jobs(self) -> Mapping[str, physical.Job]:
        return JOBS

    def change(self) -> None:
        """Append a random batch of changes to the source; some delete earlier rows."""
        changes: list[Change] = []
        for _ in range(self.rng.randint(0, 8)):
            if self.present and self.rng.random() < 0.4:
                row = self.rng.choice(sorted(self.present.elements(), key=repr))
                self.present = +(self.present - Counter([row]))
                changes.append((row, -1))
            else:
                row = (self.rng.choice([1, 2, 3, None]), self.rng.randint(0, 20))
                self.present[row] += 1
                changes.append((row, 1))
        self.listed.batches.append(changes)

    def log(self, name: str) -> ViewLog:
        return ViewLog(view_folder(self.folder, name))

    def turn(self, name: str, *, failing: bool) -> None:
        """Run a job to the end, perhaps with a crash if `failing`, and then the old loop that it may have replaced."""
        self.left = self.rng.randint(1, 30) if failing else None
        zombie = None
        for _ in range(_TRIES):
            try:
                if name not in self.loops or self.rng.random() < 0.2:
                    zombie, self.loops[name] = self.loops.get(name), self.started(name)
                drain(self.loops[name])
                break
            except (BoomError, OutdatedStartError):
                self.failures += 1
                zombie, self.left = self.loops.pop(name, None), None
            except SinkqlError as error:
                if not error.retryable:
                    raise
                self.loops.pop(name, None)
        else:
            raise AssertionError(f"{name} does not get on")
        self.left = None
        if zombie is not None and zombie is not self.loops[name]:
            with suppress(FencedError, OutdatedStartError):
                drain(zombie)
                self.fenced -= 1
            self.fenced += 1

    def started(self, name: str) -> BatchLoop:
        """Start a job's loop, which claims its log."""
        job = self.jobs[name]
        context = self.context(job)
        readers, writer = self.readers(job), REGISTRY.writer(job.write, context)
        loop = BatchLoop(
            job, readers, writer, self.engine(), context.folder, MemoryControl(),
            state_directory=StateDirectory.of(context),
        )  # fmt: skip
        loop.start(epoch=1)
        self.rebuilt += loop.needs_full_refresh()
        return loop

    def context(self, job: physical.Job) -> Context:
        """Return the context of a job's readers and writer."""
        return contexts(self.folder, job)

    def engine(self) -> LocalEngine:
        """Return the engine that runs a job's operators."""
        return LocalEngine(2)

    def readers(self, job: physical.Job) -> dict[str, Reader]:
        """Return the readers of a job."""
        context = self.context(job)
        return {
            read.source: self.listed if read.source == "e" else REGISTRY.reader(read, context) for read in job.reads()
        }

    def name_of(self, log: ViewLog) -> str:
        """Return the name of the job that writes a log."""
        return (log.folder if log.directory.store is None else log.folder.parent).name

    def check(self, log: ViewLog, number: int, entry: Entry) -> None:
        """Compare an entry with the input up to the offsets of its checkpoint."""
        self.commits += bool(entry.runs)
        name = self.name_of(log)
        rows = contents(log, JOBS[name], entry)
        self.known[name, number] = rows
        end = entry.marker.end
        if name == "mv":
            given: Rows = Counter()
            for changes in self.listed.batches[: end["e"]["batch"]]:
                for row, diff in changes:
                    given[row] += diff
            expected = grouped(+given)
        else:
            at = end["mv"]["at"]
            view = self.known["mv", at] if at else Counter()
            expected = view if name == "copy" else topped(view)
        assert rows == expected, (name, number)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Check each entry when it is published, and raise BoomError at the chosen failpoint."""
        publish = ViewLog.publish

        def published(log: ViewLog, number: int, entry: Entry) -> bool:
            try:
                return publish(log, number, entry)
            finally:
                there = log.entry(number)
                if there is not None and there.id == entry.id:
                    self.check(log, number, entry)

        def point(name: str) -> None:
            if self.left is not None:
                self.left -= 1
                if self.left == 0:
                    self.left = None
                    raise BoomError(name)

        with patch.object(ViewLog, "publish", published), patch.object(failpoint, "point", point):
            yield

    def run(self, steps: int) -> None:
        """Run jobs in turns; the last step runs all of them to the end."""
        with self.watched():
            for step in range(steps):
                self.change()
                self.take_turns(last=step == steps - 1)
        self.check_end()

    def take_turns(self, *, last: bool) -> None:
        """Run some jobs, or all of them to the end if this is the last step."""
        names = list(self.jobs)
        chosen = names if last else self.rng.sample(names, self.rng.randint(1, len(names)))
        for name in chosen:
            self.turn(name, failing=not last and self.rng.random() < 0.5)

    def check_end(self) -> None:
        """Compare the final rows of all jobs with the whole input."""
        expected = grouped(self.present)
        for name, rows in {"mv": expected, "copy": expected, "top": topped(expected)}.items():
            newest = self.log(name).newest()
            assert newest is not None
            assert contents(self.log(name), JOBS[name], newest[1]) == rows, name
