"""A view's job ↔ its log: claims and commits, each one entry; what no reader needs any more goes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from uuid import uuid4

import msgspec
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import (
    Checkpoint,
    Committed,
    Compacted,
    Context,
    FileKeeper,
    JobOffsets,
    Maintainable,
    PlanChange,
    Reader,
    RefreshableWriter,
    Split,
    StaleFilesError,
    ViewLogWriter,
    Writer,
    WriteResult,
    WriteTask,
    claim_checkpoint,
)
from sinkql.connectors.view.log import (
    Contents,
    Entry,
    Run,
    ViewLog,
    changed_runs,
    entry_after,
    log_expired,
    migrate_log,
    open_log,
    run_file,
)
from sinkql.connectors.view.reader import ViewReader, split_of
from sinkql.connectors.view.rows import schema_of
from sinkql.connectors.view.task import CollectTask, Comparison, ViewTask, Written
from sinkql.errors import FencedError, SinkqlError
from sinkql.planner.name import short_name
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint, files, sorted_run

_SWEEP_EVERY = 16
_LEAST_HISTORY = 16 << 20
"""Bytes of changes that are kept for a reader that is late, however small the contents are."""
_OWN = re.compile(r"(\d+)-[0-9a-f]{32}")


@dataclass(slots=True)
class ViewWriter(Writer, RefreshableWriter, FileKeeper, Maintainable, ViewLogWriter):
    """Write a view's log; `retain_ms` is for how long its changes are kept whoever needs them.

    The state of a batch has the `indexes`.
    """

    view: str
    log: ViewLog
    schema: pa.Schema
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    retain_ms: int = 0
    indexes: tuple[str, ...] = ()
    _mine: Checkpoint | None = field(default=None, init=False)
    _last: tuple[int, Entry] | None = field(default=None, init=False)
    _lost: int = field(default=0, init=False)
    _swept: int = field(default=0, init=False)
    _buckets: int = field(default=0, init=False)

    @classmethod
    def of(cls, write: physical.Write, context: Context) -> ViewWriter:
        """Return the writer of a view's job."""
        log = open_log(write.options["view_id"], context, context.state)
        tuning = write.options.get("tuning", {})
        retain: int = tuning.get("retain_ms", 0)
        columns = tuple((column.name, column.type) for column in write.columns)
        return cls(
            context.sink, log, schema_of(write.columns), columns, write.key, retain, tuple(tuning.get("indexes", ()))
        )

    @property
    def full_refresh(self) -> RefreshableWriter:
        """Return the writer, which replaces all rows itself."""
        return self

    @property
    def files(self) -> FileKeeper:
        """Return the writer, which keeps copies of source files beside the log."""
        return self

    @property
    def maintenance(self) -> Maintainable:
        """Return the writer, which deletes old entries and files of the log."""
        return self

    @property
    def view_log(self) -> ViewLogWriter:
        """Return the writer, whose log has the rows for the indexes."""
        return self

    @property
    def home(self) -> StateDirectory:
        """Return what has the files of the log."""
        return self.log.home

    def open(self) -> None:
        """Make the folder, and have there what the log needs: a view whose contents are lost begins again."""
        files.make_folder(self.log.folder)
        self.log.look()
        migrate_log(self.log)
        newest = self.log.newest()
        if newest is not None and self._lacks(newest[1]):
            self._lost = newest[0]

    def _lacks(self, entry: Entry) -> bool:
        """Tell whether contents are lost; else tasks find them."""
        files = {run_file(run): run.bytes for run in entry.kept}
        return bool(self.home.missing(files) if self.home.remote else self.home.fetch(files))

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the marker of the last entry, None where what it names is lost."""
        self._last = self.log.newest()
        if self._last is None or self._last[0] <= self._lost:
            return None
        return self._last[1].marker

    def claim(
        self,
        initial: JobOffsets,
        *,
        epoch: int,
        switch: PlanChange | None = None,
        renew: Callable[[], None] | None = None,
    ) -> Checkpoint:
        """Make an entry without changes, of a new claim."""
        before = _claim_of(self.load_checkpoint())
        while True:
            kept, claim = self.load_checkpoint(), uuid4().hex
            if renew is not None:
                renew()
            elif _claim_of(kept) != before:
                raise self._fenced()
            marker = claim_checkpoint(kept, sink=self.view, claim=claim, initial=initial, epoch=epoch, switch=switch)
            number, entry = entry_after(self._last, marker, claim)
            if kept is None:
                entry = msgspec.structs.replace(entry, contents={}, begins=number, indexes=())
            if self.log.publish(number, entry):
                self._last, self._mine = (number, entry), entry.marker
                return entry.marker

    def refresh(self) -> Checkpoint:
        """Read the log's end; raises SQ5101 where another run has claimed it."""
        found = self.load_checkpoint()
        assert self._mine is not None
        if found is None or found.claim != self._mine.claim:
            raise self._fenced()
        self._mine = found
        return found

    def begin(self, *, bucketing: str, buckets: int, cleared: bool = False) -> WriteTask:
        """Return the task of a new attempt; the number of buckets stays that of the first."""
        assert self._last is not None
        entry = self._last[1]
        epoch = entry.marker.epoch
        if self.home.store is not None and not self.home.remote:
            self.log.bring(entry.kept)
        return ViewTask(
            uuid4().hex, entry.buckets or buckets, self.key, epoch, self.home.for_tasks(), self.schema,
            dict(entry.contents),
        )  # fmt: skip

    def invalidate_index(self) -> None:
        """Put all runs of the contents into the store again; raises SQ3451 where one is lost, for a start anew."""
        if self._last is None or not self.home.remote:
            return
        files = {run_file(run): run.bytes for run in self._last[1].kept}
        lost = self.home.fetch(files)
        self.home.reupload(files.keys() - set(lost))
        self.home.delete(lost)
        if lost:
            raise log_expired(self.view, hint="They are computed again.")

    def commit(self, task: WriteTask, results: Sequence[WriteResult], marker: Checkpoint) -> Committed:
        """Make the entry of a batch."""
        found: list[Written] = [each.data for each in results if each.data is not None]
        assert task.buckets is not None
        return self._commit(found, marker, task.buckets, sum(each.rows for each in results), self.indexes)

    def _commit(
        self, found: Sequence[Written], marker: Checkpoint, buckets: int, rows: int, indexes: tuple[str, ...] = ()
    ) -> Committed:
        self.home.ensure_uploaded(run_file(run) for each in found for run in (each.run, *each.contents))
        number, entry = entry_after(self._last, marker, marker.commit)
        contents: Contents = {str(each.run.bucket): each.contents for each in found}
        entry = changed_runs(number, entry, [each.run for each in found], contents, buckets)
        entry = msgspec.structs.replace(entry, columns=self.columns, indexes=indexes)
        if not self.log.publish(number, entry):
            there = self.log.entry(number)
            self.refresh()
            if there is None or there.id != entry.id:  # an attempt before may have made it, and not learnt of it
                raise StaleFilesError
        self._last, self._mine = (number, entry), marker
        return Committed(marker, number, rows, entry.size, len(entry.runs))

    def _fenced(self) -> FencedError:
        return FencedError(
            "SQ5101",
            f'another run has taken over materialized view "{short_name(self.view)}"',
            hint="Nothing is lost: the other run continues from the last commit of this one.",
        )

    # --- all rows again ----------------------------------------------------------------------------------------------

    def begin_refresh(self, number: int, *, buckets: int) -> WriteTask:
        """Return the task that puts by a part of a rebuild."""
        assert self._last is not None
        entry = self._last[1]
        self._buckets = entry.buckets or buckets
        home = self.home.for_tasks()
        return CollectTask(uuid4().hex, self._buckets, self.key, entry.marker.epoch, home, self.schema)

    def commit_refresh(
        self, results: Sequence[WriteResult], marker: Checkpoint, between: Callable[[int], None] = lambda rows: None
    ) -> Committed:
        """Make one entry with the changes that make the contents those put by."""
        assert self._last is not None
        entry = self._last[1]
        other = bool(entry.columns) and entry.columns != self.columns
        before: Contents = {} if other else entry.contents
        put_by: list[Run] = [each.data for each in results if each.data is not None]
        had = (run for kept in before.values() for run in kept)
        if self.home.store is not None and self.home.fetch({run_file(each): each.bytes for each in (*put_by, *had)}):
            raise StaleFilesError
        found = Comparison(self.log, self.schema, marker.epoch, between).run(results, before)
        if other:
            self._last = self._last[0], msgspec.structs.replace(entry, contents={}, begins=self._last[0] + 1)
        failpoint.point("rebuild-compared")
        rows = sum(each.run.rows for each in found)
        return self._commit(found, replace(marker, commit=uuid4().hex), self._buckets, rows)

    # --- indexes -----------------------------------------------------------------------------------------------------

    def present(self) -> tuple[Reader, Sequence[Split]] | None:
        """Return what reads the contents."""
        if self._last is None or not self._last[1].changed:
            return None
        return self._reading(self._last[1].kept)

    def changes(self, results: Sequence[WriteResult]) -> tuple[Reader, Sequence[Split]] | None:
        """Return what reads the runs of an attempt."""
        found: list[Written] = [each.data for each in results if each.data is not None]
        return self._reading(each.run for each in found) if found else None

    def _reading(self, runs: Iterable[Run]) -> tuple[Reader, Sequence[Split]]:
        columns = tuple(physical.Column(name, type_) for name, type_ in self.columns)
        reader = ViewReader(self.view, columns, "retract", self.log, "")
        by_bucket: dict[int, list[Run]] = {}
        for run in runs:
            by_bucket.setdefault(run.bucket, []).append(run)
        return reader, [split_of(bucket, each, whole=False) for bucket, each in by_bucket.items()]

    def states(self) -> Mapping[str, Collection[str]]:
        """Return those that entries name: a reader of one of them may come yet, though the index was dropped."""
        entries = (self.log.entry(number) for number in self.log.numbers())
        named = ((each.marker.state, each.indexes) for each in entries if each is not None and each.indexes)
        return {state: indexes for state, indexes in named if state is not None}

    # --- files of readers --------------------------------------------------------------------------------------------

    def store_file(self, name: str, data: bytes) -> None:
        """Keep a reader's file beside the log."""
        files.write_atomic(self.home.folder / _attached(name), data)
        self.home.ensure_uploaded([_attached(name)])  # another host may have deleted it

    def load_file(self, name: str) -> bytes | None:
        """Return a file kept by `store_file`."""
        return self.home.read_small(_attached(name))

    def delete_file(self, name: str) -> bool:
        """Delete a file kept by `store_file`."""
        with suppress(SinkqlError, OSError):  # it stays, as what nobody reads
            self.log.forget(_attached(name))
        return True

    def refresh_files(self, files: Mapping[str, bytes]) -> None:
        """Do nothing: no cleaner deletes files beside the log."""

    # --- what goes ---------------------------------------------------------------------------------------------------

    def maintain(self, go_on: Callable[[bool], bool] = lambda begun: True) -> Sequence[Compacted]:
        """Now and then, delete entries that all readers have, and files that nothing reaches."""
        assert self._last is not None
        number, entry = self._last
        if number < self._swept + _SWEEP_EVERY or not go_on(False):
            return ()
        with suppress(SinkqlError, OSError):  # a store that does not answer now: the next time will do
            self._sweep(number, entry)
        return ()

    def maintenance_share(self) -> float:
        """Return the share of time that a sweep may take."""
        return 0.15

    def optimize(self, go_on: Callable[[], bool] = lambda: True) -> tuple[Sequence[Compacted], bool]:
        """Do nothing: the runs of a log are merged as it grows."""
        return (), True

    def files_to_optimize(self) -> int:
        """Return 0: `optimize` has no work."""
        return 0

    def _sweep(self, number: int, entry: Entry) -> None:
        floor = self._floor(number, entry)
        live = {*entry.runs, *entry.kept}
        if min(self.log.numbers(), default=floor) < floor:
            self.log.remove(floor - 1)
            failpoint.point("view-forgotten")
        for each in self.log.numbers():
            found = self.log.entry(each)
            if found is not None:
                live.update((*found.runs, *found.kept))
        paths = (self.log.folder / "runs").glob("*/*.arrow")
        epoch = entry.marker.epoch
        sorted_run.sweep(paths, {self.log.run_path(each) for each in live}, epoch_of=_epoch_of, epoch=epoch)
        self.home.sweep(("runs/",), set(map(run_file, live)), epoch_of=_epoch_of, epoch=epoch)
        self._swept = number

    def _floor(self, last: int, entry: Entry) -> int:
        """Return the first entry that stays: that of the latest reader, unless more than the contents lies behind it.

        The last entry stays in any case, and so do those that are young enough.
        """
        most = max(_LEAST_HISTORY, sum(run.bytes for run in entry.kept))
        wanted, young = min([*self.log.pins.places(), last]), time.time_ns() // 1_000_000 - self.retain_ms
        floor, size = last, entry.size
        for number in reversed(self.log.numbers()):
            found = self.log.entry(number)
            if found is None or number >= last:
                continue
            retained = self.retain_ms > 0 and found.at >= young
            if not retained and (number < wanted or size > most):
                break
            floor, size = number, size + found.size
        return floor


def _claim_of(marker: Checkpoint | None) -> str | None:
    return marker.claim if marker is not None else None


def _attached(name: str) -> str:
    return f"attached/{name}"


def _epoch_of(name: str) -> int | None:
    found = _OWN.match(name)
    return int(found[1]) if found is not None else None
