"""Read from the catalog which sources to capture, and connect their captures with the catalog."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from sinkql import physical
from sinkql.capture.control import CaptureProgress, SubscribedSink
from sinkql.capture.log import LogDirectory, source_folder
from sinkql.capture.object_log_store import open_log_directory
from sinkql.catalog.address import ServerUrl
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.coordination.shared_store import open_notes
from sinkql.connector_api.cdc import (
    CapturedSource,
    CapturedTable,
    LogFiles,
    LogRetention,
    OpenStream,
    Reveal,
    Stream,
    captured_source,
    captured_table,
)
from sinkql.connector_api.stream import Offsets
from sinkql.errors import LeaseLostError, SinkqlError
from sinkql.machine import clock
from sinkql.machine.randomness import new_id
from sinkql.object_store.store import ObjectStore
from sinkql.planner.name import short_name
from sinkql.runtime.process.capture_processes import CaptureAssignment
from sinkql.runtime.sink.workload import SinkAssignment
from sinkql.session.sink.workload import CatalogWorkload

_REPORT_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class _CapturedRead:
    """A read of a captured source: its table, and the names of the source's secrets."""

    name: str
    source: CapturedSource
    keeping: LogRetention
    table: CapturedTable
    secrets: frozenset[str]


def _captured_read(read: physical.Read) -> _CapturedRead | None:
    """Return None for a source without an id, which is not captured."""
    source, keeping = captured_source(read.connector, read.options, read.connection, read.log)
    if not source.id:
        return None
    secrets = set(physical.secrets_in(source.options))
    if source.log is not None:
        secrets |= physical.secrets_in(source.log.options)
    return _CapturedRead(read.source, source, keeping, captured_table(read), frozenset(secrets))


@dataclass(frozen=True, slots=True)
class CatalogCaptureDirectory:
    """A `CaptureDirectory`: the sources that the sinks of a workload read from captures."""

    catalog: Catalog
    workload: CatalogWorkload
    secret: Reveal
    _derived: dict[str, tuple[physical.Job, Sequence[_CapturedRead]]] = field(default_factory=dict)

    def captures(self) -> Sequence[CaptureAssignment]:
        """Return the captured sources of the sinks that should run, without duplicates."""
        assignments: dict[str, CaptureAssignment] = {}
        for assignment, reads in self._read_by(self.workload.now()):
            for read in reads:
                source = read.source
                if source.id not in assignments:
                    is_shared = self.catalog.registry.sources[source.kind].open_shared is not None
                    versions = tuple(version for version in assignment.secrets if version[0] in read.secrets)
                    assignments[source.id] = CaptureAssignment(source, read.keeping, is_shared, versions)
        return list(assignments.values())

    def _read_by(self, assignments: Sequence[SinkAssignment]) -> list[tuple[SinkAssignment, Sequence[_CapturedRead]]]:
        """Return what each sink reads from captures. It is derived once for each job, since this runs all the time."""
        for id_ in self._derived.keys() - {assignment.job.sink_id for assignment in assignments}:
            self._derived.pop(id_, None)
        return [(assignment, self._reads(assignment.job)) for assignment in assignments]

    def _reads(self, job: physical.Job) -> Sequence[_CapturedRead]:
        derived = self._derived.get(job.sink_id)
        if derived is None or derived[0] is not job:
            kinds = self.catalog.registry.sources
            reads = [
                captured
                for read in job.reads()
                if read.connector in kinds and kinds[read.connector].stream is not None
                if (captured := _captured_read(read)) is not None
            ]
            derived = self._derived[job.sink_id] = job, reads
        return derived[1]

    def folder(self, capturing: CaptureAssignment) -> LogDirectory:
        """Return the log directory of a source."""
        open_store = partial(open_notes, self.catalog.database)
        return open_log_directory(
            self._folder, capturing.source, capturing.keeping, self._store, self._owner, open_notes=open_store
        )

    @property
    def _owner(self) -> str | None:
        address = self.catalog.database.address
        return f"{self.catalog.catalog_id()} {address}" if isinstance(address, ServerUrl) else None

    @property
    def _folder(self) -> Path:
        return self.catalog.database.folder

    def _store(self, connection: physical.Connection) -> ObjectStore:
        return self.catalog.registry.store(connection.kind, connection.options, self.secret)

    def host(self, source: CapturedSource) -> CatalogCaptureHost:
        """Return the host of a capture: its connection with the catalog."""
        return CatalogCaptureHost(self, source)

    def opening(
        self, source: CapturedSource, notes: LogFiles, open_stream: OpenStream | None = None
    ) -> Callable[[], Stream]:
        """Return a function that connects to the source's server, by default with the connector's stream."""
        stream = open_stream or self.catalog.registry.sources[source.kind].stream
        assert stream is not None, source.kind
        return partial(stream, replace(source, folder=source_folder(self._folder, source.id), notes=notes), self.secret)

    def together(self, kind: str) -> AbstractContextManager[OpenStream]:
        """Return a context manager that opens the streams of all sources of one process."""
        open_shared = self.catalog.registry.sources[kind].open_shared
        assert open_shared is not None, kind
        return open_shared()

    def subscribed_sinks(self, source_id: str) -> list[SubscribedSink]:
        """Return all sinks of the catalog that read a source."""
        offsets = self.catalog.control.offsets()
        sinks = []
        for assignment, reads in self._read_by(self.workload.all()):
            for read in reads:
                if read.source.id == source_id:
                    committed: dict[str, Offsets] = json.loads(offsets.get(assignment.job.sink_id, "{}"))
                    seconds, position = assignment.job.commit_interval.total_seconds(), committed.get(read.name)
                    sinks.append(
                        SubscribedSink(assignment.job.sink_id, read.table, position, seconds, assignment.job.sink)
                    )
        return sinks


