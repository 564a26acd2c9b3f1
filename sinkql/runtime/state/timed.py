"""Rows with a time each → durable runs sorted by it: slices between two times are read, what is past goes by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import xxhash

from sinkql.runtime.state.arrangement import Multiset, add_up, merge_start
from sinkql.runtime.state.run import Entry, Keys, Run, RunWriter, unsigned

DUE = "due"
"""The note that says the least time to come of a bucket, in milliseconds since 1970."""

_ZERO = 1 << 63
_LAST = (1 << 64) - 1
_MERGED_AT_ONCE = 16 << 20
_WASTE, _LITTLE = 8, 32
"""Rows that are past are left in their runs while they are few: one for so many that are not, or so many in all."""
_LOOKED_AT = 64
_SAMPLED = 1024


def keys_of(times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Keys:
    """Return times as unsigned integers of the same order, which runs are sorted by."""
    keys: Keys = times.view(np.uint64) ^ np.uint64(_ZERO)
    return keys


@dataclass(slots=True)
class Timed(Multiset):
    """Rows with multiplicities that add up over the runs: `$p` (a time's key, sorted), `$h2`, `$r`, `$diff`, a payload.

    Once the bucket is closed nothing up to the time `past` is there: a run that lies below it whole is dropped, merges
    leave such rows out, and a run of which they are much is written anew without them.
    """

    past: int | None = None
    _batch: list[tuple[Entry, Run]] = field(default_factory=list)

    def put(self, table: pa.Table) -> None:
        """Add rows of the batch; those of several calls are not the same."""
        if not table.num_rows:
            return
        writer = RunWriter(self.place.folder / f"{self.place.prefix}-p{len(self._batch)}.arrow")
        writer.add(add_up(table.combine_chunks()))
        written = writer.close()
        if written is not None:
            self._batch.append(written)

    def between(self, after: int, until: int) -> pa.Table | None:
        """Return the rows from before the batch of times after the first up to the second; None for no rows."""
        low, high = after + 1 + _ZERO, until + _ZERO
        tables = [run.between(low, high) for run in self.runs]
        found = add_up(pa.concat_tables(tables).combine_chunks()) if tables else None
        return found if found is not None and found.num_rows else None

    def close(self) -> None:
        """Finish the batch's run, merge where it is time, leave out what is past, and note what comes next."""
        self._finish()
        self._drop()
        number = 0
        while (start := merge_start(self.entries, self.place.bucket)) is not None:
            self._rewrite(start, len(self.entries), number := number + 1)
        while (place := self._wasteful()) is not None:
            self._rewrite(place, place + 1, number := number + 1)
        self._note()

    @property
    def _alive(self) -> int:
        """Return the first key that is not past."""
        return 0 if self.past is None else self.past + 1 + _ZERO

    def _finish(self) -> None:
        """Have one run of the batch, also where its rows came in parts."""
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

    def _drop(self) -> None:
        gone = [place for place, run in enumerate(self.runs) if not run.between(self._alive, _LAST).num_rows]
        for place in reversed(gone):
            del self.runs[place], self.entries[place]

    def _wasteful(self) -> int | None:
        """Return the run of which most is past, where that is much beside all that is there."""
        alive = [run.between(self._alive, _LAST).num_rows for run in self.runs]
        past = [int(entry["rows"]) - rows for entry, rows in zip(self.entries, alive, strict=True)]
        if sum(past) <= max(_LITTLE, sum(alive) // _WASTE):
            return None
        return past.index(max(past))

    def _rewrite(self, start: int, stop: int, number: int) -> None:
        """Put a run in the place of some neighbours, without what is past."""
        entries, runs = self.entries[start:stop], self.runs[start:stop]
        writer = RunWriter(self.place.folder / f"{self.place.prefix}-m{number}.arrow")
        self._write(writer, runs, sum(int(entry["bytes"]) for entry in entries))
        digest = xxhash.xxh3_128_hexdigest(",".join(str(entry["digest"]) for entry in entries).encode())
        written = writer.close(merges=1 + max(int(entry["merges"]) for entry in entries), digest=digest)
        self.entries[start:stop] = [] if written is None else [written[0]]
        self.runs[start:stop] = [] if written is None else [written[1]]

    def _write(self, writer: RunWriter, runs: list[Run], size: int) -> None:
        bounds = [self._alive, *self._cuts(runs, -(-size // _MERGED_AT_ONCE)), _LAST + 1]
        for low, high in pairwise(bounds):
            writer.add(add_up(pa.concat_tables([run.between(low, high - 1) for run in runs]).combine_chunks()))

    def _cuts(self, runs: list[Run], count: int) -> list[int]:
        """Return keys between which there are about as many rows each, so that `count` parts come of them."""
        if count <= 1:
            return []
        keys = [unsigned(run.between(self._alive, _LAST).column(0))[::_SAMPLED] for run in runs]
        sample = np.sort(np.concatenate(keys))
        chosen = {int(sample[len(sample) * number // count]) for number in range(1, count)} if len(sample) else set()
        return sorted(key for key in chosen if key > self._alive)

    def _note(self) -> None:
        """Note the least time to come with the last run."""
        plain = [{name: value for name, value in entry.items() if name != DUE} for entry in self.entries]
        due = self._due()
        if due is not None:
            plain[-1][DUE] = due
        self.entries[:] = plain

    def _due(self) -> int | None:
        """Return the least time to come of a row that is there; None where there is none."""
        tables = [run.between(self._alive, _LAST) for run in self.runs]
        rows = _LOOKED_AT
        while tables:
            cut = min((_key(table, rows) for table in tables if table.num_rows > rows), default=_LAST + 1)
            heads = [_until(table, cut) for table in tables]
            found = add_up(pa.concat_tables(heads).combine_chunks())
            if found.num_rows:
                return _key(found, 0) - _ZERO
            if cut > _LAST:
                return None
            rows *= 4
        return None


def _key(table: pa.Table, row: int) -> int:
    return int(unsigned(table.column(0).slice(row, 1))[0])


def _until(table: pa.Table, key: int) -> pa.Table:
    """Return the rows of lesser keys."""
    if key > _LAST:
        return table
    return table.slice(0, int(np.searchsorted(unsigned(table.column(0)), np.uint64(key), "left")))
