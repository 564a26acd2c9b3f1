"""Immutable runs of rows sorted by key hash: sort order, look-up, tiered compaction and sweeping.

The state of operators and the key index of upsert sinks consist of such runs. An attempt writes a run once
(`files.write_stream`), under a name with its epoch and commit; readers map it into memory. A key hash is two 64-bit
halves, `h1` and `h2`; runs are sorted by `h1`, then by `h2`. The newest run that contains a key decides its value, and
compaction keeps it (O'Neil et al., "The Log-Structured Merge-Tree", 1996). A manifest names the live runs; files that
no manifest references are swept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sinkql.machine import clock
from sinkql.storage import failpoint

Column = NDArray[Any]
"""64-bit integers that distinguish or order rows, such as a half of a hash."""
Indices = NDArray[np.int64]

_LARGE = 1 << 16
_GUESSES, _STEPS = 4, 24
"""The first guess misses by the square root of the number of rows, each next one by the root of the miss before."""


def sort_indices(*columns: Column) -> Indices:
    """Return the stable sort order by the columns. Ties of the first column are assumed to be rare."""
    order: Indices = np.argsort(columns[0], kind="stable")
    first = columns[0][order]
    tied = first[1:] == first[:-1]
    if not tied.any() or not _ties_differ(columns[1:], order, tied):
        return order
    among = np.append(tied, False)
    among[1:] |= tied
    group = np.flatnonzero(among)
    members = order[group]
    order[group] = members[np.lexsort((np.arange(len(group)), *(column[members] for column in columns[::-1])))]
    return order


def _ties_differ(columns: Sequence[Column], order: Indices, tied: NDArray[np.bool_]) -> bool:
    """Return whether tied neighbours differ in one of the columns."""
    for column in columns:
        ordered = column[order]
        if bool((tied & (ordered[1:] != ordered[:-1])).any()):
            return True
    return False


def duplicates_mask(*columns: Column) -> NDArray[np.bool_]:
    """Return for each sorted row whether it equals the row before."""
    is_duplicate = np.zeros(len(columns[0]), np.bool_)
    is_duplicate[1:] = columns[0][1:] == columns[0][:-1]
    for column in columns[1:]:
        is_duplicate[1:] &= column[1:] == column[:-1]
    return is_duplicate


def newest(h1: Column, h2: Column) -> Indices:
    """Return the index of the newest row of each key, in key order; the rows come newest first."""
    order = sort_indices(h1, h2)
    first: Indices = order[~duplicates_mask(h1[order], h2[order])]
    return first


def find(run_h1: Column, run_h2: Column, h1: Column, h2: Column) -> Indices:
    """Return the row index of each key in a run of distinct keys, or -1.

    Keys may come in any order; sorted keys read memory in order. In a large run, interpolation search (Perl, Itai and
    Avni, 1978) guesses each index from the hash, since hashes are uniform: it reads a few cache lines a key, whatever
    the size of the run. Keys that it does not find in a few steps are found by binary search.
    """
    if len(run_h1) < _LARGE:
        return _binary_search(run_h1, run_h2, h1, h2)
    indices, unsolved = _interpolation_search(run_h1, run_h2, h1, h2)
    if len(unsolved):
        indices[unsolved] = _binary_search(run_h1, run_h2, h1[unsolved], h2[unsolved])
    return indices


def _binary_search(run_h1: Column, run_h2: Column, h1: Column, h2: Column) -> Indices:
    candidates = np.searchsorted(run_h1, h1)
    indices = np.full(len(h1), -1, np.int64)
    open_ = np.arange(len(h1))
    while len(open_):  # one round, except for keys with the same h1
        at = candidates[open_]
        open_, at = open_[at < len(run_h1)], at[at < len(run_h1)]
        same = run_h1[at] == h1[open_]
        open_, at = open_[same], at[same]
        hit = run_h2[at] == h2[open_]
        indices[open_[hit]] = at[hit]
        open_ = open_[~hit]
        candidates[open_] += 1
    return indices


def _interpolation_search(run_h1: Column, run_h2: Column, h1: Column, h2: Column) -> tuple[Indices, Indices]:
    """Return the result of `find`, and the keys that are not solved, whose index is -1 as well."""
    rows, per = len(run_h1), len(run_h1) / 2.0**64
    at = (h1 * per).astype(np.int64)
    present = np.take(run_h1, at, mode="clip")
    for _ in range(_GUESSES):
        distance = (h1 - present).view(np.int64) * per
        at += np.rint(distance, out=distance).astype(np.int64)
        present = np.take(run_h1, at, mode="clip")
    np.clip(at, 0, rows - 1, out=at)
    indices = np.full(len(h1), -1, np.int64)
    same = np.flatnonzero(present == h1)
    unsolved = [_compare_h2(run_h2, h2, same, at[same], indices)]
    open_ = np.flatnonzero(present != h1)
    at, wanted, up = at[open_], h1[open_], present[open_] < h1[open_]
    for _ in range(_STEPS):  # row by row, until the key is found or passed
        at += np.where(up, 1, -1)
        present = np.take(run_h1, at, mode="clip")
        same = present == wanted
        unsolved.append(_compare_h2(run_h2, h2, open_[same], at[same], indices))
        on = ~same & ((present < wanted) == up) & (at > 0) & (at < rows - 1)
        open_, at, wanted, up = open_[on], at[on], wanted[on], up[on]
        if not len(open_):
            break
    return indices, np.concatenate([*unsolved, open_])


def _compare_h2(run_h2: Column, h2: Column, keys: Indices, at: Indices, indices: Indices) -> Indices:
    """Set the indices of keys whose h2 is equal too; return the other keys, which may be at the next row."""
    hit = np.take(run_h2, at, mode="clip") == h2[keys]
    indices[keys[hit]] = at[hit]
    unequal: Indices = keys[~hit]
    return unequal


def matches(runs: Iterable[tuple[Column, Column]], h1: Column, h2: Column) -> Iterator[tuple[Indices, Indices]]:
    """Yield for each run, newest first, the keys that it has and no newer run has, and their row indices."""
    open_ = np.arange(len(h1))
    for run_h1, run_h2 in runs:
        indices = find(run_h1, run_h2, h1[open_], h2[open_])
        hit = indices >= 0
        yield open_[hit], indices[hit]
        open_ = open_[~hit]


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """When to merge runs: as soon as a tier has `fan` runs.

    A run belongs to the tier of the newer runs while it is no larger than all of them together. So each row is
    rewritten O(log n) times, and O(log n) runs remain. Runs of up to `small` rows always join; a run of `base` rows or
    more never does, so that no batch waits for its compaction.
    """

    fan: int
    small: int
    base: int | None = None

    def due(self, sizes: Iterable[int]) -> int:
        """Return the number of newest runs to merge now, or 0; `sizes` are in rows, newest first."""
        length = total = 0
        for size in sizes:
            if (self.base is not None and size >= self.base) or (length and size > max(total, self.small)):
                break
            length, total = length + 1, total + size
        return length if length >= self.fan else 0


def sweep(
    paths: Iterable[Path],
    live: Collection[Path],
    *,
    epoch_of: Callable[[str], int | None],
    epoch: int,
    age: float = 0.0,
) -> int:
    """Delete unreferenced files and return how many.

    `epoch_of` returns the epoch in a file name, None for a foreign file. Files of an epoch after `epoch` and files
    younger than `age` seconds stay. Never call it while the outcome of a commit is unknown.
    """
    removed = 0
    for path in paths:
        file_epoch = epoch_of(path.name)
        if file_epoch is None or file_epoch > epoch or path in live:
            continue
        if age and clock.time() - path.stat().st_mtime < age:
            continue
        failpoint.point("sweep")
        path.unlink(missing_ok=True)
        removed += 1
    return removed
