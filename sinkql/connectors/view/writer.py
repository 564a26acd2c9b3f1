"""Write a view job's claims and commits as entries of its log, and delete entries that no reader needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

import msgspec
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import (
    Checkpoint,
    ClaimRequest,
    Committed,
    Compacted,
    Context,
    Maintainable,
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
from sinkql.connectors.view.attached_files import AttachedFiles
from sinkql.connectors.view.log import (
    Contents,
    Entry,
    Run,
    ViewLog,
    changed_runs,
    entry_after,
    expired_log_error,
    migrate_log,
    open_log,
    run_file,
)
from sinkql.connectors.view.options import write_options
from sinkql.connectors.view.reader import ViewReader, split_of
from sinkql.connectors.view.rows import schema_of
from sinkql.connectors.view.task import CollectTask, Comparison, ViewTask, WrittenBucket
from sinkql.errors import FencedError, SinkqlError
from sinkql.logical.type import parse_type
from sinkql.machine import clock
from sinkql.machine.randomness import new_id
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint, files, sorted_run

_SWEEP_EVERY = 16
_LEAST_HISTORY = 16 << 20
"""Bytes of changes that are retained for a late reader even if the contents are smaller."""
_RUN_NAME = re.compile(r"(\d+)-[0-9a-f]{32}")


@dataclass(slots=True)
class ViewWriter(Writer, RefreshableWriter, Maintainable, ViewLogWriter):
    """The writer of a view's log. Changes are retained for `retain_ms`, or longer if a reader needs them.

    The state of each batch has the `indexes`.
    """

    view: str
    log: ViewLog
    schema: pa.Schema
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    retain_ms: int = 0
    indexes: tuple[str, ...] = ()
    _own_checkpoint: Checkpoint | None = field(default=None, init=False)
    _last: tuple[int, Entry] | None = field(default=None, init=False)
    _lost_number: int = field(default=0, init=False)
    _swept_number: int = field(default=0, init=False)
    _buckets: int = field(default=0, init=False)

    @classmethod
    def of(cls, write: physical.Write, context: Context) -> ViewWriter:
        """Return the writer of a view's job."""
        options = write_options(write.options)
        log = open_log(options.view_id, context, context.state)
        columns = tuple((column.name, str(column.type)) for column in write.columns)
        tuning = options.tuning
        return cls(context.sink, log, schema_of(write.columns), columns, write.key, tuning.retain_ms, tuning.indexes)

    @property
    def full_refresh(self) -> RefreshableWriter:
        """Return the writer, which replaces all rows itself."""
        return self

    @property
    def files(self) -> AttachedFiles:
        """Return the copies of source files beside the log."""
        return AttachedFiles(self.log)

    @property
    def maintenance(self) -> Maintainable:
        """Return the writer, which deletes old entries and files of the log."""
        return self

    @property
    def view_log(self) -> ViewLogWriter:
        """Return the writer, whose log has the rows for the indexes."""
        return self

    @property
    def directory(self) -> StateDirectory:
        """Return the state directory with the files of the log."""
        return self.log.directory

    def open(self) -> None:
        """Create the folder and fetch the files of the log. If the contents are lost, the view starts again."""
        files.make_folder(self.log.folder)
        self.log.refresh()
        migrate_log(self.log)
        newest = self.log.newest()
        if newest is not None and self._has_lost_contents(newest[1]):
            self._lost_number = newest[0]

    def _has_lost_contents(self, entry: Entry) -> bool:
        """Return whether contents are lost. Remote tasks fetch the files themselves."""
        files = {run_file(run): run.bytes for run in entry.content_runs}
        return bool(self.directory.missing(files) if self.directory.remote else self.directory.fetch(files))

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint of the last entry; None if its files are lost."""
        self._last = self.log.newest()
        if self._last is None or self._last[0] <= self._lost_number:
            return None
        return self._last[1].marker

    def claim(self, request: ClaimRequest) -> Checkpoint:
        """Publish an entry without changes under a new claim."""
        before = _claim_of(self.load_checkpoint())
        while True:
            present, claim = self.load_checkpoint(), new_id()
            if request.renew is not None:
                request.renew()
            elif _claim_of(present) != before:
                raise self._fenced()
            marker = claim_checkpoint(present, request, sink=self.view, claim=claim)
            number, entry = entry_after(self._last, marker, claim)
            if present is None:
                entry = msgspec.structs.replace(entry, contents={}, begins=number, indexes=())
            if self.log.publish(number, entry):
                self._last, self._own_checkpoint = (number, entry), entry.marker
                return entry.marker

    def refresh(self) -> Checkpoint:
        """Read the end of the log; raise SQ5101 if another process has claimed it."""
        checkpoint = self.load_checkpoint()
        if checkpoint is None or checkpoint.claim != _claim_of(self._own_checkpoint):
            raise self._fenced()
        self._own_checkpoint = checkpoint
        return checkpoint

    def begin(self, *, bucketing: str, buckets: int, cleared: bool = False) -> WriteTask:
        """Return the task of a new attempt; the number of buckets stays that of the first batch."""
        _, entry = self._last_entry()
        epoch = entry.marker.epoch
        if self.directory.store is not None and not self.directory.remote:
            self.log.fetch_runs(entry.content_runs)
        return ViewTask(
            new_id(), entry.buckets or buckets, self.key, epoch, self.directory.for_tasks(), self.schema,
            dict(entry.contents),
        )  # fmt: skip

    def invalidate_index(self) -> None:
        """Upload all runs of the contents again; raise SQ3451 if one is lost, so that the view starts again."""
        if self._last is None or not self.directory.remote:
            return
        files = {run_file(run): run.bytes for run in self._last[1].content_runs}
        lost = self.directory.fetch(files)
        self.directory.reupload(files.keys() - set(lost))
        self.directory.delete(lost)
        if lost:
            raise expired_log_error(self.view, hint="They are recomputed.")

    def commit(self, task: WriteTask, results: Sequence[WriteResult], marker: Checkpoint) -> Committed:
        """Publish the entry of a batch."""
        written: list[WrittenBucket] = [result.data for result in results if result.data is not None]
        assert task.buckets is not None
        return self._commit(written, marker, task.buckets, sum(result.rows for result in results), self.indexes)

    def _commit(
        self,
        written: Sequence[WrittenBucket],
        marker: Checkpoint,
        buckets: int,
        rows: int,
        indexes: tuple[str, ...] = (),
    ) -> Committed:
        self.directory.ensure_uploaded(run_file(run) for bucket in written for run in (bucket.run, *bucket.contents))
        number, entry = entry_after(self._last, marker, marker.commit)
        contents: Contents = {str(bucket.run.bucket): bucket.contents for bucket in written}
        entry = changed_runs(number, entry, [bucket.run for bucket in written], contents, buckets)
        entry = msgspec.structs.replace(entry, columns=self.columns, indexes=indexes)
        if not self.log.publish(number, entry):
            published = self.log.entry(number)
            self.refresh()
            if (
                published is None or published.id != entry.id
            ):  # an earlier attempt may have published it without learning of it
                raise StaleFilesError
        self._last, self._own_checkpoint = (number, entry), marker
        return Committed(marker, number, rows, entry.size, len(entry.runs))

    def _last_entry(self) -> tuple[int, Entry]:
        """Return the last entry with its number; after `claim`, the log has one."""
        if self._last is None:
            raise ValueError("the log is not claimed")
        return self._last

    def _fenced(self) -> FencedError:
        from sinkql.planner.name import short_name  # for messages only: the planner is large

        return FencedError(
            "SQ5101",
            f'another run has taken over materialized view "{short_name(self.view)}"',
            hint="Nothing is lost: the other run continues from the last commit of this one.",
        )

    # --- full refresh ----------------------------------------------------------------------------------------------

    def begin_refresh(self, number: int, *, buckets: int) -> WriteTask:
        """Return the task that collects a part of a full refresh."""
        _, entry = self._last_entry()
        self._buckets = entry.buckets or buckets
        directory = self.directory.for_tasks()
        return CollectTask(new_id(), self._buckets, self.key, entry.marker.epoch, directory, self.schema)

    def commit_refresh(
        self, results: Sequence[WriteResult], marker: Checkpoint, between: Callable[[int], None] = lambda rows: None
    ) -> Committed:
        """Publish one entry with the changes from the present contents to the collected rows."""
        number, entry = self._last_entry()
        has_other_columns = bool(entry.columns) and entry.columns != self.columns
        before: Contents = {} if has_other_columns else entry.contents
        collected: list[Run] = [result.data for result in results if result.data is not None]
        old_runs = (run for runs in before.values() for run in runs)
        if self.directory.store is not None and self.directory.fetch(
            {run_file(run): run.bytes for run in (*collected, *old_runs)}
        ):
            raise StaleFilesError
        written = Comparison(self.log, self.schema, marker.epoch, between).compare(results, before)
        if has_other_columns:
            self._last = number, msgspec.structs.replace(entry, contents={}, begins=number + 1)
        failpoint.point("rebuild-compared")
        rows = sum(bucket.run.rows for bucket in written)
        return self._commit(written, replace(marker, commit=new_id()), self._buckets, rows)

    # --- indexes -----------------------------------------------------------------------------------------------------

    def present(self) -> tuple[Reader, Sequence[Split]] | None:
        """Return a reader of the contents with its splits."""
        if self._last is None or not self._last[1].changed:
            return None
        return self._reader_of(self._last[1].content_runs)

    def changes(self, results: Sequence[WriteResult]) -> tuple[Reader, Sequence[Split]] | None:
        """Return a reader of the runs of an attempt with its splits."""
        written: list[WrittenBucket] = [result.data for result in results if result.data is not None]
        return self._reader_of(bucket.run for bucket in written) if written else None

    def _reader_of(self, runs: Iterable[Run]) -> tuple[Reader, Sequence[Split]]:
        columns = tuple(physical.Column(name, parse_type(type_)) for name, type_ in self.columns)
        reader = ViewReader(self.view, columns, "retract", self.log, "")
        by_bucket: dict[int, list[Run]] = {}
        for run in runs:
            by_bucket.setdefault(run.bucket, []).append(run)
        return reader, [split_of(bucket, bucket_runs, whole=False) for bucket, bucket_runs in by_bucket.items()]

    def states(self) -> Mapping[str, Collection[str]]:
        """Return the states that entries name: a reader may still need one, even if its index was dropped."""
        entries = (self.log.entry(number) for number in self.log.numbers())
        named = ((entry.marker.state, entry.indexes) for entry in entries if entry is not None and entry.indexes)
        return {state: indexes for state, indexes in named if state is not None}

    # --- deletion ----------------------------------------------------------------------------------------------------

    def maintain(
        self, go_on: Callable[[bool], bool] = lambda begun: True, *, interval: timedelta | None = None
    ) -> Sequence[Compacted]:
        """From time to time, delete entries that all readers have read, and unreferenced files."""
        number, entry = self._last_entry()
        if number < self._swept_number + _SWEEP_EVERY or not go_on(False):
            return ()
        with suppress(SinkqlError, OSError):  # the store does not answer: the next sweep repeats it
            self._sweep(number, entry)
        return ()

    def maintenance_share(self) -> float:
        """Return the share of time that a sweep may take."""
        return 0.15

    def optimize(
        self, go_on: Callable[[], bool] = lambda: True, *, interval: timedelta | None = None
    ) -> tuple[Sequence[Compacted], bool]:
        """Do nothing: the runs of a log are merged as it grows."""
        return (), True

    def files_to_optimize(self) -> int:
        """Return 0: `optimize` has no work."""
        return 0

    def _sweep(self, number: int, entry: Entry) -> None:
        floor = self._floor(number, entry)
        live = {*entry.runs, *entry.content_runs}
        if min(self.log.numbers(), default=floor) < floor:
            self.log.remove(floor - 1)
            failpoint.point("view-forgotten")
        for live_number in self.log.numbers():
            live_entry = self.log.entry(live_number)
            if live_entry is not None:
                live.update((*live_entry.runs, *live_entry.content_runs))
        paths = (self.log.folder / "runs").glob("*/*.arrow")
        epoch = entry.marker.epoch
        sorted_run.sweep(paths, {self.log.run_path(run) for run in live}, epoch_of=_epoch_of, epoch=epoch)
        self.directory.sweep(("runs/",), set(map(run_file, live)), epoch_of=_epoch_of, epoch=epoch)
        self._swept_number = number

    def _floor(self, last: int, entry: Entry) -> int:
        """Return the first entry to retain: the position of the latest reader, unless more bytes than the contents
        follow it.

        The last entry is always retained, and so are entries younger than `retain_ms`.
        """
        most = max(_LEAST_HISTORY, sum(run.bytes for run in entry.content_runs))
        wanted, young = min([*self.log.positions.positions(), last]), clock.time_ms() - self.retain_ms
        floor, size = last, entry.size
        for number in reversed(self.log.numbers()):
            older = self.log.entry(number)
            if older is None or number >= last:
                continue
            retained = self.retain_ms > 0 and older.at >= young
            if not retained and (number < wanted or size > most):
                break
            floor, size = number, size + older.size
        return floor


def _claim_of(checkpoint: Checkpoint | None) -> str | None:
    return checkpoint.claim if checkpoint is not None else None


def _epoch_of(name: str) -> int | None:
    match = _RUN_NAME.match(name)
    return int(match[1]) if match is not None else None
