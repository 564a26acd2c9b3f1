"""The batches of one job, in order: resume from the table's checkpoint, commit, maintain.

The checkpoint in the table is the only truth. No module of this package imports Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from sinkql import physical
from sinkql.connector_api.stream import (
    NO_PLAN,
    Checkpoint,
    ClaimRequest,
    Committed,
    JobOffsets,
    Offsets,
    Reader,
    RefreshableWriter,
    StaleFilesError,
    Writer,
    is_same,
)
from sinkql.errors import SinkqlError
from sinkql.lowering.placement import interval_of
from sinkql.machine.randomness import new_id
from sinkql.runtime.batch.accounting import RecordAccount, check_account, refresh_account
from sinkql.runtime.batch.attempt import (
    ATTEMPTS,
    BatchAttempt,
    BatchComputation,
    foreign_writer_error,
    next_checkpoint,
)
from sinkql.runtime.batch.clock import CLOCK
from sinkql.runtime.batch.control import CommitLog
from sinkql.runtime.batch.dead_letter import DeadLetterTable
from sinkql.runtime.batch.engine import Engine, Outcome, Place
from sinkql.runtime.batch.events import Progress, Rereading, silent
from sinkql.runtime.batch.failure import disk_full_as_error
from sinkql.runtime.batch.full_refresh import FullRefresh, RefreshProgress
from sinkql.runtime.batch.index import IndexMaintenance
from sinkql.runtime.batch.lookup import IndexLookup
from sinkql.runtime.batch.maintenance import TableMaintenance
from sinkql.runtime.batch.metrics import CommitReport, SinkMetrics
from sinkql.runtime.batch.pacing import MaintenanceBudget
from sinkql.runtime.batch.replay import DeadLetterReplay, IdentityCollector
from sinkql.runtime.batch.resume import ResumePoint, SinkTable, refresh_targets
from sinkql.runtime.batch.source_files import SourceFiles
from sinkql.runtime.batch.state import JobState
from sinkql.runtime.batch.timeline import Timeline
from sinkql.runtime.state import manifest
from sinkql.runtime.state.operator.pick import CONFLICTS
from sinkql.runtime.state.ordered_run import DUE
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint
from sinkql.storage.numbered_log import NumberedLog


class BatchLoop:
    """Runs a job's batches one after the other. `start` comes first; a batch that raised may be committed again.

    * `folder` is the sink's state folder, `Context.folder` of the readers; `state_directory` adds a state store to it.
    * `budget` limits the time spent on maintenance between batches.
    * `before_commit` is called before each commit and may raise.
    * `dead_letters` is the sink's dead-letter table.
    * `since_ms` is when a run with `--once` began.
    * `ticks` are the ticks of the catalog; without them they are in a folder beside the sink's.
    * `renew` renews the sink's lease before a claim.

    `last_place` is where the last batch was computed.
    """

    def __init__(
        self,
        job: physical.Job,
        readers: Mapping[str, Reader],
        writer: Writer,
        engine: Engine,
        folder: Path,
        control: CommitLog,
        progress: Progress = silent,
        budget: MaintenanceBudget | None = None,
        *,
        before_commit: Callable[[], None] = lambda: None,
        dead_letters: DeadLetterTable | None = None,
        state_directory: StateDirectory | None = None,
        since_ms: int = 0,
        ticks: NumberedLog | None = None,
        renew: Callable[[], None] | None = None,
    ) -> None:
        directory = state_directory or StateDirectory(folder)
        self.job = job
        self.folder = folder
        self.targets: JobOffsets | None = None
        self.timeline = Timeline.from_job(job, readers, folder, ticks, since_ms=since_ms)
        self.table = SinkTable(writer, readers, before_commit)
        self.state = JobState(job, readers, engine, directory, progress)
        self.computation = BatchComputation(
            job, readers, engine, self.table, self.state, IndexMaintenance(job, readers, writer, engine, directory),
            IndexLookup(job, readers, engine, directory),
        )  # fmt: skip
        self.source_files = SourceFiles(readers, writer.files, folder)
        self.resume_point = ResumePoint(job, readers, writer, self.source_files)
        metrics = SinkMetrics(job, fetched=lambda: self.state.fetched)
        self.report = CommitReport(job, readers, control, progress, metrics)
        self.dead_letters = DeadLetterReplay(
            dead_letters, self.computation, self.source_files, folder, self.full_refresh, self._report_replay
        )
        budget = budget or MaintenanceBudget()
        budget.last = self.caught_up
        budget.share = writer.maintenance.maintenance_share() if writer.maintenance is not None else 0.0
        self.maintenance = TableMaintenance(
            self.computation, self.source_files, self.dead_letters, self.report, budget, lambda: interval_of(self.job)
        )
        self.last_place: Place = "in process"
        self._renew = renew
        self._needs_refresh = False

    @property
    def readers(self) -> Mapping[str, Reader]:
        """Return the reader of each source."""
        return self.computation.readers

    @property
    def writer(self) -> Writer:
        """Return the writer of the table."""
        return self.table.writer

    @property
    def checkpoint(self) -> Checkpoint:
        """Return the table's latest checkpoint."""
        return self.table.checkpoint

    @disk_full_as_error()
    def start(self, *, epoch: int, once: bool = False) -> Checkpoint:
        """Claim the table above `epoch` - 1, restore what its checkpoint needs, and return the checkpoint.

        With `once`, pin `targets`, the offsets where the run ends. Raises SQ3410 for a changed plan, SQ3412 for a lost
        file of a source, SQ34… for lost state, SQ2405 for a source that has no end to pin, and what the writer and
        `Reader.verify` raise.
        """
        with suppress(OSError):
            self.state.directory.touch()
        self.writer.open()
        loaded = self.writer.load_checkpoint()
        start = self.resume_point.resume(loaded)
        if once and self.targets is None:
            self.targets = self.timeline.targets(start) or start
        checkpoint = self.table.claim(ClaimRequest(start, epoch, self.resume_point.plan_change, self._renew))
        self._needs_refresh = self.resume_point.needs_full_refresh(checkpoint)
        self.dead_letters.start(renew=self._renew)
        if not self._needs_refresh:
            self.resume_point.check_plan(checkpoint)
            self._needs_refresh = (
                self.resume_point.loss_accepted(checkpoint.end)
                or self.state.is_unrecoverable(checkpoint)
                or self.state.needs_other_buckets(checkpoint)
            )
        self.source_files.restore(checkpoint.end)
        if not self._needs_refresh:
            self.dead_letters.restore_pending()
            if loaded is not None and not is_same(loaded.end, checkpoint.end):
                self.source_files.attach(checkpoint.end)
            self.report.metrics.begin(self.state.load_or_none(checkpoint))
        self.maintenance.start(self.targets)
        self.report.start()
        return checkpoint

    def needs_full_refresh(self) -> bool:
        """Return whether `full_refresh` must come before the first batch."""
        return self._needs_refresh

    @disk_full_as_error()
    def full_refresh(self, between: Callable[[Rereading, int], None] = lambda step, rows: None) -> Committed:
        """Compute all rows up to now, and commit the differences from the table in one snapshot.

        `between` is called repeatedly with the number of rows read or compared, and may raise: the table is unchanged
        then, and an interrupted refresh starts over. Raises SQ3415 if a source cannot be read from its beginning.
        """
        failpoint.point("rebuild")
        reading, comparing = partial(between, "reading"), partial(between, "comparing")
        self.table.refresh()
        self.dead_letters.discard_pending()  # the refresh reads the records of that batch in other batches
        reading(0)
        keeps_dead_letters = self.dead_letters.table is not None
        try:
            writer = self._refreshable_writer()
            refreshed = FullRefresh(
                self.job, self.readers, self.computation.engine, writer, self.state.directory, self.checkpoint,
                self.timeline, reading, not keeps_dead_letters, IdentityCollector() if keeps_dead_letters else None,
            ).refresh()  # fmt: skip
        except SinkqlError as error:
            if not error.retryable:  # the user may also restore the state
                self.state.clear_unrecoverable()
            raise
        state = self.state.save(refreshed.manifest, epoch=self.checkpoint.epoch)
        self.source_files.attach(refreshed.at)
        for _ in range(ATTEMPTS):
            self.table.refresh()
            self.resume_point.verify(refreshed.at)
            end = refreshed.at
            checkpoint = next_checkpoint(self.computation, self.timeline, start=end, end=end, state=state)
            if keeps_dead_letters:
                replayed = self.dead_letters.list_decoded(refreshed.dead_letters, new_id())
                checkpoint = replace(checkpoint, replayed=replayed)
            self.table.prepare_commit(checkpoint.end)
            try:
                committed = writer.commit_refresh(refreshed.results, checkpoint, comparing)
            except StaleFilesError:
                continue
            self.table.checkpoint = committed.checkpoint
            self._end_refresh(refreshed, committed)
            return committed
        raise foreign_writer_error()

    def _refreshable_writer(self) -> RefreshableWriter:
        writer = self.writer.full_refresh
        if writer is None:
            raise SinkqlError(
                "SQ3415",
                "sinks of this kind cannot compute their rows again",
                hint="Drop the sink and create it again with a new target.",
            )
        return writer

    def _end_refresh(self, refreshed: RefreshProgress, committed: Committed) -> None:
        self._needs_refresh = False
        self.state.clear_unrecoverable()
        self.report.metrics.begin(refreshed.manifest)
        self.dead_letters.settle()
        if self.targets is not None and self.dead_letters.table is None:
            self.targets = refresh_targets(self.readers, refreshed.at)
        self._report(committed, refresh_account(refreshed.record_counts, committed.rows))
        self.maintenance.maintain(None, self.targets)

    def caught_up(self) -> bool:
        """Return whether the targets are reached; never without `once`."""
        return self.targets is not None and self.has(self.targets)

    def present_end(self) -> JobOffsets:
        """Return the current ends of the sources as targets.

        Raises SQ2405 for a source without an end, and what readers raise.
        """
        return {name: reader.target(self.checkpoint.end[name]) for name, reader in self.readers.items()}

    def has(self, targets: JobOffsets) -> bool:
        """Return whether the table has all rows up to targets."""
        if self._needs_refresh or self.has_unread_output():
            return False
        return all(self._reached(name, target) for name, target in targets.items())

    def _reached(self, name: str, target: Offsets) -> bool:
        offsets = self.checkpoint.end.get(name)
        if name == CLOCK and name in self.timeline.inputs.sources_below:
            return offsets is not None and self.readers[name].target_reached(offsets, target)
        if name == CLOCK and (change_at := self.next_temporal_change) is not None:
            return offsets is not None and (
                self.readers[name].target_reached(offsets, target) or change_at > target["at"]
            )
        return offsets is not None and (name == CLOCK or self.readers[name].target_reached(offsets, target))

    @property
    def next_temporal_change(self) -> int | None:
        """Return when a temporal filter next changes a row, in milliseconds since 1970; None if never.

        Returns 0, which is always due, if the state is lost.
        """
        state = self.state.load_or_none(self.checkpoint)
        return 0 if state is None else manifest.min_note(state, DUE)

    def has_unread_output(self) -> bool:
        """Return whether the table needs a commit although no source has new rows.

        That is so if an aggregate without GROUP BY has not written its row, if the sink must delete rows of other
        writers, if an index is missing, or if dead letters of an uncommitted batch are in their table. A batch that
        ends at its start commits it, like any other first batch.
        """
        if self.checkpoint.plan == NO_PLAN and not self._needs_refresh and self.writer.replaces_foreign_rows():
            return True
        if self.dead_letters.pending_end() is not None:
            return True
        if self.job.indexes and not self._needs_refresh:
            state = self.state.load_or_none(self.checkpoint)
            if self.computation.indexes.missing(state) if state is not None else self.checkpoint.state is not None:
                return True
        return self.checkpoint.state is None and any(
            isinstance(operator, physical.Aggregate) and not operator.group for operator in self.job.operators()
        )

    def conflicts(self) -> int:
        """Return how many keys break the promised KEY, that is, have more than one row."""
        state = self.state.load_or_none(self.checkpoint)
        return manifest.sum_notes(state, CONFLICTS) if state is not None else 0

    @disk_full_as_error()
    def commit_batch(
        self, start: JobOffsets, end: JobOffsets, *, more: bool = False, engine: Engine | None = None
    ) -> Committed | None:
        """Commit the batch from `start` to `end`; return None if the table has it already.

        `engine` executes it in place of the loop's, with the same buckets. After a row error, the batch is extended to
        changes that may take the row back. Raises OutdatedStartError if the table is at neither end of the batch,
        SparkNeededError if the engine leaves the batch to Spark, and SinkqlError for what a user can fix.
        """
        pending = self.dead_letters.pending_end() is not None and is_same(start, self.checkpoint.end)
        translated = self.dead_letters.translate_pending() if pending else None
        if pending and translated is None and is_same(start, end) and not self.has_unread_output():
            return None  # the batch had no other purpose
        computation = self.computation if engine is None else replace(self.computation, engine=engine)
        attempt = BatchAttempt(
            computation, self.resume_point, self.timeline, self.dead_letters.table, self.report.progress,
            self.targets or {}, start, translated or end,
        )  # fmt: skip
        result = attempt.execute()
        if result is None:
            self.maintenance.release()
            return None
        committed, outcome = result
        self.report.metrics.add(self.state.load(self.checkpoint), outcome)
        self._report(committed, check_account(self.job, outcome), more=more, in_spark=outcome.in_spark)
        self.maintenance.maintain(attempt.before_state, self.targets)
        return committed

    def _report_replay(self, committed: Committed, outcome: Outcome) -> None:
        self._report(committed, check_account(self.job, outcome), in_spark=outcome.in_spark)

    def _report(
        self, committed: Committed, account: RecordAccount, *, more: bool = False, in_spark: bool = False
    ) -> None:
        failpoint.point("committed")
        self.maintenance.release()
        self.last_place = "Spark" if in_spark else "in process"
        self.report.record(committed, account, next_commit=interval_of(self.job), more=more, in_spark=in_spark)
