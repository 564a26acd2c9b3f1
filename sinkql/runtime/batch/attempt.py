"""One attempt at a batch: compute the rows between two offsets and commit them with a new checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sinkql import physical
from sinkql.connector_api.stream import (
    Checkpoint,
    Committed,
    JobOffsets,
    Reader,
    Split,
    StaleFilesError,
    WriteTask,
    is_same,
)
from sinkql.errors import LostIndexError, SinkqlError
from sinkql.runtime.batch.accounting import check_account
from sinkql.runtime.batch.clock import step
from sinkql.runtime.batch.dead_letter import DeadLetterTable
from sinkql.runtime.batch.engine import Batch, Engine, Outcome, execute_batch
from sinkql.runtime.batch.events import Progress, SinkRecovering
from sinkql.runtime.batch.full_refresh import loss_accepted_error
from sinkql.runtime.batch.index import IndexMaintenance
from sinkql.runtime.batch.lookup import IndexLookup
from sinkql.runtime.batch.resume import (
    ResumePoint,
    SinkTable,
    is_consistent_at,
    snapshots_running_after,
    splits_between,
    truncated_between,
)
from sinkql.runtime.batch.state import JobState, can_recover_state
from sinkql.runtime.batch.timeline import Timeline, extend_end
from sinkql.runtime.state import manifest
from sinkql.runtime.state.arrangement import Arrangements
from sinkql.storage import failpoint

ATTEMPTS = 5
"""How often a batch is written if another writer replaces files of the table."""


class OutdatedStartError(Exception):
    """The batch does not continue from the table's checkpoint. Restart from the checkpoint's offsets."""


@dataclass(slots=True)
class BatchComputation:
    """A job's operators with their state and indexes, as of the table's checkpoint."""

    job: physical.Job
    readers: Mapping[str, Reader]
    engine: Engine
    table: SinkTable
    state: JobState
    indexes: IndexMaintenance
    lookup: IndexLookup

    def load_state(self) -> manifest.Manifest:
        """Return the state at the checkpoint, with all indexes that the job keeps."""
        checkpoint = self.table.checkpoint
        saved = self.state.load(checkpoint)
        complete = self.indexes.backfill(saved, checkpoint)
        if complete is not saved:
            self.state.replace(checkpoint, complete)
        return complete

    def begin(self, state: manifest.Manifest, *, cleared: bool = False) -> WriteTask:
        """Return the task that writes a batch; if `cleared`, the batch first deletes all rows of the table."""
        # as many buckets as the state if its tasks write, whatever number the engine has now
        buckets = self.engine.buckets if self.job.copartitioned is None else int(state["buckets"])
        return self.table.writer.begin(bucketing=self.engine.bucketing, buckets=buckets, cleared=cleared)

    def compute(
        self,
        task: WriteTask,
        state: manifest.Manifest,
        start: JobOffsets,
        end: JobOffsets,
        splits: Mapping[str, Sequence[Split]],
        *,
        readers: Mapping[str, Reader] | None = None,
        cleared: frozenset[str] = frozenset(),
        snapshotting: frozenset[str] = frozenset(),
        dead_letters: WriteTask | None = None,
    ) -> Outcome:
        """Run the operators over splits and write the rows; raises SQ3392 if records are unaccounted for."""
        indexes = self.lookup.indexes_at(start, end)
        arrangements = Arrangements(self.state.directory, state, self.table.checkpoint.epoch, task.commit, indexes)
        batch = Batch(
            task, splits, readers or self.readers, arrangements, cleared, snapshotting, dead_letters=dead_letters,
            clock=step(start, end),
        )  # fmt: skip
        outcome = execute_batch(self.engine, self.job, batch)
        check_account(self.job, outcome)
        return outcome

    def update_indexes(self, state: manifest.Manifest, outcome: Outcome) -> Outcome:
        """Return the outcome with the new runs of the job's indexes."""
        return self.indexes.update(state, outcome, epoch=self.table.checkpoint.epoch)

    def save_state(self, state: manifest.Manifest, outcome: Outcome) -> str | None:
        """Save the state after a batch; return its name for the checkpoint, None if the job has no state."""
        return self.state.save_next(state, outcome, epoch=self.table.checkpoint.epoch)


