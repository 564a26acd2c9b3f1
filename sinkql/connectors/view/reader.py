"""Offsets in a view's log → rows that came and went in between; from the beginning, the contents."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import (
    Context,
    JobOffsets,
    Limit,
    Measure,
    Offsets,
    Reader,
    RefreshableReader,
    SnapshotReader,
    Split,
    Tally,
    ViewLogReader,
)
from sinkql.connectors.view.log import Entry, Run, ViewLog, log_expired, open_log, state_of
from sinkql.connectors.view.rows import (
    check_present,
    consolidate,
    consolidated_parts,
    expand,
    in_batches,
    read_runs,
    schema_of,
)
from sinkql.errors import SinkqlError
from sinkql.planner.name import short_name

_BATCH_ROWS = 1 << 16
_SMALL_ROWS, _SMALL_BYTES = 5000, 1 << 20
_BEGINNING: Offsets = {"at": 0, "id": ""}


@dataclass(frozen=True, slots=True)
class ViewReader(Reader, SnapshotReader, RefreshableReader, ViewLogReader):
    """Read a view's log. Offsets: `at`, the last entry that was read, 0 for none, and its `id`.

    `consumer` is who reads: for it, entries are kept, those that have the `indexes` in which it looks up.
    """

    view: str
    columns: tuple[physical.Column, ...]
    change: physical.Change
    log: ViewLog
    consumer: str
    passing: bool = False
    indexes: frozenset[str] = frozenset()

    @classmethod
    def of(cls, read: physical.Read, context: Context) -> ViewReader:
        """Return the reader of a view that a job reads."""
        log = open_log(read.options["view_id"], context, state_of(read))
        passing = read.options.get("passing", False)
        indexes = frozenset(read.options.get("tuning", {}).get("indexes", ()))
        return cls(read.name, read.columns, read.change, log, context.sink_id, passing, indexes)

    @property
    def snapshot(self) -> ViewReader:
        """Return the reader itself: an entry tells whether the view was consistent."""
        return self

    @property
    def full_refresh(self) -> ViewReader:
        """Return the reader itself: the log can lose entries."""
        return self

    @property
    def view_log(self) -> ViewReader:
        """Return the reader itself."""
        return self

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the beginning, from which the contents come first, or the log's present end."""
        return self._last() if at_end else _BEGINNING

    def target(self, start: Offsets) -> Offsets:
        """Return the log's present end, also where that is not indexed yet."""
        end = self._last()
        return end if end["at"] > start["at"] or self.wants_full_refresh(start) else start

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Tell whether a target is reached."""
        return bool(offsets["at"] >= target["at"])

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return as many entries as the limit lets in, at least one with changes; from the beginning, the last one."""
        if start["at"] == 0 or self.wants_full_refresh(start):
            return self._pinned() or start
        rows, size, end = 0, 0, start
        stop = self.log.last() if until is None else until["at"]
        for number in self.log.numbers():
            if not start["at"] < number <= stop:
                continue
            entry = self.log.entry(number)
            if entry is None or not (entry.runs and self._fits(entry) and self._indexed(number)):
                continue
            rows, size = rows + sum(run.rows for run in entry.runs), size + entry.size
            if end is not start and (rows > limit.rows or size > limit.bytes):
                break
            end = _offsets(number, entry)
        return end

    def below(self, offsets: Offsets) -> JobOffsets | None:
        """Return how far the sources of the view were read at an entry."""
        found = self.log.entry(offsets["at"]) if offsets["at"] else None
        return found.marker.below if found is not None and found.id == offsets["id"] else None

    def places(self, start: Offsets) -> Iterator[tuple[Offsets, JobOffsets]]:
        """Yield the entries from `start` on, the last one first; from the beginning, all that are there."""
        first = start["at"]
        if first == 0 or self.wants_full_refresh(start):
            newest = self.log.newest()
            first = max(self._held(), newest[1].begins if newest is not None and self._fits(newest[1]) else 0)
        found = 0
        for number in reversed(self.log.numbers()):
            if number < first:
                return
            entry = self.log.entry(number)
            if entry is None or entry.marker.below is None or not self._fits(entry):
                continue
            if self._indexed(number):
                found += 1
                yield _offsets(number, entry), entry.marker.below
            elif not found and self.indexes <= set(entry.indexes):
                return  # of the last place others may know already

    def state(self, offsets: Offsets) -> str | None:
        """Return the name of the state that has the indexes as of an entry."""
        found = self.log.entry(offsets["at"])
        if found is None or found.id != offsets["id"]:
            raise log_expired(self.view)
        return self._state(offsets["at"])

    def _state(self, at: int) -> str | None:
        found, number = None, at
        while (entry := self.log.entry(number)) is not None and entry.changed <= at and entry.begins <= at:
            if self.indexes <= set(entry.indexes) and entry.marker.state is not None:
                found = entry.marker.state
            number += 1
        return found

    def _indexed(self, at: int) -> bool:
        """Tell whether the indexes are there as of an entry."""
        return not self.indexes or self._state(at) is not None

    def changed(self, offsets: Offsets) -> Offsets:
        """Return the number of the last entry up to there that has changes."""
        found = self.log.entry(offsets["at"]) if offsets["at"] else None
        return {"at": found.changed if found is not None else 0}

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return what changed in each bucket; from the beginning, what is in it at the end."""
        if end["at"] == 0:
            return []
        if start["at"] == 0:
            found = self.log.entry(end["at"])
            if found is None:
                raise log_expired(self.view)
            return self._splits(found.contents, whole=True)
        if self.wants_full_refresh(start):
            raise self._behind()
        runs: dict[str, list[Run]] = {}
        for number in range(start["at"] + 1, end["at"] + 1):
            entry = self.log.entry(number)
            if entry is None:
                raise log_expired(self.view)
            for run in entry.runs:
                runs.setdefault(str(run.bucket), []).append(run)
        return self._splits(runs, whole=False)

    def _splits(self, runs: Mapping[str, Sequence[Run]], *, whole: bool) -> list[Split]:
        if not self.log.home.remote:  # else tasks do it
            try:
                self.log.bring(run for each in runs.values() for run in each)
            except FileNotFoundError:
                raise log_expired(self.view) from None
        return [split_of(int(bucket), each, whole=whole) for bucket, each in runs.items() if each]

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows that came and went in a bucket; what did both is in none of them."""
        runs = [Run(split["bucket"], file, 0, size, digest=digest) for file, size, digest in split["files"]]
        schema = schema_of(self.columns)
        try:
            if self.log.home.remote:
                self.log.bring(runs)
            changes = read_runs(self.log.stored(runs), schema)
        except FileNotFoundError:
            raise log_expired(self.view) from None
        tally.bytes += split["bytes"]
        for part in consolidated_parts(in_batches(changes), schema, self.log.spill):
            table = consolidate(part)
            if split["whole"]:
                check_present(table, short_name(self.view))
            if self.change == "append":
                table = expand(table)
            tally.rows += len(table)
            yield from table.to_batches(max_chunksize=_BATCH_ROWS)

    def with_columns(self, names: tuple[str, ...]) -> Reader:
        """Return a reader of some columns: others are not looked at, and rows that differ in them alone are equal."""
        known = {column.name: column for column in self.columns}
        return replace(self, columns=tuple(known[name] for name in names))

    def fits_in_process(self, splits: Sequence[Split]) -> bool:
        """Tell whether there is little to read."""
        rows, size = sum(each["rows"] for each in splits), sum(each["bytes"] for each in splits)
        return bool(rows <= _SMALL_ROWS and size <= _SMALL_BYTES)

    def local_only(self) -> bool:
        """Tell whether the log lies where this machine alone may find it."""
        return not self.log.everywhere

    def extended(self, end: Offsets, until: Offsets | None = None) -> Offsets:
        """Return the log's present end, or `until`."""
        return until if until is not None and until["at"] >= end["at"] else self.target(end)

    def wants_full_refresh(self, offsets: Offsets) -> bool:
        """Tell whether what follows is gone: it was kept for long, or the log was begun again.

        A log without an entry may be on its way to here; the next claim of a lost one tells.
        """
        newest = self.log.newest()
        if offsets["at"] == 0 or newest is None:
            return False
        found = self.log.entry(offsets["at"])
        begun_again = newest[1].begins > offsets["at"] and self._fits(newest[1])
        return (found is None or found.id != offsets["id"] or begun_again) and not self.log.moving

    def restart_of(self, offsets: Offsets) -> Offsets:
        """Return the beginning; raises GoneError where the contents then are gone."""
        if self.wants_full_refresh(offsets):
            raise log_expired(self.view)
        return _BEGINNING

    def full_refresh_start(self, offsets: Offsets) -> Offsets:
        """Return the beginning."""
        return _BEGINNING

    def can_full_refresh(self) -> bool:
        """Tell that the contents are all that there is."""
        return True

    def on_resume(self, offsets: Offsets) -> None:
        """Have the log kept from there on."""
        self.after_commit(offsets)

    def after_commit(self, end: Offsets) -> None:
        """Let the log forget what comes before."""
        if end["at"]:
            self.log.pin(self.consumer, end["at"], passing=self.passing)

    def is_consistent(self, offsets: Offsets) -> bool | None:
        """Tell what the view's own sources said."""
        found = self.log.entry(offsets["at"]) if offsets["at"] else None
        return found.marker.consistent if found is not None else None

    def lag(self, offsets: Offsets) -> float:
        """Return the age of the oldest entry with changes that was not read, in seconds."""
        for number in self.log.numbers():
            if number > offsets["at"] and (found := self.log.entry(number)) is not None and found.runs:
                return max(0.0, time.time() - found.at / 1000)
        return 0.0

    def measure(self, offsets: Offsets) -> Measure:
        """Return how many commits of the view there are."""
        return Measure(max(offsets["at"], self._end()["at"]), offsets["at"], "commits")

    def _end(self) -> Offsets:
        """Return the log's present end; the beginning where that is not indexed yet."""
        found = self._last()
        return found if not found["at"] or self._indexed(found["at"]) else _BEGINNING

    def _last(self) -> Offsets:
        """Return where the last entry with changes is; the beginning where there is none."""
        while (newest := self.log.newest()) is not None and newest[1].changed and self._fits(newest[1]):
            found = self.log.entry(newest[1].changed)
            if found is not None:
                return _offsets(newest[1].changed, found)
            if self.log.last() == newest[0]:  # it has gone since, and the last one has the same contents
                return _offsets(*newest)
        return _BEGINNING

    def _fits(self, entry: Entry) -> bool:
        """Tell whether an entry has the columns that are read: before a view that was changed has run, it has not."""
        return set(entry.columns) >= {(column.name, column.type) for column in self.columns}

    def _held(self) -> int:
        """Return the first of the entries that are kept for this reader from now on, which has read none of them."""
        while True:
            first = min(self.log.numbers(), default=0)
            before = self.log.pins.of(self.consumer)
            if before is not None and self.log.entry(before) is not None:
                return min(first, before)
            self.log.pin(self.consumer, first, passing=self.passing)
            if not first or self.log.entry(first) is not None:
                return first

    def _pinned(self) -> Offsets | None:
        """Return the log's end, whose contents are kept from now on; None where there is nothing yet."""
        while (end := self._end())["at"]:
            before = self.log.pins.of(self.consumer)
            if before is None or before > end["at"] or self.log.entry(before) is None:
                self.log.pin(self.consumer, end["at"], passing=self.passing)
            if self.log.entry(end["at"]) is not None:
                return end
        return None

    def _behind(self) -> SinkqlError:
        return SinkqlError(
            "SQ3450",
            f'materialized view "{short_name(self.view)}" no longer has the changes that come next',
            detail="They were kept until they were more than the view's rows, or the view's folder was lost.",
            hint="Drop the sink and create it again, into a new table. RETAIN HISTORY of the view keeps more.",
        )


def split_of(bucket: int, runs: Sequence[Run], *, whole: bool) -> Split:
    """Return what is to be read of a bucket: some runs, which may be its `whole` contents."""
    rows, size = sum(run.rows for run in runs), sum(run.bytes for run in runs)
    files = [(run.file, run.bytes, run.digest) for run in runs]
    return {"bucket": bucket, "files": files, "rows": rows, "bytes": size, "whole": whole}


def _offsets(number: int, entry: Entry) -> Offsets:
    return {"at": number, "id": entry.id}
