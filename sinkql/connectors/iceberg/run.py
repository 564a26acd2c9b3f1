"""Sorted index entries ↔ immutable run files: write, map, probe and merge them.

A run is a 64-byte header (`SQKIDX01`, the number of entries n as uint64, zeros), then h1[n] and h2[n] (uint64), then
file[n] and pos[n] (uint32), all little-endian, sorted by (h1, h2), each key once. File 2³²-1 says that the key is gone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sinkql.connectors.iceberg.keyhash import Hashes
from sinkql.errors import SinkqlError

TOMBSTONE = np.uint32(0xFFFF_FFFF)
MAGIC = b"SQKIDX01"
HEADER = 64
ENTRY = 24
_LAYOUT = (("<u8", 0), ("<u8", 8), ("<u4", 16), ("<u4", 20))
"""Type of each column, and the bytes an entry takes in the columns before it."""

FAN = 8
"""Runs that a merge takes at least."""
BASE_KEYS = 1 << 22
"""A run from this size on is a base: tasks never merge it, so that no batch waits for it."""
_SMALL = 1 << 14

Ids = npt.NDArray[np.uint32]
Places = npt.NDArray[np.int64]


class Entries(NamedTuple):
    """Columns of index entries: the key's hash, and the file and position of its live row."""

    h1: Hashes
    h2: Hashes
    file: Ids
    pos: Ids

    @property
    def rows(self) -> int:
        """Return the number of entries."""
        return len(self.h1)

    @classmethod
    def none(cls) -> Entries:
        """Return no entries."""
        return cls._make(np.empty(0, kind) for kind, _ in _LAYOUT)

    def take(self, places: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Entries:
        """Return the entries at these places, or those that a mask keeps."""
        return Entries._make(column[places] for column in self)


def write_run(path: Path, rows: int, parts: Iterable[Entries]) -> None:
    """Write sorted parts, in order, `rows` entries in all, to a new file and make it durable.

    Raises FileExistsError rather than replace one.
    """
    with path.open("xb") as file:
        file.write((MAGIC + np.uint64(rows).tobytes()).ljust(HEADER, b"\0"))
        start = 0
        for part in parts:
            for column, (kind, offset) in zip(part, _LAYOUT, strict=True):
                file.seek(HEADER + offset * rows + int(kind[2]) * start)
                file.write(np.ascontiguousarray(column, dtype=kind).data)
            start += part.rows
        file.flush()
        os.fsync(file.fileno())
    if start != rows:
        raise ValueError(f"{start} entries where {rows} were told")


def size_of(rows: int) -> int:
    """Return the bytes of a whole run file of that many entries."""
    return HEADER + ENTRY * rows


def map_run(path: Path) -> Entries:
    """Map a run file, which costs no private memory; raises SQ3411 where it is torn or no run."""
    data = np.memmap(path, np.uint8, "r").view(np.ndarray) if path.stat().st_size >= HEADER else np.empty(0, np.uint8)
    rows = int(data[8:16].view("<u8")[0]) if len(data) else -1
    if data[:8].tobytes() != MAGIC or len(data) != size_of(rows):
        raise SinkqlError("SQ3411", f'index run "{path.name}" is damaged', hint="Start the sink again to rebuild it.")
    return Entries._make(data[HEADER + offset * rows :][: int(kind[2]) * rows].view(kind) for kind, offset in _LAYOUT)


@lru_cache(maxsize=256)
def open_run(path: Path) -> Entries:
    """Map a run file as `map_run` does, and keep it mapped for the next batches."""
    return map_run(path)


def find(run: Entries, h1: Hashes, h2: Hashes) -> Places:
    """Return the place of each key in the run, or -1; keys come sorted by h1 for the sake of the cache."""
    places = np.searchsorted(run.h1, h1)
    found = np.full(len(h1), -1, np.int64)
    open_ = np.arange(len(h1))
    while len(open_):  # one round, but for keys that share h1
        at = places[open_]
        open_, at = open_[at < run.rows], at[at < run.rows]
        same = run.h1[at] == h1[open_]
        open_, at = open_[same], at[same]
        hit = run.h2[at] == h2[open_]
        found[open_[hit]] = at[hit]
        open_ = open_[~hit]
        places[open_] += 1
    return found


def probe(runs: Sequence[Entries], h1: Hashes, h2: Hashes) -> tuple[Ids, Ids]:
    """Return file and position of each key, the first run (the newest) that knows it winning; TOMBSTONE for none."""
    files = np.full(len(h1), TOMBSTONE, np.uint32)
    positions = np.zeros(len(h1), np.uint32)
    left = np.arange(len(h1))
    for run in runs:
        if not len(left):
            break
        found = find(run, h1[left], h2[left])
        hit = found >= 0
        files[left[hit]], positions[left[hit]] = run.file[found[hit]], run.pos[found[hit]]
        left = left[~hit]
    return files, positions


def sort_places(h1: Hashes, h2: Hashes, tie: npt.NDArray[np.int64] | None = None) -> Places:
    """Return the order by (h1, h2, tie); without `tie`, equal keys keep their order."""
    order = np.argsort(h1, kind="stable")
    sorted_h1 = h1[order]
    same = np.flatnonzero(sorted_h1[1:] == sorted_h1[:-1])
    if len(same):  # few: sort those groups fully
        group = np.unique(np.concatenate([same, same + 1]))
        members = order[group]
        last = np.arange(len(group)) if tie is None else tie[members]
        order[group] = members[np.lexsort((last, h2[members], h1[members]))]
    return order


def repeats(h1: Hashes, h2: Hashes) -> npt.NDArray[np.bool_]:
    """Tell for each of sorted keys whether it equals the one before."""
    again = np.zeros(len(h1), np.bool_)
    again[1:] = (h1[1:] == h1[:-1]) & (h2[1:] == h2[:-1])
    return again


def merge(runs: Sequence[Entries], *, keep_tombstones: bool) -> Entries:
    """Return the newest entry of each key; runs come newest first."""
    whole = Entries._make(np.concatenate(columns) for columns in zip(*runs, strict=True))
    whole = whole.take(sort_places(whole.h1, whole.h2))
    kept = ~repeats(whole.h1, whole.h2)
    if not keep_tombstones:
        kept &= whole.file != TOMBSTONE
    return whole.take(kept)


def merge_length(sizes: Sequence[int]) -> int:
    """Return how many of the newest runs to merge now, 0 for none; sizes come newest first.

    Tiered: a run joins while it is no larger than all newer ones together, so that an entry is rewritten a number of
    times logarithmic in the index's size, and about that many runs remain. A base never joins.
    """
    length = total = 0
    for size in sizes:
        if size >= BASE_KEYS or (length and size > max(total, _SMALL)):
            break
        length, total = length + 1, total + size
    return length if length >= FAN else 0
