"""Run a capture process for each source that running sinks read.

A separate process, the keeper, forks the capture processes and restarts processes that die. It has no threads and no
Spark, so it can fork at any time. If one process captures all sources of a kind, each source has a thread there, and
the threads share what their connector provides. The capture directory knows which sources to capture.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
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
from sinkql.machine import clock
from sinkql.runtime.process.signals import become_child, hold_signals


@dataclass(frozen=True, slots=True)
class CaptureAssignment:
    """A source to capture, and the retention of its log; one process captures all `together` sources of a kind.

    `secrets` has the versions of the source's secrets: another version restarts the capture.
    """

    source: CapturedSource
    keeping: LogRetention
    together: bool = False
    secrets: tuple[tuple[str, int], ...] = ()


class CaptureDirectory(Protocol):
    """Returns the sources to capture. Methods raise SinkqlError if the catalog cannot be read."""

    def captures(self) -> Sequence[CaptureAssignment]:
        """Return the sources that the sinks of the workload read."""

    def folder(self, capturing: CaptureAssignment) -> LogDirectory:
        """Return the directory of a source's capture log."""

    def host(self, source: CapturedSource) -> CaptureHost:
        """Return the connection of a capture to the catalog."""

    def opening(
        self, source: CapturedSource, notes: LogFiles, open_stream: OpenStream | None = None
    ) -> Callable[[], Stream]:
        """Return the function that opens a stream from its server, by `open_stream` if given."""

    def together(self, kind: str) -> AbstractContextManager[OpenStream]:
        """Return the function that opens the streams of sources that one process captures."""


_LOOK_SECONDS = 0.3
_PATIENCE_SECONDS = 10.0
_LONGEST_WAIT = 60.0


@dataclass(slots=True)
class CaptureProcesses:
    """The keeper of the capture processes, which starts when a source must be captured; `end` stops it.

    With `ahead` it starts before that. `lost` if it ended and cannot be started again.
    """

    directory: CaptureDirectory | None
    ahead: bool = False
    lost: bool = False
    _keeper: ForkProcess | None = None
    _checked_at: float = -_LOOK_SECONDS

    def look(self) -> None:
        """Start the keeper if there is a source to capture, or start it again; this process must have no Spark yet."""
        now = clock.monotonic()
        if self.directory is None or now < self._checked_at + _LOOK_SECONDS:
            return
        if self._keeper is not None and self._keeper.is_alive():
            return
        self._checked_at = now
        with suppress(SinkqlError):  # the catalog is read again later
            if self.ahead or self.directory.captures():
                self._keeper = _fork(_keep_running, self.directory)

    @contextmanager
    def watched(self, stop: Callable[[], None]) -> Iterator[None]:
        """Stop a block if the keeper dies: the block may have Spark, so it can start no other."""
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(ended, stop), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    def _watch(self, ended: threading.Event, stop: Callable[[], None]) -> None:
        while self._keeper is not None and not clock.wait(ended, _LOOK_SECONDS):
            if not self._keeper.is_alive() and self._has_captures():
                self.lost = True
                stop()
                return

    def _has_captures(self) -> bool:
        with suppress(SinkqlError):  # the catalog is read again later
            return self.directory is not None and bool(self.directory.captures())
        return False

    def end(self) -> None:
        """Stop all captures."""
        if self._keeper is not None:
            _end(self._keeper)


@contextmanager
def captures_running(directory: CaptureDirectory | None, *, ahead: bool = False) -> Iterator[CaptureProcesses]:
    """Run capture processes while a block lasts, if there are sources to capture.

    With `ahead`, also the captures of later sinks: the block then has Spark and can start no keeper.
    """
    captures = CaptureProcesses(directory, ahead)
    captures.look()
    try:
        yield captures
    finally:
        captures.end()


def _fork(target: Callable[..., None], *arguments: object) -> ForkProcess:
    with hold_signals() as signal_mask:
        process = multiprocessing.get_context("fork").Process(
            target=_begin, args=(target, os.getpid(), signal_mask, *arguments), daemon=False
        )
        process.start()
    return process


def _begin(target: Callable[..., None], parent: int, signal_mask: set[signal.Signals], *arguments: object) -> None:
    keep_freed()
    target(become_child(parent, signal_mask), *arguments)


