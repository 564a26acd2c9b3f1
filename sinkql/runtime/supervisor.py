"""Jobs → their sinks running, the first cluster's here, each further one's in a child; then their outcomes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from sinkql import physical
from sinkql.connector.registry import Registry
from sinkql.runtime import spark
from sinkql.runtime.application import Contexts, Wanted, run_here
from sinkql.runtime.child import Child
from sinkql.runtime.control import Control
from sinkql.runtime.progress import Progress
from sinkql.runtime.runner import SinkOutcome

_LOOK_SECONDS = 0.2


def run(
    jobs: Sequence[physical.Job],
    *,
    contexts: Contexts,
    registry: Registry,
    control: Control,
    once: bool,
    takeover: bool,
    progress: Progress,
) -> list[SinkOutcome]:
    """Run the jobs until each has ended; return their outcomes in the order of the jobs.

    A failing sink does not stop the others. The first SIGINT or SIGTERM lets running batches finish, the second ends
    the process at once. A process holds one Spark application: the others get processes of their own, forked here.
    Raises SinkqlError SQ4001, SQ4002 without a fit Java.
    """
    spark.check_java()
    wanted = Wanted(contexts, registry, control, progress, once=once, takeover=takeover)
    clusters = list(dict.fromkeys(job.cluster for job in jobs))
    first, *others = [[job for job in jobs if job.cluster == cluster] for cluster in clusters]
    stopping = threading.Event()
    children = [Child.start(each, wanted) for each in others]
    with _signals(stopping, children):
        outcomes = run_here(first, wanted, stopping)
        while any(child.alive() for child in children):
            time.sleep(_LOOK_SECONDS)
    for child in children:
        outcomes += child.outcomes()
    found = {outcome.sink: outcome for outcome in outcomes}
    return [found[job.sink] for job in jobs]


@contextmanager
def _signals(stopping: threading.Event, children: Sequence[Child]) -> Iterator[None]:
    """Stop at the first SIGINT or SIGTERM, end all processes at the second; only a main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            for child in children:
                child.kill()
            os._exit(128 + number)
        stopping.set()
        for child in children:
            child.stop()

    handlers: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        handlers[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
