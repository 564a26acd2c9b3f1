"""The durable runs of one bucket, made of sorted changes, and the state of given keys in them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from sinkql.errors import LostStateError, SinkqlError
from sinkql.runtime.state.run import (
    HIGH,
    LOW,
    Entry,
    Keys,
    Run,
    RunWriter,
    in_memory,
    ints,
    lost_run,
    one_chunk,
    open_run,
    unsigned,
)
from sinkql.state_store.directory import StateDirectory
from sinkql.storage.sorted_run import MergePolicy, duplicates_mask, find, newest, sort_indices

Ints = NDArray[np.int64]

_MERGED_AT_ONCE = 16 << 20
"""The number of bytes of runs that are merged in memory."""
_FAN, _SMALL = 4, 256


@dataclass(frozen=True, slots=True)
class Arrangements:
    """The state at the start of a batch, and the place for its new runs.

    `home` has the files of the sink's state; `manifest` is the loaded state manifest of all operators; `epoch` and
    `commit` are part of the names of new runs. `indexes` are the indexes of views that operators look up in, by
    arrangement.
    """

    home: StateDirectory
    manifest: Mapping[str, Any]
    epoch: int
    commit: str
    indexes: Mapping[str, IndexRuns] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InputEvents:
    """The events of an operator's sources in a batch.

    `cleared`: all earlier rows are deleted. `snapshotting`: some rows are still missing, as in `Reader`. The clock
    moves from `since` to `now`, in milliseconds since 1970.
    """

    cleared: bool = False
    snapshotting: bool = False
    since: int = 0
    now: int = 0


@dataclass(frozen=True, slots=True)
class RunLocation:
    """The place of one bucket of one arrangement in one task attempt, and the prefix of its new files."""

    folder: Path
    bucket: int
    prefix: str


def bucket_folder(folder: Path, arrangement: str, bucket: int) -> Path:
    """Return the folder of a bucket in a sink's state folder; raises ValueError for an invalid name."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", arrangement):
        raise ValueError(f'arrangement name "{arrangement}"')
    return folder / "state" / arrangement / f"b{bucket}"


def files_of(arrangement: str, bucket: int, entries: Iterable[Entry]) -> dict[str, int]:
    """Return the files of a bucket's runs in a sink's state folder, with their sizes in bytes."""
    folder = bucket_folder(Path(), arrangement, bucket)
    return {(folder / entry["file"]).as_posix(): int(entry["bytes"]) for entry in entries}


@dataclass(frozen=True, slots=True)
class IndexRuns:
    """An index at one entry of a view's log: its runs by bucket, in `buckets` buckets, in the `home` of its job.

    Nothing is looked up if the batch contains all rows of the view, from its `beginning`.
    """

    home: StateDirectory
    name: str
    runs: Mapping[str, Sequence[Entry]]
    buckets: int
    beginning: bool = False

    def opened(self, bucket: int, buckets: int) -> list[Run] | None:
        """Return the runs with possible rows of one of `buckets` buckets; None if the batch contains all rows.

        Raises SQ3453 if a run is missing.
        """
        if self.beginning:
            return None
        common = math.gcd(self.buckets, buckets)
        runs: list[Run] = []
        try:
            for part in range(bucket % common, self.buckets, common):
                entries = self.runs.get(str(part), ())
                self._bring(part, entries)
                folder = bucket_folder(self.home.folder, self.name, part)
                runs += [open_run(folder, entry) for entry in entries]
        except LostStateError as error:
            raise no_index(self.name, error.detail) from error
        return runs

    def _bring(self, bucket: int, entries: Sequence[Entry]) -> None:
        if self.home.remote and (lost := self.home.fetch(files_of(self.name, bucket, entries))):
            raise lost_run(Path(lost[0]), f"{self.home.store} does not have it")


def no_index(name: str, detail: str | None = None) -> SinkqlError:
    """Return the error for an index that the job of its view has not made yet, or no longer has at that commit."""
    return SinkqlError(
        "SQ3453",
        f'index "{name}" does not exist at the commit that is read',
        detail=detail,
        hint="SinkQL tries the batch again: the job of the materialized view makes the index.",
    )


def grouped(*columns: Keys | Ints) -> tuple[Ints, Ints]:
    """Return an order that puts equal rows together, and the places in it where a new row begins."""
    order = sort_indices(*columns)
    return order, np.flatnonzero(~duplicates_mask(*(column[order] for column in columns)))


