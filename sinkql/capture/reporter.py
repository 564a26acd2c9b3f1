"""The state of a capture session → its status for sinks, replies to their requests, and its progress for users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sinkql.capture import messages
from sinkql.capture.control import CaptureHost, CaptureProgress, Status
from sinkql.capture.log import LogWriter
from sinkql.capture.metrics import CaptureMetrics, as_progress
from sinkql.capture.retention import Retention
from sinkql.capture.snapshot import SnapshotScheduler
from sinkql.connector_api.cdc import CapturedTable, Position
from sinkql.errors import SinkqlError, as_data
from sinkql.machine import clock


@dataclass(slots=True)
class CaptureReporter:
    """The sender of a session's messages and reports, with the last ones that it sent."""

    log: LogWriter
    host: CaptureHost
    tables: Mapping[str, CapturedTable]
    retention: Retention
    scheduler: SnapshotScheduler
    metrics: CaptureMetrics
    _joinable: set[str] = field(default_factory=set)
    """The readers whose last status named the entry to join at."""
    _snapshots: Mapping[str, messages.Snapshot] = field(default_factory=dict)

    def send_status(self) -> None:
        """Send the log's end, the errors, and the entries where sinks may join."""
        requests = self.retention.positions.requests
        entries = {reader: self.scheduler.joinable_entry(request) for reader, request in requests.items()}
        joinable = {reader: entry for reader, entry in entries.items() if entry is not None}
        tables = {
            table: messages.CaptureError(as_data(unreadable.error), unreadable.tried, unreadable.failing)
            for table, unreadable in self.scheduler.snapshots.unreadable.items()
            if unreadable.is_reportable
        }
        status = messages.CaptureStatus(
            self.log.epoch,
            clock.time(),
            self.log.id,
            self.log.entries[-1].entry,
            self.retention.confirmed,
            joinable,
            self.log.directory.location,
            self.retention.quota.trouble,
            tables,
        )
        messages.send(self.log.directory.messages, "word", status)
        self._joinable = set(joinable)

    def has_unanswered_requests(self) -> bool:
        """Return whether a request of a captured table has no entry to join at in the last status."""
        requests = self.retention.positions.requests
        return any(reader not in self._joinable for reader, request in requests.items() if request.table in self.tables)

    def end_requests(self) -> list[str]:
        """Return the names of the requests for the server's end, by sinks of captured tables."""
        requests = messages.all_of(self.log.directory.messages, "ask", messages.EndRequest)
        return [name for name, request in requests if request.table in self.tables]

    def send_end(self, name: str, end: Position) -> None:
        """Reply to a request with the server's end and the log's last entry."""
        store, last = self.log.directory.messages, self.log.entries[-1]
        store.remove(f"ask/{name}")
        reply = messages.EndReply(end, self.log.id, last.entry, last.to, self.retention.epoch.number)
        messages.send(store, f"answer/{name}", reply)

    def report(self, received_to: Position, needed: Position, *, last: bool = False) -> None:
        """Report the progress to the host, and send the progress of initial snapshots if it changed.

        All changes up to `received_to` are in the log; sinks still need those after `needed`.
        """
        snapshots = self.scheduler.snapshots
        progress = snapshots.rate.progress_by_table(snapshots.generations.values())
        if progress != self._snapshots:
            messages.send(self.log.directory.messages, "snapshots", messages.Snapshots(progress))
            self._snapshots = progress
        running = sorted({generation.table for generation in snapshots.unfinished()})
        server_keeps = self.retention.options.keep == "server" and not last
        retained = self.retention.retained_bytes if server_keeps else None
        details: dict[str, Any] = {
            "confirmed_to": self.retention.confirmed,
            "sinks_to": needed,
            "kept_by": self.retention.kept_by,
            **self.metrics.now(self.retention.positions, received_to, retained, last=last),
        }
        if running:
            details["snapshots"] = {self._name(table): as_progress(progress[table]) for table in running}
        errors = self._table_errors()
        if errors:
            details["unread"] = {self._name(table): f"{error.code}: {error.message}" for table, error in errors.items()}
        log_error = self.retention.quota.error
        error = log_error or next(iter(errors.values()), None)
        status: Status = "stalled" if log_error is not None else "snapshotting" if running else "running"
        self.host.report(CaptureProgress(status, error, details, last=last))

    def _table_errors(self) -> dict[str, SinkqlError]:
        unreadable = sorted(self.scheduler.snapshots.unreadable.items())
        return {table: state.error for table, state in unreadable if state.is_reportable}

    def _name(self, table: str) -> str:
        return ".".join(self.tables[table].name)
