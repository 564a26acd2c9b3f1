"""The sources that running sinks read → a process each that captures it.

A process beside all that run sinks forks them, and forks them again where they die: it has no threads and no Spark, so
that it may do so at any time.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.context import ForkProcess

from sinkql.capture.process import Capture
from sinkql.errors import SinkqlError
from sinkql.runtime.process.desk import Capturing, Desk
from sinkql.runtime.process.forked import settle, signals_kept

_LOOK_SECONDS = 0.3
_PATIENCE_SECONDS = 10.0
_LONGEST_WAIT = 60.0


@dataclass(slots=True)
class Captures:
    """Have sources captured once there are any; `end` ends that."""

    desk: Desk | None
    _keeper: ForkProcess | None = None
    _looked_at: float = -_LOOK_SECONDS

    def look(self) -> None:
        """Begin, if there is a source to capture by now; the process must have no Spark yet."""
        now = time.monotonic()
        if self.desk is None or self._keeper is not None or now < self._looked_at + _LOOK_SECONDS:
            return
        self._looked_at = now
        with suppress(SinkqlError):  # as below
            if self.desk.captures():
                self._keeper = _forked(_keep, self.desk)

    def end(self) -> None:
        """End all captures."""
        if self._keeper is not None:
            _end(self._keeper)


@contextmanager
def captured(desk: Desk | None) -> Iterator[Captures]:
    """Have sources captured for as long as a block lasts; nothing where there is none that needs it."""
    captures = Captures(desk)
    captures.look()
    try:
        yield captures
    finally:
        captures.end()


def _forked(target: Callable[..., None], *arguments: object) -> ForkProcess:
    with signals_kept() as kept:
        process = multiprocessing.get_context("fork").Process(
            target=_begin, args=(target, os.getpid(), kept, *arguments), daemon=False
        )
        process.start()
    return process


def _begin(target: Callable[..., None], parent: int, kept: set[signal.Signals], *arguments: object) -> None:
    target(settle(parent, kept), *arguments)


def _end(process: ForkProcess) -> None:
    process.terminate()
    process.join(_PATIENCE_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()


@dataclass(slots=True)
class _Kept:
    """A process that captures a source; `deaths` are those one after the other, of processes before it too."""

    capturing: Capturing
    process: ForkProcess
    deaths: int = 0
    since: float = field(default_factory=time.monotonic)


def _keep(stopping: threading.Event, desk: Desk) -> None:
    """Keep a process for each source that is to be captured, until it is to stop."""
    running: dict[str, _Kept] = {}
    try:
        while not stopping.is_set():
            with suppress(SinkqlError):  # a catalog that cannot be read now is asked again
                _look(running, desk)
            stopping.wait(_LOOK_SECONDS)
    finally:
        for kept in running.values():
            kept.process.terminate()
        for kept in running.values():
            _end(kept.process)


def _look(running: dict[str, _Kept], desk: Desk) -> None:
    wanted = {each.source.id: each for each in desk.captures()}
    for id_, kept in list(running.items()):
        if wanted.get(id_) != kept.capturing:
            _end(kept.process)
            del running[id_]
    for id_, capturing in wanted.items():
        before = running.get(id_)
        if before is not None and (before.process.is_alive() or time.monotonic() < _again_at(before)):
            continue
        deaths = before.deaths + 1 if before is not None else 0
        running[id_] = _Kept(capturing, _forked(_capture, desk, capturing), deaths)


def _again_at(kept: _Kept) -> float:
    return kept.since + min(_LONGEST_WAIT, 2.0**kept.deaths)


def _capture(stopping: threading.Event, desk: Desk, capturing: Capturing) -> None:
    source = capturing.source
    Capture(desk.folder(source), desk.opening(source), capturing.keeping, desk.host(source), stopping=stopping).run()
