"""Measure state: bytes a row of each kind, while rows are replaced for a long time, and the rows of a sliding hour.

    python -m bench.state [--rows 100000] [--commits 100] [--share 0.01] [--hours 24]

Runs one bucket of an operator, without Spark. Each commit replaces a share of the rows of a join's side. Prints the
bytes of all live files per existing row, including runs not merged yet. A row has four columns, of 46 bytes. Then
measures an hour that slides, in commits a minute apart on a simulated clock: the stored rows per visible row.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.join import KEPT, join
from bench.rank import mixed
from sinkql import physical
from sinkql.logical.type import BIGINT
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements, InputEvents
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.operator.protocol import StatefulOperator, task_of
from sinkql.runtime.state.report import collect
from sinkql.state_store.directory import StateDirectory

Ints = NDArray[np.int64]
_PAYLOAD = 46
_ASKED = {"rows": 34, "appended": 18, "latest": 18, "counts": 26}
_AT_ONCE = 65_536
_MINUTE, _HOUR = 60_000, 3_600_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--hours", type=int, default=24)
    given = parser.parse_args()
    for name, change, keeps in KEPT:
        with tempfile.TemporaryDirectory() as folder:
            _churn(name, Kept(Path(folder), stateful(join(change, keeps)), "j-r"), change, keeps, given)
    with tempfile.TemporaryDirectory() as folder:
        _hour(Path(folder), given.hours)


def _churn(name: str, bucket: Kept, change: physical.Change, keeps: str, given: argparse.Namespace) -> None:
    side = _Side(np.random.default_rng(3), appended=change == "append", latest=keeps == "latest")
    payload = 0 if keeps == "counts" else _PAYLOAD
    bucket.run([side.first(given.rows)], InputEvents())
    alone = bucket.bytes / side.there - payload
    kind = "appended" if change == "append" else keeps
    print(f"{name}: {alone:.0f} bytes a row besides its columns; goal: at most {_ASKED[kind]}", flush=True)
    most, series = 1.0, []
    for commit in range(1, given.commits + 1):
        bucket.run([side.replaced(int(given.rows * given.share))], InputEvents())
        times = bucket.bytes / side.there / (alone + payload)
        most = max(most, times)
        if commit % max(1, given.commits // 10) == 0:
            series.append(f"{times:.2f}")
    print(f"  times that, in {given.commits} commits that replace {given.share:.0%}: {' '.join(series)}; ", end="")
    print(f"at most {most:.2f}, goal: at most 1.5", flush=True)


def _hour(folder: Path, hours: int) -> None:
    columns = (physical.Column("at", BIGINT, False), physical.Column("value", BIGINT, False))
    read = physical.Read("r", "none", {}, columns, "append")
    bucket = Kept(folder, stateful(physical.Bound(read, "hour", None, "at", ("at", "value"))), "hour.here")
    random, now, most, bytes_, each = np.random.default_rng(4), 1_800_000_000_000, 0.0, [], 1_000
    for minute in range(hours * 60):
        since, now = now, now + _MINUTE
        ends = since + random.integers(0, _MINUTE, each) + _HOUR
        bucket.run(
            [{"ends": ends, "value": np.arange(minute * each, (minute + 1) * each)}], InputEvents(since=since, now=now)
        )
        if minute >= 60:
            most = max(most, bucket.rows / (60 * each))
        if minute % 60 == 59:
            bytes_.append(bucket.bytes)
    print(f"a sliding hour, {hours} hours in commits a minute apart: at most {most:.2f} times the hour's rows stored; ")
    print(f"  goal: at most 1.2; MB after each third hour: {' '.join(f'{b / 1e6:.1f}' for b in bytes_[2::3])}")


@dataclass(slots=True)
class _Side:
    """The rows of a side, numbered, with unique keys, and their versions."""

    random: np.random.Generator
    appended: bool
    latest: bool
    there: int = 0
    version: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def first(self, rows: int) -> dict[str, Ints]:
        self.version = np.zeros(rows, np.int64)
        self.there = rows
        return {"key": np.arange(rows), "version": self.version, "diff": np.ones(rows, np.int64)}

    def replaced(self, count: int) -> dict[str, Ints]:
        """Return new rows that replace some rows; if the side is append-only, return additional rows."""
        if self.appended:
            more = np.arange(self.there, self.there + count)
            self.there += count
            return {"key": more, "version": np.zeros(count, np.int64), "diff": np.ones(count, np.int64)}
        some = np.sort(self.random.choice(len(self.version), count, replace=False))
        old = self.version[some].copy()
        self.version[some] += 1
        new = {"key": some, "version": old + 1, "diff": np.ones(count, np.int64)}
        if self.latest:
            return new
        gone = {"key": some, "version": old, "diff": np.full(count, -1)}
        return {name: np.concatenate([gone[name], new[name]]) for name in new}


class Kept:
    """One bucket of an operator, with its state."""

    def __init__(self, folder: Path, operator: StatefulOperator, name: str) -> None:
        self.folder, self.operator, self.name = folder, operator, name
        self.manifest = state.empty(bucketing="none", buckets=1)
        self.commit = 0

    def run(self, rows: list[dict[str, Ints]], below: InputEvents) -> None:
        """Run a batch and keep its state."""
        self.commit += 1
        held = Arrangements(StateDirectory(self.folder), self.manifest, 1, f"c{self.commit}")
        sides = [below] * (2 if "$side" in self.operator.preparation.delivered().names else 1)
        batches = (batch for each in rows for batch in _batches(self.operator, each))
        words: list[object] = []
        for _ in task_of(self.operator, held, *sides)(0, "t", batches, words.append):
            pass
        self.manifest = state.next_manifest(self.manifest, collect(words, {self.operator.name: 1}).runs)
        live = {run["file"] for runs in self._runs() for run in runs}
        for path in (self.folder / "state").rglob("*.arrow"):
            if path.name not in live:
                path.unlink()

    @property
    def bytes(self) -> int:
        """Return the bytes of the live files; `run` deletes the rest."""
        return sum(path.stat().st_size for path in (self.folder / "state" / self.name).rglob("*.arrow"))

    @property
    def rows(self) -> int:
        """Return the number of rows in the live runs."""
        runs = self.manifest["arrangements"].get(self.name, {}).get("0", ())
        return sum(int(run["rows"]) for run in runs)

    def _runs(self) -> Iterator[list[dict[str, Any]]]:
        for buckets in self.manifest["arrangements"].values():
            yield from buckets.values()


def _batches(operator: StatefulOperator, rows: dict[str, Ints]) -> Iterator[pa.RecordBatch]:
    schema = operator.preparation.delivered()
    count = len(next(iter(rows.values())))
    for start in range(0, count, _AT_ONCE):
        part = {name: each[start : start + _AT_ONCE] for name, each in rows.items()}
        columns = _delivered(part)
        yield pa.record_batch([pa.array(columns[each.name](), each.type) for each in schema], schema=schema)


def _delivered(rows: dict[str, Ints]) -> dict[str, Callable[[], Any]]:
    """Return functions that create the columns in which a task may receive rows."""
    if "ends" in rows:
        ends, value = rows["ends"], rows["value"]
        return {
            "$h1": lambda: mixed(value, 1), "$h2": lambda: mixed(value, 2), "$k0": lambda: ends, "$k1": lambda: value,
            "$end": lambda: ends, "$count": lambda: np.ones(len(value), np.int64),
        }  # fmt: skip
    key, version = rows["key"], rows["version"]
    row = mixed(key * 1_000_003 + version, 3)
    return {
        "$side": lambda: np.ones(len(key), np.int64), "$h1": lambda: mixed(key, 1), "$h2": lambda: mixed(key, 2),
        "$r": lambda: row, "$diff": lambda: rows["diff"], "$seq": lambda: np.arange(len(key)), "$c0": lambda: key,
        "$c1": lambda: row % 1_000_000, "$c2": lambda: row / 7,
        "$c3": lambda: [f"customer#{each:09d}" for each in (row % 100_000).tolist()],
    }  # fmt: skip


if __name__ == "__main__":
    main()
