"""Answer requests to running sinks between their batches: OPTIMIZE SINK, REPLAY ERRORS, and waits for present input.

An OPTIMIZE SINK runs in small steps. Waits are read from the catalog for all sinks of an application together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sinkql.connector_api import requests
from sinkql.connector_api.requests import pending_waits, wait_store
from sinkql.connector_api.source_options import has_dead_letter_table
from sinkql.connector_api.stream import Compacted, Context, JobOffsets
from sinkql.errors import FencedError, SinkqlError
from sinkql.machine import clock
from sinkql.runtime.batch.control import Control
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.storage.key_value import KeyValueStore

AT_ONCE = 2.0
"""Seconds after which a due batch gets its turn."""
_PAUSE = 0.05
_TRIES = 3
_MOST_PROBLEMS = 10
_LOOK = 0.2
"""Seconds between two checks, while a batch runs, whether the sink must stop."""


@dataclass(slots=True)
class OptimizeProgress:
    """The work of an OPTIMIZE SINK so far. A problem may pass: a file that fails twice is skipped, an index rebuilt."""

    compactions: list[Compacted] = field(default_factory=list)
    finished: bool = False
    _problem: str | None = None
    _problems: int = 0

    def add(self, done: Sequence[Compacted], finished: bool) -> None:
        """Add the compactions of a step, and whether it was the last."""
        self.compactions += done
        self._problem = next((compacted.problem for compacted in done if compacted.problem is not None), None)
        self._problems += self._problem is not None
        self.finished = finished or self._problems == _MOST_PROBLEMS

    def total(self) -> Compacted:
        """Return the sum, with the last problem."""
        return Compacted(
            sum(compacted.files_before for compacted in self.compactions),
            sum(compacted.files_after for compacted in self.compactions),
            sum(compacted.bytes_before for compacted in self.compactions),
            sum(compacted.bytes_after for compacted in self.compactions),
            self._problem,
        )


def run_optimize_request(loop: BatchLoop, control: Control, batch: threading.Lock, stops: Callable[[], bool]) -> None:
    """Run a pending OPTIMIZE SINK, if any; `batch` is held while no batch may run.

    It waits for a running batch, unless the sink must stop. Work that is incomplete when the sink stops remains
    pending. Errors of the catalog are ignored. Raises what a batch may raise.
    """
    sink_id = loop.job.sink_id
    number = None
    with suppress(SinkqlError):
        number = control.optimize_request(sink_id)
    if number is None:
        return
    progress = OptimizeProgress()
    while not progress.finished:
        if not acquire_between_batches(batch, stops):
            return
        try:
            with suppress(SinkqlError):
                control.optimizing(
                    sink_id, number, files=progress.total().files_before, of=loop.maintenance.files_to_optimize()
                )
            progress.add(*loop.maintenance.optimize(_until(clock.monotonic() + AT_ONCE, stops)))
        except SinkqlError as error:
            _record(control, sink_id, number, Compacted(problem=f"{error.code}: {error.message}"))
            raise
        finally:
            batch.release()
        if not progress.finished:
            clock.sleep(_PAUSE)  # a waiting batch comes first
    _record(control, sink_id, number, progress.total())


def _record(control: Control, sink_id: str, number: int, done: Compacted) -> None:
    """Record the result. If the catalog does not accept it, the request stays pending and runs again."""
    for _ in range(_TRIES):
        with suppress(SinkqlError):
            control.optimized(sink_id, number, done)
            return


def acquire_between_batches(batch: threading.Lock, stops: Callable[[], bool]) -> bool:
    """Acquire the lock between two batches; return False if the sink must stop first."""
    while not stops():
        if batch.acquire(timeout=_LOOK):
            return True
    return False


def _until(end: float, stops: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: clock.monotonic() < end and not stops()


def run_replay_request(loop: BatchLoop, notes: KeyValueStore, batch: threading.Lock, stops: Callable[[], bool]) -> None:
    """Run the pending replays of a sink; `batch` is held while no batch may run.

    Errors that may pass, and errors that end the sink, are raised, and the request stays pending. Any other error is
    the reply.
    """
    reads = {read.source: read for read in loop.job.reads() if has_dead_letter_table(read)}
    try:
        pending = requests.pending_replay(notes, list(reads))
    except SinkqlError:
        return  # the catalog is read again later
    for request in pending:
        if not acquire_between_batches(batch, stops):
            return
        try:
            if loop.has_unread_output():
                loop.commit_batch(loop.checkpoint.end, loop.checkpoint.end)
            done = loop.dead_letters.replay(reads[request.source])
        except SinkqlError as error:
            if error.retryable or isinstance(error, FencedError):
                raise
            requests.finish_replay(notes, request, 0, 0, error)
        else:
            requests.finish_replay(notes, request, done.replayed, done.left)
        finally:
            batch.release()


@dataclass(slots=True)
class WaitRequests:
    """The pending waits for all sinks of an application, read at most once in `every_seconds`."""

    every_seconds: float = 0.5
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _pending: dict[str, list[str]] = field(default_factory=dict)
    _read_at: float = float("-inf")

    def pending(self, context: Context) -> list[str]:
        """Return the names of the waits for a sink."""
        with self._lock:
            if clock.monotonic() >= self._read_at + self.every_seconds:
                try:
                    self._pending = pending_waits(_notes(context))
                except SinkqlError:
                    self._pending = {}  # the catalog is read again later
                self._read_at = clock.monotonic()
            return self._pending.get(context.sink_id, [])


@dataclass(slots=True)
class WaitReplies:
    """Answers the waits for one sink; `_targets` has the ends of the sources when each wait was first seen."""

    _targets: dict[str, JobOffsets] = field(default_factory=dict)

    def reply(self, requests: list[str], loop: BatchLoop, context: Context, batch: threading.Lock) -> tuple[str, ...]:
        """Remove the waits that the sink has satisfied, and return them; `batch` is held while no batch may run."""
        self._targets = {name: at for name, at in self._targets.items() if name in requests}
        if not requests or not batch.acquire(blocking=False):
            return ()
        try:
            now = loop.present_end()
            for name in requests:
                self._targets.setdefault(name, now)
            has_all = loop.has(now)
            done = tuple(name for name in requests if has_all or loop.has(self._targets[name]))
            _notes(context).remove(*done)
            return done
        except Exception:  # a source without an end, or without an answer: a wait must not end the sink
            return ()
        finally:
            batch.release()


def _notes(context: Context) -> KeyValueStore:
    return wait_store(context.open_notes, context.folder.parent.parent)
