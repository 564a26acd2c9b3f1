"""Measure a comparison with a value that moves, in a task: as a threshold, and as a join with each row, in one run.

    python -m bench.threshold [--rows 1000000] [--passed 100] [--changes 100] [--runs 5]

A batch changes some rows and moves the value past some of the stored rows. Prints the CPU milliseconds of the task, the
number of rows that it emits, and the bytes of state a row, medians of the runs. Uses one thread and one bucket.
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
from bench.rank import mixed
from sinkql import physical
from sinkql.logical.type import BIGINT, TEXT
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements, InputEvents
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import StatefulOperator, task_of
from sinkql.runtime.state.report import collect
from sinkql.state_store.directory import StateDirectory

Ints = NDArray[np.int64]
_BATCHES, _BATCH = 8, 65_536


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--passed", type=int, default=100)
    parser.add_argument("--changes", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    pa.set_cpu_count(1)
    for name, operator in (("joined with each row", _join(None)), ("a bound", _join(physical.Compared("x", ">", "m")))):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            bench = Bench(Path(folder), stateful(operator), given.rows)
            taken, told = bench.run(given.passed, given.changes, given.runs)
            print(
                f"{name}: {given.rows:,} rows, {given.changes:,} changes, {given.passed:,} rows passed: "
                f"{taken * 1e3:.1f} CPU-ms, {told:,} out, {bench.bytes_a_row():.0f} bytes a row",
                flush=True,
            )


def _join(compared: physical.Compared | None) -> physical.Join:
    """Return a cross join of rows and value, or with `compared`, a join that compares them."""
    columns = (physical.Column("x", BIGINT), physical.Column("t", TEXT))
    rows = physical.Read("e", "listed", {}, columns, "retract")
    value = physical.Read("s", "listed", {}, (physical.Column("m", BIGINT),), "retract")
    sides = (
        physical.Side(rows, "a-l", (), ("x", "t")),
        physical.Side(value, "a-r", (), ("m",), replicated=True),
    )
    return physical.Join("inner" if compared is None else "semi", *sides, "a", (), compared)


class Bench:
    """One operator with stored rows: their values start at 0, and half of them are above the threshold."""

    def __init__(self, folder: Path, operator: StatefulOperator, rows: int) -> None:
        self.folder, self.operator, self.random = folder, operator, np.random.default_rng(3)
        self.rows, self.value = rows, rows // 2
        self.manifest = state.empty(bucketing="local", buckets=1)
        self.task([self.table(1, np.array([self.value]), np.ones(1, np.int64))], keep=True)
        for part in np.array_split(self.random.permutation(rows), _BATCHES):
            self.task([self.table(0, part, np.ones(len(part), np.int64))], keep=True)

    def run(self, passed: int, changes: int, runs: int) -> tuple[float, int]:
        """Return the CPU seconds of a batch, and the number of changes that it emits."""
        taken, told = [], 0
        for _ in range(runs):
            gone = self.random.choice(self.rows, changes // 2, replace=False)
            come = self.random.integers(0, self.rows, changes // 2) + self.rows
            tables = [
                self.table(1, np.array([self.value, self.value + passed]), np.array([-1, 1])),
                self.table(0, np.concatenate([gone, come]), np.repeat([-1, 1], changes // 2)),
            ]
            start = time.process_time()
            told = self.task(tables, keep=False)
            taken.append(time.process_time() - start)
        return median(taken), told

    def bytes_a_row(self) -> float:
        """Return the bytes of state a row."""
        runs = self.manifest["arrangements"]["a-l"]["0"]
        return float(sum(run["bytes"] for run in runs) / sum(run["rows"] for run in runs))

    def table(self, side: int, x: Ints, diff: Ints) -> pa.Table:
        texts = [f"some text {each}" for each in (x % 1000).tolist()]
        columns = {
            "$side": np.full(len(x), side), "$h1": mixed(x, 1 + side), "$h2": mixed(x, 3), "$r": mixed(x, 4),
            "$c0": x, "$c1": texts if side == 0 else [None] * len(x), "$diff": diff,
        }  # fmt: skip
        schema = self.operator.preparation.delivered()
        return pa.table([pa.array(columns[each.name], each.type) for each in schema], schema=schema)

    def task(self, tables: list[pa.Table], *, keep: bool) -> int:
        held = Arrangements(StateDirectory(self.folder), self.manifest, 1, uuid.uuid4().hex)
        batches: Iterator[pa.RecordBatch] = (
            each for table in tables for each in table.to_batches(max_chunksize=_BATCH)
        )
        words: list[object] = []
        task = task_of(self.operator, held, InputEvents(), InputEvents())
        told = sum(len(each) for each in task(0, "t", batches, words.append))
        if keep:
            self.manifest = state.next_manifest(self.manifest, collect(words, {self.operator.name: 1}).runs)
        return told


if __name__ == "__main__":
    main()
