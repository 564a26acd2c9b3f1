"""Read from the catalog which jobs to run, with the versions of their secrets."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from sinkql import physical
from sinkql.catalog.catalog import Catalog
from sinkql.lowering.job import lower
from sinkql.lowering.materialized_view import view_jobs
from sinkql.machine import clock
from sinkql.runtime.sink.workload import SinkAssignment


class CatalogWorkload:
    """A `Workload` that reads a separate copy of the catalog again after each change.

    Without `jobs`, it has all sinks whose desired state is running. With `jobs`, it has only these, in the version of
    the catalog if they exist there. It checks the catalog at most once in `every_seconds` for all sinks together. If
    `in_spark`, Spark runs all batches, also on clusters with EXECUTION = AUTO.
    """

    def __init__(
        self,
        catalog: Catalog,
        jobs: Sequence[physical.Job] | None = None,
        *,
        every_seconds: float = 0.2,
        in_spark: bool = False,
    ) -> None:
        self._catalog = Catalog(catalog.database.address, catalog.registry, project=catalog.project)
        self._fixed_jobs = None if jobs is None else {job.sink_id: job for job in jobs}
        self._lock = threading.Lock()
        self._every_seconds = every_seconds
        self._in_spark = in_spark
        self._checked_at = -every_seconds
        self._generation = -1
        self._assignments: dict[str, SinkAssignment] = {}

    def now(self) -> Sequence[SinkAssignment]:
        """Return the assignments of all sinks that should run."""
        desired_states = self._catalog.control.all_desired()
        requested_at = {sink_id: at for sink_id, (desired, at) in desired_states.items() if desired == "running"}
        if self._fixed_jobs is not None:
            works = [work for sink_id in self._fixed_jobs if (work := self.assignment(sink_id)) is not None]
            return [replace(work, asked_at=requested_at.get(work.job.sink_id)) for work in works]
        with self._lock:
            self._refresh()
            return [
                replace(work, asked_at=requested_at[id_])
                for id_, work in self._assignments.items()
                if id_ in requested_at
            ]

    def all(self) -> Sequence[SinkAssignment]:
        """Return the assignments of all sinks of the catalog and of `jobs`, even of stopped ones."""
        with self._lock:
            self._refresh()
            stored = dict(self._assignments)
        fixed = {id_: SinkAssignment(job) for id_, job in (self._fixed_jobs or {}).items()}
        return list({**fixed, **stored}.values())

    def assignment(self, sink_id: str) -> SinkAssignment | None:
        """Return the present assignment of a sink."""
        fixed = self._fixed_jobs
        with self._lock:
            self._refresh()
            if sink_id in self._assignments:
                return self._assignments[sink_id]
        return SinkAssignment(fixed[sink_id]) if fixed is not None and sink_id in fixed else None

    def _refresh(self) -> None:
        now = clock.monotonic()
        if now - self._checked_at < self._every_seconds:
            return
        self._checked_at = now
        self._catalog.refresh()
        if self._catalog.generation == self._generation:
            return
        versions = self._catalog.secret_versions()
        plans = self._catalog.plans
        names = (*view_jobs(plans), *plans.planned("SINK"))
        jobs = [lower(name, plans) for name in names]
        if self._in_spark:
            jobs = [msgspec.structs.replace(job, execution="SPARK") for job in jobs]
        works = [_assignment(job, versions) for job in jobs]
        self._assignments = {work.job.sink_id: work for work in works}
        self._generation = self._catalog.generation


def _assignment(job: physical.Job, versions: dict[str, int]) -> SinkAssignment:
    return SinkAssignment(job, tuple((name, versions.get(name, 0)) for name in sorted(job.secrets())))
