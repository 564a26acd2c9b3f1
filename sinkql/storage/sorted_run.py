"""Immutable runs of rows sorted by the hash of their key: order, look-up, merging in tiers, and sweeping.

What the state of operators and the key index of upsert sinks are made of, whatever their files hold: one attempt writes
a run once (`durable.stream`), under a name with its epoch and commit; it is mapped into memory, and never changed.
A key's hash is two 64-bit halves, `h1` and `h2`; runs are sorted by `h1`, then by `h2`. The newest run that has a key
knows it; merging keeps what the newest says (O'Neil et al., "The Log-Structured Merge-Tree", 1996). A manifest names
the runs that are live; a file that no manifest reaches is swept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sinkql.storage import failpoint

Column = NDArray[Any]
"""A hash half, or what else tells rows apart or orders them: 64-bit integers."""
Places = NDArray[np.int64]

_LARGE = 1 << 16
_GUESSES, _STEPS = 4, 24
"""The first guess is off by the root of the number of rows, each other one by that of the one before it."""


def sort_indices(*columns: Column) -> Places:
    """Return the order by the columns; equal rows keep their order. Ties of the first column are taken to be few."""
    order: Places = np.argsort(columns[0], kind="stable")
    first = columns[0][order]
    tied = first[1:] == first[:-1]
    if not tied.any() or not _unlike(columns[1:], order, tied):
        return order
    among = np.append(tied, False)
    among[1:] |= tied
    group = np.flatnonzero(among)
    members = order[group]
    order[group] = members[np.lexsort((np.arange(len(group)), *(column[members] for column in columns[::-1])))]
    return order


def _unlike(columns: Sequence[Column], order: Places, tied: NDArray[np.bool_]) -> bool:
    """Tell whether neighbours in order that tie differ in one of the columns."""
    for column in columns:
        ordered = column[order]
        if bool((tied & (ordered[1:] != ordered[:-1])).any()):
            return True
    return False


def duplicates_mask(*columns: Column) -> NDArray[np.bool_]:
    """Tell for each of sorted rows whether it equals the one before."""
    again = np.zeros(len(columns[0]), np.bool_)
    again[1:] = columns[0][1:] == columns[0][:-1]
    for column in columns[1:]:
        again[1:] &= column[1:] == column[:-1]
    return again


def newest(h1: Column, h2: Column) -> Places:
    """Return the places of the first row of each key, in the keys' order: of rows that come newest first."""
    order = sort_indices(h1, h2)
    kept: Places = order[~duplicates_mask(h1[order], h2[order])]
    return kept


def find(run_h1: Column, run_h2: Column, h1: Column, h2: Column) -> Places:
    """Return the place of each key in a run that has each key once, or -1.

    Keys may come in any order; where they come sorted, memory is read in order. Hashes are spread evenly, so that in a
    large run the place of each is guessed, which reads a few lines of memory a key however many rows there are
    (interpolation search; Perl, Itai and Avni, 1978). What is not spread evenly is searched for.
    """
    if len(run_h1) < _LARGE:
        return _searched(run_h1, run_h2, h1, h2)
    found, left = _guessed(run_h1, run_h2, h1, h2)
    if len(left):
        found[left] = _searched(run_h1, run_h2, h1[left], h2[left])
    return found


def _searched(run_h1: Column, run_h2: Column, h1: Column, h2: Column) -> Places:
    places = np.searchsorted(run_h1, h1)
    found = np.full(len(h1), -1, np.int64)
    open_ = np.arange(len(h1))
    while len(open_):  # one round, but for keys that share h1
        at = places[open_]
        open_, at = open_[at < len(run_h1)], at[at < len(run_h1)]
        same = run_h1[at] == h1[open_]
        open_, at = open_[same], at[same]
        hit = run_h2[at] == h2[open_]
        found[open_[hit]] = at[hit]
        open_ = open_[~hit]
        places[open_] += 1
    return found


def _guessed(run_h1: Column, run_h2: Column, h1: Column, h2: Column) -> tuple[Places, Places]:
    """Return what `find` does, and the keys of which it is not known: -1 is said of these too."""
    rows, per = len(run_h1), len(run_h1) / 2.0**64
    at = (h1 * per).astype(np.int64)
    there = np.take(run_h1, at, mode="clip")
    for _ in range(_GUESSES):
        further = (h1 - there).view(np.int64) * per
        at += np.rint(further, out=further).astype(np.int64)
        there = np.take(run_h1, at, mode="clip")
    np.clip(at, 0, rows - 1, out=at)
    found = np.full(len(h1), -1, np.int64)
    same = np.flatnonzero(there == h1)
    left = [_confirmed(run_h2, h2, same, at[same], found)]
    open_ = np.flatnonzero(there != h1)
    at, wanted, up = at[open_], h1[open_], there[open_] < h1[open_]
    for _ in range(_STEPS):  # from one row to the next, until it is found or passed
        at += np.where(up, 1, -1)
        there = np.take(run_h1, at, mode="clip")
        same = there == wanted
        left.append(_confirmed(run_h2, h2, open_[same], at[same], found))
        on = ~same & ((there < wanted) == up) & (at > 0) & (at < rows - 1)
        open_, at, wanted, up = open_[on], at[on], wanted[on], up[on]
        if not len(open_):
            break
    return found, np.concatenate([*left, open_])


def _confirmed(run_h2: Column, h2: Column, keys: Places, at: Places, found: Places) -> Places:
    """Note places whose h1 is a key's where h2 is so too; return the other keys, which may be at the next place."""
    hit = np.take(run_h2, at, mode="clip") == h2[keys]
    found[keys[hit]] = at[hit]
    others: Places = keys[~hit]
    return others


def matches(runs: Iterable[tuple[Column, Column]], h1: Column, h2: Column) -> Iterator[tuple[Places, Places]]:
    """Yield for each run, newest first, which of the keys it knows that no newer one does, and where it has them."""
    left = np.arange(len(h1))
    for run_h1, run_h2 in runs:
        found = find(run_h1, run_h2, h1[left], h2[left])
        hit = found >= 0
        yield left[hit], found[hit]
        left = left[~hit]


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """When runs are merged: as soon as there are `fan` of like size.

    A run joins while it is no larger than all newer ones together, so that a row is rewritten a number of times
    logarithmic in the size of all, and about that many runs remain. Runs up to `small` rows always join; a run from
    `base` rows on never does, so that no batch waits for it.
    """

    fan: int
    small: int
    base: int | None = None

    def due(self, sizes: Iterable[int]) -> int:
        """Return how many of the newest runs to merge now, 0 for none; sizes are in rows and come newest first."""
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
    """Delete the files that nothing reaches, and return how many.

    `epoch_of` says of which epoch a file is by its name, None for one that is not one's own. Files of a later epoch
    than `epoch`, and those younger than `age` seconds, stay. Never call it while the outcome of a commit is unknown.
    """
    removed = 0
    for path in paths:
        own = epoch_of(path.name)
        if own is None or own > epoch or path in live:
            continue
        if age and time.time() - path.stat().st_mtime < age:
            continue
        failpoint.point("sweep")
        path.unlink(missing_ok=True)
        removed += 1
    return removed
