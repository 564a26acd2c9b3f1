"""Full refresh: read a job's sources from the beginning to a pinned target, and stage the rows and the new state.

The refresh runs in parts of the size of batches. Nothing counts before the writer commits all parts in one snapshot:
an interrupted refresh starts over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from sinkql import physical
from sinkql.connector_api.stream import (
    NO_PLAN,
    Checkpoint,
    JobOffsets,
    Limit,
    Offsets,
    Reader,
    RefreshableWriter,
    WriteResult,
    WriteTask,
    is_same,
)
from sinkql.errors import EndlessError, GoneError, SinkqlError
from sinkql.machine import clock
from sinkql.runtime.batch.accounting import RecordAccount, check_account
from sinkql.runtime.batch.clock import step
from sinkql.runtime.batch.engine import Batch, Engine, Outcome, execute_batch
from sinkql.runtime.batch.lookup import IndexLookup
from sinkql.runtime.batch.pacing import Pacer, PacingOrders
from sinkql.runtime.batch.resume import (
    refresh_targets,
    restart_of,
    snapshots_running_after,
    splits_between,
    truncated_between,
    wants_full_refresh,
)
from sinkql.runtime.batch.timeline import Timeline, extend_end
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint

_PARTS_OF_A_LENGTH = 50
_LONG_PART = 5_000_000
_LOOK_SECONDS = 0.05


@dataclass(slots=True)
class RefreshProgress:
    """What a full refresh has done up to the offsets `at`: staged results, state, and the number of rows read."""

    at: JobOffsets
    begin: JobOffsets
    manifest: state.Manifest
    results: list[WriteResult] = field(default_factory=list)
    dead_letters: list[WriteResult] = field(default_factory=list)
    record_counts: list[RecordAccount] = field(default_factory=list)
    read: int = 0
    parts: int = 0

    def add(self, end: JobOffsets, outcome: Outcome, account: RecordAccount) -> None:
        """Add a part."""
        self.at, self.parts = end, self.parts + 1
        self.manifest = state.next_manifest(self.manifest, outcome.runs)
        self.results += outcome.results
        self.dead_letters += outcome.dead_letter_results()
        self.record_counts.append(account)
        self.read += account.read


@dataclass(frozen=True, slots=True)
class FullRefresh:
    """A full refresh of a job's table, which is claimed: first up to the offsets of the table, then up to now.

    Input that was read before is read again unchanged or not at all; otherwise the rows of deleted files would be
    deleted too. If a row fails that was retracted later, the same part includes the retraction.

    * `between` is called after each part with the number of rows read, and may raise.
    * Without `onward` the refresh ends at the offsets of the table, because only batches write dead letters.
    * `failing` gets the records that do not decode.
    """

    job: physical.Job
    readers: Mapping[str, Reader]
    engine: Engine
    writer: RefreshableWriter
    home: StateDirectory
    checkpoint: Checkpoint
    timeline: Timeline
    between: Callable[[int], None]
    onward: bool = True
    failing: WriteTask | None = None

    def refresh(self) -> RefreshProgress:
        """Stage all rows of the job up to now; raises SQ3415 if a source cannot be read from its beginning."""
        try:
            begin = self._begin()
            table_ends = self._table_ends()
            ends = {name: table_ends.get(name, at) for name, at in begin.items()}
        except GoneError as error:
            raise self._unreadable_error(error) from error
        done = RefreshProgress(
            begin,
            begin,
            state.empty(bucketing=self.engine.bucketing, buckets=self.engine.buckets, hash_key=self.home.hash_key),
        )
        if not is_same(begin, ends):
            try:
                self._read(done, refresh_targets(self.readers, ends))
            except SinkqlError as error:
                if error.of_rows or (error.retryable and not isinstance(error, GoneError)):
                    raise
                raise self._unreadable_error(error) from error
        target = self._await_target(done) if self.onward or (self.timeline.is_joint and not done.parts) else done.at
        if done.parts == 0 or not self._reached(done.at, target):
            self._read(done, target)
        return done

    def _begin(self) -> JobOffsets:
        """Return the beginning of each source, as the table read it."""
        return {name: self._begin_of(name, reader) for name, reader in self.readers.items()}

    def _begin_of(self, name: str, reader: Reader) -> Offsets:
        at = self.checkpoint.end.get(name)
        if at is None:
            return reader.initial(at_end=False)
        if reader.full_refresh is not None and reader.full_refresh.wants_full_refresh(at):
            return reader.full_refresh.full_refresh_start(at)
        return at if self.checkpoint.plan == NO_PLAN else restart_of(reader, at)

    def _table_ends(self) -> JobOffsets:
        """Return the offsets of the table, for the sources that can be read again up to them."""
        return {
            name: at
            for name, at in self.checkpoint.end.items()
            if name not in self.readers or not wants_full_refresh(self.readers[name], at)
        }

    def _target(self, start: JobOffsets) -> JobOffsets:
        """Return the current ends of the sources, for a refresh that has reached `start`."""
        joint_targets = self.timeline.targets(start) if self.timeline.is_joint else {}
        targets: dict[str, Offsets] = dict(
            joint_targets or {name: start[name] for name in self.timeline.inputs.sources_below}
        )
        for name, reader in self.readers.items():
            if name in targets:
                continue
            try:
                targets[name] = reader.target(start[name])
            except EndlessError:
                targets[name] = reader.latest(start[name], Limit(self.job.max_rows_per_commit))
        return targets

    def _await_target(self, done: RefreshProgress) -> JobOffsets:
        """Wait until the view logs that are read at the same tick share one; return the target."""
        while self.timeline.is_joint and self.timeline.targets(done.at) is None:
            clock.sleep(_LOOK_SECONDS)
            self.between(done.read)
        return self._target(done.at)

    def _read(self, done: RefreshProgress, target: JobOffsets) -> None:
        pacer = Pacer(
            self.readers, next_temporal_change=lambda: 0, timeline=self.timeline if self.timeline.is_joint else None
        )
        while True:
            orders = PacingOrders(done.at, timedelta(0), self._most_rows(done), target)
            end = pacer.next_end(done.at, orders, clock.time_ms())
            if is_same(done.at, end):
                if not self._reached(done.at, target):  # the source does not show the target yet
                    clock.sleep(_LOOK_SECONDS)
                    self.between(done.read)
                    continue
                if done.parts:
                    return
            try:
                self._execute_part(done, end)
            except SinkqlError as error:
                target = self._extend_part(done, end, target, error)
            self.between(done.read)
            if self._reached(done.at, target):
                return

    def _unreadable_error(self, error: SinkqlError) -> SinkqlError:
        skipped = set(self.checkpoint.end) - set(self._table_ends())
        if skipped and self.checkpoint.plan == self.job.plan:
            name = next(read.name for read in self.job.reads() if read.source in skipped)
            return SinkqlError(
                "SQ3439",
                f'changes of source "{name}" were skipped, and the rows of sink "{self.job.sink}" cannot be computed '
                "again without them",
                detail=error.message,
                hint="Restore what the source lacks. If that is impossible, run ALTER SOURCE … SKIP again: the sink "
                "keeps its rows and reads the present rows of the source.",
            )
        return SinkqlError(
            "SQ3415",
            f'the rows of sink "{self.job.sink}" cannot be computed again: {error.message}',
            detail=error.detail,
            hint="Restore what the source lacks or undo the change to the sink. Otherwise drop the sink and create it "
            "again with a new table, which will not have the missing rows. The present table is unchanged.",
        )

    def _reached(self, at: JobOffsets, target: JobOffsets) -> bool:
        return all(self.readers[name].target_reached(at[name], to) for name, to in target.items())

    def _most_rows(self, done: RefreshProgress) -> int:
        """Return the most rows of a part. Parts grow with their number, because all are open together at the end."""
        most = self.job.max_rows_per_commit
        return max(most, min(_LONG_PART, most << done.parts // _PARTS_OF_A_LENGTH))

    def _extend_part(
        self, done: RefreshProgress, end: JobOffsets, target: JobOffsets, error: SinkqlError
    ) -> JobOffsets:
        """Extend a failed part until the failing row is retracted, past the target if necessary; return the target."""
        extended_end = self._extend(end, target)
        if error.of_rows and not is_same(extended_end, end):
            try:
                self._execute_part(done, extended_end)
            except SinkqlError as second_error:
                error = second_error
            else:
                return target
        new_target = self._extend(target, self._target(target)) if error.of_rows else target
        if is_same(new_target, target):
            raise error
        moved = {name for name in new_target if not is_same({name: new_target[name]}, {name: target[name]})}
        self._execute_part(
            done, {name: new_target[name] if name in moved else extended_end[name] for name in extended_end}
        )
        return new_target

    def _extend(self, end: JobOffsets, target: JobOffsets) -> JobOffsets:
        return extend_end(self.readers, self.timeline, end, target)

    def _truncated(self, done: RefreshProgress, end: JobOffsets) -> frozenset[str]:
        """Return the sources that were truncated in a part after rows of them had been read."""
        fresh = {name for name in self.readers if is_same({name: done.at[name]}, {name: done.begin[name]})}
        try:
            return truncated_between(self.job, self.readers, done.at, end, fresh)
        except SinkqlError:
            if any(
                name not in fresh and wants_full_refresh(reader, done.at[name]) for name, reader in self.readers.items()
            ):
                raise loss_accepted_error(self.job) from None
            raise

    def _execute_part(self, done: RefreshProgress, end: JobOffsets) -> None:
        for name, reader in self.readers.items():
            reader.verify(end[name])
            if reader.full_refresh is not None and reader.full_refresh.refresh_outdated(done.at[name]):
                raise loss_accepted_error(self.job)
        splits = splits_between(self.readers, done.at, end)
        cleared = self._truncated(done, end)
        snapshotting = snapshots_running_after(self.readers, done.at)
        task = self.writer.begin_refresh(done.parts, buckets=self.engine.buckets)
        indexes = IndexLookup(self.job, self.readers, self.engine, self.home).indexes_at(done.at, end)
        arrangements = Arrangements(self.home, done.manifest, self.checkpoint.epoch, task.commit, indexes)
        batch = Batch(
            task, splits, self.readers, arrangements, cleared, snapshotting, dead_letters=self.failing,
            clock=step(done.at, end),
        )  # fmt: skip
        outcome = execute_batch(self.engine, self.job, batch)
        account = check_account(self.job, outcome)
        failpoint.point("rebuild-read")
        if cleared and physical.change_of(self.job.write.input) == "upsert":
            done.results.clear()
        done.add(end, outcome, account)


def loss_accepted_error(job: physical.Job) -> SinkqlError:
    """Return the error for a sink that needs a full refresh because changes of its source were skipped."""
    return SinkqlError(
        "SQ3438",
        f'sink "{job.sink}" must compute its rows again: changes of its source were skipped, or a table without a key '
        "was truncated",
        hint="The sink does so automatically.",
    )


def state_unrecoverable_error(job: physical.Job) -> SinkqlError:
    """Return the error for a sink that needs a full refresh because its state cannot be recovered."""
    return SinkqlError(
        "SQ3438",
        f'sink "{job.sink}" must compute its rows again: its state is lost',
        hint="The sink does so automatically.",
    )