def _end(process: ForkProcess) -> None:
    process.terminate()
    process.join(_PATIENCE_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()


@dataclass(slots=True)
class _CaptureProcess:
    """A process that captures a source, or all of a kind; `deaths` counts the processes before it that died."""

    capturing: CaptureAssignment | None
    process: ForkProcess
    deaths: int
    since: float


def _keep_running(stopping: threading.Event, directory: CaptureDirectory) -> None:
    """Keep a capture process running for each source, until this process must stop."""
    running: dict[str, _CaptureProcess] = {}
    printed = ""
    try:
        while not stopping.is_set():
            try:
                _update_processes(running, directory)
            except SinkqlError:
                pass  # the catalog is read again later
            except Exception as error:  # no other failure ends the captures either
                printed = _print_once(error, printed)
            clock.wait(stopping, _LOOK_SECONDS)
    finally:
        for capture in running.values():
            capture.process.terminate()
        for capture in running.values():
            _end(capture.process)


def _print_once(error: Exception, printed: str) -> str:
    """Print an error unless it was printed last; return the text that was printed last."""
    text = "".join(traceback.format_exception(error))
    if text != printed:
        with suppress(OSError):
            print(text, file=sys.stderr, end="", flush=True)
    return text


def _update_processes(running: dict[str, _CaptureProcess], directory: CaptureDirectory) -> None:
    captures = directory.captures()
    wanted: dict[str, CaptureAssignment | None] = {
        assignment.source.id: assignment for assignment in captures if not assignment.together
    }
    wanted |= dict.fromkeys(assignment.source.kind for assignment in captures if assignment.together)
    for id_, capture in list(running.items()):
        if id_ not in wanted or wanted[id_] != capture.capturing:
            _end(capture.process)
            del running[id_]
    for id_, capturing in wanted.items():
        before = running.get(id_)
        if before is not None and (before.process.is_alive() or clock.monotonic() < _restart_at(before)):
            continue
        deaths = _count_deaths(before) if before is not None else 0
        process = _fork(_capture, directory, capturing) if capturing is not None else _fork(capture_all, directory, id_)
        running[id_] = _CaptureProcess(capturing, process, deaths, clock.monotonic())


def _restart_at(capture: _CaptureProcess) -> float:
    return capture.since + _backoff(capture)


def _backoff(capture: _CaptureProcess) -> float:
    return min(_LONGEST_WAIT, 2.0**capture.deaths)


def _count_deaths(capture: _CaptureProcess) -> int:
    """Return how many processes have died in quick succession, including this one."""
    return 1 if clock.monotonic() > capture.since + 2 * _backoff(capture) else capture.deaths + 1


def _capture(stopping: threading.Event, directory: CaptureDirectory, capturing: CaptureAssignment) -> None:
    source = capturing.source
    folder = directory.folder(capturing)
    opening = directory.opening(source, folder.store)
    CaptureRunner(folder, opening, capturing.keeping, directory.host(source), stopping=stopping).run()


@dataclass(frozen=True, slots=True)
class _CaptureThread:
    capturing: CaptureAssignment
    stopping: threading.Event
    thread: threading.Thread

    def end(self) -> None:
        self.stopping.set()
        self.thread.join()


def capture_all(stopping: threading.Event, directory: CaptureDirectory, kind: str) -> None:
    """Capture all sources of a kind until this process must stop; sources may be added and removed."""
    running: dict[str, _CaptureThread] = {}
    with directory.together(kind) as open_stream:
        try:
            while not stopping.is_set():
                with suppress(SinkqlError):  # the catalog is read again later
                    _update_threads(running, directory, kind, open_stream)
                clock.wait(stopping, _LOOK_SECONDS)
        finally:
            for capture in running.values():
                capture.stopping.set()
            for capture in running.values():
                capture.thread.join()


def _update_threads(
    running: dict[str, _CaptureThread], directory: CaptureDirectory, kind: str, open_stream: OpenStream
) -> None:
    wanted = {assignment.source.id: assignment for assignment in directory.captures() if assignment.source.kind == kind}
    for id_, capture in list(running.items()):
        if wanted.get(id_) != capture.capturing:
            capture.end()
            del running[id_]
    for id_, capturing in wanted.items():
        if id_ not in running or not running[id_].thread.is_alive():
            running[id_] = _start_thread(directory, capturing, open_stream)


def _start_thread(directory: CaptureDirectory, capturing: CaptureAssignment, open_stream: OpenStream) -> _CaptureThread:
    source, stopping = capturing.source, threading.Event()
    folder = directory.folder(capturing)
    opening = directory.opening(source, folder.store, open_stream)
    runner = CaptureRunner(folder, opening, capturing.keeping, directory.host(source), stopping=stopping)
    thread = threading.Thread(target=runner.run, name=f"capture {source.id}")
    thread.start()
    return _CaptureThread(capturing, stopping, thread)
