"""A source → its capture, for as long as the process is to run: lease, sessions, again after what may pass."""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from sinkql.capture import mark
from sinkql.capture.confirm import Marks
from sinkql.capture.host import Doing, Host, Pace
from sinkql.capture.log import FencedLogError, Log, LogFolder
from sinkql.capture.session import LostLogError, Session
from sinkql.errors import SinkqlError, as_data
from sinkql.extension.capture import Keeping, Stream

_PATIENT_TRIES = 2
"""Connections that break now and then are nobody's concern before the second try failed."""


@dataclass(slots=True)
class Capture:
    """Run the capture of one source in the calling thread. `open_stream` connects anew each time."""

    folder: LogFolder
    open_stream: Callable[[], Stream]
    keeping: Keeping
    host: Host
    pace: Pace = field(default_factory=Pace)
    stopping: threading.Event = field(default_factory=threading.Event)
    _epoch: int | None = None
    _failures: int = 0

    def run(self) -> None:
        """Capture until `stopping`; while another process has the lease, wait for it."""
        try:
            while not self.stopping.is_set():
                if not self._leased():
                    self.stopping.wait(self.pace.look_seconds)
                    continue
                try:
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
                    self.host.release()

    def _leased(self) -> bool:
        """Tell whether this process has the lease, having asked for it."""
        if self._epoch is None:
            with suppress(SinkqlError):
                self._epoch = self.host.acquire()
        return self._epoch is not None

    def _session(self) -> None:
        clients = self.host.clients()
        tables = {each.table.id: each.table for each in clients}
        if not tables:
            self.stopping.wait(self.pace.look_seconds)
            return
        assert self._epoch is not None
        try:
            log = Log.open(self.folder, self._epoch, new_id=uuid.uuid4().hex)
        except ValueError as error:  # that of a decoder too
            raise LostLogError(str(error)) from error
        stream = self.open_stream()
        session = Session(log, stream, self.host, self.keeping, self.pace, clients, tables)
        try:
            session.begin()
            session.run(self.stopping)
        finally:
            if session.settled:
                self._failures = 0
            stream.close()

    def _lose(self, why: str) -> None:
        """Begin the log again; where it alone has what sinks need, that cannot be."""
        try:
            needed = Marks.read(self.folder.folder, self.host.clients()).positions()
        except SinkqlError as error:
            self._wait(error)
            return
        if needed and "log" in (self.keeping.keep, _kept(self.folder)):
            self._wait(
                SinkqlError(
                    "SQ3436",
                    "the log of the source is damaged, and the server no longer has what it had",
                    detail=why,
                    hint="Drop the source's sinks and create them again, into new tables.",
                )
            )
            return
        discard(self.folder)

    def _wait(self, error: SinkqlError) -> None:
        """Tell of an error, and wait before the next try, longer each time."""
        self._failures += 1
        wait = min(self.pace.longest_wait, self.pace.first_wait * 2 ** min(self._failures - 1, 10))
        told = self._failures >= _PATIENT_TRIES or not error.retryable
        if told:
            with suppress(SinkqlError):
                self.host.tell(Doing("stalled", error))
        until = time.monotonic() + wait
        while not self.stopping.is_set():
            if told:
                self._say(error)
            left = until - time.monotonic()
            if left <= 0:
                return
            self.stopping.wait(min(left, self.pace.look_seconds))
            with suppress(SinkqlError):
                if not self.host.renew():
                    self._epoch = None
                    return

    def _say(self, error: SinkqlError) -> None:
        """Say what the capture cannot get over; where sinks may join is as it was."""
        said = mark.word(self.folder.folder) or mark.Word(self._epoch or 0, 0.0)
        mark.tell(self.folder.folder, msgspec.structs.replace(said, at=time.time(), error=as_data(error)))


def _kept(folder: LogFolder) -> str:
    """Return what a damaged log says of who keeps changes, as far as it can be read."""
    for number in reversed(folder.numbers()):
        try:
            entry = folder.entry(number)
        except ValueError:
            continue
        if entry is not None and entry.kind == "open":
            return entry.kept
    return ""


def discard(folder: LogFolder) -> None:
    """Delete a log; what sinks say of themselves stays."""
    lost = folder.folder / "lost"
    shutil.rmtree(lost, ignore_errors=True)
    with suppress(FileNotFoundError):
        (folder.folder / "log").rename(lost)  # all at once: some of its entries might look like a log
    (folder.folder / "damaged.json").unlink(missing_ok=True)
    shutil.rmtree(folder.data, ignore_errors=True)
    shutil.rmtree(lost, ignore_errors=True)
