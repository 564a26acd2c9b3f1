"""One micro-batch: offsets → operators → data files → one commit, with the table's marker as the only truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

from sinkql import physical
from sinkql.connector_api.stream import (
    NO_PLAN,
    Checkpoint,
    Committed,
    Compacted,
    JobOffsets,
    Offsets,
    Reader,
    Split,
    StaleFilesError,
    Writer,
    WriteResult,
    same,
)
from sinkql.errors import FencedError, LostIndexError, LostPositionError, SinkqlError
from sinkql.runtime.batch.accounting import RecordAccount, check_account, refresh_account
from sinkql.runtime.batch.clock import CLOCK, step
from sinkql.runtime.batch.control import CommitLog
from sinkql.runtime.batch.dead_letter import DeadLetterTable
from sinkql.runtime.batch.engine import Batch, Engine, Outcome, run_batch
from sinkql.runtime.batch.events import Progress, Rereading, SinkCommitted, SinkCompacted, SinkRebuilding, silent
from sinkql.runtime.batch.failure import disk_full_as_error
from sinkql.runtime.batch.full_refresh import FullRefresh, loss_accepted_error
from sinkql.runtime.batch.index import IndexMaintenance
from sinkql.runtime.batch.lookup import IndexLookup
from sinkql.runtime.batch.metrics import SinkMetrics
from sinkql.runtime.batch.pacing import MaintenanceBudget
from sinkql.runtime.batch.replay import IdentityCollector, Replayed, decoding, replay, settle
from sinkql.runtime.batch.resume import ResumePoint, is_consistent_at, snapshots_running_after, truncated_between
from sinkql.runtime.batch.source_files import SourceFiles
from sinkql.runtime.batch.state import JobState, can_rebuild_state
from sinkql.runtime.batch.timeline import Timeline, extended
from sinkql.runtime.state import manifest
from sinkql.runtime.state.arrangement import Arrangements
from sinkql.runtime.state.operator.pick import CONFLICTS
from sinkql.runtime.state.ordered_run import DUE
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint
from sinkql.storage.numbered_log import NumberedLog

_ATTEMPTS = 5
_SWEEP_EVERY = 20
_KEEP_EVERY = 6 * 3600.0
_SKEW_SECONDS = 60.0
"""How far the clocks of hosts that share a state folder may differ."""


class OutdatedStartError(Exception):
    """Say that a batch neither follows the table's marker nor ends there: start again from the marker's offsets."""


@dataclass(slots=True)
class BatchLoop:
    """Run a job's batches one after the other. No Spark in it: the engine may be anything that runs operators.

    `folder` is the sink's own state folder, the readers' `Context.folder`; `allowance` is how much time goes into the
    table between batches; `committing` is called before a batch commits, and may raise; `letters` keeps records that do
    not decode; `home` has the state in a store besides the folder, if it is to be there; `since_ms` is when a run began
    that commits what there is; `ticks` are those of its catalog, if not in a folder of it; `renew` renews the sink's
    lease before a claim. `start` comes first; after an error of `process` the same batch may be processed again.
    """

    job: physical.Job
    readers: Mapping[str, Reader]
    writer: Writer
    engine: Engine
    folder: Path
    control: CommitLog
    progress: Progress = silent
    allowance: MaintenanceBudget = field(default_factory=MaintenanceBudget)
    committing: Callable[[], None] = lambda: None
    letters: DeadLetterTable | None = None
    home: StateDirectory | None = None
    since_ms: int = 0
    ticks: NumberedLog | None = None
    renew: Callable[[], None] | None = None
    targets: JobOffsets | None = field(default=None, init=False)
    marker: Checkpoint = field(init=False)
    figures: SinkMetrics = field(init=False)
    timeline: Timeline = field(init=False)
    _beginning: ResumePoint = field(init=False)
    _state: JobState = field(init=False)
    _arranging: IndexMaintenance = field(init=False)
    _looking: IndexLookup = field(init=False)
    _positions: SourceFiles = field(init=False)
    _batches: int = field(default=0, init=False)
    _committed_at: float = field(default=0.0, init=False)
    _owned_at: float = field(default=0.0, init=False)
    _anew: bool = field(default=False, init=False)
    _keep_at: float = field(default=0.0, init=False)
    _doubted: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.figures = SinkMetrics(self.job)
        self.allowance.last = self.caught_up
        self.allowance.share = self.writer.maintenance_share()

    @disk_full_as_error()
    def start(self, *, epoch: int, once: bool = False) -> Checkpoint:
        """Claim the table above `epoch` - 1 and bring back what its marker needs; return the marker.

        With `once`, pin `targets`: where a run that commits what there is now will end. Raises SQ3410 for a changed
        plan, SQ3412 for a lost file of a source, SQ34… for lost state, SQ2405 for a source that has no end to pin; and
        what the writer and `Reader.verify` raise.
        """
        self.timeline = Timeline.of(self.job, self.readers, self.folder, self.ticks, since_ms=self.since_ms)
        self._beginning = ResumePoint(self.job, self.readers, self.writer)
        home = self.home or StateDirectory(self.folder)
        self._state = JobState(self.job, self.readers, self.engine, home, self.progress)
        self._arranging = IndexMaintenance(self.job, self.readers, self.writer, self.engine, home)
        self._looking = IndexLookup(self.job, self.readers, self.engine, home)
        self.figures.fetched = lambda: self._state.fetched
        self._positions = SourceFiles(self.readers, self.writer, self.folder)
        with suppress(OSError):
            home.touch()
        self.writer.open()
        found = self.writer.load_checkpoint()
        switch = self._beginning.switch(found)
        begin = self._beginning.of(found, switch)
        if found is not None:
            self._positions.restore(begin)
            for source, reader in self.readers.items():
                reader.on_resume(begin[source])
            self._verify(begin)
        if once and self.targets is None:
            self.targets = self.timeline.targets(begin) or begin
        self._owned_at = time.time()
        self.marker = self.writer.claim(begin, epoch=epoch, switch=switch, renew=self.renew)
        self._batches = self.marker.epoch  # of a sink that runs for one batch each time, some sweep too
        self._anew = switch is not None and self.marker.plan in switch.again
        if self.letters is not None:
            self.letters.start(self.marker.end, epoch=self.marker.epoch, renew=self.renew)
            self._settle()
        if not self._anew:
            self._beginning.check_plan(self.marker)
            self._anew = (
                self._beginning.loss_accepted(self.marker.end)
                or self._state.forgotten(self.marker)
                or self._state.spread(self.marker)
            )
        self._positions.restore(self.marker.end)
        if not self._anew:
            self._restore_ahead()
            if found is not None and not same(found.end, self.marker.end):
                self._positions.attach(self.marker.end)
            self.figures.known(self._state.known(self.marker))
        self._sweep_positions()
        self._committed_at = time.monotonic()
        return self.marker

    def needs_full_refresh(self) -> bool:
        """Tell whether all rows of the table are to come anew before the first batch: by `full_refresh`."""
        return self._anew

    @disk_full_as_error()
    def full_refresh(self, between: Callable[[Rereading, int], None] = lambda step, rows: None) -> Committed:
        """Compute all rows up to now, and commit what differs from the table in one snapshot.

        `between` is called again and again, with the rows read or compared so far, and may raise: the table is as
        before then, and a rebuild begins anew. Raises SQ3415 where a source cannot be read from its beginning.
        """
        failpoint.point("rebuild")

        reading, comparing = partial(between, "reading"), partial(between, "comparing")
        self.marker = self.writer.refresh()
        if self.letters is not None and self._ahead() is not None:
            self.letters.discard_pending()  # that batch is not among what is read again
        reading(0)
        onward = self.letters is None
        failing = IdentityCollector() if self.letters is not None else None
        again = FullRefresh(
            self.job, self.readers, self.engine, self.writer, self._state.home, self.marker, self.timeline, reading,
            onward, failing,
        )  # fmt: skip
        try:
            anew = again.refresh()
        except SinkqlError as error:
            if not error.retryable:  # the state may be put back, too
                self._state.remember()
            raise
        named = self._state.save(anew.manifest, epoch=self.marker.epoch)
        self._positions.attach(anew.at)
        for _ in range(_ATTEMPTS):
            self.marker = self.writer.refresh()
            self._verify(anew.at)
            marker = self._marker(anew.at, anew.at, named)
            if self.letters is not None:
                replayed = decoding(self, self.letters, anew.letters, uuid4().hex)
                marker = replace(marker, replayed=replayed)
            self._owned_at = time.time()
            self._announce(marker.end)
            try:
                committed = self.writer.commit_refresh(anew.results, marker, comparing)
            except StaleFilesError:
                continue
            self._anew, self.marker = False, committed.marker
            self._state.remember()
            self.figures.known(anew.manifest)
            self._settle()
            if self.targets is not None and onward:
                self.targets = {name: reader.target_at(anew.at[name]) for name, reader in self.readers.items()}
            self._record(committed, refresh_account(anew.accounts, committed.rows), more=False)
            self._maintain(None)
            return committed
        raise self._disturbed()

    def caught_up(self) -> bool:
        """Tell whether the targets are reached; never without `once`."""
        return self.targets is not None and self.has(self.targets)

    def present_end(self) -> JobOffsets:
        """Return how far the sources go now, as targets; raises SQ2405 for one without an end, and what readers do."""
        return {name: reader.target(self.marker.end[name]) for name, reader in self.readers.items()}

    def has(self, targets: JobOffsets) -> bool:
        """Tell whether the table has all rows up to targets."""
        if self._anew or self.has_unread_output():
            return False
        return all(self._reached(name, to) for name, to in targets.items())

    def _reached(self, name: str, target: Offsets) -> bool:
        at = self.marker.end.get(name)
        if name == CLOCK and name in self.timeline.inputs:
            return at is not None and self.readers[name].target_reached(at, target)
        if name == CLOCK and (due := self.next_temporal_change) is not None:
            return at is not None and (self.readers[name].target_reached(at, target) or due > target["at"])
        return at is not None and (name == CLOCK or self.readers[name].target_reached(at, target))

    @property
    def next_temporal_change(self) -> int | None:
        """Return when a row comes or goes by itself next, in milliseconds since 1970; None where none does.

        Where the state is lost, and nobody knows, that is at once.
        """
        known = self._state.known(self.marker)
        return 0 if known is None else manifest.min_note(known, DUE)

    def has_unread_output(self) -> bool:
        """Tell whether the table lacks a row that is there of no input, or has rows that are to go whatever comes.

        The former is that of an aggregate without GROUP BY, the latter are others'; or records that do not decode are
        kept of a batch that has not committed. `process` mends it with a batch that ends where it begins, or where that
        one did; any other first batch does as well.
        """
        if self.marker.plan == NO_PLAN and not self._anew and self.writer.replaces_foreign_rows():
            return True
        if self._ahead() is not None:
            return True
        if self.job.indexes and not self._anew:
            known = self._state.known(self.marker)
            if self._arranging.missing(known) if known is not None else self.marker.state is not None:
                return True
        operators = self.job.operators()
        return self.marker.state is None and any(
            isinstance(each, physical.Aggregate) and not each.group for each in operators
        )

    def conflicts(self) -> int:
        """Return how many keys of a promised KEY have several rows now, of which one is shown."""
        known = self._state.known(self.marker)
        return manifest.sum_notes(known, CONFLICTS) if known is not None else 0

    @disk_full_as_error()
    def process(self, start: JobOffsets, end: JobOffsets, *, more: bool = False) -> Committed | None:
        """Commit the batch from `start` to `end`; return None if the table has it already.

        Where a row fails, the batch goes on to changes that may take it back. Raises DivergedError where the table is
        at neither end of the batch, SinkqlError for what a user can mend.
        """
        ahead = self._ahead() is not None and same(start, self.marker.end)
        pinned = self._pinned() if ahead else None
        if ahead and pinned is None and same(start, end) and not self.has_unread_output():
            return None  # that was all it was for
        end = offered = pinned or end
        for _ in range(_ATTEMPTS):
            self.marker = self.writer.refresh()
            failpoint.point("read-marker")
            if not same(start, self.marker.end):
                if not same(end, self.marker.end):
                    raise OutdatedStartError(f"the table is at {self.marker.end}, the batch goes from {start} to {end}")
                self._release()
                return None
            if self._beginning.loss_accepted(start):
                raise loss_accepted_error(self.job)
            self._verify(start)
            self._verify(end)
            try:
                before = self.marker.state
                committed, outcome = self._try(start, end)
            except StaleFilesError:
                continue
            except SinkqlError as error:
                end = self._mended(error, end, offered)
                continue
            self.marker = committed.marker
            self.figures.take(self._state.load(self.marker), outcome)
            self._record(committed, check_account(self.job, outcome), more=more, in_spark=outcome.in_spark)
            self._maintain(before)
            return committed
        raise self._disturbed()

    @disk_full_as_error()
    def replay(self, read: physical.Read) -> Replayed:
        """Put in the records of a source that did not decode, and do by now; raises what `replay.replay` does."""
        assert self.letters is not None, "no records are kept"
        return replay(self, self.letters, read)

    def commit_replayed(
        self,
        source: str,
        reader: Reader,
        splits: Sequence[Split],
        listed: Callable[[str, Sequence[WriteResult]], str | None],
    ) -> Committed | None:
        """Commit the rows that another reader of a source has, and go no further in it.

        `listed` gets the id of the commit and what tells the records, and returns the name of their list, under which
        the marker has them; None where no record is to be committed.
        """
        for _ in range(_ATTEMPTS):
            self.marker = self.writer.refresh()
            before = self._whole()
            task = self.writer.begin(bucketing=self.engine.bucketing, buckets=self._buckets(before))
            indexes = self._looking.indexes_at(self.marker.end, self.marker.end)
            arrangements = Arrangements(self._state.home, before, self.marker.epoch, task.commit, indexes)
            parts = {name: splits if name == source else [] for name in self.readers}
            readers = {**self.readers, source: reader}
            at = self.marker.end
            batch = Batch(task, parts, readers, arrangements, letters=IdentityCollector(), clock=step(at, at))
            outcome = run_batch(self.engine, self.job, batch)
            check_account(self.job, outcome)
            outcome = self._arranging.after(before, outcome, epoch=self.marker.epoch)
            name = listed(task.commit, outcome.letters())
            if name is None:
                return None
            named = self._state.after(before, outcome, epoch=self.marker.epoch)
            marker = replace(self.marker, commit=task.commit, state=named, replayed=name)
            self._owned_at = time.time()
            self.committing()
            try:
                committed = self.writer.commit(task, outcome.results, marker)
            except StaleFilesError:
                continue
            self.marker = committed.marker
            self._record(committed, check_account(self.job, outcome), more=False, in_spark=outcome.in_spark)
            return committed
        raise self._disturbed()

    def _settle(self) -> None:
        if self.letters is not None:
            settle(self, self.letters)

    def _ahead(self) -> JobOffsets | None:
        """Return where the next batch must end, whose records that do not decode are kept already."""
        return self.letters.pending_end(self.marker.end) if self.letters is not None else None

    def _restore_ahead(self) -> None:
        """Bring back what the end of a batch needs whose records are kept; where that is lost, it ends elsewhere."""
        ahead = self._ahead()
        if ahead is None or self.letters is None:
            return
        try:
            self._positions.restore(ahead)
        except LostPositionError:
            self.letters.discard_pending()

    def _pinned(self) -> JobOffsets | None:
        """Return that end as the sources have it now; None where nothing is kept, or they cannot end there."""
        ahead = self._ahead()
        if ahead is None or self.letters is None:
            return None
        starts = self.marker.end
        found = {name: reader.translate_end(starts[name], ahead[name]) for name, reader in self.readers.items()}
        ends = {name: end for name, end in found.items() if end is not None}
        if len(ends) < len(found):
            self.letters.discard_pending()
            return None
        return ends

    def _disturbed(self) -> SinkqlError:
        return SinkqlError(
            "SQ5206",
            f"another writer replaced files under the batch each of the {_ATTEMPTS} times it was written",
            hint="The sink tries again by itself. If it does not get through, let other maintenance run less often.",
        )

    def _mended(self, error: SinkqlError, end: JobOffsets, offered: JobOffsets) -> JobOffsets:
        """Return where the batch that failed ends when it is tried again; raises the error if that is of no use."""
        if can_rebuild_state(self.job, error):
            self._state.again(self.marker, error)
            return end
        if isinstance(error, LostIndexError) and self._doubted != self.marker.commit:
            self._doubted = self.marker.commit  # once: what is made of the table is not lost again
            self.writer.invalidate_index()
            self.progress(SinkRebuilding(self.job.sink, error))
            return end
        further = self._extended(end) if same(end, offered) and error.of_rows else end
        if same(further, end):
            raise error
        return further

    def _extended(self, end: JobOffsets) -> JobOffsets:
        return extended(self.readers, self.timeline, end, self.targets or {})

    def _try(self, start: JobOffsets, end: JobOffsets) -> tuple[Committed, Outcome]:
        cleared = truncated_between(self.job, self.readers, start, end)
        overwritten = physical.change_of(self.job.write.input) == "upsert"
        before = self._whole()
        task = self.writer.begin(
            bucketing=self.engine.bucketing, buckets=self._buckets(before), cleared=overwritten and bool(cleared)
        )
        indexes = self._looking.indexes_at(start, end)
        arrangements = Arrangements(self._state.home, before, self.marker.epoch, task.commit, indexes)
        snapshotting = snapshots_running_after(self.readers, start)
        letters = self.letters.begin() if self.letters is not None and self._ahead() is None else None
        batch = Batch(
            task, self._splits(start, end), self.readers, arrangements, cleared, snapshotting, letters=letters,
            clock=step(start, end),
        )  # fmt: skip
        outcome = run_batch(self.engine, self.job, batch)
        check_account(self.job, outcome)
        failpoint.point("data-files")
        outcome = self._arranging.after(before, outcome, epoch=self.marker.epoch)
        self._verify(end)  # of the one that was there before and is still there, all that was read is
        named = self._state.after(before, outcome, epoch=self.marker.epoch)
        self._positions.attach(end)
        marker = replace(self._marker(start, end, named), commit=task.commit)
        self._owned_at = time.time()
        self._announce(end)
        if self.letters is not None and letters is not None:
            self.letters.commit(letters, outcome.letters(), start=start, end=end)
        return self.writer.commit(task, outcome.results, marker), outcome

    def _whole(self) -> manifest.Manifest:
        """Return the state that a batch begins with, with all that its job keeps."""
        known = self._state.load(self.marker)
        found = self._arranging.backfill(known, self.marker)
        if found is not known:
            self._state.hold(self.marker, found)
        return found

    def _marker(self, start: JobOffsets, end: JobOffsets, state: str | None) -> Checkpoint:
        whole, below = is_consistent_at(self.readers, end), self.timeline.below(end)
        if not self.timeline.agrees(end):
            whole = False
        return replace(
            self.marker, start=start, end=end, plan=self.job.plan, state=state, consistent=whole, below=below,
            tick=self.timeline.tick(below),
        )  # fmt: skip

    def _buckets(self, state: manifest.Manifest) -> int:
        """Return how many buckets the table has: as many as state whose tasks write, whatever runs them now."""
        return self.engine.buckets if self.job.copartitioned is None else int(state["buckets"])

    def _announce(self, end: JobOffsets) -> None:
        self.committing()
        for source, reader in self.readers.items():
            reader.before_commit(end[source])

    def _splits(self, start: JobOffsets, end: JobOffsets) -> dict[str, list[Split]]:
        return {
            name: [] if start[name] == end[name] else reader.splits(start[name], end[name])
            for name, reader in self.readers.items()
        }

    def _verify(self, offsets: JobOffsets) -> None:
        for source, reader in self.readers.items():
            reader.verify(offsets[source])

    def _lag(self, end: JobOffsets) -> float:
        """Return the age of the oldest input that is still to be read; a source that does not answer now has none."""
        found = 0.0
        for source, reader in self.readers.items():
            with suppress(SinkqlError, OSError):
                found = max(found, reader.lag(end[source]))
        return found

    def _record(self, committed: Committed, account: RecordAccount, *, more: bool, in_spark: bool = False) -> None:
        failpoint.point("committed")
        self._release()
        lag = self._lag(committed.marker.end)
        self.control.committed(
            self.job.sink_id,
            rows=committed.rows,
            size=committed.bytes,
            offsets=committed.marker.end,
            epoch=committed.marker.epoch,
            snapshot=committed.snapshot,
            lag=lag,
            counts=account.counts(),
        )
        failpoint.point("status")
        now = time.monotonic()
        elapsed, self._committed_at = max(1e-3, now - self._committed_at), now
        self.progress(
            SinkCommitted(
                self.job.sink,
                rows=committed.rows,
                read=account.read,
                failed=account.failed,
                bytes=committed.bytes,
                snapshot=committed.snapshot,
                rows_per_second=account.read / elapsed,
                lag=timedelta(seconds=lag),
                next_commit=self.job.commit_interval,
                more=more,
                in_spark=in_spark,
            )
        )

    def optimize(self, go_on: Callable[[], bool]) -> tuple[Sequence[Compacted], bool]:
        """Make the table as cheap to read as it can be; return what was done, and whether nothing is left to do.

        `go_on` is asked before each step. Raises what a batch may raise before it is written, as SQ5101 (fenced).
        """
        self.marker = self.writer.refresh()
        done, finished = self.writer.optimize(go_on)
        self._tell(done)
        return done, finished

    def refresh_files(self) -> None:
        """Every few hours, while no batch runs, have the table keep what its marker needs of the sink's files.

        No sink stops where that fails.
        """
        if time.monotonic() < self._keep_at:
            return
        self._keep_at = time.monotonic() + _KEEP_EVERY
        try:
            self.marker = self.writer.refresh()
        except FencedError:
            return  # another run has the table, and its files
        except (SinkqlError, OSError):
            pass  # one of them may be gone already
        with suppress(OSError):
            self._state.home.touch()
        with suppress(SinkqlError, OSError):
            self.writer.refresh_files(self._positions.contents(self.marker.end))

    def _tell(self, compacted: Sequence[Compacted]) -> None:
        for each in compacted:
            with suppress(SinkqlError):  # the table is what counts
                self.control.compacted(self.job.sink_id, each)
            self.progress(SinkCompacted(self.job.sink, each))

    def _maintain(self, before: str | None) -> None:
        with self.allowance.record() as go_on:
            compacted = self.writer.maintain(go_on)
            if self.letters is not None:
                self.letters.maintain(go_on)
        self._tell(compacted)
        self.refresh_files()
        self._batches += 1
        if self._batches % _SWEEP_EVERY == 0:
            with suppress(SinkqlError):  # a store that does not answer now: the next time will do
                self._state.sweep(self.marker, before, self._arranging.states())
            self._sweep_positions()
        failpoint.point("maintained")

    def _sweep_positions(self) -> None:
        """Delete the readers' files that no marker needs.

        The marker has the last two offsets, a batch whose records are kept its end, and a bounded run its target. A
        newer owner of the sink writes after this one's last commit.
        """
        needed = (self.marker.start, self.marker.end, self._ahead() or {}, self.targets or {})
        self._positions.sweep(needed, before=self._owned_at - _SKEW_SECONDS)

    def _release(self) -> None:
        for source, reader in self.readers.items():
            reader.after_commit(self.marker.end[source])
        failpoint.point("released")
