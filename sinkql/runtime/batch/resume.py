"""Decide where a job resumes, from the checkpoint in its table, and claim the table.

The functions at the end describe a job's sources between two offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sinkql import physical
from sinkql.connector_api.stream import (
    NO_PLAN,
    Checkpoint,
    ClaimRequest,
    Committed,
    JobOffsets,
    Offsets,
    PlanChange,
    Reader,
    Split,
    Writer,
    WriteResult,
    WriteTask,
    plan_change_of,
)
from sinkql.errors import SinkqlError
from sinkql.machine import clock
from sinkql.runtime.batch.source_files import SourceFiles


@dataclass(slots=True)
class SinkTable:
    """A sink's table and its latest checkpoint, as this process has read or committed it. `claim` comes first.

    `before_commit` is called before each commit and may raise.
    """

    writer: Writer
    readers: Mapping[str, Reader]
    before_commit: Callable[[], None]
    checkpoint: Checkpoint = field(init=False)
    owned_at: float = field(default=0.0, init=False)
    """When the sink last claimed the table or began a commit, in seconds since 1970."""
    _reindexed_commit: str | None = field(default=None, init=False)

    def claim(self, request: ClaimRequest) -> Checkpoint:
        """Claim the table as `Writer.claim` does; return its checkpoint."""
        self.owned_at = clock.time()
        self.checkpoint = self.writer.claim(request)
        return self.checkpoint

    def refresh(self) -> Checkpoint:
        """Read the table's checkpoint again; raises SQ5101 if a newer epoch has claimed the table."""
        self.checkpoint = self.writer.refresh()
        return self.checkpoint

    def prepare_commit(self, end: JobOffsets | None = None) -> None:
        """Call `before_commit`, and the sources' if the commit moves their offsets to `end`."""
        self.owned_at = clock.time()
        self.before_commit()
        if end is not None:
            for source, reader in self.readers.items():
                reader.before_commit(end[source])

    def commit(self, task: WriteTask, results: Sequence[WriteResult], checkpoint: Checkpoint) -> Committed:
        """Commit rows with a new checkpoint, which becomes the table's."""
        committed = self.writer.commit(task, results, checkpoint)
        self.checkpoint = committed.checkpoint
        return committed

    def invalidate_index(self) -> bool:
        """Make the next batch rebuild the key index; return False if it was rebuilt for this checkpoint.

        Once is enough: an index that was rebuilt from the table cannot be lost again.
        """
        if self._reindexed_commit == self.checkpoint.commit:
            return False
        self._reindexed_commit = self.checkpoint.commit
        self.writer.invalidate_index()
        return True


@dataclass(slots=True)
class ResumePoint:
    """Where a job resumes, and the change of plan since its table was written. `resume` comes first."""

    job: physical.Job
    readers: Mapping[str, Reader]
    writer: Writer
    source_files: SourceFiles
    plan_change: PlanChange | None = field(default=None, init=False)

    def resume(self, checkpoint: Checkpoint | None) -> JobOffsets:
        """Return the offsets at which the job resumes, after the sources have restored and verified them.

        Raises SQ3410 if another plan wrote the checkpoint and the job cannot continue from it, SQ3412 for a lost file
        of a source, and what `Reader.verify` raises.
        """
        self.plan_change = self._plan_change(checkpoint)
        offsets = self._offsets(checkpoint)
        if checkpoint is not None:
            self.source_files.restore(offsets)
            for source, reader in self.readers.items():
                reader.on_resume(offsets[source])
            self.verify(offsets)
        return offsets

    def _plan_change(self, checkpoint: Checkpoint | None) -> PlanChange | None:
        """Return the plans whose tables the job may take over; None if it continues only its own.

        A materialized view job takes over any plan's table: it computes the rows again.
        """
        change = plan_change_of(self.job)
        if self.job.write.connector == physical.VIEW and checkpoint is not None and checkpoint.plan != self.job.plan:
            again = frozenset({checkpoint.plan} - {NO_PLAN})
            follows: dict[str, dict[str, str | None]] = {plan: {} for plan in (NO_PLAN, *again)}
            change = PlanChange(self.job.plan, follows, stateful=self.job.stateful(), again=again)
        if self.writer.replaces_foreign_rows():
            if self.job.write.mode == "upsert":
                change = change or PlanChange(self.job.plan, {NO_PLAN: {}}, stateful=self.job.stateful())
                change = replace(change, again=change.again | {NO_PLAN})
            elif change is not None:
                change = replace(change, empties=True)
        return replace(change, check=self._check_unread) if change is not None else None

    def _offsets(self, checkpoint: Checkpoint | None) -> JobOffsets:
        """Return the offsets at which the job resumes.

        If the table has rows, a new source starts at its current end. If a full refresh follows, it starts at its
        beginning, like all others.
        """
        if checkpoint is None:
            return {name: reader.initial(at_end=not self.job.snapshot) for name, reader in self.readers.items()}
        change = self.plan_change
        if change is None or checkpoint.plan not in change.follows:
            self.check_plan(checkpoint)
            return checkpoint.end
        at_end = (checkpoint.plan != NO_PLAN and checkpoint.plan not in change.again) or not self.job.snapshot
        return {
            name: checkpoint.end[name] if name in checkpoint.end else reader.initial(at_end=at_end)
            for name, reader in self.readers.items()
        }

    def needs_full_refresh(self, checkpoint: Checkpoint) -> bool:
        """Return whether the change of plan requires a full refresh of the claimed table."""
        return self.plan_change is not None and checkpoint.plan in self.plan_change.again

    def check_plan(self, checkpoint: Checkpoint) -> None:
        """Raise SQ3410 if another plan wrote the checkpoint."""
        if checkpoint.plan not in (NO_PLAN, self.job.plan):
            raise SinkqlError(
                "SQ3410",
                f'the plan of sink "{self.job.sink}" has changed since its table was last written',
                detail=f"the table was written by plan {checkpoint.plan}, the sink is now plan {self.job.plan}",
                hint="Drop the sink and create it again with a new table.",
            )

    def verify(self, offsets: JobOffsets) -> None:
        """Raise what `Reader.verify` raises for the offsets of each source."""
        for source, reader in self.readers.items():
            reader.verify(offsets[source])

    def loss_accepted(self, offsets: JobOffsets) -> bool:
        """Return whether a source lost the next changes and the rows can be recomputed without them."""
        if not self.job.renewable:
            return False
        return any(
            wants_full_refresh(reader, offsets[name]) for name, reader in self.readers.items() if name in offsets
        )

    def _check_unread(self, checkpoint: Checkpoint) -> None:
        """Raise SQ3413 if a column is new to the table and rows written before have values in it."""
        unread = next((plan.unread for plan in self.job.follows if plan.plan == checkpoint.plan), ())
        for source, column in unread:
            reader = self.readers.get(source)
            if (
                reader is not None
                and source in checkpoint.end
                and not reader.is_all_null(checkpoint.end[source], column)
            ):
                raise SinkqlError(
                    "SQ3413",
                    f'sink "{self.job.sink}" wrote rows of "{source}" that have values in column "{column}", '
                    "before it had the column",
                    hint="Drop the sink and create it again with a new table.",
                )


