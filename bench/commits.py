"""Measure many commits in a row: the last ones against the first, and the files besides the data.

    python -m bench.commits [--commits 3000] [--kind append] [--rows 100] [--keys 1000] [--window 100]

Runs without Spark, like `bench.growth`. Prints the CPU of a commit in the first and in the last window, the share of
maintenance in the CPU, the largest metadata.json, and the most manifests at any time. After a final cleanup, prints how
many files the table's folder has, and how many of them nothing references.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from bench.common import HOME, ROOT, show
from bench.growth import Numbers, _open, _stepper
from sinkql.connector_api.stream import Compacted
from sinkql.runtime.batch.loop import BatchLoop

_LOOK_EVERY = 20


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=3_000)
    parser.add_argument("--kind", default="append", choices=["append", "upsert", "view"])
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--window", type=int, default=100)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    folder = HOME / f"commits-{arguments.kind}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "in").mkdir(parents=True)
    keys = None if arguments.kind == "append" else arguments.keys
    loop = _open(folder, arguments.kind, Numbers(arguments.rows, keys, anyhow=True))
    kept = _metered(loop)
    loop.start(epoch=1)
    step, most = _stepper(loop), Most()
    first = _commit(step, arguments.window, folder, most)
    middle = _commit(step, arguments.commits - 2 * arguments.window, folder, most)
    last = _commit(step, arguments.window, folder, most)
    _print(first, middle, last, kept[0], arguments, most)
    loop.maintenance.optimize(lambda: True)
    _print_files(folder)


def _metered(loop: BatchLoop) -> list[float]:
    """Meter the writer's maintenance; return a list whose only item is its CPU seconds."""
    maintenance = loop.writer.maintenance
    assert maintenance is not None
    spent, maintain = [0.0], maintenance.maintain

    def metered(go_on: Callable[[bool], bool] = lambda begun: True) -> Sequence[Compacted]:
        began = time.process_time()
        done = maintain(go_on)
        spent[0] += time.process_time() - began
        return done

    maintenance.maintain = metered  # type: ignore[method-assign]  # to meter it
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


def _print(first: float, middle: float, last: float, kept: float, arguments: argparse.Namespace, most: Most) -> None:
    window = arguments.window
    show(
        [
            (arguments.kind, "value"),
            (f"CPU of a commit, first {window}, ms", f"{first / window * 1000:.1f}"),
            (f"CPU of a commit, last {window}, ms", f"{last / window * 1000:.1f}"),
            ("last / first", f"{last / first:.2f}"),
            ("maintenance, share of the CPU", f"{kept / (first + middle + last):.2f}"),
            ("largest metadata.json, KB", f"{most.metadata / 1024:.0f}"),
            ("most manifests", str(most.manifests)),
        ]
    )


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
