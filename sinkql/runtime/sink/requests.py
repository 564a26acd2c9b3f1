"""An OPTIMIZE SINK that was asked for → done by the process that runs the sink, a little at a time between batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from sinkql.connector_api.stream import Compacted
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.control import Control
from sinkql.runtime.batch.loop import BatchLoop

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
            work.add(*loop.optimize(_until(time.monotonic() + AT_ONCE, stops)))
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
