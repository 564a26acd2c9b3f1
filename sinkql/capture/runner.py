"""A source → its capture, for as long as the process is to run: lease, sessions, again after what may pass."""

from __future__ import annotations

import threading
import time
import uuid
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
from sinkql.storage import failpoint


@dataclass(slots=True)
class CaptureRunner:
    """Run the capture of one source in the calling thread. `open_stream` connects anew each time."""

    folder: LogDirectory
    open_stream: Callable[[], Stream]
    keeping: LogRetention
    host: CaptureHost
    pace: CaptureIntervals = field(default_factory=CaptureIntervals)
    stopping: threading.Event = field(default_factory=threading.Event)
    _epoch: int | None = None
    _failures: int = 0
    _roll: SinkRegistry | None = None
    _tried: float = 0.0
    _failing: float = 0.0

    def run(self) -> None:
        """Capture until `stopping`; while another process has the lease, wait for it."""
        try:
            while not self.stopping.is_set():
                if not self._leased():
                    self.stopping.wait(self.pace.look_seconds)
                    continue
                try:
                    self._tried = time.time()
                    self._session()
                    self._failures = 0
                except FencedLogError:
                    self._epoch = None  # whoever went on has the lease
                    self.stopping.wait(self.pace.look_seconds)
                except LostLogError as error:
                    self._lose(str(error))
                except SinkqlError as error:
                    self._wait(error)
                except Exception as error:
                    detail = f"{type(error).__name__}: {error}"
                    self._wait(SinkqlError("SQ3437", "the capture of the source failed", detail=detail))
        finally:
            if self._epoch is not None:
                with suppress(SinkqlError):
                    self.folder.store.release()
                with suppress(SinkqlError):
                    self.host.release()

    def _leased(self) -> bool:
        """Tell whether this process has the lease, having asked for it."""
        if self._epoch is None:
            with suppress(SinkqlError):
                self._epoch = self.host.acquire()
        return self._epoch is not None

    def _known(self) -> SinkRegistry:
        if self._roll is None:
            self._roll = SinkRegistry(self.host, self.folder.notes, self.pace.look_seconds)
        return self._roll

    def _session(self) -> None:
        clients = self._known().prune()
        tables = {each.table.id: each.table for each in clients}
        if not tables:
            self.stopping.wait(self.pace.look_seconds)
            return
        try:
            log, era = self._open(clients)
        except ValueError:
            # whoever had the lease before may be forgetting entries as they are read
            self.stopping.wait(self.pace.look_seconds)
            try:
                log, era = self._open(clients)
            except ValueError as error:
                raise LostLogError(str(error)) from error
        self._check_lease()
        stream = self.open_stream()
        session = CaptureSession(log, stream, self.host, self.keeping, self.pace, self._known(), clients, tables, era)
        try:
            session.begin()
            session.run(self.stopping)
        finally:
            if session.settled:
                self._failures = 0
            stream.close()

    def _open(self, clients: Sequence[SubscribedSink]) -> tuple[LogWriter, messages.CaptureEpoch]:
        """Read the log; raises ValueError, that of a decoder too, where it is damaged."""
        assert self._epoch is not None
        era = latest_epoch(self.folder.notes, clients)
        return LogWriter.open(self.folder, self._epoch, new_id=uuid.uuid4().hex, era=era.number), era

    def _check_lease(self) -> None:
        """Raise FencedLogError where another took over: of what it has put since, nothing is known here."""
        with suppress(SinkqlError):
            if not self.host.renew():
                raise FencedLogError

    def _lose(self, why: str) -> None:
        """Begin the log again; where it alone has what sinks need, that cannot be."""
        try:
            clients = self._known().prune()
            era = latest_epoch(self.folder.notes, clients)
            needed = SinkPositions.read(self.folder.notes, clients, era).positions()
            kept = "log" in (self.keeping.keep, _kept(self.folder))
            if needed and kept and not self._follows(needed[0]):
                raise LostChangesError(
                    "SQ3436",
                    "the log of the source is damaged, and the server no longer has what it had",
                    detail=why,
                    hint=SKIP,
                )
            self._check_lease()
            discard(self.folder)
        except FencedLogError:
            self._epoch = None
        except SinkqlError as error:
            self._wait(error)

    def _follows(self, position: Position) -> bool:
        """Tell whether the server still has what follows a position."""
        stream = self.open_stream()
        try:
            return stream.follows(position)
        finally:
            stream.close()

    def _wait(self, error: SinkqlError) -> None:
        """Tell of an error, and wait before the next try, longer each time."""
        if self._skip(error):
            return
        self._failures += 1
        if self._failures == 1:
            self._failing = self._tried
        wait = self.pace.wait(self._failures)
        told = self._failures >= PATIENT_TRIES or not error.retryable
        if told:
            with suppress(SinkqlError):
                self.host.report(CaptureProgress("stalled", error))
        until = time.monotonic() + wait
        while not self.stopping.is_set():
            with suppress(SinkqlError):
                if not self.host.renew():
                    self._epoch = None
                    return
            left = until - time.monotonic()
            with suppress(SinkqlError):
                if told:
                    self._say(error)
                if messages.retry_requested(self.folder.notes, self._tried):
                    return
            if left <= 0 or self._skip(error):
                return
            self.stopping.wait(min(left, self.pace.look_seconds))

    def _skip(self, error: SinkqlError) -> bool:
        """Go on without what was lost, where a user has accepted that; tell whether that is so.

        What is done first is what makes all that sinks and the log have one of an earlier era.
        """
        notes = self.folder.notes
        try:
            accepted = messages.receive(notes, "skip", messages.LossAcceptance)
            if accepted is None or not accepted.accepts(error):
                return False
            self._check_lease()
            if not isinstance(error, LostChangesError) and self._pass(error):
                return True
            era = latest_epoch(notes, self.host.clients())
            end = error.pushed if isinstance(error, LostChangesError) else ""
            messages.begin_epoch(
                notes, messages.CaptureEpoch(era.number + 1, why=f"{error.code}: {error.message}", end=end)
            )
            failpoint.point("era")
            discard(self.folder)
            notes.remove("word")
            with closing(self.open_stream()) as stream:
                stream.renew()
        except (SinkqlError, FencedLogError):
            return False  # it is tried again
        failpoint.point("renewed")
        self._skipped()
        return True

    def _pass(self, error: SinkqlError) -> bool:
        """Go on after what the log has, without what else was pushed; False where there is no such log, nor stream."""
        with closing(self.open_stream()) as stream:
            if not isinstance(stream, PushStream):
                return False
            try:
                log, _ = self._open(self.host.clients())
            except (ValueError, DamagedEntryError):
                return False
            if not log.entries:
                return False
            stream.renew()
            to = stream.follow(log.to, None)
        log.add("gap", to=to, at=time.time(), problem=f"{error.code}: {error.message}")
        self._skipped()
        return True

    def _skipped(self) -> None:
        with suppress(SinkqlError):  # the session does it, too
            self.folder.notes.remove("skip")
        self._failures = 0

    def _say(self, error: SinkqlError) -> None:
        """Say what the capture cannot get over; where sinks may join is as it was."""
        said = messages.status(self.folder.notes) or messages.CaptureStatus(self._epoch or 0, 0.0)
        trouble = messages.CaptureError(as_data(error), self._tried, self._failing)
        now = msgspec.structs.replace(said, at=time.time(), where=self.folder.where, trouble=trouble)
        messages.send(self.folder.notes, "word", now)


def _kept(folder: LogDirectory) -> str:
    """Return what a damaged log says of who keeps changes, as far as it can be read."""
    for number in reversed(folder.numbers()):
        try:
            entry = folder.entry(number)
        except DamagedEntryError:
            continue
        if entry is not None and entry.kind == "open":
            return entry.kept
    return ""


def discard(folder: LogDirectory) -> None:
    """Delete a log; what sinks say of themselves stays."""
    folder.store.discard()
    folder.notes.remove("damaged")
