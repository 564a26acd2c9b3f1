"""Measure the first rows of each partition in a task: half inserts, half deletes, in groups of 10 to 10,000 rows.

    python -m bench.rank [--rows 1000000] [--k 3] [--runs 5]

Prints the CPU milliseconds of the task and changes per CPU-second, medians of the runs. Also measures `lag()`, which
computes whole groups. Uses one thread and one bucket. The rows are stored before, in eight batches. Finally changes
only 100 groups, whose cost should not depend on the size of the groups.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.common import median
from sinkql import physical
from sinkql.logical.type import BIGINT, TEXT
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements, InputEvents
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import StatefulOperator, task_of
from sinkql.runtime.state.report import collect
from sinkql.state_store.directory import StateDirectory

Ints = NDArray[np.int64]
SIZES = (10, 1_000, 10_000)
CHANGES = (1_000, 10_000, 50_000)
_BATCHES, _BATCH = 8, 65_536


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    pa.set_cpu_count(1)
    columns = (physical.Column("g", BIGINT), physical.Column("v", BIGINT), physical.Column("t", TEXT))
    read = physical.Read("e", "listed", {}, columns, "retract")
    order = (physical.Order("v", True),)
    rank = physical.Rank(read, "a", ("g",), order, "row_number", 1, given.k)
    lag = physical.WindowCall("w", "lag", ("v",), BIGINT, order, constants=("1",))
    same = {}
    for size in SIZES:
        for name, operator in (("rank", rank), ("lag", physical.Recompute(read, "a", ("g",), (lag,)))):
            with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
                bench = Bench(Path(folder), stateful(operator), given.rows, size)
                if name == "rank":
                    same[size], _ = bench.run(1_000, given.runs, 100)
                for changes in CHANGES:
                    if name == "lag" and changes * size > 10_000_000:
                        continue  # lag() reads all rows of each changed group
                    taken, told = bench.run(changes, given.runs)
                    groups = f"{given.rows // size:,} groups of {size:,}"
                    print(
                        f"{name} {groups}: {changes:,} changes {taken * 1e3:.0f} CPU-ms, "
                        f"{changes / taken:,.0f} changes/CPU-s, {told:,} out",
                        flush=True,
                    )
    for size, taken in same.items():
        print(f"rank, 1,000 changes of 100 groups of {size:,}: {taken * 1e3:.0f} CPU-ms")
    print(f"  {same[SIZES[-1]] / same[SIZES[0]]:.1f} times as much; goal: at most 2")


class Bench:
    """One operator with stored rows."""

    def __init__(self, folder: Path, operator: StatefulOperator, rows: int, size: int) -> None:
        self.folder, self.operator, self.random = folder, operator, np.random.default_rng(2)
        self.groups = rows // size
        self.g = np.repeat(np.arange(self.groups), size)
        self.v = self.random.integers(0, 1 << 40, rows)
        self.manifest = state.empty(bucketing="local", buckets=1)
        for part in np.array_split(self.random.permutation(rows), _BATCHES):
            self.task(self.table(self.g[part], self.v[part], np.ones(len(part), np.int64)), keep=True)

    def run(self, changes: int, runs: int, groups: int | None = None) -> tuple[float, int]:
        """Return the CPU seconds of a batch in some of the groups, and the number of changes that it emits."""
        taken, told = [], 0
        some = self.groups if groups is None else groups
        for _ in range(runs):
            gone = self.random.choice(len(self.g) * some // self.groups, changes // 2, replace=False)
            g = np.concatenate([self.g[gone], self.random.integers(0, some, changes // 2)])
            v = np.concatenate([self.v[gone], self.random.integers(0, 1 << 40, changes // 2)])
            table = self.table(g, v, np.repeat([-1, 1], changes // 2))
            start = time.process_time()
            told = self.task(table, keep=False)
            taken.append(time.process_time() - start)
        return median(taken), told

    def table(self, g: Ints, v: Ints, diff: Ints) -> pa.Table:
        columns = {
            "$h1": mixed(g, 1), "$h2": mixed(g, 2), "$k0": g, "$k1": v, "$r": mixed(g * 1_000_003 + v, 3),
            "$k2": [f"some text {each}" for each in (v % 1000).tolist()], "$count": diff,
        }  # fmt: skip
        schema = self.operator.preparation.delivered()
        return pa.table([pa.array(columns[each.name], each.type) for each in schema], schema=schema)

    def task(self, table: pa.Table, *, keep: bool) -> int:
        held = Arrangements(StateDirectory(self.folder), self.manifest, 1, uuid.uuid4().hex)
        batches: Iterator[pa.RecordBatch] = iter(table.to_batches(max_chunksize=_BATCH))
        words: list[object] = []
        told = sum(len(each) for each in task_of(self.operator, held, InputEvents())(0, "t", batches, words.append))
        if keep:
            self.manifest = state.next_manifest(self.manifest, collect(words, {self.operator.name: 1}).runs)
        return told


def mixed(numbers: Ints, seed: int) -> Ints:
    found = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
        seed * 0x632BE59BD9B4E019 & (1 << 63) - 1
    )
    found ^= found >> np.uint64(29)
    found *= np.uint64(0xBF58476D1CE4E5B9)
    found ^= found >> np.uint64(32)
    return found.view(np.int64)


if __name__ == "__main__":
    main()
