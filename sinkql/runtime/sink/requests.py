"""An OPTIMIZE SINK that was asked for → done by the process that runs the sink, a little at a time between batches.

REPLAY ERRORS that was asked for → done by the process that runs the sink, between two batches.

Programs that wait for the sinks of an application to have all that their sources have: asked for all at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sinkql.connector_api import requests
from sinkql.connector_api.requests import pending_waits, wait_store
from sinkql.connector_api.source_options import has_dead_letter_table
from sinkql.connector_api.stream import Compacted, Context, JobOffsets
from sinkql.errors import FencedError, SinkqlError
from sinkql.runtime.batch.control import Control
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.storage.key_value import KeyValueStore

AT_ONCE = 2.0
"""Seconds after which a batch that is due gets its turn."""
_PAUSE = 0.05
_TRIES = 3
_PROBLEMS = 10
_LOOK = 0.2
"""Seconds after which a batch that runs is no reason not to look whether the sink is to stop."""


@dataclass(slots=True)
class OptimizeProgress:
    """What an OPTIMIZE SINK did so far. A problem may pass: a file that fails twice is left out, an index made anew."""

    done: list[Compacted] = field(default_factory=list)
    finished: bool = False
    _problem: str | None = None
    _problems: int = 0

    def add(self, done: Sequence[Compacted], finished: bool) -> None:
        """Add what a part of the work did, and whether it was the last."""
        self.done += done
        self._problem = next((each.problem for each in done if each.problem is not None), None)
        self._problems += self._problem is not None
        self.finished = finished or self._problems == _PROBLEMS

    def total(self) -> Compacted:
        """Return all as one, with the problem that stayed."""
        return Compacted(
            sum(each.files_before for each in self.done),
            sum(each.files_after for each in self.done),
            sum(each.bytes_before for each in self.done),
            sum(each.bytes_after for each in self.done),
            self._problem,
        )


def run_optimize_request(loop: BatchLoop, control: Control, batch: threading.Lock, stops: Callable[[], bool]) -> None:
    """Do what is asked for, if anything is; `batch` is held while no batch may run.

    It has begun once no batch runs: one that stalls keeps nobody from stopping the sink. What is not done when the sink
    stops is still to be done then. No sink ends because the catalog cannot be asked or told. Raises what a batch may
    raise.
    """
    sink_id = loop.job.sink_id
    number = None
    with suppress(SinkqlError):
        number = control.asked(sink_id)
    if number is None:
        return
    work = OptimizeProgress()
    while not work.finished:
        if not acquire_between_batches(batch, stops):
            return
        try:
            with suppress(SinkqlError):
                control.optimizing(sink_id, number, files=work.total().files_before, of=loop.writer.files_to_optimize())
            work.add(*loop.maintenance.optimize(_until(time.monotonic() + AT_ONCE, stops)))
        except SinkqlError as error:
            _tell(control, sink_id, number, Compacted(problem=f"{error.code}: {error.message}"))
            raise
        finally:
            batch.release()
        if not work.finished:
            time.sleep(_PAUSE)  # a batch that waits comes first
    _tell(control, sink_id, number, work.total())


def _tell(control: Control, sink_id: str, number: int, done: Compacted) -> None:
    """Tell what was done; where the catalog does not take it, it is asked for again, and done again."""
    for _ in range(_TRIES):
        with suppress(SinkqlError):
            control.optimized(sink_id, number, done)
            return


def acquire_between_batches(batch: threading.Lock, stops: Callable[[], bool]) -> bool:
    """Take the lock once no batch has it; False where the sink is to stop before."""
    while not stops():
        if batch.acquire(timeout=_LOOK):
            return True
    return False


def _until(end: float, stops: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: time.monotonic() < end and not stops()


def run_replay_request(loop: BatchLoop, notes: KeyValueStore, batch: threading.Lock, stops: Callable[[], bool]) -> None:
    """Do what is asked for in the sink's notes, if anything is; `batch` is held while no batch may run.

    What may pass, and what ends the sink, is raised, and is asked for still; for anything else no sink ends: it is the
    answer.
    """
    reads = {read.source: read for read in loop.job.reads() if has_dead_letter_table(read)}
    try:
        asked = requests.pending_replay(notes, list(reads))
    except SinkqlError:
        return  # a catalog that cannot be read now is asked again
    for each in asked:
        if not acquire_between_batches(batch, stops):
            return
        try:
            if loop.has_unread_output():
                loop.process(loop.marker.end, loop.marker.end)
            done = loop.dead_letters.replay(reads[each.source])
        except SinkqlError as error:
            if error.retryable or isinstance(error, FencedError):
                raise
            requests.finish_replay(notes, each, 0, 0, error)
        else:
            requests.finish_replay(notes, each, done.replayed, done.left)
        finally:
            batch.release()


@dataclass(slots=True)
class WaitRequests:
    """Look for requests at most once in `every_seconds`, whichever sink asks."""

    every_seconds: float = 0.5
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[str, list[str]] = field(default_factory=dict)
    _looked_at: float = float("-inf")

    def pending(self, context: Context) -> list[str]:
        """Return the names of the requests for a sink."""
        with self._lock:
            if time.monotonic() >= self._looked_at + self.every_seconds:
                try:
                    self._known = pending_waits(_notes(context))
                except SinkqlError:
                    self._known = {}  # a catalog that cannot be read now is asked again
                self._looked_at = time.monotonic()
            return self._known.get(context.sink_id, [])


@dataclass(slots=True)
class WaitReplies:
    """Answer the requests for one sink; `_targets` are what its sources had when each of them was seen."""

    _targets: dict[str, JobOffsets] = field(default_factory=dict)

    def reply(self, requests: list[str], loop: BatchLoop, context: Context, batch: threading.Lock) -> tuple[str, ...]:
        """Take back the requests of which the sink has all, and return them; no batch may run while `batch` is held."""
        self._targets = {name: at for name, at in self._targets.items() if name in requests}
        if not requests or not batch.acquire(blocking=False):
            return ()
        try:
            now = loop.present_end()
            for name in requests:
                self._targets.setdefault(name, now)
            whole = loop.has(now)
            done = tuple(name for name in requests if whole or loop.has(self._targets[name]))
            _notes(context).remove(*done)
            return done
        except Exception:  # a source without an end, or that does not answer: no sink ends because somebody waits
            return ()
        finally:
            batch.release()


def _notes(context: Context) -> KeyValueStore:
    return wait_store(context.open_notes, context.folder.parent.parent)
