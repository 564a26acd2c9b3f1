"""Measure memory, CPU and files while one sink works off a backlog of very many rows, by tenths of it.

The backlog consists of Parquet files with two columns, a key and a number. They are created once for each number of
rows, and then linked. `append` writes all rows, `aggregate` counts and sums them by a million groups, and `upsert`
keeps the latest row of each key, with as many keys as rows. One `sinkql exec --once` processes the whole backlog, and
DuckDB counts the rows of the table at the end.

For each tenth, prints:

* rows per CPU-second of all processes
* the peak of private memory, that is, anonymous pages, counted once if forked processes share them
* the peak of mapped pages of files, which the kernel may drop
* the private memory of the driver, of Java and of Spark's Python
* the files and bytes of the sink's state, and the number of files in the table's folder
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import HOME, ROOT, read_back, show
from bench.large.process import NOTHING, Memory, memory_of
from bench.meter import ENVIRONMENT, tree_cpu

_FILE_ROWS = 200_000
_GROUPS = 1_000_000
_DISTINCT = 100_000_000
"""The number of different rows. A larger backlog repeats them, so it does not suit `upsert`."""
_SINKS = {
    "append": "FROM s INTO {table} ENVELOPE NONE",
    "aggregate": "FROM sums INTO {table} KEY (g) MODE UPSERT",
    "upsert": "FROM s INTO {table} KEY (k) NOT ENFORCED MODE UPSERT",
}
_SCRIPT = """
CREATE CLUSTER bench (SIZE = 'local[2]');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE s (k bigint NOT NULL, v bigint) FROM FILES (PATH = 'in') FORMAT PARQUET;
CREATE VIEW grouped AS SELECT k % {groups} AS g, v FROM s;
CREATE MATERIALIZED VIEW sums AS SELECT g, count(*) AS n, sum(v) AS v FROM grouped GROUP BY g;
CREATE SINK z IN CLUSTER bench {sink} WITH (COMMIT INTERVAL = '1s', MAX ROWS PER COMMIT = {most});
"""
_TABLE = "ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')"
_TENTHS = 10


@dataclass(slots=True)
class Part:
    """The measurements of one part of the backlog."""

    rows: int = 0
    commits: int = 0
    cpu_s: float = 0.0
    memory: Memory = NOTHING
    state_files: int = 0
    state_mb: float = 0.0
    table_files: int = 0


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the sub-command."""
    parser.add_argument("--kind", choices=sorted(_SINKS), default="append")
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--commit", type=int, default=5_000_000, help="maximum rows of a commit")


def run(arguments: argparse.Namespace) -> None:
    """Work off one backlog, and print the cost of each tenth."""
    home, parts = worked_off(arguments.kind, arguments.rows, most=arguments.commit, again=True)
    _print(parts)
    if arguments.kind != "upsert":  # `keys` continues with that table
        shutil.rmtree(home)


def worked_off(kind: str, rows: int, *, most: int = 5_000_000, again: bool = False) -> tuple[Path, list[Part]]:
    """Return a folder in which a sink worked off a backlog, and its tenths unless an earlier run did it."""
    home = HOME / f"backlog-{kind}-{rows}"
    if (home / "done").exists() and not again:
        return home, []
    shutil.rmtree(home, ignore_errors=True)
    (home / "in").mkdir(parents=True)
    for path in backlog(rows).iterdir():
        (home / "in" / path.name).hardlink_to(path)
    sink = _SINKS[kind].format(table=_TABLE)
    (home / "pipeline.sql").write_text(_SCRIPT.format(sink=sink, groups=_GROUPS, most=most))
    parts = _work(home, rows)
    (count,) = read_back(home / "lake" / "n" / "t", ())
    expected = min(_GROUPS, rows) if kind == "aggregate" else rows
    assert count == expected, f"the table has {count} rows, expected {expected}"
    (home / "done").touch()
    return home, parts


