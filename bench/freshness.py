"""Measure the time until DuckDB sees a row: from its Kafka timestamp, and from its commit in Postgres.

    python -m bench.freshness [--source kafka|postgres] [--rate 5000] [--seconds 60] [--interval 1s] [--cores 2]

Runs a server of the tests, a writer of `--rate` rows a second, a pipeline with one sink, and a reader, all on this
machine. The reader queries DuckDB for unseen rows whenever the table has a new version. A row is seen once the query
returns. The writer starts when the pipeline runs, and its rows count after `--warm` seconds, in which Java compiles hot
code.

Prints the median, p90, p99 and the longest time. Then prints how this time was spent, on average over all rows and over
the slowest one percent, the duration of the calls involved, and the machine's load. On a machine with other work, only
the CPU of the calls is meaningful.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import HOME, ROOT, show
from bench.figure import report
from bench.meter import ENVIRONMENT, tree_cpu
from bench.spans import BATCH, COMMITTING, PUBLISHING, Span, Timeline, beginning, ended, read
from bench.spans import table as table_of

_TICK_S = 0.1
_PARTITIONS = 4
_LOOK_S = 0.01
_HEAD = """
CREATE CLUSTER bench (SIZE = 'local[{cores}]');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
"""
_KAFKA = """
CREATE CONNECTION k TO KAFKA (BROKER '{address}', SECURITY PROTOCOL = 'PLAINTEXT');
CREATE SOURCE s (id bigint NOT NULL, customer integer, amount numeric(12, 2), note text)
  FROM KAFKA CONNECTION k (TOPIC '{topic}')
  FORMAT JSON INCLUDE TIMESTAMP AS sent;
CREATE SINK z IN CLUSTER bench FROM s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '{interval}');
"""
_POSTGRES = """
CREATE CONNECTION p TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE '{database}', USER 'postgres');
CREATE SOURCE s FROM POSTGRES CONNECTION p (PUBLICATION 'p') FOR TABLES (public.t);
CREATE SINK z IN CLUSTER bench FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  KEY (id) MODE UPSERT WITH (COMMIT INTERVAL = '{interval}');
"""
_TABLE = """
CREATE TABLE t (id int8 PRIMARY KEY, customer int4, amount numeric(12, 2), note text, sent timestamptz);
CREATE PUBLICATION p FOR TABLE t;
"""
_INSERT = """
INSERT INTO t SELECT i, i %% 10000, (i %% 100000) / 100.0, 'a note of some length ' || i, clock_timestamp()
FROM generate_series(%s::int8, %s::int8) AS i
"""

Write = Callable[[int, int], None]
"""Write the rows with ids from the first argument to before the second; return once they are committed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", choices=("kafka", "postgres"), nargs="*", default=["kafka", "postgres"])
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm", type=float, default=25)
    parser.add_argument("--interval", default="1s")
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    head = (
        "source",
        "rows",
        "p50 s",
        "p90 s",
        "p99 s",
        "longest s",
        "commits",
        "CPU ms a commit",
        "CPU of SinkQL",
        "load",
    )
    table = [head]
    for source in arguments.source:
        with (_kafka if source == "kafka" else _postgres)(arguments) as (script, write):
            found = _measured(script, write, arguments)
        print(f"{source}: seconds of a row in the mean, of all and of the slowest one per cent")
        show([("part", "all", "slowest"), *found.parts()])
        print()
        show(table_of([*found.spans, *found.reader.looks], found.began, found.ended))
        print()
        table.append((source, *found.figures()))
        report(f"freshness {source}", np.percentile(found.late, 99))
    show(table)


@contextmanager
def _kafka(arguments: argparse.Namespace) -> Iterator[tuple[str, Write]]:
    from support.kafka import kafka

    with kafka() as broker:
        topic = broker.topic(_PARTITIONS)
        producer = broker.producer()

        def write(begin: int, end: int) -> None:
            for id_ in range(begin, end):
                value = b'{"id": %d, "customer": %d, "amount": "%d.50", "note": "a note of some length %d"}'
                producer.produce(topic, value % (id_, id_ % 10_000, id_ % 1000, id_), partition=id_ % _PARTITIONS)
                producer.poll(0)
            producer.flush()

        yield _KAFKA.format(address=broker.address, topic=topic, interval=arguments.interval), write


@contextmanager
def _postgres(arguments: argparse.Namespace) -> Iterator[tuple[str, Write]]:
    from support.postgres import postgres

    with postgres() as server:
        database = server.database()
        with server.connect(database) as connection:
            connection.execute(_TABLE)

            def write(begin: int, end: int) -> None:
                connection.execute(_INSERT, (begin, end - 1))

            yield _POSTGRES.format(port=server.port, database=database, interval=arguments.interval), write


