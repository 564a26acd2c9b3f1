"""All runs of an index → one that has each live key once: what old places and tombstones add up to is given back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from sinkql.connectors.iceberg.keyindex.index import Index, Run
from sinkql.connectors.iceberg.keyindex.run import Entries, map_run, merge, write_run

_SLACK = 1 << 16
_PART = 1 << 20
_MIXED = 4


def fold_due(index: Index) -> bool:
    """Tell whether most entries are of no use, or many runs hold keys of any bucket, which stops merging below them."""
    live = sum(note.rows - note.dead for note in index.files.values())
    return sum(run.rows for run in index.runs) > 2 * live + _SLACK or sum(run.mixed for run in index.runs) > _MIXED


def fold(index: Index, folder: Path, name: str) -> tuple[Run, ...]:
    """Write one run in place of all; raises ValueError where it has not as many keys as the files have live rows."""
    live = sum(note.rows - note.dead for note in index.files.values())
    if not live:
        return ()
    run = Run(f"{name}.run", live)
    write_run(folder / run.name, live, _merged([map_run(folder / each.name) for each in index.runs]))
    return (run,)


def _merged(runs: Sequence[Entries]) -> Iterator[Entries]:
    """Merge runs, newest first, one range of hashes at a time."""
    ranges = -(-sum(run.rows for run in runs) // _PART)
    bounds = np.array([(number << 64) // ranges for number in range(1, ranges)], np.uint64)
    cuts = [[0, *np.searchsorted(run.h1, bounds).tolist(), run.rows] for run in runs]
    for number in range(ranges):
        parts = [
            Entries._make(column[cut[number] : cut[number + 1]] for column in run)
            for run, cut in zip(runs, cuts, strict=True)
        ]
        yield merge(parts, keep_tombstones=False)