@dataclass(slots=True)
class BatchAttempt:
    """A batch from `start` to `end` until it is committed; a row error may move `end`.

    `before_state` names the state from which the last try began.
    """

    computation: BatchComputation
    resume_point: ResumePoint
    timeline: Timeline
    dead_letters: DeadLetterTable | None
    progress: Progress
    targets: JobOffsets
    start: JobOffsets
    end: JobOffsets
    before_state: str | None = field(default=None, init=False)
    _offered_end: JobOffsets = field(init=False)

    def __post_init__(self) -> None:
        self._offered_end = self.end

    @property
    def _table(self) -> SinkTable:
        return self.computation.table

    def execute(self) -> tuple[Committed, Outcome] | None:
        """Commit the batch; return None if the table has it already.

        Raises OutdatedStartError if the table is at neither end of the batch, and SQ5206 if other writers replace
        files each time.
        """
        for _ in range(ATTEMPTS):
            checkpoint = self._table.refresh()
            failpoint.point("read-marker")
            if not is_same(self.start, checkpoint.end):
                if not is_same(self.end, checkpoint.end):
                    raise OutdatedStartError(
                        f"the table is at {checkpoint.end}, the batch goes from {self.start} to {self.end}"
                    )
                return None
            if self.resume_point.loss_accepted(self.start):
                raise loss_accepted_error(self.computation.job)
            self.resume_point.verify(self.start)
            self.resume_point.verify(self.end)
            self.before_state = checkpoint.state
            try:
                return self._execute_once()
            except StaleFilesError:
                continue
            except SinkqlError as error:
                self.end = self._end_after(error)
        raise foreign_writer_error()

    def _execute_once(self) -> tuple[Committed, Outcome]:
        computation, start, end = self.computation, self.start, self.end
        job, readers = computation.job, computation.readers
        cleared = truncated_between(job, readers, start, end)
        overwritten = physical.change_of(job.write.input) == "upsert"
        state = computation.load_state()
        task = computation.begin(state, cleared=overwritten and bool(cleared))
        dead_letter_task = self._begin_dead_letters()
        outcome = computation.compute(
            task, state, start, end, splits_between(readers, start, end), cleared=cleared,
            snapshotting=snapshots_running_after(readers, start), dead_letters=dead_letter_task,
        )  # fmt: skip
        failpoint.point("data-files")
        outcome = computation.update_indexes(state, outcome)
        self.resume_point.verify(end)  # a source that was there before and after the read was there during it
        state_name = computation.save_state(state, outcome)
        self.resume_point.source_files.attach(end)
        checkpoint = next_checkpoint(computation, self.timeline, start=start, end=end, state=state_name)
        self._table.prepare_commit(end)
        if self.dead_letters is not None and dead_letter_task is not None:
            self.dead_letters.commit(dead_letter_task, outcome.dead_letter_results(), start=start, end=end)
        return self._table.commit(task, outcome.results, replace(checkpoint, commit=task.commit)), outcome

    def _begin_dead_letters(self) -> WriteTask | None:
        if self.dead_letters is None or self.dead_letters.pending_end(self._table.checkpoint.end) is not None:
            return None
        return self.dead_letters.begin()

    def _end_after(self, error: SinkqlError) -> JobOffsets:
        """Repair what failed and return where the next try ends; raise the error if another try would not help."""
        computation = self.computation
        if can_recover_state(computation.job, error):
            computation.state.recover(self._table.checkpoint, error)
            return self.end
        if isinstance(error, LostIndexError) and self._table.invalidate_index():
            self.progress(SinkRecovering(computation.job.sink, error))
            return self.end
        end = self.end
        if is_same(end, self._offered_end) and error.of_rows:
            end = extend_end(computation.readers, self.timeline, end, self.targets)
        if is_same(end, self.end):
            raise error
        return end


def next_checkpoint(
    computation: BatchComputation, timeline: Timeline, *, start: JobOffsets, end: JobOffsets, state: str | None
) -> Checkpoint:
    """Return the checkpoint that follows the table's with a batch between two offsets."""
    consistent, below = is_consistent_at(computation.readers, end), timeline.below(end)
    if not timeline.agrees(end):
        consistent = False
    return replace(
        computation.table.checkpoint, start=start, end=end, plan=computation.job.plan, state=state,
        consistent=consistent, below=below, tick=timeline.tick(below),
    )  # fmt: skip


def foreign_writer_error() -> SinkqlError:
    """Return the error for a batch whose table other writers changed at each try."""
    return SinkqlError(
        "SQ5206",
        f"another writer replaced files under the batch each of the {ATTEMPTS} times it was written",
        hint="The sink retries. If it keeps failing, run the other maintenance less often.",
    )