def _measured(script: str, write: Write, arguments: argparse.Namespace) -> _Found:
    home = HOME / "freshness"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (home / "pipeline.sql").write_text(_HEAD.format(cores=arguments.cores) + script)
    command = [sys.executable, "-m", "bench.spans", str(home / "spans"), "exec", "pipeline.sql"]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT), "SINKQL_ARCHIVE": "off"}
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        writer = _Writer(write, arguments.rate)
        reader = _Reader(home / "lake" / "n" / "t", lambda: process.poll() is None and not writer.failed)
        writer.one()
        reader.until(lambda: reader.unseen > 0)
        writer.start()
        reader.until_time(time.monotonic() + arguments.warm)
        first, cpu, began, began_at = writer.next, tree_cpu(process.pid), time.monotonic(), time.time()
        reader.until_time(began + arguments.seconds)
        used, seconds, ended_at = tree_cpu(process.pid) - cpu, time.monotonic() - began, time.time()
        last = writer.next
        writer.done.set()
        writer.join()
        reader.until(lambda: reader.unseen >= last)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
    return _Found(first, last, began_at, ended_at, used, seconds, writer, reader, read(home / "spans"), _ends(home))


def _ends(home: Path) -> Mapping[int, int] | None:
    """Return the id before which each log entry ends; None if the source has no log.

    Ids are in order in the log.
    """
    from sinkql.capture import data_file
    from sinkql.capture.log import LogDirectory

    for path in (home / ".sinkql").glob("capture/*"):
        log, ends, end = LogDirectory.local(path), {}, 0
        for number in log.numbers():
            entry = log.entry(number)
            for file in entry.files() if entry is not None and entry.kind == "changes" else ():
                for batch in data_file.read(log.store, file, ["id"]):
                    end = max(end, batch.column(0)[-1].as_py() + 1)
            ends[number] = end
        return ends
    return None


@dataclass(frozen=True)
class _Found:
    """The result of a run: rows from `first` to before `last`, between two times."""

    first: int
    last: int
    began: float
    ended: float
    used: float
    seconds: float
    writer: _Writer
    reader: _Reader
    spans: Sequence[Span]
    ends: Mapping[int, int] | None
    """The ends of the log's entries; None without a log."""

    @cached_property
    def late(self) -> Any:
        """Return the seconds until each row was seen."""
        begun, _ = self.writer.times(self.first, self.last)
        return self.reader.seen_at(self.first, self.last) - begun

    @cached_property
    def batches(self) -> list[Span]:
        """Return the batches that committed."""
        return [each for each in self.spans if each.name == BATCH and each.note is not None]

    def figures(self) -> tuple[str, ...]:
        """Return the figures for the table."""
        commits = sum(self.began <= each.begin < self.ended for each in self.batches)
        times = (f"{each:.2f}" for each in np.percentile(self.late, [50, 90, 99, 100]))
        cpu = f"{1000 * self.used / max(1, commits):.0f}", f"{self.used / self.seconds:.2f}"
        return f"{len(self.late):,}", *times, str(commits), *cpu, f"{os.getloadavg()[0]:.1f}"

    def parts(self) -> list[tuple[str, ...]]:
        """Return the parts of the rows' time: of all rows, and of the slowest one percent."""
        slow = self.late >= np.percentile(self.late, 99)
        found = [self._parts(np.ones(len(slow), bool)), self._parts(slow)]
        names = sorted(found[0].keys() | found[1].keys(), key=lambda name: -found[1][name])
        return [
            (name, *(f"{each[name]:.3f}" for each in found)) for name in names if max(e[name] for e in found) > 5e-4
        ]

    def _parts(self, chosen: Any) -> Counter[str]:
        ids = np.arange(self.first, self.last)[chosen]
        begun, ended = self.writer.times(self.first, self.last)
        looks = self.reader.look_of[ids]
        # rows that were written and seen together differ at most in their entry or batch
        of_batch = np.array([self._batch(int(each)) for each in ids])
        of_entry = np.array([self._entry(int(each)) for each in ids])
        together, counts = np.unique(
            np.stack([begun[chosen], ended[chosen], looks, of_batch, of_entry]), axis=1, return_counts=True
        )
        total: Counter[str] = Counter()
        for (begin, end, look, batch, entry), count in zip(together.T, counts, strict=True):
            for name, seconds in self._way(begin, end, int(look), int(batch), int(entry)):
                total[name] += seconds * count / len(ids)
        return total

    def _way(self, begin: float, end: float, look: int, batch: int, entry: int) -> Iterator[tuple[str, float]]:
        """Yield the parts of the time between the write of a row and its appearance."""
        noticed, seen = self.reader.looks[look].begin, self.reader.looks[look].end
        mine = self.batches[batch]
        at = end if entry < 0 else max(begin, self._published[entry])
        yield "is written to its source", min(end, at) - begin
        if at > end:
            yield from self._capture.parts(end, at, "waits for its entry")
        if mine.begin > at:
            for name, seconds in self._driver.parts(at, mine.begin, "waits for Spark to begin a round"):
                waits = name in ("round", "looks for new input") or name.startswith("waits")
                yield (f"{name} (before it)" if not waits else name), seconds
        committed = self._committed(mine)
        yield from self._driver.parts(max(at, mine.begin), committed, "batch")
        yield "DuckDB reads the version before", max(0.0, noticed - committed)
        yield "DuckDB reads it", seen - max(noticed, committed)

    @cached_property
    def _published(self) -> list[float]:
        return [each.end for each in sorted(self._entries, key=lambda each: each.note)]

    @cached_property
    def _entries(self) -> list[Span]:
        last: dict[int, Span] = {}
        for each in self.spans:
            if each.name == PUBLISHING and each.note is not None:
                last.setdefault(each.note, each)  # a later call without anything to publish reports the same entry
        return list(last.values())

    def _entry(self, id_: int) -> int:
        return int(np.searchsorted(self._entry_ends, id_, side="right")) if self.ends is not None else -1

    @cached_property
    def _entry_ends(self) -> Any:
        assert self.ends is not None
        return np.array([self.ends[each.note] for each in sorted(self._entries, key=lambda each: each.note)])

    def _batch(self, id_: int) -> int:
        partition = id_ % _PARTITIONS if self.ends is None else 0
        return int(np.searchsorted(self._batch_ends[partition], id_, side="right"))

    @cached_property
    def _batch_ends(self) -> Sequence[Any]:
        """Return the id before which each batch ends, by partition."""
        offsets = [next(iter(each.note.values())) for each in self.batches]
        if self.ends is not None:
            return [np.array([self.ends.get(each["entry"], 0) for each in offsets])]
        return [
            np.array([each["partitions"].get(str(number), 0) * _PARTITIONS + number for each in offsets])
            for number in range(_PARTITIONS)
        ]

    def _committed(self, batch: Span) -> float:
        return min(each.end for each in self.spans if each.name == COMMITTING and each.begin >= batch.begin)

    @cached_property
    def _driver(self) -> Timeline:
        return Timeline(each for each in self.spans if each.process == self.batches[0].process)

    @cached_property
    def _capture(self) -> Timeline:
        return Timeline(each for each in self.spans if each.process == self._entries[0].process)


