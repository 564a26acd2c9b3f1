"""The catalog, as it is now → the sources that are to be captured, and what their captures are told."""

from __future__ import annotations

import json
import time
import uuid
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
    LogFiles,
    OpenStream,
    Reveal,
    Stream,
    captured_source,
    captured_table,
)
from sinkql.connector_api.stream import Offsets
from sinkql.errors import LeaseLostError, SinkqlError
from sinkql.object_store.store import ObjectStore
from sinkql.planner.name import short_name
from sinkql.runtime.process.capture_processes import CaptureAssignment
from sinkql.session.sink.workload import CatalogWorkload

_TELL_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class CatalogCaptureDirectory:
    """Say which sources the sinks of a roster read that are to be captured; a `CaptureDirectory`."""

    catalog: Catalog
    roster: CatalogWorkload
    secret: Reveal

    def captures(self) -> Sequence[CaptureAssignment]:
        """Return the sources that sinks read which are to run, each once."""
        found: dict[str, CaptureAssignment] = {}
        for work in self.roster.now():
            for read in self._reads(work.job):
                source, keeping = captured_source(read.connector, read.options, read.connection, read.log)
                if source.id:
                    together = self.catalog.registry.sources[source.kind].together is not None
                    own = physical.secrets_in(source.options)
                    if source.log is not None:
                        own |= physical.secrets_in(source.log.options)
                    versions = tuple(each for each in work.secrets if each[0] in own)
                    found.setdefault(source.id, CaptureAssignment(source, keeping, together, versions))
        return list(found.values())

    def _reads(self, job: physical.Job) -> list[physical.Read]:
        kinds = self.catalog.registry.sources
        return [each for each in job.reads() if each.connector in kinds and kinds[each.connector].stream is not None]

    def folder(self, capturing: CaptureAssignment) -> LogDirectory:
        """Return where what is kept of a source lies."""
        opened = partial(open_notes, self.catalog.database)
        return open_log_directory(
            self._folder, capturing.source, capturing.keeping, self._store, self._owner, open_notes=opened
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
        """Return what a capture of it is told by, and tells."""
        return CatalogCaptureHost(self, source)

    def opening(
        self, source: CapturedSource, notes: LogFiles, open_stream: OpenStream | None = None
    ) -> Callable[[], Stream]:
        """Return what connects to its server, by what opens streams where that is given."""
        stream = open_stream or self.catalog.registry.sources[source.kind].stream
        assert stream is not None, source.kind
        return partial(stream, replace(source, folder=source_folder(self._folder, source.id), notes=notes), self.secret)

    def together(self, kind: str) -> AbstractContextManager[OpenStream]:
        """Return what opens the streams of sources that one process captures."""
        together = self.catalog.registry.sources[kind].together
        assert together is not None, kind
        return together()

    def subscribed_sinks(self, source_id: str) -> list[SubscribedSink]:
        """Return all sinks of the catalog that read a source."""
        offsets = self.catalog.control.offsets()
        found = []
        for work in self.roster.all():
            for read in self._reads(work.job):
                if read.options["source_id"] == source_id:
                    known: dict[str, Offsets] = json.loads(offsets.get(work.job.sink_id, "{}"))
                    every = work.job.commit_interval.total_seconds()
                    table, at = captured_table(read), known.get(read.source)
                    found.append(SubscribedSink(work.job.sink_id, table, at, every, work.job.sink))
        return found


@dataclass(slots=True)
class CatalogCaptureHost:
    """What a capture is told by the catalog, and tells it; a `Host` of `sinkql.capture.control`."""

    desk: CatalogCaptureDirectory
    source: CapturedSource
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)
    _renewed_at: float = 0.0
    _told: CaptureProgress | None = None
    _told_at: float = 0.0

    def subscribed_sinks(self) -> Sequence[SubscribedSink]:
        """Return all sinks of the catalog that read the source, running or not."""
        return self.desk.subscribed_sinks(self.source.id)

    def secret(self, name: str) -> str:
        """Return a secret's value."""
        return self.desk.secret(name)

    def acquire(self) -> int | None:
        """Lease the source; return the lease's epoch, None while another process that lives has it."""
        self._renewed_at = time.monotonic()
        return self.desk.catalog.control.lease(self.source.id, owner=self.owner)

    def renew(self) -> bool:
        """Prolong the lease now and then; tell whether it still is this process's."""
        control = self.desk.catalog.control
        if time.monotonic() < self._renewed_at + control.lease_seconds / 3:
            return True
        try:
            control.renew(self.source.id, owner=self.owner)
        except LeaseLostError:
            return False
        self._renewed_at = time.monotonic()
        return True

    def release(self) -> None:
        """Give the lease back."""
        control = self.desk.catalog.control
        with suppress(SinkqlError):
            control.status(self.source.id, "stopped", owner=self.owner)
        control.release(self.source.id, owner=self.owner)

    def report(self, progress: CaptureProgress) -> None:
        """Take note of what the capture is doing: at once where that is something else."""
        before, now = self._told, time.monotonic()
        same = before is not None and (before.status, before.error) == (progress.status, progress.error)
        if same and not progress.last and now < self._told_at + _TELL_SECONDS:
            return
        self._told, self._told_at = progress, now
        error = progress.error
        hint = error.hint if error is not None else None
        details = {name: value for name, value in progress.details.items() if name != "sinks"}
        self.desk.catalog.control.status(
            self.source.id,
            progress.status,
            owner=self.owner,
            error=f"{error.code}: {error.message}" if error is not None else None,
            hint=hint and hint.replace("ALTER SOURCE …", f"ALTER SOURCE {short_name(self.source.name)}"),
            details=details or None,
        )
        if progress.details:
            self.desk.catalog.control.measured(self.source.id, {"": progress.details})
