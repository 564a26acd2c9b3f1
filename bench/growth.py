"""Measure what thousands of small commits leave behind, for an append sink, an upsert sink and a stateful view.

    python -m bench.growth [--commits 5000] [--kinds append,upsert,view] [--rows 100] [--keys 1000]
        [--window 100] [--random]

Runs a job's batches in this process, without Spark, on the local engine. The files, commits and state are the same as
with any engine. Each commit has `rows` rows: new ones for the append sink, and the next of `keys` keys in turn for the
rest. The first window begins when the table has as many snapshots as it retains. Prints, for the first and the last
window, the bytes of the state and table folders per live row, the CPU of a commit, memory, and the CPU of a DuckDB scan
per live row. At the end, also compares that scan with one of a fresh copy.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from bench.common import HOME, ROOT, show
from sinkql import compile as compile_sql
from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Context, JobOffsets, Limit, Offsets, ReadCounts, Reader, Split
from sinkql.runtime.batch.engine import Engine
from sinkql.runtime.batch.loop import BatchLoop

_SINKS = {
    "append": "FROM events INTO {table} ENVELOPE NONE",
    "upsert": "FROM events INTO {table} KEY (k) NOT ENFORCED MODE UPSERT",
    "view": "FROM per_key INTO {table} KEY (k) MODE UPSERT",
}
_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE events (k bigint NOT NULL, v bigint) FROM FILES (PATH = '{folder}/in') FORMAT JSON;
CREATE MATERIALIZED VIEW per_key AS SELECT k, count(*) AS n, sum(v) AS v, max(v) AS most FROM events GROUP BY k;
CREATE SINK s {sink} WITH (COMMIT INTERVAL = '1s');
"""
_TABLE = "ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')"
_FULL = 120
"""The commits until old snapshots begin to expire."""
_READS = 7


@dataclass(frozen=True)
class Numbers(Reader):
    """A source of `rows` rows a batch: keys repeat after `keys`, are random (`anyhow`), or are always new."""

    rows: int
    keys: int | None
    anyhow: bool = False

    def initial(self, *, at_end: bool) -> Offsets:
        return {"batch": 0}

    def target(self, start: Offsets) -> Offsets:
        raise NotImplementedError

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        return {"batch": start["batch"] + 1}

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        return [{"batch": number} for number in range(start["batch"], end["batch"])]

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        number = np.arange(split["batch"] * self.rows, (split["batch"] + 1) * self.rows, dtype=np.int64)
        if self.keys is None:
            keys = number
        elif self.anyhow:
            keys = np.random.default_rng(split["batch"]).choice(self.keys, self.rows, replace=False)
        else:
            keys = number % self.keys
        read_counts.rows += len(number)
        yield pa.record_batch([pa.array(keys), pa.array(number * 7919 % 1_000_003)], names=["k", "v"])


@dataclass(frozen=True, slots=True)
class Reading:
    """The cost of a window of commits, and the sizes at its end."""

    state: int
    table: int
    cpu_ms: float
    memory_mb: float
    read_ms: float
    rows: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=5_000)
    parser.add_argument("--kinds", default="append,upsert,view")
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--window", type=int, default=100)
    parser.add_argument("--random", action="store_true", help="choose keys at random instead of in turn")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    for kind in arguments.kinds.split(","):
        _measure(kind, arguments)


def _measure(kind: str, arguments: argparse.Namespace) -> None:
    folder = HOME / f"growth-{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "in").mkdir(parents=True)
    keys = None if kind == "append" else arguments.keys
    loop = _open(folder, kind, Numbers(arguments.rows, keys, arguments.random))
    loop.start(epoch=1)
    step = _stepper(loop)
    for _ in range(_FULL):
        step()
    _read_ms(f"iceberg_scan('{folder}/lake/n/t')")  # so that the memory of DuckDB itself is not growth
    first = _window(folder, step, arguments.window)
    for _ in range(arguments.commits - _FULL - 2 * arguments.window):
        step()
    last = _window(folder, step, arguments.window)
    copy = _copy(folder)
    _print(kind, first, last, _read_ms(f"read_parquet('{copy}')"))


