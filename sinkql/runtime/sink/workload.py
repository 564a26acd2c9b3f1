"""What is to run, as of now: sinks' jobs, from whoever keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import msgspec

from sinkql import physical
from sinkql.errors import SinkqlError


@dataclass(frozen=True, slots=True)
class SinkAssignment:
    """A sink's job as it is now, with the versions of the secrets in it, and when users last asked for it."""

    job: physical.Job
    secrets: tuple[tuple[str, int], ...] = ()
    asked_at: str | None = field(default=None)

    def differs(self, other: SinkAssignment) -> bool:
        """Tell whether a sink that runs this work would have to begin again to do the other."""
        alike = _paced_as(self.job, other.job), _paced_as(other.job, other.job)
        return (alike[0], self.secrets) != (alike[1], other.secrets)

    def elsewhere(self, other: SinkAssignment) -> SinkAssignment:
        """Return this work under the name, and in the cluster, of another."""
        return replace(self, job=msgspec.structs.replace(self.job, sink=other.job.sink, cluster=other.job.cluster))


def _paced_as(job: physical.Job, other: physical.Job) -> physical.Job:
    """Return the job with what may change while it runs, and what decides nothing, as in another one."""
    return msgspec.structs.replace(
        job,
        commit_interval=other.commit_interval,
        max_rows_per_commit=other.max_rows_per_commit,
        texts=other.texts,
        master=other.master,
        conf=other.conf,
    )


class Workload(Protocol):
    """Say what is to run; every method is called from several threads, often, and raises SQ41xx where it cannot."""

    def now(self) -> Sequence[SinkAssignment]:
        """Return the work of all sinks that are to run."""

    def work(self, sink_id: str) -> SinkAssignment | None:
        """Return a sink's work, None where the roster knows of none."""


@dataclass(slots=True)
class WorkloadFollower:
    """Follow the roster: `work` is what a sink in cluster `home` is run with, until `take` finds that it is another."""

    roster: Workload
    work: SinkAssignment
    home: str
    once: bool

    def take(self) -> Literal["same", "other", "moved"]:
        """Take the sink's work as it is now, and tell whether the query that runs is still the one for it."""
        before, now = self.work, self._now()
        if now is None or (now.job is before.job and now.secrets == before.secrets and before.job.cluster == self.home):
            return "same"
        self.work = replace(now, asked_at=before.asked_at)
        if self.work.job.cluster != self.home:
            return "moved"
        return "other" if self.work.differs(before) else "same"

    def differs(self) -> bool:
        """Tell whether the roster says other things than what was taken."""
        now = self._now()
        return now is not None and now.differs(self.work)

    def outdated(self) -> bool:
        """Tell whether rows that are computed for the work as it was taken are of no use for it as it is now."""
        now = self._now()
        return now is not None and now.differs(self.work.elsewhere(now))

    def _now(self) -> SinkAssignment | None:
        if self.once:
            return None
        try:
            return self.roster.work(self.work.job.sink_id)
        except SinkqlError:
            return None  # a catalog that cannot be read now is asked again
