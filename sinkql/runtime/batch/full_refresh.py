"""A job's sources from their beginning to a pinned target → the rows that its table is to have, put by, and its state.

They come in parts of the size of batches, whose operators keep state of their own. Nothing of it counts before the
writer has committed it in one snapshot: a rebuild that is broken off begins anew.
"""

from __future__ import annotations

import time
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
    Writer,
    WriteResult,
    WriteTask,
    same,
)
from sinkql.errors import EndlessError, GoneError, SinkqlError
from sinkql.runtime.batch.accounting import RecordAccount, check_account
from sinkql.runtime.batch.clock import step
from sinkql.runtime.batch.engine import Batch, Engine, Outcome, run_batch
from sinkql.runtime.batch.lookup import IndexLookup
from sinkql.runtime.batch.pacing import Pacer, PacingOrders
from sinkql.runtime.batch.resume import snapshots_running_after, splits_between, truncated_between
from sinkql.runtime.batch.timeline import Timeline, extended
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint

_PARTS_OF_A_LENGTH = 50
_LONG_PART = 5_000_000
_LOOK_SECONDS = 0.05


@dataclass(slots=True)
class RefreshProgress:
    """What a rebuild has read so far: up to `at`, what tasks put by, and how many rows."""

    at: JobOffsets
    begin: JobOffsets
    manifest: state.Manifest
    results: list[WriteResult] = field(default_factory=list)
    letters: list[WriteResult] = field(default_factory=list)
    accounts: list[RecordAccount] = field(default_factory=list)
    read: int = 0
    parts: int = 0

    def take(self, end: JobOffsets, outcome: Outcome, account: RecordAccount) -> None:
        """Take note of a part."""
        self.at, self.parts = end, self.parts + 1
        self.manifest = state.next_manifest(self.manifest, outcome.runs)
        self.results += outcome.results
        self.letters += outcome.letters()
        self.accounts.append(account)
        self.read += account.read