def splits_between(readers: Mapping[str, Reader], start: JobOffsets, end: JobOffsets) -> dict[str, list[Split]]:
    """Return the splits of each source between two offsets."""
    return {
        name: [] if start[name] == end[name] else reader.splits(start[name], end[name])
        for name, reader in readers.items()
    }


def truncated_between(
    job: physical.Job,
    readers: Mapping[str, Reader],
    start: JobOffsets,
    end: JobOffsets,
    fresh: Container[str] = (),
) -> frozenset[str]:
    """Return the sources that were truncated between two offsets.

    Nothing was read before `start` from the sources in `fresh`. Raises SQ3416 if the job cannot know the deleted rows.
    """
    truncated = frozenset(
        name
        for name, reader in readers.items()
        if start[name] != end[name] and reader.snapshot and reader.snapshot.truncated_between(start[name], end[name])
    )
    for read in job.reads():
        if read.source in truncated and read.change != "upsert" and read.source in fresh:
            truncated -= {read.source}
        elif read.source in truncated and read.change != "upsert":
            raise SinkqlError(
                "SQ3416",
                f'source "{read.name}" was truncated, and sink "{job.sink}" does not know the deleted rows',
                detail="The rows have no key by which the sink could find them.",
                hint="Drop the sink and create it again with a new table.",
            )
    return truncated


def is_consistent_at(readers: Mapping[str, Reader], end: JobOffsets) -> bool | None:
    """Return whether each source's rows up to `end` are of one point in time; None if no source can tell."""
    answers = (reader.snapshot.is_consistent(end[name]) for name, reader in readers.items() if reader.snapshot)
    known_answers = [answer for answer in answers if answer is not None]
    return all(known_answers) if known_answers else None


def snapshots_running_after(readers: Mapping[str, Reader], start: JobOffsets) -> frozenset[str]:
    """Return the sources whose initial snapshot continues after `start`."""
    return frozenset(
        name for name, reader in readers.items() if reader.snapshot and reader.snapshot.snapshot_running(start[name])
    )


def restart_of(reader: Reader, offsets: Offsets) -> Offsets:
    """Return where reading up to `offsets` began; raises GoneError if the input from there no longer exists."""
    return reader.full_refresh.restart_of(offsets) if reader.full_refresh else reader.initial(at_end=False)


def refresh_targets(readers: Mapping[str, Reader], offsets: JobOffsets) -> JobOffsets:
    """Return the targets of a full refresh that covers everything read up to `offsets`."""
    parts = {name: readers[name].full_refresh for name in offsets}
    return {name: part.target_at(offsets[name]) if part else offsets[name] for name, part in parts.items()}


def wants_full_refresh(reader: Reader, offsets: Offsets) -> bool:
    """Return whether a source lost the next changes and accepts a full refresh without them."""
    return reader.full_refresh is not None and reader.full_refresh.wants_full_refresh(offsets)
