"""Capture one server over one stream: receive, publish, read chunks and confirm, until a stop or an error."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress

from sinkql.capture import messages
from sinkql.capture.buffer import Receiver
from sinkql.capture.control import CaptureIntervals, SubscribedSink
from sinkql.capture.log import LogWriter, SnapshotGeneration
from sinkql.capture.log_store import FencedLogError, LostLogError
from sinkql.capture.metrics import CaptureMetrics
from sinkql.capture.publisher import Publisher
from sinkql.capture.recovery import Recovery, drain
from sinkql.capture.reporter import CaptureReporter
from sinkql.capture.retention import Retention, SinkRegistry, check_log_identity
from sinkql.capture.snapshot import SnapshotScheduler, TableSnapshotReader
from sinkql.connector_api.cdc import CapturedTable, Event, LogRetention, Position, SchemaChanged, Stream
from sinkql.errors import SinkqlError
from sinkql.machine import clock
from sinkql.storage import failpoint

_LEAST_SECONDS = 0.001


class CaptureSession:
    """One connection's life, from the recovery of the log to the last status.

    The capture's thread creates it, calls `begin`, then `run`. The session owns the order of the steps, and each part
    owns its state. `tables` are the captured tables that sinks of the catalog read, by id. After the first round of
    all steps the session `has_settled`.
    """

    def __init__(
        self,
        log: LogWriter,
        stream: Stream,
        *,
        options: LogRetention,
        intervals: CaptureIntervals,
        registry: SinkRegistry,
        sinks: Sequence[SubscribedSink],
        epoch: messages.CaptureEpoch,
    ) -> None:
        self.log = log
        self.stream = stream
        self.intervals = intervals
        self.registry = registry
        self.tables: Mapping[str, CapturedTable] = {sink.table.id: sink.table for sink in sinks}
        self.retention = Retention(log, stream, options, intervals, sinks, epoch)
        self.snapshots = TableSnapshotReader(log, stream, self.tables, intervals)
        self.scheduler = SnapshotScheduler(log, stream, self.tables, self.retention, self.snapshots)
        self.recovery = Recovery(log, stream, self.tables, self.retention, self.snapshots)
        self.receiver = Receiver(log, intervals, self.publish)
        self.publisher = Publisher(log, stream, intervals, self.tables, self.receiver, self.snapshots)
        metrics = CaptureMetrics(log, stream)
        self.reporter = CaptureReporter(log, registry.host, self.tables, self.retention, self.scheduler, metrics)
        self.has_settled = False
        self._checked_at = 0.0
        self._confirmed_at = 0.0

    # --- the beginning -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Check the server, fence older captures, and start to receive at the log's end.

        Raises LostLogError if files are missing that sinks need, SinkqlError if the server lacks the next changes.
        """
        store = self.log.directory.messages
        self.retention.read_positions()
        self.stream.check()
        check_log_identity(self.log, messages.status(store), self.stream)
        start = self.recovery.begin()
        self.receiver.stops = [position for position in self.retention.positions.sorted_positions() if position > start]
        if not self.recovery.is_opened():
            self.recovery.open_log(start)
        self.log.sweep()
        self.receiver.reset(start)
        self.publisher.begin(start)
        self._confirmed_at = clock.monotonic()
        status = messages.status(store)
        self.retention.confirmed = min(status.confirmed, start) if status is not None else ""
        self.recovery.begin_stream(start, self.receiver.stops)

    # --- the loop ----------------------------------------------------------------------------------------------------

    def run(self, stopping: threading.Event) -> None:
        """Capture until `stopping` is set, or until sinks read other tables."""
        try:
            while not stopping.is_set():
                if clock.monotonic() >= self._checked_at + self.intervals.look_seconds and not self.check_sinks():
                    break
                self.step()
            self._report_last()
            if not self.retention.quota.is_full:
                with suppress(SinkqlError):
                    drain(self.log, self.stream, self.receive, self.publish)
        finally:
            self.snapshots.close()

    def step(self) -> None:
        """Execute all steps that are due, and wait briefly for changes."""
        if self._is_full():
            clock.sleep(self.intervals.receive_seconds)
        else:
            for event in self.stream.receive(self._receive_seconds()):
                self.receive(event)
        if self.snapshots.is_holding:
            if self.add_chunks():
                self.reporter.send_status()
        elif self.publisher.is_due(self.retention.sinks):
            self.publish()
        if not self.snapshots.is_holding:
            self.read_chunks()
        self._answer_end_requests()
        is_due = clock.monotonic() >= self._confirmed_at + self.intervals.confirm_seconds
        if is_due or self.publisher.unconfirmed_bytes >= self.intervals.confirm_bytes:
            self.confirm()

    def _receive_seconds(self) -> float:
        """Return how long to collect changes: at most until the next entry is due, and no longer than an entry does."""
        sinks = self.retention.sinks
        longest = min(self.intervals.receive_seconds, self.intervals.entry_after(sinks))
        if self.snapshots.is_holding:  # nothing is published now
            return longest
        return min(longest, max(_LEAST_SECONDS, self.publisher.seconds_left(sinks)))

    def _is_full(self) -> bool:
        is_waiting = self.snapshots.is_holding and not self.snapshots.doubts
        return self.receiver.is_full(holding=is_waiting, log_full=self.retention.quota.is_full)

    def receive(self, event: Event) -> None:
        """Buffer an event. A changed schema first ends the entry."""
        if isinstance(event, SchemaChanged):
            self.snapshots.abandon()
            self.publish()
            self.scheduler.change_schema(event)
        else:
            self.receiver.add(event, can_spill=not self.snapshots.is_holding)

    def publish(self) -> None:
        """Write the received changes to the log as its next entry, and send the status.

        Changes that end inside a transaction wait for the rest of it.
        """
        if self.publisher.publish():
            self.reporter.send_status()

    def add_chunks(self) -> bool:
        """Add the chunks to the log once all are read; return whether any was added or failed."""
        return self.snapshots.add_chunks(self.receiver.buffer)

    def read_chunks(self) -> None:
        """Begin the requested generations, and start to read the next chunks of unfinished ones."""
        self.recovery.resume()
        self.scheduler.begin_generations()
        if self.reporter.has_unanswered_requests():
            self.reporter.send_status()
        if not self.snapshots.unfinished() or self.retention.quota.is_full:
            return
        self.publish()
        if self.receiver.has_stops():
            return
        self.snapshots.start(self.scheduler.is_ready, [id_ for _, id_ in self.publisher.unseen])

    # --- the sinks ---------------------------------------------------------------------------------------------------

    def check_sinks(self) -> bool:
        """Renew the lease and read the sinks' messages; return whether the session may continue.

        It ends when sinks read other tables, or when no entry will end at a sink that read another log. Raises
        FencedLogError if another process has the lease, LostLogError if a data file is damaged.
        """
        self._checked_at = clock.monotonic()
        try:
            if not self.registry.host.renew():
                raise FencedLogError
            self.retention.sinks = self.registry.current()
        except SinkqlError:
            return True  # the catalog is read again later
        if {sink.table.id: sink.table for sink in self.retention.sinks} != self.tables:
            return False
        self._check_damage()
        self.scheduler.retry_unreadable()
        self.retention.read_positions()
        return self.recovery.is_aligned_with_sinks(self.receiver.stops)

    def _check_damage(self) -> None:
        """Raise LostLogError for a reported file of this log; delete the report of an older log."""
        store = self.log.directory.messages
        report = messages.receive(store, "damaged", messages.DamagedFileReport)
        if report is not None and report.log == self.log.id:
            raise LostLogError(report.file)
        if report is not None:
            store.remove("damaged")

    def _answer_end_requests(self) -> None:
        """Answer requests for the server's end. The log then advances to it without waiting."""
        requests = self.reporter.end_requests()
        if requests and self.recovery.pushed:  # a sink sends its position before it asks
            self.retention.read_positions()
            self.recovery.check_pushed()
        for name in requests:
            end = self.stream.end()
            self.publisher.requested_end = max(self.publisher.requested_end, end)
            self.reporter.send_end(name, end)

    # --- retention ---------------------------------------------------------------------------------------------------

    def confirm(self) -> None:
        """Delete changes that no sink needs from the server and the log, and report the progress."""
        retention = self.retention
        self._confirmed_at, self.publisher.unconfirmed_bytes = clock.monotonic(), 0
        retention.read_positions()
        self.publisher.update_visible()
        if retention.choose_keeper(self._generations) and not self.snapshots.is_holding:
            self.recovery.open_log()
        generations = self._generations
        needed = retention.needed_to(generations)
        if retention.advance(needed, self.publisher.visible):
            self.reporter.send_status()  # before the server deletes anything
        retention.confirm()
        self._delete_entries(needed, generations)
        has_quota_news = retention.quota.measure(retention.positions, retention.sinks)
        self.reporter.report(self.receiver.caught_up_to, needed)
        if self.snapshots.unreadable or has_quota_news:
            self.reporter.send_status()  # repeated as long as the error lasts
        if not self.has_settled:
            self.reporter.send_status()  # clears the error that ended the session before
            self.log.directory.messages.remove("skip")  # no loss is left to accept
            self.has_settled = True

    @property
    def _generations(self) -> list[SnapshotGeneration]:
        return list(self.snapshots.generations.values())

    def _delete_entries(self, needed: Position, generations: Sequence[SnapshotGeneration]) -> None:
        """Delete the first entries that no sink needs.

        If the last `open` entry is among them, another one is added before.
        """
        count = self.retention.removable_count(needed, generations)
        if not count or self.snapshots.is_holding:
            return
        opened = max(index for index, entry in enumerate(self.log.entries) if entry.kind == "open")
        if opened < count:
            self.recovery.open_log()
        failpoint.point("forget")
        self.log.delete_first(count)
        self.reporter.send_status()

    def _report_last(self) -> None:
        """Report the sinks' positions at the end."""
        with suppress(SinkqlError):
            self.retention.read_positions()
            needed = self.retention.needed_to(self._generations)
            self.reporter.report(self.receiver.caught_up_to, needed, last=True)
