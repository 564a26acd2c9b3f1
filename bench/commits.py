"""Measure many commits in a row: the last ones beside those after commit 300, and the files besides the data.

    python -m bench.commits [--commits 3000] [--kind append] [--rows 100] [--keys 1000] [--window 120]

Runs without Spark, like `bench.growth`. A young sink, with 300 commits, and an old one run in two processes. Then they
commit in turns, twenty times each, so that a loaded machine slows both. Old snapshots expire from commit 120 on. Prints
the CPU of a commit of both and the ratio, the share of maintenance in the CPU, the CPU of the expiry in a turn, the
largest metadata.json, the most manifests at any time, and the files of the sink's state folder. After a final cleanup,
prints how many files the table's folder has, and how many of them nothing references.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from bench.common import HOME, ROOT, show
from bench.figure import report
from bench.growth import Numbers, _open, _stepper
from sinkql.connectors.iceberg.write import maintenance as iceberg_maintenance

_LOOK_EVERY = 20
_TURN = 20
"""The commits of a turn: with that many snapshots to expire, they expire."""
_YOUNG = 300


@dataclass(slots=True)
class Most:
    """The largest sizes seen."""

    metadata: int = 0
    manifests: int = 0

    def look(self, folder: Path) -> None:
        """Measure the current table."""
        table = _table(folder)
        head = table.current_snapshot()
        self.metadata = max(self.metadata, Path(table.metadata_location.removeprefix("file://")).stat().st_size)
        self.manifests = max(self.manifests, len(head.manifests(table.io)) if head is not None else 0)


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds of some commits, with those of maintenance, and of expiry as a part of it; sizes until then."""

    cpu: float
    maintenance: float
    expiry: float
    most: Most
    state_files: int

    def __add__(self, other: Cost) -> Cost:
        parts = self.cpu + other.cpu, self.maintenance + other.maintenance, self.expiry + other.expiry
        return Cost(*parts, other.most, other.state_files)


class Sink:
    """A sink in its own process, which commits when it is told to."""

    def __init__(self, name: str, arguments: argparse.Namespace) -> None:
        self.folder = HOME / f"commits-{arguments.kind}-{name}"
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "in").mkdir(parents=True)
        processes = get_context("spawn")
        self._connection, other = processes.Pipe()
        self._process = processes.Process(target=_serve, args=(other, self.folder, arguments))
        self._process.start()

    def commit(self, commits: int) -> Cost:
        """Run some commits."""
        self._connection.send(commits)
        cost: Cost = self._connection.recv()
        return cost

    def end(self) -> None:
        """Clean up the table, and end the process."""
        self._connection.send(0)
        self._process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=3_000)
    parser.add_argument("--kind", default="append", choices=["append", "upsert", "view"])
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--window", type=int, default=120)
    arguments = parser.parse_args()
    young, old = Sink("young", arguments), Sink("old", arguments)
    young.commit(_YOUNG)
    before = old.commit(arguments.commits - arguments.window)
    turns = [(young.commit(_TURN), old.commit(_TURN)) for _ in range(arguments.window // _TURN)]
    first, last = (sum(costs[1:], costs[0]) for costs in zip(*turns, strict=True))
    _print(first, last, before + last, arguments)
    young.end()
    old.end()
    _print_files(old.folder)


def _serve(connection: Connection, folder: Path, arguments: argparse.Namespace) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    keys = None if arguments.kind == "append" else arguments.keys
    loop = _open(folder, arguments.kind, Numbers(arguments.rows, keys, anyhow=True))
    maintenance = loop.writer.maintenance
    assert maintenance is not None
    spent, expiry = _metered(maintenance, "maintain"), _metered(iceberg_maintenance, "expire")
    step, most = _stepper(loop), Most()
    loop.start(epoch=1)
    while commits := connection.recv():
        before = spent[0], expiry[0]
        cpu = _commit(step, commits, folder, most)
        files = sum(len(names) for _, _, names in os.walk(folder / "state"))
        connection.send(Cost(cpu, spent[0] - before[0], expiry[0] - before[1], most, files))
    loop.maintenance.optimize(lambda: True)


def _metered(owner: object, name: str) -> list[float]:
    """Meter a function of an object or a module; return a list whose only item is its CPU seconds."""
    function, spent = getattr(owner, name), [0.0]

    def metered(*arguments: Any, **options: Any) -> Any:
        began = time.process_time()
        done = function(*arguments, **options)
        spent[0] += time.process_time() - began
        return done

    setattr(owner, name, metered)
    return spent


def _commit(step: Callable[[], None], commits: int, folder: Path, most: Most) -> float:
    """Run some commits; return their CPU seconds, without the measurements in between."""
    cpu = 0.0
    for number in range(commits):
        began = time.process_time()
        step()
        cpu += time.process_time() - began
        if number % _LOOK_EVERY == 0:
            most.look(folder)
    return cpu


def _print(first: Cost, last: Cost, whole: Cost, arguments: argparse.Namespace) -> None:
    window = arguments.window
    expiry = [cost.expiry / window * _TURN * 1000 for cost in (first, last)]
    show(
        [
            (arguments.kind, "value"),
            (f"CPU of a commit, {_YOUNG} to {_YOUNG + window}, ms", f"{first.cpu / window * 1000:.1f}"),
            (
                f"CPU of a commit, {arguments.commits - window} to {arguments.commits}, ms",
                f"{last.cpu / window * 1000:.1f}",
            ),
            ("ratio", f"{last.cpu / first.cpu:.2f}"),
            ("maintenance, share of the CPU", f"{whole.maintenance / whole.cpu:.2f}"),
            (f"expiry in {_TURN} commits, ms", f"{expiry[0]:.1f} and {expiry[1]:.1f}"),
            ("largest metadata.json, KB", f"{whole.most.metadata / 1024:.0f}"),
            ("most manifests", str(whole.most.manifests)),
            ("files of the state folder", f"{first.state_files} and {last.state_files}"),
        ]
    )
    report(f"commits {arguments.kind}", last.cpu / window * 1000, first.cpu / window * 1000)
    report(f"commits {arguments.kind} expiry", *reversed(expiry))
    report(f"commits {arguments.kind} files", last.state_files)


def _print_files(folder: Path) -> None:
    reached = _reached(_table(folder))
    there = {str(path) for path in (folder / "lake" / "n" / "t").rglob("*") if path.is_file()}
    left = {path for path in there - reached if not path.endswith("version-hint.text")}
    print(f"files after the last cleaning: {len(there)}, {len(left)} of them reached by nothing")


def _reached(table: Table) -> set[str]:
    found = {table.metadata_location, *(each.metadata_file for each in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)  # removed files expire with it
            found |= {entry.data_file.file_path for entry in entries}
    return {path.removeprefix("file://") for path in found}


def _table(folder: Path) -> Table:
    catalog = load_catalog("default", type="sql", uri=f"sqlite:///{folder}/lake.db", warehouse=f"file://{folder}/lake")
    return catalog.load_table("n.t")


if __name__ == "__main__":
    main()
