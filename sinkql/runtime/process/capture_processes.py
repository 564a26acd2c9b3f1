"""The sources that running sinks read → a process each that captures it.

A process beside all that run sinks forks them, and forks them again where they die: it has no threads and no Spark, so
that it may do so at any time.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.context import ForkProcess

from sinkql.allocator import keep_freed
from sinkql.capture.runner import CaptureRunner
from sinkql.errors import SinkqlError
from sinkql.runtime.process.desk import CaptureAssignment, CaptureDirectory
from sinkql.runtime.process.signals import become_child, hold_signals
from sinkql.runtime.process.together import capture_all

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
