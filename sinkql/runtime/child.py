"""The jobs of a further cluster → a forked process that runs them; its events and outcomes come back by a pipe."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.context import ForkProcess
from multiprocessing.queues import SimpleQueue

from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.runtime.application import Wanted, run_here
from sinkql.runtime.progress import Event
from sinkql.runtime.runner import SinkOutcome

_LOOK_SECONDS = 1.0

Told = Event | list[SinkOutcome] | None
"""What a child says: an event, its outcomes at the end; None is the parent's own word that no more will come."""


@dataclass(slots=True)
class Child:
    """Hold a process that runs one cluster."""

    jobs: Sequence[physical.Job]
    process: ForkProcess
    queue: SimpleQueue[Told]
    listener: threading.Thread
    found: list[SinkOutcome] = field(default_factory=list)

    @classmethod
    def start(cls, jobs: Sequence[physical.Job], wanted: Wanted) -> Child:
        """Fork: contexts, secrets and catalog are the parent's, as they are, and pass through no file or argument."""
        context = multiprocessing.get_context("fork")
        queue: SimpleQueue[Told] = context.SimpleQueue()
        process = context.Process(target=_run, args=(jobs, replace(wanted, progress=queue.put), queue), daemon=False)
        process.start()
        child = cls(jobs, process, queue, threading.Thread(daemon=True))
        child.listener = threading.Thread(target=child._listen, args=(wanted,), daemon=True)
        child.listener.start()
        return child

    def alive(self) -> bool:
        """Tell whether it runs."""
        return self.process.is_alive()

    def stop(self) -> None:
        """Let it finish its running batches and end."""
        if self.process.is_alive():
            self.process.terminate()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()

    def outcomes(self) -> list[SinkOutcome]:
        """Wait for its end and return its outcomes; SQ4004 for each sink of a child that died."""
        self.process.join()
        self.queue.put(None)
        self.listener.join()
        died = SinkqlError(
            "SQ4004",
            f'the process of cluster "{self.jobs[0].cluster}" died',
            detail=f"exit code {self.process.exitcode}",
            hint="Start the sinks again: they go on where they stopped.",
        )
        return self.found or [SinkOutcome(job.sink, "failed", died) for job in self.jobs]

    def _listen(self, wanted: Wanted) -> None:
        while (told := self.queue.get()) is not None:
            if isinstance(told, list):
                self.found = told
            else:
                wanted.progress(told)


def _run(jobs: Sequence[physical.Job], wanted: Wanted, queue: SimpleQueue[Told]) -> None:
    # The terminal's Ctrl-C reaches the parent alone, which passes it on: twice would mean at once.
    os.setpgrp()
    stopping = threading.Event()

    def handle(number: int, frame: object) -> None:
        stopping.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, args=(os.getppid(), stopping), daemon=True).start()
    queue.put(run_here(jobs, wanted, stopping))


def _follow(parent: int, stopping: threading.Event) -> None:
    """Stop when the parent is gone."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    stopping.set()
