"""Runs → the live rows of some data files, and which of them live on once there are newer runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from sinkql.connectors.iceberg.key_index.run import Entries
from sinkql.storage.sorted_run import find, sort_indices

_AT_ONCE = 1 << 20
"""Entries looked at together, which bounds what that takes in memory."""


def live_rows(runs: Sequence[tuple[Entries, bool]], files: Collection[int]) -> Entries:
    """Return the live rows of files, sorted by their keys' hashes.

    Runs come newest first, each with whether it may name one of the files: the others may say that a row is gone.

    It reads one column of the runs, where hashing the rows and looking them up would cost many times that.
    """
    wanted = np.array(sorted(files), np.uint32)
    parts = [Entries.none()]
    newer: list[Entries] = []
    for run, may_name in runs:
        found = _of(run, wanted) if may_name else Entries.none()
        if found.rows:
            parts.append(found.take(lives(found, newer)))
        newer.append(run)
    whole = Entries._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
    return whole if len(parts) <= 2 else whole.take(sort_indices(whole.h1, whole.h2))


def lives(entries: Entries, newer: Sequence[Entries], *, older: bool = True) -> npt.NDArray[np.bool_]:
    """Tell which of sorted entries hold still after newer runs, the newest of which comes first.

    What these do not know is as it was as long as `older` runs are there. Where all have become part of newer ones, it
    is gone: a merge of all runs forgets the keys that are.
    """
    live = np.full(entries.rows, older)
    left = np.ones(entries.rows, np.bool_)
    for run in newer:
        if run.rows < entries.rows:
            places = find(entries.h1, entries.h2, run.h1, run.h2)
            there = np.flatnonzero(places >= 0)
            mine = places[there]
        else:
            places = find(run.h1, run.h2, entries.h1, entries.h2)
            mine = np.flatnonzero(places >= 0)
            there = places[mine]
        fresh = left[mine]
        mine, there = mine[fresh], there[fresh]
        live[mine] = (run.file[there] == entries.file[mine]) & (run.pos[there] == entries.pos[mine])
        left[mine] = False
    return live


def _of(run: Entries, files: npt.NDArray[np.uint32]) -> Entries:
    if not len(files):
        return Entries.none()
    found = [np.empty(0, np.int64)]
    for start in range(0, run.rows, _AT_ONCE):
        some = run.file[start : start + _AT_ONCE]
        near = np.flatnonzero((some >= files[0]) & (some <= files[-1]))
        found.append(start + near[np.isin(some[near], files)])
    return run.take(np.concatenate(found))