def expand_ranges(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return, for ranges low to high, each range's number and each position in it."""
    counts = high - low
    owner = np.repeat(np.arange(len(low)), counts)
    before = np.cumsum(counts) - counts
    return owner, np.repeat(low - before, counts) + np.arange(len(owner))


@dataclass(frozen=True, slots=True)
class LookUp:
    """The result of a look-up: `mask` is true for existing keys, `index` has their places in `rows` (None: no runs)."""

    mask: NDArray[np.bool_]
    index: Ints
    rows: pa.Table | None

    def column(self, name: str, type_: pa.DataType) -> pa.Array:
        """Return a column of the rows in the order of the keys, NULL for a missing key."""
        if self.rows is None:
            return pa.nulls(len(self.mask), type_)
        return one_chunk(self.rows.column(name)).take(pa.array(self.index, mask=~self.mask))


@dataclass(slots=True)
class _Runs:
    """A bucket's runs before this batch, oldest first; after closing, also their manifest entries."""

    keyed: ClassVar[bool] = False
    """Whether a key may have several rows."""
    grows: ClassVar[bool] = False
    """Whether no row replaces another."""

    place: RunLocation
    entries: list[Entry]
    runs: list[Run] = field(init=False)
    _writer: RunWriter | None = field(default=None, init=False)
    _cleared: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.runs = [open_run(self.place.folder, entry) for entry in self.entries]

    def put(self, table: pa.Table) -> None:
        """Add rows to the batch's run, sorted by their first column, with hashes after all earlier rows."""
        if self._writer is None:
            self._writer = RunWriter(self.place.folder / f"{self.place.prefix}.arrow", keyed=self.keyed)
        self._writer.add(table)

    def close(self) -> None:
        """Finish the batch's run, and merge runs if it is time."""
        if self._cleared:
            self.entries.clear()
            self.runs.clear()
        written = self._writer.close() if self._writer is not None else None
        if written is None:
            return
        self._keep(written)
        merged = 0
        while (start := merge_start(self.entries, self.place.bucket, grows=self.grows)) is not None:
            merged += 1
            self._merge(start, self.place.folder / f"{self.place.prefix}-m{merged}.arrow")

    def _keep(self, written: tuple[Entry, Run]) -> None:
        entry, run = written
        self.entries.append(entry)
        self.runs.append(run)

    def _merge(self, start: int, path: Path) -> None:
        parts, runs = self.entries[start:], self.runs[start:]
        writer = RunWriter(path, keyed=self.keyed)
        for low, high in _ranges(sum(int(part["bytes"]) for part in parts)):
            writer.add(self._merge_tables([run.between(low, high) for run in runs], bottom=start == 0))
        del self.entries[start:], self.runs[start:]
        digest = xxhash.xxh3_128_hexdigest(",".join(str(part["digest"]) for part in parts).encode())
        written = writer.close(merges=1 + max(int(part["merges"]) for part in parts), digest=digest)
        if written is not None:
            self._keep(written)

    def _merge_tables(self, tables: list[pa.Table], *, bottom: bool) -> pa.Table:
        raise NotImplementedError


def _ranges(size: int) -> list[tuple[int, int]]:
    """Return ranges of keys, first and last, for merging `size` bytes of runs; an upper half stays in one range."""
    count = max(1, -(-size // _MERGED_AT_ONCE))
    bounds = [((number << 32) // count) << 32 for number in range(count + 1)]
    return [(low, high - 1) for low, high in pairwise(bounds)]


@dataclass(slots=True)
class KeyedRuns(_Runs):
    """One row per key: `$h1` (sorted), `$h2`, then the values. The newest run wins.

    `$count` 0 is a tombstone, unless `keeps_empty` is true.
    """

    keeps_empty: bool = False

    def find(self, keys: Keys, hashes: Ints) -> LookUp:
        """Look up sorted keys."""
        mask, index = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.int64)
        parts: list[pa.Table] = []
        found_rows = 0
        left = np.arange(len(keys))
        for run in self.runs[::-1]:
            for piece, some in run.asked(keys[left]):
                asked = left[some]
                places = find(piece.keys, piece.ints("$h2"), keys[asked], hashes[asked])
                asked, places = asked[places >= 0], places[places >= 0]
                parts.append(piece.table.take(pa.array(places)))
                mask[asked] = True
                index[asked] = found_rows + np.arange(len(asked))
                found_rows += len(asked)
            left = left[~mask[left]]
        return LookUp(mask, index, pa.concat_tables(parts).combine_chunks() if parts else None)

    def live(self, low: int, high: int) -> pa.Table | None:
        """Return the row of each key from `low` to `high`, sorted; None without runs."""
        return self._merge_tables([run.between(low, high) for run in self.runs], bottom=True) if self.runs else None

    def clear(self) -> None:
        """Remove the rows from before the batch at closing."""
        self._cleared = True

    def _merge_tables(self, tables: list[pa.Table], *, bottom: bool) -> pa.Table:
        table = pa.concat_tables(tables[::-1]).combine_chunks()
        places = newest(unsigned(table.column(0)), ints(table.column(1)))
        if bottom and not self.keeps_empty:
            places = places[one_chunk(table.column("$count")).to_numpy(zero_copy_only=False)[places] != 0]
        return table.take(pa.array(places)).combine_chunks()


class MultisetRuns(_Runs):
    """Rows with multiplicities that add up over the runs: `$p` (sorted), `$h2`, `$r`, `$diff`, then a payload.

    `$p` is the high half of `$h1` and the low half of the row hash `$r`, so that one order serves "all rows of a key"
    and "this row".
    """

    __slots__ = ()
    keyed: ClassVar[bool] = True

    def count(self, packed: Keys, hashes: Ints, rows: Ints) -> Ints:
        """Return the multiplicity of each given row; the rows are sorted."""
        counts = np.zeros(len(packed), np.int64)
        for run in self.runs:
            for piece, some in run.asked(packed):
                low = np.searchsorted(piece.keys, packed[some], "left")
                asked, position = expand_ranges(low, np.searchsorted(piece.keys, packed[some], "right"))
                equal = piece.ints("$h2")[position] == hashes[some][asked]
                equal &= piece.ints("$r")[position] == rows[some][asked]
                np.add.at(counts[some], asked[equal], piece.ints("$diff")[position[equal]])
        return counts

    def rows_of(self, keys: Keys, hashes: Ints, extra: pa.Table) -> tuple[Ints, pa.Table]:
        """Return all rows of sorted keys, including the batch's, with the number of each row's key.

        Multiplicities are added up, and rows with multiplicity 0 are omitted.
        """
        owners, parts = [], []
        for run in [*self.runs, in_memory(extra)]:
            for piece, some in run.asked(keys):
                low = np.searchsorted(piece.keys, keys[some] & HIGH, "left")
                asked, position = expand_ranges(low, np.searchsorted(piece.keys, keys[some] | LOW, "right"))
                equal = piece.ints("$h2")[position] == hashes[some][asked]
                owners.append(some.start + asked[equal])
                parts.append(piece.table.take(pa.array(position[equal])))
        table = pa.concat_tables(parts).append_column("$owner", pa.array(np.concatenate(owners))).combine_chunks()
        table = consolidate(table)
        return ints(table.column("$owner")), table

    def _merge_tables(self, tables: list[pa.Table], *, bottom: bool) -> pa.Table:
        return consolidate(pa.concat_tables(tables).combine_chunks())


def consolidate(table: pa.Table) -> pa.Table:
    """Return a multiset's rows sorted, each once, with the sum of its multiplicities; zeros are omitted."""
    order, starts = grouped(unsigned(table.column("$p")), ints(table.column("$h2")), ints(table.column("$r")))
    if not len(starts):
        return table
    diff = np.add.reduceat(ints(table.column("$diff"))[order], starts)
    distinct = table.take(pa.array(order[starts][diff != 0]))
    place = table.column_names.index("$diff")
    return distinct.set_column(place, "$diff", pa.array(diff[diff != 0])).combine_chunks()


def rows_to_merge(entries: Sequence[Entry], bucket: int, coming: int, *, grows: bool) -> int:
    """Return the maximum number of rows to merge in a bucket, after a run of `coming` rows is added."""
    after = [*entries, {"rows": coming, "merges": 0}]
    start = merge_start(after, bucket, grows=grows)
    return sum(int(entry["rows"]) for entry in after[start:]) if start is not None else 0


def merge_start(entries: Sequence[Entry], bucket: int, *, grows: bool = False) -> int | None:
    """Return the first run to merge with all runs after it, None if it is not time.

    The first merge of a bucket comes early, after 2 to 5 runs, so that buckets merge in different batches. If the newer
    runs have half as many rows as the oldest, they are merged with it, since they may replace its rows, unless the
    bucket only `grows`.
    """
    fresh = all(entry["merges"] == 0 for entry in entries)
    tiers = MergePolicy(2 + bucket % _FAN if fresh else _FAN, _SMALL)
    sizes = [int(entry["rows"]) for entry in reversed(entries)]
    if not grows and len(sizes) >= max(2, tiers.fan) and 2 * sum(sizes[:-1]) >= sizes[-1]:
        return 0
    length = tiers.due(sizes)
    return len(entries) - length if length else None
