"""Rows with a time each → durable runs sorted by it: slices between two times are read, what is past goes by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sinkql.runtime.state.arrangement import consolidate
from sinkql.runtime.state.ordered_run import LAST, OrderedRuns
from sinkql.runtime.state.run import Keys, unsigned

DUE = "due"
"""The note that says the least time to come of a bucket, in milliseconds since 1970."""

_ZERO = 1 << 63
_WASTE, _LITTLE = 8, 32
"""Rows that are past are left in their runs while they are few: one for so many that are not, or so many in all."""
_LOOKED_AT = 64


def keys_of(times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Keys:
    """Return times as unsigned integers of the same order, which runs are sorted by."""
    keys: Keys = times.view(np.uint64) ^ np.uint64(_ZERO)
    return keys


@dataclass(slots=True)
class TimedRuns(OrderedRuns):
    """Rows whose key is a time's.

    Once the bucket is closed nothing up to the time `past` is there: a run that lies below it whole is dropped, merges
    leave such rows out, and a run of which they are much is written anew without them.
    """

    past: int | None = None

    def between(self, after: int, until: int) -> pa.Table | None:
        """Return the rows from before the batch of times after the first up to the second; None for no rows."""
        low, high = after + 1 + _ZERO, until + _ZERO
        tables = [run.between(low, high) for run in self.runs]
        found = consolidate(pa.concat_tables(tables).combine_chunks()) if tables else None
        return found if found is not None and found.num_rows else None

    def close(self) -> None:
        """Finish the batch's run, merge where it is time, leave out what is past, and note what comes next."""
        self._finish()
        self._drop()
        number = self._merge_due()
        while (place := self._wasteful()) is not None:
            self._rewrite(place, place + 1, number := number + 1)
        self._note()

    @property
    def alive(self) -> int:
        """Return the first key that is not past."""
        return 0 if self.past is None else self.past + 1 + _ZERO

    def _drop(self) -> None:
        gone = [place for place, run in enumerate(self.runs) if not run.between(self.alive, LAST).num_rows]
        for place in reversed(gone):
            del self.runs[place], self.entries[place]

    def _wasteful(self) -> int | None:
        """Return the run of which most is past, where that is much beside all that is there."""
        alive = [run.between(self.alive, LAST).num_rows for run in self.runs]
        past = [int(entry["rows"]) - rows for entry, rows in zip(self.entries, alive, strict=True)]
        if sum(past) <= max(_LITTLE, sum(alive) // _WASTE):
            return None
        return past.index(max(past))

    def _note(self) -> None:
        """Note the least time to come with the last run."""
        plain = [{name: value for name, value in entry.items() if name != DUE} for entry in self.entries]
        due = self._due()
        if due is not None:
            plain[-1][DUE] = due
        self.entries[:] = plain

    def _due(self) -> int | None:
        """Return the least time to come of a row that is there; None where there is none."""
        tables = [run.between(self.alive, LAST) for run in self.runs]
        rows = _LOOKED_AT
        while tables:
            cut = min((_key(table, rows) for table in tables if table.num_rows > rows), default=LAST + 1)
            heads = [_until(table, cut) for table in tables]
            found = consolidate(pa.concat_tables(heads).combine_chunks())
            if found.num_rows:
                return _key(found, 0) - _ZERO
            if cut > LAST:
                return None
            rows *= 4
        return None


def _key(table: pa.Table, row: int) -> int:
    return int(unsigned(table.column(0).slice(row, 1))[0])


def _until(table: pa.Table, key: int) -> pa.Table:
    """Return the rows of lesser keys."""
    if key > LAST:
        return table
    return table.slice(0, int(np.searchsorted(unsigned(table.column(0)), np.uint64(key), "left")))
