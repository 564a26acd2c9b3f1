"""Measure a join in a task on this machine: changes per CPU-second, bytes of state a row, a hot key, a chain.

    python -m bench.join [--only one many kept hot chain]

many: the same changes over ten times as many rows. chain: FULL JOINs of ten sources on one key, in one task and in one
task for each join. The exchanges that bring rows to tasks are not measured; Spark makes one for each task.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql import physical
from sinkql.logical import Reference
from sinkql.logical.expression import walk
from sinkql.logical.function import call
from sinkql.logical.type import BIGINT, parse_type
from sinkql.lowering.common_subplan import named
from sinkql.lowering.fused_join import fuse_joins
from sinkql.lowering.join_input import SidesPreparation
from sinkql.runtime.local.task_input import prepared_sides
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements, InputEvents
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import StatefulOperator, task_of
from sinkql.runtime.state.report import collect
from sinkql.state_store.directory import StateDirectory

ROWS = 5_000_000
CHANGES = (1_000, 10_000, 100_000)
_ASKED = {1_000: 15, 10_000: 35, 100_000: 180}
HOT = 1_000_000
SOURCES = 10
_KEYS, _CHANGED = 20_000, 200
_SMALL = (60_000, 20_000, 10_000)
_AT_ONCE = 65_536
_WORDS = np.array([f"customer#{number:09d}" for number in range(100_000)])


def main() -> None:
    """Measure the chosen cases."""
    cases = {"one": one, "many": many, "kept": kept, "hot": hot, "chain": chain}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=tuple(cases), default=tuple(cases))
    for name in parser.parse_args().only:
        cases[name]()


def one() -> None:
    """Measure a join of changes with a side of 5 M rows, one match each."""
    with tempfile.TemporaryDirectory() as folder:
        bucket = Kept(Path(folder), join("retract", "rows"))
        bucket.fill(ROWS)
        for count in CHANGES:
            cost = [bucket.measure(count) for _ in range(5)]
            cpu, out = statistics.median(each for each, _ in cost), cost[0][1]
            rate = f"{cpu * 1000:.0f} CPU-ms, {count / cpu:,.0f} changes/CPU-s, {out} rows out"
            print(f"{count:7d} changes: {rate}; goal: at most {_ASKED[count]} ms")


def many() -> None:
    """Measure the same join with a side of ten times as many rows."""
    found = []
    for rows in (ROWS, 10 * ROWS):
        with tempfile.TemporaryDirectory() as folder:
            bucket = Kept(Path(folder), join("retract", "rows"))
            bucket.fill(rows)
            bucket.measure(CHANGES[1])
            found.append({each: statistics.median(bucket.measure(each)[0] for _ in range(5)) for each in CHANGES})
    for count in CHANGES:
        few, more = (each[count] * 1000 for each in found)
        asked = f"{ROWS:,} rows {few:.0f} CPU-ms, {10 * ROWS:,} {more:.0f}, {more / few:.1f} times; goal: at most 2"
        print(f"{count:7d} changes over {asked}")


def kept() -> None:
    """Print the bytes of state a row."""
    for name, change, keeps in KEPT:
        with tempfile.TemporaryDirectory() as folder:
            bucket = Kept(Path(folder), join(change, keeps))
            bucket.fill(ROWS // 5)
            print(f"state, {name}: {bucket.bytes_a_row():.0f} bytes a row")


def hot() -> None:
    """Measure a hot key."""
    with tempfile.TemporaryDirectory() as folder:
        hot_key(Path(folder))


def chain() -> None:
    """Measure FULL JOINs on one key, in one task and in one task for each join."""
    for word, graph in (("one task", fuse_joins(full_joins())), ("a task each", full_joins())):
        with tempfile.TemporaryDirectory() as folder:
            joins = Chain(Path(folder), named(graph).root)
            joins.come(_KEYS)
            costs = [joins.come(_CHANGED) for _ in range(7)]
            state = joins.bytes / 1e6
            print(f"{SOURCES} sources, {word}: {statistics.median(costs) * 1000:.0f} CPU-ms a batch, {state:.1f} MB")


KEPT: tuple[tuple[str, physical.Change, Any], ...] = (
    ("rows with retractions", "retract", "rows"),
    ("append-only rows", "append", "rows"),
    ("the latest rows", "upsert", "latest"),
    ("counts", "retract", "counts"),
)


def join(change: physical.Change, keeps: Any) -> physical.Join:
    """Return a join whose right side has this kind of change and of state."""
    sides = []
    for place, name in enumerate("lr"):
        columns = tuple(
            physical.Column(f"{name}{number}", parse_type(type_), number > 0)
            for number, type_ in enumerate(("bigint", "bigint", "double precision", "text"))
        )
        own: physical.Change = change if place else "retract"
        key = (f"{name}0",) if own == "upsert" else ()
        read = physical.Read(name, "none", {}, columns, own, key=key)
        kept = () if place and keeps == "counts" else tuple(column.name for column in columns)
        sides.append(physical.Side(read, f"j-{name}", (f"{name}0",), kept, keeps if place else "rows"))
    return physical.Join("anti" if keeps == "counts" else "inner", sides[0], sides[1], "j", (False,))


class Kept:
    """One bucket of a join, with its state."""

    def __init__(self, folder: Path, view: physical.Join) -> None:
        self.folder, self.operator = folder, stateful(view)
        self.manifest = state.empty(bucketing="none", buckets=1)
        self.rng = np.random.default_rng(1)
        self.h1 = np.zeros(0, np.int64)
        self.commit = 0

    def fill(self, rows: int) -> None:
        """Store `rows` rows of the right side, one for each key, and then three small batches of these keys."""
        self.h1 = self.rng.integers(-(2**63), 2**63 - 1, rows)
        for start in range(0, rows, ROWS):
            self.keep(np.arange(start, min(start + ROWS, rows)))
        for count in _SMALL:
            self.keep(np.sort(self.rng.choice(rows, min(count, rows // 20), replace=False)))

    def keep(self, keys: np.ndarray[Any, Any]) -> None:
        """Run a batch of the right side and keep its state."""
        words: list[object] = []
        task = task_of(self.operator, self._held(), InputEvents(), InputEvents())
        for _ in task(0, "t", self._batches(1, keys), words.append):
            pass
        self.manifest = state.next_manifest(self.manifest, collect(words, {"j": 1}).runs)

    def measure(self, count: int) -> tuple[float, int]:
        """Return the CPU seconds of changes to the left side, and the number of rows that they emit."""
        keys = np.sort(self.rng.choice(len(self.h1), count, replace=False))
        batches = list(self._batches(0, keys))
        task = task_of(self.operator, self._held(), InputEvents(), InputEvents())
        start = time.process_time()
        words: list[object] = []
        out = sum(len(each) for each in task(0, "t", iter(batches), words.append))
        return time.process_time() - start, out

    def bytes_a_row(self) -> float:
        """Return the bytes of a row of the right side."""
        runs = self.manifest["arrangements"]["j-r"]["0"]
        return float(sum(run["bytes"] for run in runs) / sum(run["rows"] for run in runs))

    def _held(self) -> Arrangements:
        self.commit += 1
        return Arrangements(StateDirectory(self.folder), self.manifest, 1, f"c{self.commit}")

    def _batches(self, side: int, keys: np.ndarray[Any, Any]) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(keys), _AT_ONCE):
            yield delivered(self.operator, side, self.h1[keys[start : start + _AT_ONCE]], self.rng)


def delivered(
    operator: StatefulOperator, side: int, h1: np.ndarray[Any, Any], rng: np.random.Generator
) -> pa.RecordBatch:
    """Return rows of one side with these hashes, as a task receives them."""
    count = len(h1)
    schema = operator.preparation.delivered()
    columns = {
        "$side": np.full(count, side), "$h1": h1, "$h2": h1 ^ 0x5A5A, "$r": rng.integers(-(2**63), 2**63 - 1, count),
        "$diff": np.ones(count, np.int64), "$seq": np.arange(count), "$c0": h1, "$c1": rng.integers(0, 10**6, count),
        "$c2": rng.random(count), "$c3": _WORDS[rng.integers(0, len(_WORDS), count)],
    }  # fmt: skip
    return pa.record_batch([pa.array(columns[each.name], each.type) for each in schema], schema=schema)


def hot_key(folder: Path) -> None:
    """Print the cost of ten changes that match a million rows each."""
    bucket = Kept(folder, join("retract", "rows"))
    bucket.h1 = np.full(HOT, 77 << 40)
    bucket.keep(np.arange(HOT))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu, out = bucket.measure(10)
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    print(f"hot key, {HOT} rows, 10 changes: {out / cpu / 1e6:.1f} M rows/CPU-s out, {more} MB above the peak before;")
    print("  goal: at least 5 M and at most 300 MB")


def full_joins() -> physical.Graph:
    """Return s0 FULL JOIN s1 USING (k) FULL JOIN s2 USING (k) and so on."""
    view: physical.Operator = _source(0)
    key = "k0"
    for number in range(1, SOURCES):
        shown = tuple(each.name for each in physical.columns_of(view))
        sides = (
            physical.Side(view, f"{number}l", (key,), shown),
            physical.Side(_source(number), f"{number}r", (f"k{number}",), (f"k{number}", f"x{number}")),
        )
        join = physical.Join("full", sides[0], sides[1], str(number), (False,))
        merged = call("coalesce(any…)", (_reference(key), _reference(f"k{number}")), type_=BIGINT)
        outputs = [physical.Output(each.name, _reference(each.name)) for each in join.columns if each.name != key]
        key = f"u{number}"
        view = physical.Map(join, (*outputs, physical.Output(key, merged)))
    return physical.Graph(view)


def _source(number: int) -> physical.Read:
    columns = tuple(physical.Column(f"{name}{number}", BIGINT) for name in "kx")
    return physical.Read(f"s{number}", "none", {}, columns, "retract")


def _reference(name: str) -> Reference:
    return Reference(name, BIGINT, True)


class Chain:
    """Joins in one bucket, whose rows arrive as Spark delivers them."""

    def __init__(self, folder: Path, view: physical.Operator) -> None:
        self.folder, self.view = folder, view
        self.manifest = state.empty(bucketing="none", buckets=1)
        self.rng, self.commit = np.random.default_rng(1), 0
        self.now = np.zeros((SOURCES, _KEYS), np.int64)
        self.cpu = 0.0

    def come(self, count: int) -> float:
        """Change some rows of each source, and return the CPU seconds of the tasks."""
        self.commit += 1
        self.cpu, first = 0.0, self.commit == 1
        held = Arrangements(StateDirectory(self.folder), self.manifest, 1, f"c{self.commit}")
        batches = {f"s{number}": self._changes(number, count, first=first) for number in range(SOURCES)}
        words: list[object] = []
        self._rows(self.view, held, batches, words)
        names = {each.arrangement: 1 for each in physical.Graph(self.view).stateful()}
        self.manifest = state.next_manifest(self.manifest, collect(words, names).runs)
        return self.cpu

    @property
    def bytes(self) -> int:
        """Return the size of the state."""
        found = self.manifest["arrangements"].values()
        return sum(int(run["bytes"]) for buckets in found for runs in buckets.values() for run in runs)

    def _changes(self, number: int, count: int, *, first: bool) -> pa.Table:
        keys = np.sort(self.rng.choice(_KEYS, count, replace=False))
        old = self.now[number, keys]
        new = self.now[number, keys] = self.rng.integers(1, 10**6, count)
        parts = [(new, 1)] if first else [(old, -1), (new, 1)]
        tables = [
            pa.table({f"k{number}": keys, f"x{number}": values, physical.DIFF: np.full(count, diff)})
            for values, diff in parts
        ]
        return pa.concat_tables(tables)

    def _rows(
        self, operator: physical.Operator, held: Arrangements, batches: dict[str, pa.Table], words: list[object]
    ) -> pa.Table:
        match operator:
            case physical.Read():
                return batches[operator.source]
            case physical.Map():
                return _mapped(operator, self._rows(operator.input, held, batches, words))
            case physical.Join():
                inputs = [self._rows(each, held, batches, words) for each in operator.entering]
                meant = stateful(operator)
                assert isinstance(meant.preparation, SidesPreparation)
                rows = prepared_sides(meant.preparation, inputs, 1).to_batches()
                task = task_of(meant, held, *(InputEvents() for _ in inputs))
                start = time.process_time()
                found = list(task(0, "t", iter(rows), words.append))
                self.cpu += time.process_time() - start
                return pa.Table.from_batches(found, meant.preparation.output())
            case _:
                raise AssertionError(operator)


def _mapped(operator: physical.Map, rows: pa.Table) -> pa.Table:
    columns = {}
    for each in operator.outputs:
        below = [node.name for node in walk(each.expression) if isinstance(node, Reference)]
        columns[each.name] = pc.coalesce(*(rows.column(name) for name in below))
    return pa.table({**columns, physical.DIFF: rows.column(physical.DIFF)})


if __name__ == "__main__":
    main()
