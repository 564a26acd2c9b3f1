"""Simulated power failures after each durable write: the table opens and contains all acknowledged commits.

After the failure, the disk has only synced contents, names and removals of names.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable, Table

from crash import verify
from crash.pipeline import BATCH_ROWS, KINDS, Pipeline, expected, write_input
from sinkql.connectors.iceberg.commit.checkpoint import find
from sinkql.connectors.iceberg.key_index.index import Index
from sinkql.connectors.iceberg.key_index.key_hash import key_columns
from support.index import live_entries
from support.power import Disk, record
from support.programs import need

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", autouse=True)
def traced() -> None:
    """Skip the tests if strace, which records all writes, cannot trace here; some containers forbid it."""
    tried = subprocess.run([need("strace"), "-o", os.devnull, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"strace cannot trace here: {tried.stderr.strip()}")


@dataclass(frozen=True)
class Seen:
    """A reader's result: the metadata file that the database names, the rows, and the files that they were read from.

    `told` caches for numbers of batches whether the rows are those batches' result.
    """

    location: str | None
    rows: Counter[tuple[object, ...]]
    files: Set[Path]
    told: dict[int, bool] = field(default_factory=dict)


@dataclass
class Failing:
    """A pipeline's folder after a power failure; the original folder is moved away.

    Readers run again only if a file that they read has changed; `looked` counts these runs.
    """

    pipeline: Pipeline
    present: dict[Path, bytes] = field(default_factory=dict)
    acknowledged: int = 0
    moments: int = 0
    looked: int = 0
    found: set[int] = field(default_factory=set)
    seen: Seen | None = None
    after: dict[int, Counter[tuple[object, ...]]] = field(default_factory=dict)

    def become(self, files: dict[Path, bytes]) -> None:
        """Replace the folder's contents with these files; drop the cached result if it may have changed."""
        changed = {path: data for path, data in files.items() if self.present.get(path) is not data}
        gone = self.present.keys() - files.keys()
        for path in gone:
            path.unlink(missing_ok=True)
        for path, data in changed.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        lost = gone | (changed.keys() & self.present.keys())
        self.present = files
        if self.seen is None:
            return
        moved = any(path.name.startswith("lake.db") for path in (*changed, *gone)) and (
            self._named() != self.seen.location
        )
        if moved or any(path in self.seen.files or path.is_relative_to(self.pipeline.state) for path in lost):
            self.seen = None

    def check(self) -> None:
        """Check that the table has all acknowledged batches and at most one more, the one in progress."""
        self.moments += 1
        if self.seen is None:
            self.looked += 1
            self.seen = self._look()
        possible = (self.acknowledged, self.acknowledged + 1)
        for number in possible:
            if number not in self.seen.told:
                self.seen.told[number] = self._has(self.seen.rows, number)
        batches = [number for number in possible if self.seen.told[number]]
        assert batches, f"the table does not have the {self.acknowledged} acknowledged batches"
        self.found.update(batches)

    def _look(self) -> Seen:
        """Read the table, the index and the state like a process that starts after the failure."""
        location = self._named()
        table = StaticTable.from_metadata(location) if location is not None else None
        head = table.current_snapshot() if table is not None else None
        if table is None or head is None:
            return Seen(location, Counter(), {_path(location)} if location is not None else set())
        files = {str(location), head.manifest_list, *(each.manifest_path for each in head.manifests(table.io))}
        for task in table.scan().plan_files():
            files |= {task.file.file_path, *(each.file_path for each in task.delete_files)}
        rows = Counter[tuple[object, ...]]()
        for row in rows_of(table):
            rows[tuple(row[name] for name in self.pipeline.what.columns)] += row.get("_mz_diff", 1)
        kept = find(table, self.pipeline.sink_id)
        assert kept is not None
        if kept.checkpoint.index is not None:
            key = key_columns(table, self.pipeline.what.columns[:1])
            index = Index.load(self.pipeline.state / "index", kept.checkpoint.index, key)
            assert index is not None
            live_entries(index, self.pipeline.state / "index")
        if kept.checkpoint.state is not None:
            verify.check_state_of(self.pipeline, kept.checkpoint.state)
        return Seen(location, +rows, {_path(each) for each in files})

    def _named(self) -> str | None:
        """Return the metadata file named by the database after SQLite's recovery."""
        with tempfile.TemporaryDirectory(dir=self.pipeline.folder) as folder:
            for path, data in self.present.items():
                if path.name.startswith("lake.db"):
                    (Path(folder) / path.name).write_bytes(data)
            with closing(sqlite3.connect(Path(folder) / "lake.db")) as connection:
                try:
                    found = connection.execute("SELECT metadata_location FROM iceberg_tables").fetchone()
                except sqlite3.OperationalError:  # no tables yet
                    return None
        return str(found[0]) if found is not None else None

    def _has(self, rows: Counter[tuple[object, ...]], batches: int) -> bool:
        """Return whether the rows may be the result of this number of batches."""
        wanted = self._expected(batches)
        if not self.pipeline.what.picked:
            return rows == wanted
        return rows <= wanted and Counter(row[0] for row in rows) == Counter({row[0] for row in wanted})

    def _expected(self, batches: int) -> Counter[tuple[object, ...]]:
        if batches == 0:
            return Counter()
        if batches not in self.after:
            upto = batches * BATCH_ROWS
            self.after[batches] = expected(self.pipeline.folder, self.pipeline.kind, upto=upto)
        return self.after[batches]


def _path(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def rows_of(table: Table) -> list[dict[str, Any]]:
    """Return all rows by PyIceberg; this opens each file that the table references."""
    rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return rows


def fail_everywhere(folder: Path, kinds: list[str], commits: int) -> Iterator[Failing]:
    """Run pipelines of the given kinds for `commits` commits; check each disk after every durable write."""
    for kind in kinds:
        (folder / kind).mkdir()
        write_input(folder / kind, rows=commits * BATCH_ROWS)
    tests = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), *sys.path])}
    runs = [part for kind in kinds for part in (kind, str(folder / kind))]
    log = folder / "log"
    record([sys.executable, "-m", "crash.recorded", *runs], log, environment=environment)
    for kind in kinds:
        disk = Disk(folder / kind)
        for name in ("lake", "lake.db", "state"):
            place = folder / kind / name
            place.rename(folder / f"{kind}-{name}")
        failing = Failing(Pipeline(folder / kind, kind))
        for path in disk.play(log):
            if path.endswith("/acknowledged"):
                failing.acknowledged += 1
            else:
                failing.become(disk.after_failure())
            failing.check()
        print(f"{kind}: {failing.moments} moments, {failing.looked} inspected, {commits} commits")
        yield failing


def test_what_was_acknowledged_is_there_after_a_power_failure(tmp_path: Path) -> None:
    kinds = ["chain", "vectors"]
    for failing in fail_everywhere(tmp_path, kinds, commits=4):
        assert failing.found >= {1, 2, 3, 4}


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_two_hundred_commits_are_there_after_a_power_failure(tmp_path: Path, kind: str) -> None:
    (failing,) = fail_everywhere(tmp_path, [kind], commits=200)
    assert failing.found >= set(range(1, 201))
