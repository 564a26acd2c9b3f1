"""Measure memory and the CPU of the same batch in an upsert sink of 1, 10 and 100 million keys.

Starts from the table that `backlog --kind upsert` leaves; if the table is missing, the sink writes it first. Then the
sink continues, and files arrive one by one, each with rows of existing keys, spread over all of them. Measures the CPU
of all processes from the file to the commit, minus that of idle time. DuckDB checks that the last rows are in the
table, and that its row count is unchanged.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog

from bench.common import ROOT, read_back, reader, running, show
from bench.large import backlog
from bench.large.process import NOTHING, Memory, memory_of
from bench.meter import tree_cpu
from sinkql.connectors.iceberg.key_index.key_hash import key_columns
from sinkql.connectors.iceberg.key_index.rebuild import build_index

_IDLE_SECONDS = 10.0


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the sub-command."""
    parser.add_argument("--keys", default="1,10,100", help="millions of keys, separated by commas")
    parser.add_argument("--batch", type=int, default=100_000, help="rows of a batch")
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument(
        "--rebuild", action="store_true", help="only rebuild the index of each table, as if it were lost"
    )


def run(arguments: argparse.Namespace) -> None:
    """Measure each number of keys."""
    sys.path.insert(0, str(ROOT / "tests"))
    lines = []
    for millions in map(int, arguments.keys.split(",")):
        home, _ = backlog.worked_off("upsert", millions * 1_000_000)
        if arguments.rebuild:
            lines.append((f"{millions} M", *_rebuilt(home)))
            continue
        lines.append((f"{millions} M", *_measure(home, millions * 1_000_000, arguments)))
        print(lines[-1], flush=True)
    if arguments.rebuild:
        show([("keys", "CPU-s", "keys a CPU-s", "private MB at most"), *lines])
        return
    head = ("keys", "first batch, CPU-ms", "median", "private MB", "driver", "Java", "Python", "mapped MB", "index MB")
    show([head, *lines])


def _measure(home: Path, keys: int, arguments: argparse.Namespace) -> tuple[str, ...]:
    rng = np.random.default_rng(time.time_ns())
    table, most, spent = home / "lake" / "n" / "t", NOTHING, []
    with running(home) as (pid, output):
        _await(output, "started")
        time.sleep(_IDLE_SECONDS)
        idle = _idle(pid)
        for number in range(arguments.batches):
            asked = rng.choice(keys, arguments.batch, replace=False)
            began, cpu = time.monotonic(), tree_cpu(pid)
            _put(home, pa.table({"k": asked, "v": np.full(len(asked), 10_000 + number)}))
            event = _await(output, "committed")
            assert event["read"] == arguments.batch, event
            most = most.most(memory_of(pid))
            time.sleep(1.0)  # the work that follows a commit
            spent.append((tree_cpu(pid) - cpu - idle * (time.monotonic() - began)) * 1000)
            most = most.most(memory_of(pid))
        _check(table, keys, asked, 10_000 + number)
    size = sum(path.stat().st_size for path in (home / ".sinkql").rglob("*.run")) / 1e6
    return (f"{spent[0]:,.0f}", f"{statistics.median(spent[1:]):,.0f}", *_memory(most), f"{size:,.0f}")


def _rebuilt(home: Path) -> tuple[str, ...]:
    """Rebuild the index of a table in a new process, as a sink does after losing it."""
    code = "import sys; from bench.large.keys import rebuilt; rebuilt(sys.argv[1])"
    said = subprocess.run([sys.executable, "-c", code, str(home)], check=True, stdout=subprocess.PIPE, text=True)
    return tuple(said.stdout.split())


def rebuilt(home: str) -> None:
    """Print the cost of rebuilding the index of a folder's table."""
    folder = Path(home) / "rebuilt"
    options = {"type": "sql", "uri": f"sqlite:///{home}/lake/catalog.db", "warehouse": f"file://{home}/lake"}
    table = load_catalog("default", **options).load_table("n.t")
    done, most = threading.Event(), [NOTHING]

    def look() -> None:
        while not done.wait(0.2):
            most[0] = most[0].most(memory_of(os.getpid()))

    threading.Thread(target=look, daemon=True).start()
    began = time.process_time()
    index = build_index(table, key_columns(table, ("k",)), folder, sink="x", epoch=1)
    cpu = time.process_time() - began
    done.set()
    rows = sum(run.rows for run in index.runs)
    shutil.rmtree(folder)
    print(f"{cpu:.0f} {rows / cpu:,.0f} {most[0].private:,.0f}")


def _memory(most: Memory) -> tuple[str, ...]:
    kinds = (most.private_of.get(kind, 0) for kind in ("driver", "Java", "Python"))
    return tuple(f"{mb:,.0f}" for mb in (most.private, *kinds, most.files))


def _idle(pid: int) -> float:
    """Return the CPU seconds of an idle second."""
    began, cpu = time.monotonic(), tree_cpu(pid)
    time.sleep(_IDLE_SECONDS)
    return (tree_cpu(pid) - cpu) / (time.monotonic() - began)


def _put(home: Path, rows: pa.Table) -> None:
    draft = home / "draft.parquet"
    pq.write_table(rows, draft)
    shutil.move(draft, home / "in" / f"x{time.time_ns()}.parquet")


def _await(output: IO[str], name: str) -> dict[str, Any]:
    for line in output:
        if '"event"' in line and (event := json.loads(line))["event"] == name:
            return dict(event)
    raise RuntimeError("the pipeline ended")


def _check(table: Path, keys: int, asked: Any, value: int) -> None:
    (count,) = read_back(table, ())
    assert count == keys, f"the table has {count} rows, expected {keys}"
    wanted = pa.table({"k": asked})
    connection = reader()
    connection.register("wanted", wanted)
    query = f"SELECT count(*) FROM iceberg_scan('{table}') AS t JOIN wanted USING (k) WHERE t.v = {value}"
    found = connection.execute(query).fetchone()
    assert found == (len(asked),), f"{found} of {len(asked)} rows have the last value"
