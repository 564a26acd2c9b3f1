"""The sources that running sinks read → a process each that captures it.

A process beside all that run sinks forks them, and forks them again where they die: it has no threads and no Spark, so
that it may do so at any time.

Which sources are to be captured, and for whom: asked of whoever keeps the catalog.

Sources of a kind that one process captures → a thread each, which share what their connector gives.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.context import ForkProcess
from typing import Protocol

from sinkql.allocator import keep_freed
from sinkql.capture.control import CaptureHost
from sinkql.capture.log import LogDirectory
from sinkql.capture.runner import CaptureRunner
from sinkql.connector_api.cdc import CapturedSource, LogFiles, LogRetention, OpenStream, Stream
from sinkql.errors import SinkqlError
from sinkql.runtime.process.signals import become_child, hold_signals


@dataclass(frozen=True, slots=True)
class CaptureAssignment:
    """A source that is to be captured, and how its log is kept; `together` with others of its kind, by one process.

    `secrets` are the versions of those that the source itself takes: with another one its capture begins again.
    """

    source: CapturedSource
    keeping: LogRetention
    together: bool = False
    secrets: tuple[tuple[str, int], ...] = ()


class CaptureDirectory(Protocol):
    """Say what is to be captured. Methods raise SinkqlError where the catalog cannot be read."""

    def captures(self) -> Sequence[CaptureAssignment]:
        """Return the sources that sinks read which are to run."""

    def folder(self, capturing: CaptureAssignment) -> LogDirectory:
        """Return where what is kept of a source lies."""

    def host(self, source: CapturedSource) -> CaptureHost:
        """Return what a capture of it is told by, and tells."""

    def opening(
        self, source: CapturedSource, notes: LogFiles, open_stream: OpenStream | None = None
    ) -> Callable[[], Stream]:
        """Return what connects to its server, by what opens streams where that is given."""

    def together(self, kind: str) -> AbstractContextManager[OpenStream]:
        """Return what opens the streams of sources that one process captures."""


_LOOK_SECONDS = 0.3
_PATIENCE_SECONDS = 10.0
_LONGEST_WAIT = 60.0


@dataclass(slots=True)
class CaptureProcesses:
    """Have sources captured once there are any; `end` ends that. `lost` once nobody captures them any more.

    With `ahead` whoever captures them begins before there are any.
    """

    desk: CaptureDirectory | None
    ahead: bool = False
    lost: bool = False
    _keeper: ForkProcess | None = None
    _looked_at: float = -_LOOK_SECONDS

    def look(self) -> None:
        """Begin, if there is a source to capture by now, or again; the process must have no Spark yet."""
        now = time.monotonic()
        if self.desk is None or now < self._looked_at + _LOOK_SECONDS:
            return
        if self._keeper is not None and self._keeper.is_alive():
            return
        self._looked_at = now
        with suppress(SinkqlError):  # as below
            if self.ahead or self.desk.captures():
                self._keeper = _forked(_keep, self.desk)

    @contextmanager
    def watched(self, stop: Callable[[], None]) -> Iterator[None]:
        """Stop a block whose sinks would wait for ever, as it may have Spark, and begins no process again."""
        ended = threading.Event()
        watching = threading.Thread(target=self._watch, args=(ended, stop), daemon=True)
        watching.start()
        try:
            yield
        finally:
            ended.set()
            watching.join()

    def _watch(self, ended: threading.Event, stop: Callable[[], None]) -> None:
        while self._keeper is not None and not ended.wait(_LOOK_SECONDS):
            if not self._keeper.is_alive() and self._needed():
                self.lost = True
                stop()
                return

    def _needed(self) -> bool:
        with suppress(SinkqlError):  # it is asked again
            return self.desk is not None and bool(self.desk.captures())
        return False

    def end(self) -> None:
        """End all captures."""
        if self._keeper is not None:
            _end(self._keeper)


@contextmanager
def captures_running(desk: CaptureDirectory | None, *, ahead: bool = False) -> Iterator[CaptureProcesses]:
    """Have sources captured for as long as a block lasts; nothing where there is none that needs it.

    With `ahead` also those that sinks read later, where the block has Spark and can begin no process then.
    """
    captures = CaptureProcesses(desk, ahead)
    captures.look()
    try:
        yield captures
    finally:
        captures.end()


def _forked(target: Callable[..., None], *arguments: object) -> ForkProcess:
    with hold_signals() as kept:
        process = multiprocessing.get_context("fork").Process(
            target=_begin, args=(target, os.getpid(), kept, *arguments), daemon=False
        )
        process.start()
    return process


def _begin(target: Callable[..., None], parent: int, kept: set[signal.Signals], *arguments: object) -> None:
    keep_freed()
    target(become_child(parent, kept), *arguments)


def _end(process: ForkProcess) -> None:
    process.terminate()
    process.join(_PATIENCE_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()


@dataclass(slots=True)
class _Kept:
    """A process that captures a source, or all of a kind; `deaths` are those of processes before it."""

    capturing: CaptureAssignment | None
    process: ForkProcess
    deaths: int
    since: float


def _keep(stopping: threading.Event, desk: CaptureDirectory) -> None:
    """Keep a process for each source that is to be captured, until it is to stop."""
    running: dict[str, _Kept] = {}
    said = ""
    try:
        while not stopping.is_set():
            try:
                _look(running, desk)
            except SinkqlError:
                pass  # a catalog that cannot be read now is asked again
            except Exception as error:  # nor does any other failure end what runs
                said = _told(error, said)
            stopping.wait(_LOOK_SECONDS)
    finally:
        for kept in running.values():
            kept.process.terminate()
        for kept in running.values():
            _end(kept.process)


def _told(error: Exception, said: str) -> str:
    """Print an error, unless it is the one that was said last; return what was said last by now."""
    text = "".join(traceback.format_exception(error))
    if text != said:
        with suppress(OSError):
            print(text, file=sys.stderr, end="", flush=True)
    return text


def _look(running: dict[str, _Kept], desk: CaptureDirectory) -> None:
    captures = desk.captures()
    wanted: dict[str, CaptureAssignment | None] = {each.source.id: each for each in captures if not each.together}
    wanted |= dict.fromkeys(each.source.kind for each in captures if each.together)
    for id_, kept in list(running.items()):
        if id_ not in wanted or wanted[id_] != kept.capturing:
            _end(kept.process)
            del running[id_]
    for id_, capturing in wanted.items():
        before = running.get(id_)
        if before is not None and (before.process.is_alive() or time.monotonic() < _again_at(before)):
            continue
        deaths = _deaths(before) if before is not None else 0
        process = _forked(_capture, desk, capturing) if capturing is not None else _forked(capture_all, desk, id_)
        running[id_] = _Kept(capturing, process, deaths, time.monotonic())


def _again_at(kept: _Kept) -> float:
    return kept.since + _wait(kept)


def _wait(kept: _Kept) -> float:
    return min(_LONGEST_WAIT, 2.0**kept.deaths)


def _deaths(kept: _Kept) -> int:
    """Return how many processes have died one soon after the other, with this one; one that lived on begins anew."""
    return 1 if time.monotonic() > kept.since + 2 * _wait(kept) else kept.deaths + 1


def _capture(stopping: threading.Event, desk: CaptureDirectory, capturing: CaptureAssignment) -> None:
    source = capturing.source
    folder = desk.folder(capturing)
    opening = desk.opening(source, folder.store)
    CaptureRunner(folder, opening, capturing.keeping, desk.host(source), stopping=stopping).run()


@dataclass(frozen=True, slots=True)
class _Running:
    capturing: CaptureAssignment
    stopping: threading.Event
    thread: threading.Thread

    def end(self) -> None:
        self.stopping.set()
        self.thread.join()


def capture_all(stopping: threading.Event, desk: CaptureDirectory, kind: str) -> None:
    """Capture all sources of a kind that are to be, as they come and go, until it is to stop."""
    running: dict[str, _Running] = {}
    with desk.together(kind) as open_stream:
        try:
            while not stopping.is_set():
                with suppress(SinkqlError):  # a catalog that cannot be read now is asked again
                    _together_look(running, desk, kind, open_stream)
                stopping.wait(_LOOK_SECONDS)
        finally:
            for each in running.values():
                each.stopping.set()
            for each in running.values():
                each.thread.join()


def _together_look(running: dict[str, _Running], desk: CaptureDirectory, kind: str, open_stream: OpenStream) -> None:
    wanted = {each.source.id: each for each in desk.captures() if each.source.kind == kind}
    for id_, each in list(running.items()):
        if wanted.get(id_) != each.capturing:
            each.end()
            del running[id_]
    for id_, capturing in wanted.items():
        if id_ not in running or not running[id_].thread.is_alive():
            running[id_] = _begun(desk, capturing, open_stream)


def _begun(desk: CaptureDirectory, capturing: CaptureAssignment, open_stream: OpenStream) -> _Running:
    source, stopping = capturing.source, threading.Event()
    folder = desk.folder(capturing)
    opening = desk.opening(source, folder.store, open_stream)
    capture = CaptureRunner(folder, opening, capturing.keeping, desk.host(source), stopping=stopping)
    thread = threading.Thread(target=capture.run, name=f"capture {source.id}")
    thread.start()
    return _Running(capturing, stopping, thread)
