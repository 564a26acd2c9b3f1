"""Write, map, probe and merge immutable run files of sorted index entries.

A run starts with a 64-byte header: `SQKIDX02`, the number of entries n as uint64, a digest of 16 bytes over the file's
name and all other content, and zeros. Then come h1[n] and h2[n] (uint64), then file[n] and pos[n] (uint32), all
little-endian. Entries are sorted by (h1, h2), and each key occurs once. The file 2³²-1 marks a deleted key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from sinkql.errors import LostIndexError
from sinkql.row_hash import Hashes
from sinkql.storage import files
from sinkql.storage.digest import cached_digest, digest_file
from sinkql.storage.sorted_run import MergePolicy, find, matches, newest, sort_indices

TOMBSTONE = np.uint32(0xFFFF_FFFF)
MAGIC = b"SQKIDX02"
HEADER = 64
ENTRY = 24
_LAYOUT = (("<u8", 0), ("<u8", 8), ("<u4", 16), ("<u4", 20))
"""The type of each column, and the bytes per entry of the columns before it."""

MERGED_AT_ONCE = 1 << 20
"""The most entries to merge in memory."""

TIERS = MergePolicy(fan=8, small=1 << 14, base=1 << 22)

Ids = npt.NDArray[np.uint32]


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
        """Return the entries at these positions, or the entries that a mask selects."""
        return Entries._make(column[places] for column in self)


def write_run(path: Path, rows: int, parts: Iterable[Entries]) -> None:
    """Write sorted parts with `rows` entries in all to a new file, durably.

    Raises FileExistsError rather than replace a file.
    """
    with files.write_stream(path) as file:
        start = 0
        digests = [xxhash.xxh3_128() for _ in _LAYOUT]
        for part in parts:
            for column, (kind, offset), digest in zip(part, _LAYOUT, digests, strict=True):
                data = np.ascontiguousarray(column, dtype=kind).data
                file.seek(HEADER + offset * rows + int(kind[2]) * start)
                file.write(data)
                digest.update(data)
            start += part.rows
        file.seek(0)
        file.write(_header(path, rows, [digest.digest() for digest in digests]))
    if start != rows:
        raise ValueError(f"{start} entries, expected {rows}")


def size_of(rows: int) -> int:
    """Return the bytes of a complete run file with that many entries."""
    return HEADER + ENTRY * rows


def map_run(path: Path) -> Entries:
    """Map a run file, without private memory; raise SQ3411 if it is missing, damaged or no run."""
    whole = path.exists() and path.stat().st_size >= HEADER
    data = np.memmap(path, np.uint8, "r").view(np.ndarray) if whole else np.empty(0, np.uint8)
    rows = int(data[8:16].view("<u8")[0]) if len(data) else -1
    if len(data) != size_of(rows) or data[:HEADER].tobytes() != cached_digest(path, _header_of):
        raise LostIndexError(
            "SQ3411", f'index run "{path.name}" is damaged', hint="Start the sink again to rebuild it."
        )
    return Entries._make(data[HEADER + offset * rows :][: int(kind[2]) * rows].view(kind) for kind, offset in _LAYOUT)


def _header(path: Path, rows: int, digests: Iterable[bytes]) -> bytes:
    begin = MAGIC + np.uint64(rows).tobytes()
    seal: bytes = xxhash.xxh3_128_digest(b"".join([begin, path.name.encode(), *digests]))
    return (begin + seal).ljust(HEADER, b"\0")


def _header_of(path: Path) -> bytes:
    """Return the header that a run file should have."""
    rows = (path.stat().st_size - HEADER) // ENTRY
    with path.open("rb", buffering=0) as file:
        file.seek(HEADER)
        return _header(path, rows, [digest_file(file, int(kind[2]) * rows) for kind, _ in _LAYOUT])


@lru_cache(maxsize=256)
def open_run(path: Path) -> Entries:
    """Map a run file as `map_run` does, and keep it mapped for the next batches."""
    return map_run(path)


def probe(runs: Sequence[Entries], h1: Hashes, h2: Hashes) -> tuple[Ids, Ids]:
    """Return file and position of each key, from the first (newest) run with it; TOMBSTONE if no run has it."""
    files = np.full(len(h1), TOMBSTONE, np.uint32)
    positions = np.zeros(len(h1), np.uint32)
    matches_by_run = matches(((run.h1, run.h2) for run in runs), h1, h2)
    for run, (rows, places) in zip(runs, matches_by_run, strict=True):
        files[rows], positions[rows] = run.file[places], run.pos[places]
    return files, positions


def merge(runs: Sequence[Entries], *, keep_tombstones: bool) -> Entries:
    """Return the newest entry of each key; runs are in order, newest first."""
    whole = Entries._make(np.concatenate(columns) for columns in zip(*runs, strict=True))
    whole = whole.take(newest(whole.h1, whole.h2))
    return whole if keep_tombstones else whole.take(whole.file != TOMBSTONE)


def merged(runs: Sequence[Entries], *, keep_tombstones: bool) -> Iterator[Entries]:
    """Merge runs, newest first, one range of hashes at a time."""
    ranges = -(-sum(run.rows for run in runs) // MERGED_AT_ONCE)
    bounds = np.array([(number << 64) // ranges for number in range(1, ranges)], np.uint64)
    cuts = [[0, *np.searchsorted(run.h1, bounds).tolist(), run.rows] for run in runs]
    for number in range(ranges):
        parts = [
            Entries._make(column[cut[number] : cut[number + 1]] for column in run)
            for run, cut in zip(runs, cuts, strict=True)
        ]
        yield merge(parts, keep_tombstones=keep_tombstones)


_AT_ONCE = 1 << 20
"""The most entries to compare together, which limits the memory."""


def live_rows(runs: Sequence[tuple[Entries, bool]], files: Collection[int]) -> Entries:
    """Return the live rows of files, sorted by their keys' hashes.

    Runs are in order, newest first, each with whether it may name one of the files. A run that cannot name them may
    still delete a row. This reads one column of the runs. Hashing the rows and looking them up would cost many times
    more.
    """
    wanted = np.array(sorted(files), np.uint32)
    parts = [Entries.none()]
    newer: list[Entries] = []
    for run, may_name in runs:
        live = _entries_of(run, wanted) if may_name else Entries.none()
        if live.rows:
            parts.append(live.take(lives(live, newer)))
        newer.append(run)
    whole = Entries._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
    return whole if len(parts) <= 2 else whole.take(sort_indices(whole.h1, whole.h2))


def lives(entries: Entries, newer: Sequence[Entries], *, older: bool = True) -> npt.NDArray[np.bool_]:
    """Return a mask of the sorted entries that still hold after newer runs, which are in order, newest first.

    A key that no newer run has stays live while `older` runs exist. If all older runs were merged into newer ones, the
    key was deleted, because a merge of all runs drops deleted keys.
    """
    live = np.full(entries.rows, older)
    left = np.ones(entries.rows, np.bool_)
    for run in newer:
        if run.rows < entries.rows:
            places = find(entries.h1, entries.h2, run.h1, run.h2)
            matches = np.flatnonzero(places >= 0)
            positions = places[matches]
        else:
            places = find(run.h1, run.h2, entries.h1, entries.h2)
            positions = np.flatnonzero(places >= 0)
            matches = places[positions]
        fresh = left[positions]
        positions, matches = positions[fresh], matches[fresh]
        live[positions] = (run.file[matches] == entries.file[positions]) & (run.pos[matches] == entries.pos[positions])
        left[positions] = False
    return live


def _entries_of(run: Entries, files: npt.NDArray[np.uint32]) -> Entries:
    if not len(files):
        return Entries.none()
    positions = [np.empty(0, np.int64)]
    for start in range(0, run.rows, _AT_ONCE):
        some = run.file[start : start + _AT_ONCE]
        near = np.flatnonzero((some >= files[0]) & (some <= files[-1]))
        positions.append(start + near[np.isin(some[near], files)])
    return run.take(np.concatenate(positions))
