"""Run the capture of one source for the life of the process: the lease, sessions, and retries after errors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field

import msgspec

from sinkql.capture import messages
from sinkql.capture.control import PATIENT_TRIES, CaptureHost, CaptureIntervals, CaptureProgress, SubscribedSink
from sinkql.capture.log import LogDirectory, LogWriter
from sinkql.capture.log_store import DamagedEntryError, FencedLogError, LostLogError
from sinkql.capture.retention import SinkPositions, SinkRegistry, latest_epoch
from sinkql.capture.session import CaptureSession
from sinkql.connector_api.cdc import SKIP, LogRetention, Position, PushStream, Stream
from sinkql.errors import LostChangesError, SinkqlError, as_data
from sinkql.machine import clock
from sinkql.machine.randomness import new_id
from sinkql.storage import failpoint


@dataclass(slots=True)
class CaptureRunner:
    """The capture of one source in the calling thread. `open_stream` opens a new connection on each attempt."""

    directory: LogDirectory
    open_stream: Callable[[], Stream]
    options: LogRetention
    host: CaptureHost
    intervals: CaptureIntervals = field(default_factory=CaptureIntervals)
    stopping: threading.Event = field(default_factory=threading.Event)
    _epoch: int | None = None
    _failures: int = 0
    _registry: SinkRegistry | None = None
    _tried: float = 0.0
    _failing: float = 0.0

    def run(self) -> None:
        """Capture until `stopping` is set. While another process has the lease, wait for it."""
        try:
            while not self.stopping.is_set():
                if not self._acquire():
                    clock.wait(self.stopping, self.intervals.look_seconds)
                    continue
                try:
                    self._tried = clock.time()
                    self._run_session()
                    self._failures = 0
                except FencedLogError:
                    self._epoch = None  # another process continued the log and has the lease
                    clock.wait(self.stopping, self.intervals.look_seconds)
                except LostLogError as error:
                    self._discard_lost_log(str(error))
                except SinkqlError as error:
                    self._wait(error)
                except Exception as error:
                    detail = f"{type(error).__name__}: {error}"
                    self._wait(SinkqlError("SQ3437", "the capture of the source failed", detail=detail))
        finally:
            if self._epoch is not None:
                with suppress(SinkqlError):
                    self.directory.store.release()
                with suppress(SinkqlError):
                    self.host.release()

    def _acquire(self) -> bool:
        """Request the lease if necessary; return whether this process has it."""
        if self._epoch is None:
            with suppress(SinkqlError):
                self._epoch = self.host.acquire()
        return self._epoch is not None

    @property
    def _sinks(self) -> SinkRegistry:
        if self._registry is None:
            self._registry = SinkRegistry(self.host, self.directory.messages, self.intervals.look_seconds)
        return self._registry

    def _run_session(self) -> None:
        """Open the log and the stream, and capture until the session ends or fails."""
        sinks = self._sinks.prune()
        if not sinks:
            clock.wait(self.stopping, self.intervals.look_seconds)
            return
        try:
            log, epoch = self._open_log(sinks)
        except ValueError:
            # the previous lease holder may still be deleting entries
            clock.wait(self.stopping, self.intervals.look_seconds)
            try:
                log, epoch = self._open_log(sinks)
            except ValueError as error:
                raise LostLogError(str(error)) from error
        self._check_lease()
        stream = self.open_stream()
        session = CaptureSession(
            log,
            stream,
            options=self.options,
            intervals=self.intervals,
            registry=self._sinks,
            sinks=sinks,
            epoch=epoch,
        )
        try:
            session.begin()
            session.run(self.stopping)
        finally:
            if session.has_settled:
                self._failures = 0
            stream.close()

    def _open_log(self, sinks: Sequence[SubscribedSink]) -> tuple[LogWriter, messages.CaptureEpoch]:
        """Read the log and its capture epoch. Raises ValueError if the log is damaged."""
        assert self._epoch is not None
        epoch = latest_epoch(self.directory.messages, sinks)
        log = LogWriter.open(self.directory, self._epoch, new_id=new_id(), capture_epoch=epoch.number)
        return log, epoch

    def _check_lease(self) -> None:
        """Raise FencedLogError if another process has the lease and may have changed the log."""
        with suppress(SinkqlError):
            if not self.host.renew():
                raise FencedLogError

    def _discard_lost_log(self, reason: str) -> None:
        """Delete a lost log, unless it alone has changes that sinks need: then wait with SQ3436."""
        try:
            sinks = self._sinks.prune()
            epoch = latest_epoch(self.directory.messages, sinks)
            needed = SinkPositions.read(self.directory.messages, sinks, epoch).sorted_positions()
            log_keeps = "log" in (self.options.keep, _last_keeper(self.directory))
            if needed and log_keeps and not self._server_follows(needed[0]):
                raise LostChangesError(
                    "SQ3436",
                    "the log of the source is damaged and the server no longer has its changes",
                    detail=reason,
                    hint=SKIP,
                )
            self._check_lease()
            discard(self.directory)
        except FencedLogError:
            self._epoch = None
        except SinkqlError as error:
            self._wait(error)

    def _server_follows(self, position: Position) -> bool:
        """Return whether the server still has the changes after a position."""
        stream = self.open_stream()
        try:
            return stream.follows(position)
        finally:
            stream.close()

    def _wait(self, error: SinkqlError) -> None:
        """Report an error and wait before the next attempt, longer after each failure."""
        if self._skip_loss(error):
            return
        self._failures += 1
        if self._failures == 1:
            self._failing = self._tried
        wait = self.intervals.wait(self._failures)
        is_reportable = self._failures >= PATIENT_TRIES or not error.retryable
        if is_reportable:
            with suppress(SinkqlError):
                self.host.report(CaptureProgress("stalled", error))
        until = clock.monotonic() + wait
        while not self.stopping.is_set():
            with suppress(SinkqlError):
                if not self.host.renew():
                    self._epoch = None
                    return
            left = until - clock.monotonic()
            with suppress(SinkqlError):
                if is_reportable:
                    self._send_trouble(error)
                if messages.retry_requested(self.directory.messages, self._tried):
                    return
            if left <= 0 or self._skip_loss(error):
                return
            clock.wait(self.stopping, min(left, self.intervals.look_seconds))

    def _skip_loss(self, error: SinkqlError) -> bool:
        """Continue without lost changes if a user accepted the loss; return whether it succeeded.

        The new capture epoch is stored first: from then on the positions of all sinks and of the log are of an earlier
        one.
        """
        store = self.directory.messages
        try:
            acceptance = messages.receive(store, "skip", messages.LossAcceptance)
            if acceptance is None or not acceptance.accepts(error):
                return False
            self._check_lease()
            if not isinstance(error, LostChangesError) and self._skip_pushed_rows(error):
                return True
            number = latest_epoch(store, self.host.subscribed_sinks()).number + 1
            end = error.pushed if isinstance(error, LostChangesError) else ""
            messages.begin_epoch(store, messages.CaptureEpoch(number, why=f"{error.code}: {error.message}", end=end))
            failpoint.point("era")
            discard(self.directory)
            store.remove("word")
            with closing(self.open_stream()) as stream:
                stream.renew()
        except (SinkqlError, FencedLogError):
            return False  # the next attempt repeats it
        failpoint.point("renewed")
        self._end_skip()
        return True

    def _skip_pushed_rows(self, error: SinkqlError) -> bool:
        """Continue after the log's end without later pushed rows; return whether it succeeded.

        Return False if no rows are pushed, or if there is no log.
        """
        with closing(self.open_stream()) as stream:
            if not isinstance(stream, PushStream):
                return False
            try:
                log, _ = self._open_log(self.host.subscribed_sinks())
            except (ValueError, DamagedEntryError):
                return False
            if not log.entries:
                return False
            stream.renew()
            to = stream.follow(log.to, None)
        log.add("gap", to=to, at=clock.time(), problem=f"{error.code}: {error.message}")
        self._end_skip()
        return True

    def _end_skip(self) -> None:
        with suppress(SinkqlError):  # the session removes it too
            self.directory.messages.remove("skip")
        self._failures = 0

    def _send_trouble(self, error: SinkqlError) -> None:
        """Send the error that stops the capture; the entries to join at stay as they were."""
        store = self.directory.messages
        last = messages.status(store) or messages.CaptureStatus(self._epoch or 0, 0.0)
        trouble = messages.CaptureError(as_data(error), self._tried, self._failing)
        status = msgspec.structs.replace(last, at=clock.time(), where=self.directory.location, trouble=trouble)
        messages.send(store, "word", status)


def _last_keeper(directory: LogDirectory) -> str:
    """Return the keeper in the last readable `open` entry of a damaged log, or an empty text."""
    for number in reversed(directory.numbers()):
        try:
            entry = directory.entry(number)
        except DamagedEntryError:
            continue
        if entry is not None and entry.kind == "open":
            return entry.kept
    return ""


def discard(directory: LogDirectory) -> None:
    """Delete a log; the sinks' messages stay."""
    directory.store.discard()
    directory.messages.remove("damaged")