def _open(folder: Path, kind: str, reader: Reader) -> BatchLoop:
    return open_loop(folder, _SCRIPT.format(folder=folder, sink=_SINKS[kind].format(table=_TABLE)), kind, reader)


def open_loop(folder: Path, text: str, kind: str, reader: Reader, engine: Engine | None = None) -> BatchLoop:
    """Return the batch loop of a script's only sink, `s`, over a reader."""
    from sinkql.runtime.local.engine import LocalEngine
    from support.running import MemoryControl

    job: physical.Job = compile_sql(text, facts={"s": {"sink_id": f"growth-{kind}"}}).jobs[0]
    context = Context(job.sink, job.sink_id, folder / "state", lambda _: "")
    context.folder.mkdir()
    writer = discover().writer(job.write, context)
    readers = {read.source: reader for read in job.reads()}
    return BatchLoop(job, readers, writer, engine or LocalEngine(), context.folder, MemoryControl())


def _stepper(loop: BatchLoop) -> Callable[[], None]:
    def step() -> None:
        start: JobOffsets = loop.checkpoint.end
        loop.commit_batch(start, {name: reader.latest(start[name], Limit(1)) for name, reader in loop.readers.items()})

    return step


def _window(folder: Path, step: Callable[[], None], commits: int) -> Reading:
    gc.collect()
    began = time.process_time()
    for _ in range(commits):
        step()
    cpu = (time.process_time() - began) / commits * 1000
    memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    table = folder / "lake" / "n" / "t"
    scan = f"iceberg_scan('{table}')"
    (rows,) = _query(f"SELECT count(*) FROM {scan}")
    return Reading(_size(folder / "state"), _size(table), cpu, memory, _read_ms(scan), rows)


def _copy(folder: Path) -> Path:
    path = folder / "copy.parquet"
    _connection().execute(
        f"COPY (SELECT * FROM iceberg_scan('{folder}/lake/n/t')) TO '{path}' (FORMAT parquet, COMPRESSION zstd)"
    )
    return path


def _read_ms(scan: str) -> float:
    found = []
    for _ in range(_READS):
        began = time.process_time()
        _query(f"SELECT count(*), sum(k), sum(v) FROM {scan}")
        found.append(time.process_time() - began)
    return statistics.median(found) * 1000


def _query(sql: str) -> tuple[int, ...]:
    found = _connection().execute(sql).fetchone()
    assert found is not None
    return tuple(found)


def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": 1})
    for name in ("avro", "iceberg"):
        package = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
        (extension,) = package.glob(f"extensions/*/{name}.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    return connection


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _print(kind: str, first: Reading, last: Reading, copy_ms: float) -> None:
    lines: list[tuple[str, float, float]] = [
        ("state folder, bytes a live row", first.state / first.rows, last.state / last.rows),
        ("table folder, bytes a live row", first.table / first.rows, last.table / last.rows),
        ("CPU of a commit, ms", first.cpu_ms, last.cpu_ms),
        ("memory, MB", first.memory_mb, last.memory_mb),
        ("read in DuckDB, CPU-us a live row", first.read_ms / first.rows * 1000, last.read_ms / last.rows * 1000),
    ]
    table = [(name, f"{a:,.1f}", f"{b:,.1f}", f"{b / a if a else 1.0:.2f}") for name, a, b in lines]
    show([(kind, "first", "last", "ratio"), *table])
    print(
        f"reading {last.rows:,} rows costs {last.read_ms:,.0f} CPU-ms, {last.read_ms / copy_ms:.1f} times a fresh copy"
    )
    print(flush=True)


if __name__ == "__main__":
    main()
