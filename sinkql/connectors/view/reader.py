"""Read a view's log: the changes between two offsets, or from the beginning, the contents."""

from __future__ import annotations

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
    ReadCounts,
    Reader,
    RefreshableReader,
    Size,
    SnapshotReader,
    Split,
    ViewLogReader,
)
from sinkql.connectors.view.log import Entry, Run, ViewLog, expired_log_error, open_log, view_state
from sinkql.connectors.view.options import read_options
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
from sinkql.machine import clock

_BATCH_ROWS = 1 << 16
_BEGINNING: Offsets = {"at": 0, "id": ""}


@dataclass(frozen=True, slots=True)
class ViewReader(Reader, SnapshotReader, RefreshableReader, ViewLogReader):
    """The reader of a view's log. Offsets: `at` is the last entry read, 0 for none, and `id` is its id.

    `consumer` is the id of the reading sink, for which entries are retained. Only entries that have the `indexes` in
    which it looks up are read.
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
        options = read_options(read.options)
        log = open_log(options.view_id, context, view_state(read))
        indexes = frozenset(options.tuning.indexes)
        return cls(read.name, read.columns, read.change, log, context.sink_id, options.passing, indexes)

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
        """Return the beginning, from which the contents are read first, or the present end of the log."""
        return self._last() if at_end else _BEGINNING

    def target(self, start: Offsets) -> Offsets:
        """Return the present end of the log, even if it is not indexed yet."""
        end = self._last()
        return end if end["at"] > start["at"] or self.wants_full_refresh(start) else start

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        """Return whether a target is reached."""
        return bool(offsets["at"] >= target["at"])

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the offsets after the entries that the limit allows, at least one; at first, after the last entry."""
        if start["at"] == 0 or self.wants_full_refresh(start):
            return self._retain_contents() or start
        rows, size, end = 0, 0, start
        stop = self.log.last() if until is None else until["at"]
        for number in self.log.numbers():
            if not start["at"] < number <= stop:
                continue
            entry = self.log.entry(number)
            if entry is None or not (entry.runs and self._has_columns(entry) and self._is_indexed(number)):
                continue
            rows, size = rows + sum(run.rows for run in entry.runs), size + entry.size
            if end is not start and (rows > limit.rows or size > limit.bytes):
                break
            end = _offsets(number, entry)
        return end

    def positions_below(self, offsets: Offsets) -> JobOffsets | None:
        """Return the offsets of the view's sources at an entry."""
        entry = self.log.entry(offsets["at"]) if offsets["at"] else None
        return entry.marker.below if entry is not None and entry.id == offsets["id"] else None

    def list_positions(self, start: Offsets) -> Iterator[tuple[Offsets, JobOffsets]]:
        """Yield the entries from `start` on, the last one first; from the beginning, all present ones."""
        first = start["at"]
        if first == 0 or self.wants_full_refresh(start):
            newest = self.log.newest()
            first = max(
                self._retain_entries(), newest[1].begins if newest is not None and self._has_columns(newest[1]) else 0
            )
        count = 0
        for number in reversed(self.log.numbers()):
            if number < first:
                return
            entry = self.log.entry(number)
            if entry is None or entry.marker.below is None or not self._has_columns(entry):
                continue
            if self._is_indexed(number):
                count += 1
                yield _offsets(number, entry), entry.marker.below
            elif not count and self.indexes <= set(entry.indexes):
                return  # other readers may know an earlier position already

    def state_at(self, offsets: Offsets) -> str | None:
        """Return the name of the state that has the indexes as of an entry."""
        entry = self.log.entry(offsets["at"])
        if entry is None or entry.id != offsets["id"]:
            raise expired_log_error(self.view)
        return self._state(offsets["at"])

    def _state(self, at: int) -> str | None:
        state, number = None, at
        while (entry := self.log.entry(number)) is not None and entry.changed <= at and entry.begins <= at:
            if self.indexes <= set(entry.indexes) and entry.marker.state is not None:
                state = entry.marker.state
            number += 1
        return state

    def _is_indexed(self, at: int) -> bool:
        """Return whether the indexes exist as of an entry."""
        return not self.indexes or self._state(at) is not None

    def last_change(self, offsets: Offsets) -> Offsets:
        """Return the number of the last entry with changes, up to the offsets."""
        entry = self.log.entry(offsets["at"]) if offsets["at"] else None
        return {"at": entry.changed if entry is not None else 0}

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return the changes of each bucket; from the beginning, its contents at the end."""
        if end["at"] == 0:
            return []
        if start["at"] == 0:
            last = self.log.entry(end["at"])
            if last is None:
                raise expired_log_error(self.view)
            return self._splits(last.contents, whole=True)
        if self.wants_full_refresh(start):
            raise self._behind_error()
        runs: dict[str, list[Run]] = {}
        for number in range(start["at"] + 1, end["at"] + 1):
            entry = self.log.entry(number)
            if entry is None:
                raise expired_log_error(self.view)
            for run in entry.runs:
                runs.setdefault(str(run.bucket), []).append(run)
        return self._splits(runs, whole=False)

    def _splits(self, runs: Mapping[str, Sequence[Run]], *, whole: bool) -> list[Split]:
        if not self.log.directory.remote:  # otherwise tasks fetch them
            try:
                self.log.fetch_runs(run for bucket_runs in runs.values() for run in bucket_runs)
            except FileNotFoundError:
                raise expired_log_error(self.view) from None
        return [split_of(int(bucket), bucket_runs, whole=whole) for bucket, bucket_runs in runs.items() if bucket_runs]

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        """Yield the consolidated changes of a bucket."""
        runs = [Run(split["bucket"], file, 0, size, digest=digest) for file, size, digest in split["files"]]
        schema = schema_of(self.columns)
        try:
            if self.log.directory.remote:
                self.log.fetch_runs(runs)
            changes = read_runs(self.log.stored_runs(runs), schema)
        except FileNotFoundError:
            raise expired_log_error(self.view) from None
        read_counts.bytes += split["bytes"]
        for part in consolidated_parts(in_batches(changes), schema, self.log.spill):
            table = consolidate(part)
            if split["whole"]:
                check_present(table, self.view)
            if self.change == "append":
                table = expand(table)
            read_counts.rows += len(table)
            yield from table.to_batches(max_chunksize=_BATCH_ROWS)

    def with_columns(self, names: tuple[str, ...]) -> Reader:
        """Return a reader of some columns: rows that differ only in other columns are equal."""
        by_name = {column.name: column for column in self.columns}
        return replace(self, columns=tuple(by_name[name] for name in names))

    def size(self, splits: Sequence[Split]) -> Size:
        """Return the rows of the splits' runs, and the bytes of their files."""
        return Size(sum(split["rows"] for split in splits), sum(split["bytes"] for split in splits))

    def local_only(self) -> bool:
        """Return whether only this machine can read the log."""
        return not self.log.is_shared

    def extend(self, end: Offsets, until: Offsets | None = None) -> Offsets:
        """Return the present end of the log, or `until`."""
        return until if until is not None and until["at"] >= end["at"] else self.target(end)

    def wants_full_refresh(self, offsets: Offsets) -> bool:
        """Return whether the next changes are gone: retention deleted them, or the log started again.

        A log without entries may be on its way to this host. If it is lost, the next claim starts it again.
        """
        newest = self.log.newest()
        if offsets["at"] == 0 or newest is None:
            return False
        entry = self.log.entry(offsets["at"])
        begun_again = newest[1].begins > offsets["at"] and self._has_columns(newest[1])
        return (entry is None or entry.id != offsets["id"] or begun_again) and not self.log.is_moving

    def restart_of(self, offsets: Offsets) -> Offsets:
        """Return the beginning; raise GoneError if the changes after the offsets are gone."""
        if self.wants_full_refresh(offsets):
            raise expired_log_error(self.view)
        return _BEGINNING

    def full_refresh_start(self, offsets: Offsets) -> Offsets:
        """Return the beginning."""
        return _BEGINNING

    def can_full_refresh(self) -> bool:
        """Return True: the contents are all rows."""
        return True

    def on_resume(self, offsets: Offsets) -> None:
        """Retain the log from the offsets on."""
        self.after_commit(offsets)

    def after_commit(self, end: Offsets) -> None:
        """Allow the log to delete earlier entries."""
        if end["at"]:
            self.log.set_position(self.consumer, end["at"], passing=self.passing)

    def is_consistent(self, offsets: Offsets) -> bool | None:
        """Return whether the sources of the view were consistent at the offsets; None if that is unknown."""
        entry = self.log.entry(offsets["at"]) if offsets["at"] else None
        return entry.marker.consistent if entry is not None else None

    def lag(self, offsets: Offsets) -> float:
        """Return the age in seconds of the oldest unread entry with changes."""
        for number in self.log.numbers():
            if number > offsets["at"] and (entry := self.log.entry(number)) is not None and entry.runs:
                return max(0.0, clock.time() - entry.at / 1000)
        return 0.0

    def measure(self, offsets: Offsets) -> Measure:
        """Return the number of commits of the view."""
        return Measure(max(offsets["at"], self._end()["at"]), offsets["at"], "commits")

    def _end(self) -> Offsets:
        """Return the present end of the log; the beginning if the last entry is not indexed yet."""
        last = self._last()
        return last if not last["at"] or self._is_indexed(last["at"]) else _BEGINNING

    def _last(self) -> Offsets:
        """Return the offsets of the last entry with changes; the beginning if no entry has changes."""
        while (newest := self.log.newest()) is not None and newest[1].changed and self._has_columns(newest[1]):
            entry = self.log.entry(newest[1].changed)
            if entry is not None:
                return _offsets(newest[1].changed, entry)
            if self.log.last() == newest[0]:  # the entry was deleted since, and the last one has the same contents
                return _offsets(*newest)
        return _BEGINNING

    def _has_columns(self, entry: Entry) -> bool:
        """Return whether an entry has the columns to read; after a view was changed, old entries lack some."""
        return set(entry.columns) >= {(column.name, str(column.type)) for column in self.columns}

    def _retain_entries(self) -> int:
        """Retain entries for this reader, which has read none, and return the first of them."""
        while True:
            first = min(self.log.numbers(), default=0)
            before = self.log.positions.of(self.consumer)
            if before is not None and self.log.entry(before) is not None:
                return min(first, before)
            self.log.set_position(self.consumer, first, passing=self.passing)
            if not first or self.log.entry(first) is not None:
                return first

    def _retain_contents(self) -> Offsets | None:
        """Retain the contents at the log's end, and return that end; None if the log is empty."""
        while (end := self._end())["at"]:
            before = self.log.positions.of(self.consumer)
            if before is None or before > end["at"] or self.log.entry(before) is None:
                self.log.set_position(self.consumer, end["at"], passing=self.passing)
            if self.log.entry(end["at"]) is not None:
                return end
        return None

    def _behind_error(self) -> SinkqlError:
        from sinkql.planner.name import short_name  # for messages only: the planner is large

        return SinkqlError(
            "SQ3450",
            f'materialized view "{short_name(self.view)}" no longer has the changes that come next',
            detail="They were deleted when they became larger than the view's rows, or the view's folder was lost.",
            hint="Drop the sink and create it again with a new table. RETAIN HISTORY of the view retains more changes.",
        )


def split_of(bucket: int, runs: Sequence[Run], *, whole: bool) -> Split:
    """Return the split of a bucket: some runs, or its `whole` contents."""
    rows, size = sum(run.rows for run in runs), sum(run.bytes for run in runs)
    files = [(run.file, run.bytes, run.digest) for run in runs]
    return {"bucket": bucket, "files": files, "rows": rows, "bytes": size, "whole": whole}


def _offsets(number: int, entry: Entry) -> Offsets:
    return {"at": number, "id": entry.id}
