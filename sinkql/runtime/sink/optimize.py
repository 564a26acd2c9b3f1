"""An OPTIMIZE SINK that was asked for → done by the process that runs the sink, a little at a time between batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from sinkql.errors import SinkqlError
from sinkql.extension.stream import Compacted
from sinkql.runtime.batch.control import Control
from sinkql.runtime.batch.loop import BatchLoop

_AT_ONCE = 2.0
"""Seconds after which a batch that is due gets its turn."""
_PAUSE = 0.05
_TRIES = 3
_LOOK = 0.2
"""Seconds after which a batch that runs is no reason not to look whether the sink is to stop."""


def answer(loop: BatchLoop, control: Control, batch: threading.Lock, stops: Callable[[], bool]) -> None:
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
    done: list[Compacted] = []
    finished = False
    while not finished:
        if not _acquired(batch, stops):
            return
        try:
            with suppress(SinkqlError):
                control.optimizing(sink_id, number)
            found, finished = loop.optimize(_until(time.monotonic() + _AT_ONCE, stops))
        except SinkqlError as error:
            _tell(control, sink_id, number, Compacted(problem=f"{error.code}: {error.message}"))
            raise
        finally:
            batch.release()
        done += found
        finished |= any(each.problem is not None for each in found)
        if not finished:
            time.sleep(_PAUSE)  # a batch that waits comes first
    _tell(control, sink_id, number, total(done))


def _tell(control: Control, sink_id: str, number: int, done: Compacted) -> None:
    """Tell what was done; where the catalog does not take it, it is asked for again, and done again."""
    for _ in range(_TRIES):
        with suppress(SinkqlError):
            control.optimized(sink_id, number, done)
            return


def _acquired(batch: threading.Lock, stops: Callable[[], bool]) -> bool:
    """Take the lock once no batch has it; False where the sink is to stop before."""
    while not stops():
        if batch.acquire(timeout=_LOOK):
            return True
    return False


def _until(end: float, stops: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: time.monotonic() < end and not stops()


def total(done: Sequence[Compacted]) -> Compacted:
    """Return compactions as one, with the last problem that there was."""
    problems = [each.problem for each in done if each.problem is not None]
    return Compacted(
        sum(each.files_before for each in done),
        sum(each.files_after for each in done),
        sum(each.bytes_before for each in done),
        sum(each.bytes_after for each in done),
        problems[-1] if problems else None,
    )