@dataclass(slots=True)
class CatalogCaptureHost:
    """The connection of a capture with the catalog; a `Host` of `sinkql.capture.control`."""

    directory: CatalogCaptureDirectory
    source: CapturedSource
    owner: str = field(default_factory=new_id)
    _renewed_at: float = 0.0
    _reported: CaptureProgress | None = None
    _reported_at: float = 0.0

    def subscribed_sinks(self) -> Sequence[SubscribedSink]:
        """Return all sinks of the catalog that read the source, running or not."""
        return self.directory.subscribed_sinks(self.source.id)

    def secret(self, name: str) -> str:
        """Return the value of a secret."""
        return self.directory.secret(name)

    def acquire(self) -> int | None:
        """Lease the source. Return the epoch, None while another process holds the lease."""
        self._renewed_at = clock.monotonic()
        return self.directory.catalog.control.lease(self.source.id, owner=self.owner)

    def renew(self) -> bool:
        """Renew the lease when a third of its time has passed. Return whether this process still holds it."""
        control = self.directory.catalog.control
        if clock.monotonic() < self._renewed_at + control.lease_seconds / 3:
            return True
        try:
            control.renew(self.source.id, owner=self.owner)
        except LeaseLostError:
            return False
        self._renewed_at = clock.monotonic()
        return True

    def release(self) -> None:
        """Release the lease."""
        control = self.directory.catalog.control
        with suppress(SinkqlError):
            control.status(self.source.id, "stopped", owner=self.owner)
        control.release(self.source.id, owner=self.owner)

    def report(self, progress: CaptureProgress) -> None:
        """Store the progress of the capture: a new status or error immediately, else every few seconds."""
        before, now = self._reported, clock.monotonic()
        is_same = before is not None and (before.status, before.error) == (progress.status, progress.error)
        if is_same and not progress.last and now < self._reported_at + _REPORT_SECONDS:
            return
        self._reported, self._reported_at = progress, now
        error = progress.error
        hint = error.hint if error is not None else None
        details = {name: value for name, value in progress.details.items() if name != "sinks"}
        self.directory.catalog.control.status(
            self.source.id,
            progress.status,
            owner=self.owner,
            error=f"{error.code}: {error.message}" if error is not None else None,
            hint=hint and hint.replace("ALTER SOURCE …", f"ALTER SOURCE {short_name(self.source.name)}"),
            details=details or None,
        )
        if progress.details:
            self.directory.catalog.control.measured(self.source.id, {"": progress.details})