@dataclass(frozen=True, slots=True)
class FullRefresh:
    """One rebuild of a job's table, whose marker is the one claimed: its sources up to where the table was, and on.

    What was read before is read again as it was, or not at all: rows of files that are gone would else go too. Where a
    row fails that has been taken back since, what takes it back is in the same part.
    `between` is called with the number of rows read after each part, and may raise. Without `onward` it ends where the
    table was: records that do not decode are kept by batches; `failing` gets those that fail.
    """

    job: physical.Job
    readers: Mapping[str, Reader]
    engine: Engine
    writer: Writer
    home: StateDirectory
    marker: Checkpoint
    timeline: Timeline
    between: Callable[[int], None]
    onward: bool = True
    failing: WriteTask | None = None

    def refresh(self) -> RefreshProgress:
        """Put by all rows of the job up to now; raises SQ3415 where a source cannot be read from its beginning."""
        try:
            begin = self._begin()
            ends = self._ends()
            known = {name: ends.get(name, at) for name, at in begin.items()}
        except GoneError as error:
            raise self._refused(error) from error
        done = RefreshProgress(
            begin,
            begin,
            state.empty(bucketing=self.engine.bucketing, buckets=self.engine.buckets, hash_key=self.home.hash_key),
        )
        if not same(begin, known):
            try:
                self._read(done, {name: self.readers[name].target_at(at) for name, at in known.items()})
            except SinkqlError as error:
                if error.of_rows or (error.retryable and not isinstance(error, GoneError)):
                    raise
                raise self._refused(error) from error
        target = self._awaited(done) if self.onward or (self.timeline.joint and not done.parts) else done.at
        if done.parts == 0 or not self._reached(done.at, target):
            self._read(done, target)
        return done

    def _begin(self) -> JobOffsets:
        """Return where all that the table was made of begins."""
        return {name: self._begin_of(name, reader) for name, reader in self.readers.items()}

    def _begin_of(self, name: str, reader: Reader) -> Offsets:
        at = self.marker.end.get(name)
        if at is None:
            return reader.initial(at_end=False)
        if reader.wants_full_refresh(at):
            return reader.full_refresh_start(at)
        return at if self.marker.plan == NO_PLAN else reader.restart_of(at)

    def _ends(self) -> JobOffsets:
        """Return how far the table is, of sources that can be read again up to there."""
        ends = self.marker.end
        return {
            name: at
            for name, at in ends.items()
            if name not in self.readers or not self.readers[name].wants_full_refresh(at)
        }

    def _target(self, known: JobOffsets) -> JobOffsets:
        """Return where it ends: at what there is now."""
        jointly = self.timeline.targets(known) if self.timeline.joint else {}
        found: dict[str, Offsets] = dict(jointly or {name: known[name] for name in self.timeline.inputs})
        for name, reader in self.readers.items():
            if name in found:
                continue
            try:
                found[name] = reader.target(known[name])
            except EndlessError:
                found[name] = reader.latest(known[name], Limit(self.job.max_rows_per_commit))
        return found

    def _awaited(self, done: RefreshProgress) -> JobOffsets:
        """Return where it ends, once the logs that are read at the same tick have one in common."""
        while self.timeline.joint and self.timeline.targets(done.at) is None:
            time.sleep(_LOOK_SECONDS)
            self.between(done.read)
        return self._target(done.at)

    def _read(self, done: RefreshProgress, target: JobOffsets) -> None:
        pacer = Pacer(self.readers, comes=lambda: 0, timeline=self.timeline if self.timeline.joint else None)
        while True:
            orders = PacingOrders(done.at, timedelta(0), self._most_rows(done), target)
            end = pacer.next_end(done.at, orders, time.time_ns() // 1_000_000)
            if same(done.at, end):
                if not self._reached(done.at, target):  # what is to come is not there yet
                    time.sleep(_LOOK_SECONDS)
                    self.between(done.read)
                    continue
                if done.parts:
                    return
            try:
                self._part(done, end)
            except SinkqlError as error:
                target = self._mended(done, end, target, error)
            self.between(done.read)
            if self._reached(done.at, target):
                return

    def _refused(self, error: SinkqlError) -> SinkqlError:
        skipped = set(self.marker.end) - set(self._ends())
        if skipped and self.marker.plan == self.job.plan:
            name = next(each.name for each in self.job.reads() if each.source in skipped)
            return SinkqlError(
                "SQ3439",
                f'changes of source "{name}" were skipped, and the rows of sink "{self.job.sink}" cannot be computed '
                "again without them",
                detail=error.message,
                hint="Put back what is missing. If that cannot be, run ALTER SOURCE … SKIP once more: the sink keeps "
                "its rows, and reads those of the source as they are now.",
            )
        return SinkqlError(
            "SQ3415",
            f'the rows of sink "{self.job.sink}" cannot be computed again: {error.message}',
            detail=error.detail,
            hint="Its table stays as it is. Put back what is missing, change the sink back, or drop it and create it "
            "again, into a new table.",
        )

    def _reached(self, at: JobOffsets, target: JobOffsets) -> bool:
        return all(self.readers[name].target_reached(at[name], to) for name, to in target.items())

    def _most_rows(self, done: RefreshProgress) -> int:
        """Return how long a part may be: longer ones come after many, for all are open at once in the end."""
        most = self.job.max_rows_per_commit
        return max(most, min(_LONG_PART, most << done.parts // _PARTS_OF_A_LENGTH))

    def _mended(self, done: RefreshProgress, end: JobOffsets, target: JobOffsets, error: SinkqlError) -> JobOffsets:
        """Go on to what takes the row of a failed part back, be it beyond the target; return the target after that."""
        further = self._extended(end, target)
        if error.of_rows and not same(further, end):
            try:
                self._part(done, further)
            except SinkqlError as again:
                error = again
            else:
                return target
        beyond = self._extended(target, self._target(target)) if error.of_rows else target
        if same(beyond, target):
            raise error
        moved = {name for name in beyond if not same({name: beyond[name]}, {name: target[name]})}
        self._part(done, {name: beyond[name] if name in moved else further[name] for name in further})
        return beyond

    def _extended(self, end: JobOffsets, target: JobOffsets) -> JobOffsets:
        return extended(self.readers, self.timeline, end, target)

    def _cleared(self, done: RefreshProgress, end: JobOffsets) -> frozenset[str]:
        """Return the sources that were emptied after something of them was read."""
        fresh = {name for name in self.readers if same({name: done.at[name]}, {name: done.begin[name]})}
        try:
            return truncated_between(self.job, self.readers, done.at, end, fresh)
        except SinkqlError:
            if any(
                name not in fresh and reader.wants_full_refresh(done.at[name]) for name, reader in self.readers.items()
            ):
                raise loss_accepted_error(self.job) from None
            raise

    def _part(self, done: RefreshProgress, end: JobOffsets) -> None:
        for name, reader in self.readers.items():
            reader.verify(end[name])
            if reader.refresh_outdated(done.at[name]):
                raise loss_accepted_error(self.job)
        splits = splits_between(self.readers, done.at, end)
        cleared = self._cleared(done, end)
        snapshotting = snapshots_running_after(self.readers, done.at)
        task = self.writer.begin_refresh(done.parts, buckets=self.engine.buckets)
        indexes = IndexLookup(self.job, self.readers, self.engine, self.home).indexes_at(done.at, end)
        arrangements = Arrangements(self.home, done.manifest, self.marker.epoch, task.commit, indexes)
        batch = Batch(
            task, splits, self.readers, arrangements, cleared, snapshotting, letters=self.failing,
            clock=step(done.at, end),
        )  # fmt: skip
        outcome = run_batch(self.engine, self.job, batch)
        found = check_account(self.job, outcome)
        failpoint.point("rebuild-read")
        if cleared and physical.change_of(self.job.write.input) == "upsert":
            done.results.clear()
        done.take(end, outcome, found)


def loss_accepted_error(job: physical.Job) -> SinkqlError:
    """Return the error for a sink whose rows are to be computed without changes of its source, or what was there."""
    return SinkqlError(
        "SQ3438",
        f'sink "{job.sink}" is to compute its rows again, as changes of its source were skipped, or all rows of a '
        "table without a key removed",
        hint="The sink does so by itself.",
    )


def state_unrecoverable_error(job: physical.Job) -> SinkqlError:
    """Return the error for a sink whose state is lost, and whose source no longer has what it was made of."""
    return SinkqlError(
        "SQ3438",
        f'sink "{job.sink}" is to compute its rows again, as its state is lost',
        hint="The sink does so by itself.",
    )
