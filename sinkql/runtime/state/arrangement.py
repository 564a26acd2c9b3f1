"""Sorted changes of one bucket → durable runs, and the state that they hold for given keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from sinkql.runs import Tiers, hits, newest, repeats, sort_places
from sinkql.runtime.state.run import (
    Entry,
    MappedRun,
    digest_of,
    in_memory,
    ints,
    one_chunk,
    open_run,
    unsigned,
    write_run,
)

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]

HIGH, LOW = np.uint64(0xFFFFFFFF00000000), np.uint64(0xFFFFFFFF)
_FAN, _SMALL = 4, 256


@dataclass(frozen=True, slots=True)
class Arrangements:
    """The state that a batch starts from, and where its new runs go.

    `folder` is the sink's state folder; `manifest` the loaded state manifest, shared by all operators; `epoch` and
    `commit` go into the names of new runs and reports.
    """

    folder: Path
    manifest: Mapping[str, Any]
    epoch: int
    commit: str


@dataclass(frozen=True, slots=True)
class Below:
    """What is special of the sources of an operator in a batch.

    `cleared`: the rows from before are gone. `snapshotting`: some rows are still to come, as `Reader` says.
    """

    cleared: bool = False
    snapshotting: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where one task attempt keeps one bucket of one arrangement, and how its new files begin."""

    folder: Path
    bucket: int
    prefix: str


def bucket_folder(folder: Path, arrangement: str, bucket: int) -> Path:
    """Return where a sink's state folder holds a bucket; raises ValueError for a name that no folder can have."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", arrangement):
        raise ValueError(f'arrangement name "{arrangement}"')
    return folder / "state" / arrangement / f"b{bucket}"


def grouped(*columns: Keys | Ints) -> tuple[Ints, Ints]:
    """Return an order that puts equal rows together, and where in it each new row begins."""
    order = sort_places(*columns)
    return order, np.flatnonzero(~repeats(*(column[order] for column in columns)))


def spread(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return, for ranges low to high, each range's number and each position in it."""
    counts = high - low
    owner = np.repeat(np.arange(len(low)), counts)
    before = np.cumsum(counts) - counts
    return owner, np.repeat(low - before, counts) + np.arange(len(owner))


@dataclass(frozen=True, slots=True)
class LookUp:
    """What a look-up gave: `mask` tells which of the asked keys are there, `index` where in `rows`; None: no runs."""

    mask: NDArray[np.bool_]
    index: Ints
    rows: pa.Table | None

    def column(self, name: str, type_: pa.DataType) -> pa.Array:
        """Return a column of the rows in the order of the asked keys, NULL where there is none."""
        if self.rows is None:
            return pa.nulls(len(self.mask), type_)
        return one_chunk(self.rows.column(name)).take(pa.array(self.index, mask=~self.mask))


@dataclass(slots=True)
class _Runs:
    """A bucket's runs, oldest first, and the manifest entries that stand for them after this batch."""

    place: Place
    entries: list[Entry]
    runs: list[MappedRun] = field(init=False)
    _merged: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.runs = [open_run(self.place.folder, entry) for entry in self.entries]

    def put(self, table: pa.Table) -> None:
        """Write a batch's rows, sorted by their first column, as a new run, and merge where it is time."""
        if not table.num_rows:
            return
        path = self.place.folder / f"{self.place.prefix}.arrow"
        self.entries.append(write_run(path, table, digest=digest_of(table)))
        self.runs.append(in_memory(table))
        while (start := _merge_start(self.entries, self.place.bucket)) is not None:
            self._merge(start)

    def _merge(self, start: int) -> None:
        parts, runs = self.entries[start:], self.runs[start:]
        table = self._merge_tables([run.table for run in runs], bottom=start == 0)
        del self.entries[start:], self.runs[start:]
        if not table.num_rows:
            return
        self._merged += 1
        path = self.place.folder / f"{self.place.prefix}-m{self._merged}.arrow"
        digest = xxhash.xxh3_128_hexdigest(",".join(str(part["digest"]) for part in parts).encode())
        merges = 1 + max(int(part["merges"]) for part in parts)
        self.entries.append(write_run(path, table, merges=merges, digest=digest))
        self.runs.append(in_memory(table))

    def _merge_tables(self, tables: list[pa.Table], *, bottom: bool) -> pa.Table:
        raise NotImplementedError


