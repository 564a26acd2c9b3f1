"""A job, and the marker of the table that it finds → where the job goes on, or why it may not.

Two offsets of a job → what is special of its sources between them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from sinkql import physical
from sinkql.connector_api.stream import NO_PLAN, Checkpoint, JobOffsets, PlanChange, Reader, Writer, plan_change_of
from sinkql.errors import SinkqlError


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """Say where a job begins to read, by its table."""

    job: physical.Job
    readers: Mapping[str, Reader]
    writer: Writer

    def switch(self, found: Checkpoint | None) -> PlanChange | None:
        """Return which other plans' tables the job follows, and how; None where it follows its own alone.

        A view computes its rows again whatever plan they are of.
        """
        switch = plan_change_of(self.job)
        if self.job.write.connector == physical.VIEW and found is not None and found.plan != self.job.plan:
            again = frozenset({found.plan} - {NO_PLAN})
            follows: dict[str, dict[str, str | None]] = {each: {} for each in (NO_PLAN, *again)}
            switch = PlanChange(self.job.plan, follows, stateful=self.job.stateful(), again=again)
        if self.writer.replaces_foreign_rows():
            if self.job.write.mode == "upsert":
                switch = switch or PlanChange(self.job.plan, {NO_PLAN: {}}, stateful=self.job.stateful())
                switch = replace(switch, again=switch.again | {NO_PLAN})
            elif switch is not None:
                switch = replace(switch, empties=True)
        return replace(switch, check=self._check_unread) if switch is not None else None

    def of(self, found: Checkpoint | None, switch: PlanChange | None) -> JobOffsets:
        """Return where the job goes on; raises SQ3410 for the marker of another plan that it does not follow.

        Sources that are new to a table with rows begin at their present end. Where the rows come anew, all are read, so
        that new sources begin at their beginning.
        """
        if found is None:
            return {name: reader.initial(at_end=not self.job.snapshot) for name, reader in self.readers.items()}
        if switch is None or found.plan not in switch.follows:
            self.check_plan(found)
            return found.end
        at_end = (found.plan != NO_PLAN and found.plan not in switch.again) or not self.job.snapshot
        return {
            name: found.end[name] if name in found.end else reader.initial(at_end=at_end)
            for name, reader in self.readers.items()
        }

    def check_plan(self, marker: Checkpoint) -> None:
        """Raise SQ3410 for the marker of another plan."""
        if marker.plan not in (NO_PLAN, self.job.plan):
            raise SinkqlError(
                "SQ3410",
                f'the plan of sink "{self.job.sink}" has changed since its table was last written',
                detail=f"the table was written by plan {marker.plan}, the sink is now plan {self.job.plan}",
                hint="Drop the sink and create it again, into a new table.",
            )

    def loss_accepted(self, at: JobOffsets) -> bool:
        """Tell whether a source lost what follows, and the rows can be computed again without it."""
        if not self.job.renewable:
            return False
        return any(reader.wants_full_refresh(at[name]) for name, reader in self.readers.items() if name in at)

    def _check_unread(self, found: Checkpoint) -> None:
        """Raise SQ3413 where rows that the table has should have values in a column that is new to it."""
        for source, column in next((each.unread for each in self.job.follows if each.plan == found.plan), ()):
            reader = self.readers.get(source)
            if reader is not None and source in found.end and not reader.is_all_null(found.end[source], column):
                raise SinkqlError(
                    "SQ3413",
                    f'sink "{self.job.sink}" wrote rows of "{source}" that have values in column "{column}", '
                    "before it had the column",
                    hint="Drop the sink and create it again, into a new table.",
                )


def truncated_between(
    job: physical.Job,
    readers: Mapping[str, Reader],
    start: JobOffsets,
    end: JobOffsets,
    fresh: Container[str] = (),
) -> frozenset[str]:
    """Return the names that offsets have of these sources; raises SQ3416 for one whose rows the job does not know.

    Of those in `fresh` nothing was read before.
    """
    found = frozenset(
        name
        for name, reader in readers.items()
        if start[name] != end[name] and reader.truncated_between(start[name], end[name])
    )
    for read in job.reads():
        if read.source in found and read.change != "upsert" and read.source in fresh:
            found -= {read.source}
        elif read.source in found and read.change != "upsert":
            raise SinkqlError(
                "SQ3416",
                f'all rows of source "{read.name}" were removed at once, and sink "{job.sink}" does not know them',
                detail="They have no key by which it keeps them.",
                hint="Drop the sink and create it again, into a new table.",
            )
    return found


def is_consistent_at(readers: Mapping[str, Reader], end: JobOffsets) -> bool | None:
    """Tell whether the rows up to there are those of one moment of each source; None where no source has to say."""
    said = [each for name, reader in readers.items() if (each := reader.is_consistent(end[name])) is not None]
    return all(said) if said else None


def snapshots_running_after(readers: Mapping[str, Reader], start: JobOffsets) -> frozenset[str]:
    """Return the names of the sources whose first snapshot goes on after `start`."""
    return frozenset(name for name, reader in readers.items() if reader.snapshot_running(start[name]))
