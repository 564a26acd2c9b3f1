"""Merge the runs of an index, to drop outdated entries and tombstones and to bound the runs that a look-up reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sinkql.connectors.iceberg.key_index.index import Index, Run
from sinkql.connectors.iceberg.key_index.run import map_run, merged, write_run
from sinkql.storage.sorted_run import MergePolicy

_SLACK = 1 << 16
_MIXED = 4
_TIERS = MergePolicy(fan=2, small=1 << 14)
"""When to merge runs: a run is merged with newer ones of the same total size, so each entry is rewritten few times."""


def compact_runs(index: Index, folder: Path, name: str) -> Index:
    """Return the index with runs merged into a new file if that is due; the index is not saved.

    Raises ValueError if the merged runs have not as many keys as the files have live rows.
    """
    index = replace(index, runs=_without_unused_runs(index))
    due = runs_to_compact(index)
    return index if due is None else replace(index, runs=_merge_slice(index, folder, f"{name}.run", due))


def _without_unused_runs(index: Index) -> tuple[Run, ...]:
    """Return the runs without the oldest ones that name only deleted files, whose entries newer runs replace.

    Between other runs, an unused run stays for the keys that it deletes.
    """
    runs = list(index.runs)
    while runs and not runs[-1].may_name(index.files):
        runs.pop()
    return tuple(runs)


def runs_to_compact(index: Index) -> slice | None:
    """Return the slice of runs to merge now; None if none is due.

    The slice is all runs if most entries are outdated. Otherwise it covers several runs with keys of any bucket, which
    every look-up reads, and which merging by tiers does not reach.
    """
    rows = [run.rows for run in index.runs]
    if sum(rows) > 2 * _count_live_rows(index) + _SLACK:
        return slice(0, len(rows))
    current = next(((run.buckets, run.bucketing) for run in index.runs if not run.mixed), None)
    mixed = [run.mixed or (run.buckets, run.bucketing) != current for run in index.runs]
    for start in range(len(rows)):
        length = _TIERS.due(rows[start:])
        if sum(mixed[start : start + length]) > _MIXED:
            return slice(start, start + length)
    return None


def _merge_slice(index: Index, folder: Path, name: str, due: slice) -> tuple[Run, ...]:
    """Write one run in place of a slice of runs; only a merge with the oldest run drops tombstones."""
    chosen, newer, older = index.runs[due], index.runs[: due.start], index.runs[due.stop :]
    parts = [map_run(folder / run.name) for run in chosen]
    if len(chosen) == len(index.runs):
        rows = _count_live_rows(index)
    else:
        rows = sum(part.rows for part in merged(parts, keep_tombstones=bool(older)))
    if not rows:
        return newer + older
    write_run(folder / name, rows, merged(parts, keep_tombstones=bool(older)))
    spans = [run.files for run in chosen if run.files is not None]
    files = (min(low for low, _ in spans), max(high for _, high in spans)) if len(spans) == len(chosen) else None
    return (*newer, Run(name, rows, files=files), *older)


def _count_live_rows(index: Index) -> int:
    return sum(record.rows - record.dead for record in index.files.values())
