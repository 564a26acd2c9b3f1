"""Runs of an index → fewer: what old places and tombstones add up to is given back, and no look-up asks many runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sinkql.connectors.iceberg.key_index.index import Index, Run
from sinkql.connectors.iceberg.key_index.run import map_run, merged, write_run
from sinkql.storage.sorted_run import MergePolicy

_SLACK = 1 << 16
_MIXED = 4
_TIERS = MergePolicy(fan=2, small=1 << 14)
"""A run is merged with newer ones that together are as large, so that each entry is written a few times."""


def compact_runs(index: Index, folder: Path, name: str) -> Index:
    """Return the index with runs merged into a new file where that is due; it is not saved.

    Raises ValueError where all runs have not as many keys as the files have live rows.
    """
    index = replace(index, runs=_named(index))
    due = runs_to_compact(index)
    return index if due is None else replace(index, runs=_fold(index, folder, f"{name}.run", due))


def _named(index: Index) -> tuple[Run, ...]:
    """Return the runs without the oldest ones, as long as these name only files that are gone: newer ones know better.

    Between others such a run stays, for what it says of keys that are gone.
    """
    runs = list(index.runs)
    while runs and not runs[-1].may_name(index.files):
        runs.pop()
    return tuple(runs)


def runs_to_compact(index: Index) -> slice | None:
    """Return which neighbours among the runs to merge now.

    All where most entries are of no use; else several that other buckets' keys may be in: each look-up asks them, and
    merging stops below them.
    """
    rows = [run.rows for run in index.runs]
    if sum(rows) > 2 * _live(index) + _SLACK:
        return slice(0, len(rows))
    current = next(((run.buckets, run.bucketing) for run in index.runs if not run.mixed), None)
    mixed = [run.mixed or (run.buckets, run.bucketing) != current for run in index.runs]
    for start in range(len(rows)):
        length = _TIERS.due(rows[start:])
        if sum(mixed[start : start + length]) > _MIXED:
            return slice(start, start + length)
    return None


def _fold(index: Index, folder: Path, name: str, due: slice) -> tuple[Run, ...]:
    """Write one run in place of neighbours; only the oldest of all may forget the keys that are gone."""
    chosen, newer, older = index.runs[due], index.runs[: due.start], index.runs[due.stop :]
    parts = [map_run(folder / each.name) for each in chosen]
    if len(chosen) == len(index.runs):
        rows = _live(index)
    else:
        rows = sum(part.rows for part in merged(parts, keep_tombstones=bool(older)))
    if not rows:
        return newer + older
    write_run(folder / name, rows, merged(parts, keep_tombstones=bool(older)))
    spans = [run.files for run in chosen if run.files is not None]
    files = (min(low for low, _ in spans), max(high for _, high in spans)) if len(spans) == len(chosen) else None
    return (*newer, Run(name, rows, files=files), *older)


def _live(index: Index) -> int:
    return sum(note.rows - note.dead for note in index.files.values())
