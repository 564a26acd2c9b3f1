"""An OPTIMIZE SINK that was asked for → done by the process that runs the sink, a little at a time between batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from sinkql.errors import SinkqlError
from sinkql.extension.stream import Compacted
from sinkql.runtime.batch.control import Control
from sinkql.runtime.batch.loop import BatchLoop

_AT_ONCE = 2.0
"""Seconds after which a batch that is due gets its turn."""
_PAUSE = 0.05


def answer(loop: BatchLoop, control: Control, batch: AbstractContextManager[object], stops: Callable[[], bool]) -> None:
    """Do what is asked for, if anything is; `batch` is held while no batch may run.

    What is begun when the sink stops is still to be done then. Raises what a batch may raise.
    """
    sink_id = loop.job.sink_id
    number = control.asked(sink_id)
    if number is None:
        return
    control.optimizing(sink_id, number)
    done: list[Compacted] = []
    finished = False
    while not finished:
        if stops():
            return
        with batch:
            try:
                found, finished = loop.optimize(_until(time.monotonic() + _AT_ONCE, stops))
            except SinkqlError as error:
                control.optimized(sink_id, number, Compacted(problem=f"{error.code}: {error.message}"))
                raise
        done += found
        finished |= any(each.problem is not None for each in found)
        if not finished:
            time.sleep(_PAUSE)  # a batch that waits comes first
    control.optimized(sink_id, number, total(done))


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