@dataclass(slots=True)
class Values(_Runs):
    """One row a key: `$h1` (sorted), `$h2`, then what is kept. The newest run wins.

    `$count` 0 is a tombstone, unless `keeps_empty`: then it is a row like others.
    """

    keeps_empty: bool = False

    def find(self, keys: Keys, hashes: Ints) -> LookUp:
        """Look up sorted keys."""
        mask, index = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.int64)
        parts: list[pa.Table] = []
        taken = 0
        newest_first = self.runs[::-1]
        found = hits(((run.keys, run.ints("$h2")) for run in newest_first), keys, hashes)
        for run, (asked, places) in zip(newest_first, found, strict=True):
            parts.append(run.table.take(pa.array(places)))
            mask[asked] = True
            index[asked] = taken + np.arange(len(asked))
            taken += len(asked)
        return LookUp(mask, index, pa.concat_tables(parts).combine_chunks() if parts else None)

    def live(self) -> pa.Table | None:
        """Return the row of each key, sorted; None where there are no runs."""
        return self._merge_tables([run.table for run in self.runs], bottom=True) if self.runs else None

    def clear(self) -> None:
        """Forget all rows."""
        self.entries.clear()
        self.runs.clear()

    def _merge_tables(self, tables: list[pa.Table], *, bottom: bool) -> pa.Table:
        table = pa.concat_tables(tables[::-1]).combine_chunks()
        kept = newest(unsigned(table.column(0)), ints(table.column(1)))
        if bottom and not self.keeps_empty:
            kept = kept[ints(table.column("$count"))[kept] != 0]
        return table.take(pa.array(kept)).combine_chunks()


class Multiset(_Runs):
    """Rows with multiplicities that add up over the runs: `$p` (sorted), `$h2`, `$r`, `$diff`, then a payload.

    `$p` is the high half of `$h1` and the low half of the row hash `$r`, so that one order serves "all rows of a key"
    and "this row".
    """

    __slots__ = ()

    def count(self, packed: Keys, hashes: Ints, rows: Ints) -> Ints:
        """Return the multiplicity of each asked row."""
        found = np.zeros(len(packed), np.int64)
        for run in self.runs:
            low = np.searchsorted(run.keys, packed, "left")
            asked, position = spread(low, np.searchsorted(run.keys, packed, "right"))
            equal = (run.ints("$h2")[position] == hashes[asked]) & (run.ints("$r")[position] == rows[asked])
            np.add.at(found, asked[equal], run.ints("$diff")[position[equal]])
        return found

    def rows_of(self, keys: Keys, hashes: Ints, extra: pa.Table) -> tuple[Ints, pa.Table]:
        """Return all rows of the asked keys, the batch's own among them, with the number of the key of each.

        Multiplicities are added up, and rows that are gone left out.
        """
        owners, parts = [], []
        for run in [*self.runs, in_memory(extra)]:
            low = np.searchsorted(run.keys, keys & HIGH, "left")
            asked, position = spread(low, np.searchsorted(run.keys, keys | LOW, "right"))
            equal = run.ints("$h2")[position] == hashes[asked]
            owners.append(asked[equal])
            parts.append(run.table.take(pa.array(position[equal])))
        table = pa.concat_tables(parts).append_column("$owner", pa.array(np.concatenate(owners))).combine_chunks()
        table = add_up(table)
        return ints(table.column("$owner")), table

    def _merge_tables(self, tables: list[pa.Table], *, bottom: bool) -> pa.Table:
        return add_up(pa.concat_tables(tables).combine_chunks())


def add_up(table: pa.Table) -> pa.Table:
    """Return a multiset's rows sorted, each once, with the sum of their multiplicities; zeros are left out."""
    order, starts = grouped(unsigned(table.column("$p")), ints(table.column("$h2")), ints(table.column("$r")))
    if not len(starts):
        return table
    diff = np.add.reduceat(ints(table.column("$diff"))[order], starts)
    kept = table.take(pa.array(order[starts][diff != 0]))
    place = table.column_names.index("$diff")
    return kept.set_column(place, "$diff", pa.array(diff[diff != 0])).combine_chunks()


def _merge_start(entries: Sequence[Entry], bucket: int) -> int | None:
    """Return from which run on all are to be merged, if it is time.

    The first merge of a bucket comes early, after 2 to 5 runs, so that buckets merge in different batches.
    """
    fresh = all(entry["merges"] == 0 for entry in entries)
    tiers = Tiers(2 + bucket % _FAN if fresh else _FAN, _SMALL)
    length = tiers.due(int(entry["rows"]) for entry in reversed(entries))
    return len(entries) - length if length else None