class _Writer(threading.Thread):
    """A thread that writes rows at a steady rate and records the time of each write."""

    def __init__(self, write: Write, rate: int) -> None:
        super().__init__(daemon=True)
        self.done, self.next, self.failed = threading.Event(), 0, False
        self._write, self._rate = write, rate
        self._batches: list[tuple[int, float, float]] = []

    def one(self) -> None:
        """Write the first row; the rest waits until it is seen.

        Otherwise a backlog would build up while Spark starts.
        """
        self._write(0, 1)
        self.next = 1

    def run(self) -> None:
        try:
            self._run()
        except Exception:
            self.failed = True
            raise

    def _run(self) -> None:
        began = time.monotonic()
        while not self.done.wait(_TICK_S):
            end = 1 + int((time.monotonic() - began) * self._rate)
            # after a late tick too, a batch has the rows of one tick
            for begin in range(self.next, end, max(1, int(self._rate * _TICK_S))):
                to = min(end, begin + max(1, int(self._rate * _TICK_S)))
                at = time.time()
                self._write(begin, to)
                self._batches.append((to, at, time.time()))
                self.next = to

    def times(self, first: int, last: int) -> tuple[Any, Any]:
        """Return when the write of each id's batch began, a little before its commit, and when it ended."""
        ends, begun, ended = (np.array(each) for each in zip(*self._batches, strict=True))
        places = np.searchsorted(ends, np.arange(first, last), side="right")
        return begun[places], ended[places]


class _Reader:
    """A reader that queries the table in DuckDB at each new version; `looks` are its queries."""

    def __init__(self, table: Path, running: Callable[[], bool]) -> None:
        from support.readers import connect

        self.looks: list[Span] = []
        self.unseen = 0
        """The first id that was not seen."""
        self.look_of = np.full(1 << 24, -1, np.int32)
        """For each id, the index of the query that saw it first; -1 if unseen."""
        self._running = running
        self._table = table
        self._version = ""
        self._duck = connect()
        self._duck.execute("SET threads = 1")

    def until_time(self, end: float) -> None:
        """Read until a time."""
        self.until(lambda: time.monotonic() >= end)

    def until(self, done: Callable[[], bool]) -> None:
        """Read until `done` returns true; raise RuntimeError if the pipeline or the writer ends."""
        while not done():
            if not self._running():
                raise RuntimeError("the pipeline or the writer ended")
            self._look()

    def _look(self) -> None:
        """Read the new rows of the table; if its version is unchanged, wait for a moment."""
        hint = self._table / "metadata" / "version-hint.text"
        version = hint.read_text() if hint.exists() else ""
        if version == self._version:
            time.sleep(_LOOK_S)
            return
        self._version = version
        before = beginning()
        query = f"SELECT id FROM iceberg_scan('{self._table}') WHERE id >= ?"
        ids = np.asarray(self._duck.execute(query, [self.unseen]).fetchnumpy()["id"])
        new = ids[self.look_of[ids] < 0]
        self.look_of[new] = len(self.looks)
        self.looks.append(Span(*ended("DuckDB reads a version", before, None)))
        seen = self.look_of[self.unseen : self.unseen + len(ids) + 1] >= 0
        self.unseen += int(seen.argmin())

    def seen_at(self, first: int, last: int) -> Any:
        """Return when rows were seen."""
        return np.array([each.end for each in self.looks])[self.look_of[first:last]]


if __name__ == "__main__":
    main()
