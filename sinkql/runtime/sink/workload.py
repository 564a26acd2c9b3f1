"""The workload: the sinks that must run, and how a running sink follows changes of its assignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import msgspec

from sinkql import physical
from sinkql.errors import SinkqlError


@dataclass(frozen=True, slots=True)
class SinkAssignment:
    """A sink's present job, with the versions of its secrets, and when users last started it."""

    job: physical.Job
    secrets: tuple[tuple[str, int], ...] = ()
    asked_at: str | None = field(default=None)

    def differs(self, other: SinkAssignment) -> bool:
        """Return whether a sink that runs this assignment must start again for the other."""
        return (_with_pacing(self.job, other.job), self.secrets) != (_with_pacing(other.job, other.job), other.secrets)

    def elsewhere(self, other: SinkAssignment) -> SinkAssignment:
        """Return this assignment with the name and the cluster of another."""
        return replace(self, job=msgspec.structs.replace(self.job, sink=other.job.sink, cluster=other.job.cluster))


def _with_pacing(job: physical.Job, other: physical.Job) -> physical.Job:
    """Return the job with the pacing of another, and its texts and cluster settings, which need no new start."""
    return msgspec.structs.replace(
        job,
        commit_interval=other.commit_interval,
        max_rows_per_commit=other.max_rows_per_commit,
        texts=other.texts,
        master=other.master,
        conf=other.conf,
        execution=other.execution,
        spark_idle=other.spark_idle,
    )


class Workload(Protocol):
    """Returns the sinks that must run. Threads call every method often; all raise SQ41xx if the catalog fails."""

    def now(self) -> Sequence[SinkAssignment]:
        """Return the assignments of all sinks that must run."""

    def assignment(self, sink_id: str) -> SinkAssignment | None:
        """Return a sink's assignment; None if it has none."""


@dataclass(slots=True)
class WorkloadFollower:
    """Follows the workload for one sink in cluster `home`. `work` is its assignment as of the last `update`."""

    workload: Workload
    work: SinkAssignment
    home: str
    once: bool

    def update(self) -> Literal["same", "other", "moved"]:
        """Update the sink's assignment; return whether the running query still matches it."""
        before, now = self.work, self._now()
        if now is None or (now.job is before.job and now.secrets == before.secrets and before.job.cluster == self.home):
            return "same"
        self.work = replace(now, asked_at=before.asked_at)
        if self.work.job.cluster != self.home:
            return "moved"
        return "other" if self.work.differs(before) else "same"

    def differs(self) -> bool:
        """Return whether the workload has changed since the last `update`."""
        now = self._now()
        return now is not None and now.differs(self.work)

    def outdated(self) -> bool:
        """Return whether rows computed for the assignment are useless for the present one."""
        now = self._now()
        return now is not None and now.differs(self.work.elsewhere(now))

    def _now(self) -> SinkAssignment | None:
        if self.once:
            return None
        try:
            return self.workload.assignment(self.work.job.sink_id)
        except SinkqlError:
            return None  # the catalog is read again later
