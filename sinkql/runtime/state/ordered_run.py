"""Durable runs sorted by a number or a time of each row, and read in slices; rows in the past expire."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import xxhash

from sinkql.runtime.state.arrangement import MultisetRuns, consolidate, merge_start
from sinkql.runtime.state.run import Entry, Keys, Run, RunWriter, unsigned

LAST = (1 << 64) - 1
_MERGED_AT_ONCE = 16 << 20
_AT_ONCE = 65_536
_SAMPLED = 1024


@dataclass(slots=True)
class OrderedRuns(MultisetRuns):
    """Rows with multiplicities that add up over the runs: `$p` (a key of 64 bits, sorted), `$h2`, `$r`, `$diff`, more.

    Rows with keys below `alive` have expired: merges omit them.
    """

    _batch: list[tuple[Entry, Run]] = field(default_factory=list)

    @property
    def alive(self) -> int:
        """Return the first key that may have rows after the bucket is closed."""
        return 0

    def put(self, table: pa.Table) -> None:
        """Add rows of the batch; different calls have different rows."""
        if not table.num_rows:
            return
        writer = RunWriter(self.place.folder / f"{self.place.prefix}-p{len(self._batch)}.arrow")
        writer.add(consolidate(table.combine_chunks()))
        written = writer.close()
        if written is not None:
            self._batch.append(written)

    def slices(self, low: int, high: int) -> Iterator[tuple[list[pa.Table], int, int]]:
        """Yield the rows from before the batch with keys from `low` to `high`, in parts.

        Each part has the rows of all runs from one key to another; the rows of one key are in one part.
        """
        rows = sum(run.between(low, high).num_rows for run in self.runs)
        for begin, end in pairwise([low, *self._cuts(self.runs, -(-rows // _AT_ONCE), low, high), high + 1]):
            yield [run.between(begin, end - 1) for run in self.runs], begin, end - 1

    def close(self) -> None:
        """Finish the batch's run, and merge runs if it is time."""
        self._finish()
        self._merge_due()

    def _finish(self) -> None:
        """Make one run of the batch, also if its rows came in parts."""
        if len(self._batch) > 1:
            writer = RunWriter(self.place.folder / f"{self.place.prefix}.arrow")
            self._write(writer, [run for _, run in self._batch], sum(int(entry["bytes"]) for entry, _ in self._batch))
            written = writer.close()
            for entry, _ in self._batch:
                (self.place.folder / str(entry["file"])).unlink()
            self._batch = [] if written is None else [written]
        for written in self._batch:
            self._keep(written)
        self._batch.clear()

    def _merge_due(self) -> int:
        """Merge runs if it is time; return the number of new runs."""
        number = 0
        while (start := merge_start(self.entries, self.place.bucket)) is not None:
            self._rewrite(start, len(self.entries), number := number + 1)
        return number

    def _rewrite(self, start: int, stop: int, number: int) -> None:
        """Replace some adjacent runs by one."""
        entries, runs = self.entries[start:stop], self.runs[start:stop]
        writer = RunWriter(self.place.folder / f"{self.place.prefix}-m{number}.arrow")
        self._write(writer, runs, sum(int(entry["bytes"]) for entry in entries))
        digest = xxhash.xxh3_128_hexdigest(",".join(str(entry["digest"]) for entry in entries).encode())
        written = writer.close(merges=1 + max(int(entry["merges"]) for entry in entries), digest=digest)
        self.entries[start:stop] = [] if written is None else [written[0]]
        self.runs[start:stop] = [] if written is None else [written[1]]

    def _write(self, writer: RunWriter, runs: list[Run], size: int) -> None:
        cuts = self._cuts(runs, -(-size // _MERGED_AT_ONCE), self.alive, LAST)
        for low, high in pairwise([self.alive, *cuts, LAST + 1]):
            writer.add(consolidate(pa.concat_tables([run.between(low, high - 1) for run in runs]).combine_chunks()))

    def _cuts(self, runs: list[Run], count: int, low: int, high: int) -> list[int]:
        """Return keys that split the rows into `count` parts of about the same size."""
        if count <= 1:
            return []
        keys = [unsigned(run.between(low, high).column(0))[::_SAMPLED] for run in runs]
        sample = np.sort(np.concatenate(keys))
        chosen = {int(sample[len(sample) * number // count]) for number in range(1, count)} if len(sample) else set()
        return sorted(key for key in chosen if key > low)


DUE = "due"
"""The note with the next time of a bucket, in milliseconds since 1970."""

_ZERO = 1 << 63
_WASTE, _LITTLE = 8, 32
"""Expired rows stay in their runs while they are few: compared with the live rows, or in total."""
_LOOKED_AT = 64


def keys_of(times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Keys:
    """Return times as unsigned integers of the same order, by which runs are sorted."""
    keys: Keys = times.view(np.uint64) ^ np.uint64(_ZERO)
    return keys


@dataclass(slots=True)
class TimedRuns(OrderedRuns):
    """Rows whose key is a time.

    After closing, no row up to the time `past` exists: a run that is entirely below it is dropped, merges omit such
    rows, and a run with many of them is rewritten.
    """

    past: int | None = None

    def between(self, after: int, until: int) -> pa.Table | None:
        """Return the rows from before the batch with times after `after` and up to `until`; None without rows."""
        low, high = after + 1 + _ZERO, until + _ZERO
        tables = [run.between(low, high) for run in self.runs]
        rows = consolidate(pa.concat_tables(tables).combine_chunks()) if tables else None
        return rows if rows is not None and rows.num_rows else None

    def close(self) -> None:
        """Finish the batch's run, merge runs if it is time, omit expired rows, and note the next time."""
        self._finish()
        self._drop()
        number = self._merge_due()
        while (place := self._wasteful()) is not None:
            self._rewrite(place, place + 1, number := number + 1)
        self._note()

    @property
    def alive(self) -> int:
        """Return the first key that is not expired."""
        return 0 if self.past is None else self.past + 1 + _ZERO

    def _drop(self) -> None:
        past = [place for place, run in enumerate(self.runs) if not run.between(self.alive, LAST).num_rows]
        for place in reversed(past):
            del self.runs[place], self.entries[place]

    def _wasteful(self) -> int | None:
        """Return the run with the most expired rows, if they are many compared with all rows."""
        alive = [run.between(self.alive, LAST).num_rows for run in self.runs]
        past = [int(entry["rows"]) - rows for entry, rows in zip(self.entries, alive, strict=True)]
        if sum(past) <= max(_LITTLE, sum(alive) // _WASTE):
            return None
        return past.index(max(past))

    def _note(self) -> None:
        """Note the next time with the last run."""
        plain = [{name: value for name, value in entry.items() if name != DUE} for entry in self.entries]
        due = self._due()
        if due is not None:
            plain[-1][DUE] = due
        self.entries[:] = plain

    def _due(self) -> int | None:
        """Return the least future time of a row; None if no row has one."""
        tables = [run.between(self.alive, LAST) for run in self.runs]
        rows = _LOOKED_AT
        while tables:
            cut = min((_key(table, rows) for table in tables if table.num_rows > rows), default=LAST + 1)
            heads = [_until(table, cut) for table in tables]
            head_rows = consolidate(pa.concat_tables(heads).combine_chunks())
            if head_rows.num_rows:
                return _key(head_rows, 0) - _ZERO
            if cut > LAST:
                return None
            rows *= 4
        return None


def _key(table: pa.Table, row: int) -> int:
    return int(unsigned(table.column(0).slice(row, 1))[0])


def _until(table: pa.Table, key: int) -> pa.Table:
    """Return the rows with lesser keys."""
    if key > LAST:
        return table
    return table.slice(0, int(np.searchsorted(unsigned(table.column(0)), np.uint64(key), "left")))
