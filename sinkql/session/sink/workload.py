"""The catalog, as it is now → what is to run: sinks' jobs, with the versions of their secrets."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from sinkql import physical
from sinkql.catalog.catalog import Catalog
from sinkql.lowering.job import lower
from sinkql.lowering.materialized_view import view_jobs
from sinkql.runtime.sink.workload import SinkAssignment


class CatalogWorkload:
    """Read a catalog of its own again whenever the file changed; a `Workload`.

    Without `jobs` all sinks that users want to run are in it; with them just those, as the catalog has them now, or as
    they are given where it has them not. The file is looked at once in `every_seconds`, however many sinks ask.
    """

    def __init__(
        self, catalog: Catalog, jobs: Sequence[physical.Job] | None = None, *, every_seconds: float = 0.2
    ) -> None:
        self._catalog = Catalog(catalog.database.address, catalog.registry, project=catalog.project)
        self._given = None if jobs is None else {job.sink_id: job for job in jobs}
        self._lock = threading.Lock()
        self._every_seconds = every_seconds
        self._looked_at = -every_seconds
        self._generation = -1
        self._known: dict[str, SinkAssignment] = {}

    def now(self) -> Sequence[SinkAssignment]:
        """Return the work of all sinks that are to run."""
        wishes = self._catalog.control.wishes()
        wanted = {sink_id: at for sink_id, (desired, at) in wishes.items() if desired == "running"}
        if self._given is not None:
            works = [work for sink_id in self._given if (work := self.work(sink_id)) is not None]
            return [replace(work, asked_at=wanted.get(work.job.sink_id)) for work in works]
        with self._lock:
            self._refresh()
            return [replace(work, asked_at=wanted[id_]) for id_, work in self._known.items() if id_ in wanted]

    def all(self) -> Sequence[SinkAssignment]:
        """Return the work of all sinks of the catalog, and of those that are given, whether or not they are to run."""
        with self._lock:
            self._refresh()
            known = dict(self._known)
        given = {id_: SinkAssignment(job) for id_, job in (self._given or {}).items()}
        return list({**given, **known}.values())

    def work(self, sink_id: str) -> SinkAssignment | None:
        """Return a sink's work as it is now."""
        given = self._given
        with self._lock:
            self._refresh()
            if sink_id in self._known:
                return self._known[sink_id]
        return SinkAssignment(given[sink_id]) if given is not None and sink_id in given else None

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < self._every_seconds:
            return
        self._looked_at = now
        self._catalog.refresh()
        if self._catalog.generation == self._generation:
            return
        versions = self._catalog.secret_versions()
        plans = self._catalog.plans
        names = (*view_jobs(plans), *plans.planned("SINK"))
        works = [_work(lower(name, plans), versions) for name in names]
        self._known = {work.job.sink_id: work for work in works}
        self._generation = self._catalog.generation


def _work(job: physical.Job, versions: dict[str, int]) -> SinkAssignment:
    return SinkAssignment(job, tuple((name, versions.get(name, 0)) for name in sorted(job.secrets())))