def backlog(rows: int) -> Path:
    """Return a folder of Parquet files with `rows` rows; create it the first time.

    Up to `_DISTINCT` rows, every key occurs once, in no order.
    """
    folder = HOME / f"parquet-{rows}"
    if folder.exists():
        return folder
    making = folder.with_suffix(".making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    if rows > _DISTINCT:
        _link(backlog(_DISTINCT), making, rows // _DISTINCT)
        return making.rename(folder)
    rng = np.random.default_rng(1)
    for number, start in enumerate(range(0, rows, _FILE_ROWS)):
        at = np.arange(start, min(rows, start + _FILE_ROWS), dtype=np.int64)
        keys = at * 1_000_003 % rows  # 1,000,003 is a prime
        table = pa.table({"k": keys, "v": rng.integers(0, 1_000, len(at))})
        pq.write_table(table, making / f"{number:06d}.parquet", use_dictionary=["v"])
    return making.rename(folder)


def _link(source: Path, into: Path, times: int) -> None:
    """Link the same files several times, which takes no space on the disk."""
    for number in range(times):
        for path in source.iterdir():
            (into / f"{number:04d}-{path.name}").hardlink_to(path)


def _work(home: Path, rows: int) -> list[Part]:
    """Run the pipeline once, and return the measurements of its tenths."""
    with once(home) as (pid, events):
        sampler = _Sampler(pid)
        sampler.start()
        parts, cpu, done = [Part()], tree_cpu(pid), 0
        for event in events:
            if event["event"] != "committed":
                continue
            parts[-1].rows += event["read"]
            parts[-1].commits += 1
            done += event["read"]
            if done >= rows * len(parts) / _TENTHS:
                now = tree_cpu(pid)
                parts[-1].cpu_s, cpu = now - cpu, now
                parts[-1].memory = sampler.taken()
                _look(home, parts[-1])
                print(f"{done:,} rows, {parts[-1].cpu_s:.0f} CPU-s", flush=True)
                parts.append(Part())
        sampler.done.set()
        sampler.join()
    return [part for part in parts if part.rows]


@contextmanager
def once(home: Path) -> Iterator[tuple[int, Iterator[dict[str, Any]]]]:
    """Run the `pipeline.sql` of a folder until it has caught up; yield the process id and its events."""
    command = [sys.executable, "-m", "sinkql", "--output", "json", "exec", "--once", "pipeline.sql"]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT), "SINKQL_ARCHIVE": "off"}
    process = subprocess.Popen(command, cwd=home, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.pid, (json.loads(line) for line in process.stdout if '"event"' in line)
    finally:
        code = process.wait()
    if code != 0:
        raise RuntimeError(f"sinkql ended with {code}")


class _Sampler(threading.Thread):
    """A thread that samples the memory of a process tree and keeps the peak."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.done = pid, threading.Event()
        self._most, self._lock = NOTHING, threading.Lock()

    def run(self) -> None:
        while not self.done.wait(0.5):
            found = memory_of(self.pid)
            with self._lock:
                self._most = self._most.most(found)

    def taken(self) -> Memory:
        """Return the peak since the last call."""
        with self._lock:
            found, self._most = self._most, NOTHING
        return found


def _look(home: Path, part: Part) -> None:
    state = [path.stat().st_size for path in (home / ".sinkql").rglob("*") if path.is_file()]
    part.state_files, part.state_mb = len(state), sum(state) / 1e6
    part.table_files = sum(path.is_file() for path in (home / "lake" / "n" / "t").rglob("*"))


def _print(parts: list[Part]) -> None:
    head = ("rows", "commits", "rows/CPU-s", "private MB", "driver", "Java", "Python", "mapped MB", "state files",
            "state MB", "table files")  # fmt: skip
    lines = [
        (
            f"{part.rows:,}",
            str(part.commits),
            f"{part.rows / part.cpu_s:,.0f}",
            f"{part.memory.private:,.0f}",
            *(f"{part.memory.private_of.get(kind, 0):,.0f}" for kind in ("driver", "Java", "Python")),
            f"{part.memory.files:,.0f}",
            str(part.state_files),
            f"{part.state_mb:,.0f}",
            str(part.table_files),
        )
        for part in parts
    ]
    show([head, *lines])
