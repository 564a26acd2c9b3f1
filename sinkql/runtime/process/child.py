"""The sinks of a cluster → a forked process that runs them; its events and outcomes come back by a pipe."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess

from sinkql.errors import SinkqlError
from sinkql.runtime.batch.events import Event, SinkStarting, SinkStopped
from sinkql.runtime.process.application import RunSpec, run_application
from sinkql.runtime.process.signals import become_child, hold_signals
from sinkql.runtime.sink.host import SinkOutcome
from sinkql.runtime.sink.workload import SinkAssignment

Told = Event | list[SinkOutcome]
"""What a child says: an event, its outcomes at the end."""


@dataclass(slots=True)
class Child:
    """A forked process that runs the sinks of one cluster, and the thread that listens to it.

    `sinks` are the full names of those that it runs now, as far as it said; `found` is None until it tells the end.
    """

    cluster: str
    settings: object
    process: ForkProcess
    reader: Connection
    listener: threading.Thread
    sinks: set[str]
    found: list[SinkOutcome] | None = None

    @classmethod
    def start(cls, works: Sequence[SinkAssignment], workload: RunSpec, elder: Sequence[Child] = ()) -> Child:
        """Fork: contexts, secrets and catalog are the parent's, as they are, and pass through no file or argument.

        `works` are what there is to run of one cluster; `elder` are the children that were started before and not asked
        for their outcomes. The parent must have no Spark.
        """
        context = multiprocessing.get_context("fork")
        reader, writer = context.Pipe(duplex=False)
        cluster = works[0].job.cluster
        # Whoever has a reading end keeps a child that speaks from noticing that its parent is gone.
        parents = (reader, *(child.reader for child in elder))
        with hold_signals() as before:
            arguments = (cluster, workload, _Voice(writer), parents, os.getpid(), before)
            process = context.Process(target=_run, args=arguments, daemon=False)
            process.start()
        writer.close()  # so that the end of the pipe is the end of the child, however it came
        sinks = {work.job.sink for work in works}
        child = cls(cluster, settings(works[0]), process, reader, threading.Thread(daemon=True), sinks)
        child.listener = threading.Thread(target=child._listen, args=(workload,), daemon=True)
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

    def died(self) -> bool:
        """Tell of a process that has ended whether it did so without a word."""
        return self.found is None

    def outcomes(self) -> list[SinkOutcome]:
        """Wait for its end and return its outcomes; SQ4004 for each sink of a child that died."""
        self.process.join()
        self.listener.join()
        self.reader.close()
        died = SinkqlError(
            "SQ4004",
            f'the process of cluster "{self.cluster}" died',
            detail=f"exit code {self.process.exitcode}",
            hint="Start the sinks again; they continue where they stopped.",
        )
        if self.found is not None:
            return self.found
        return [SinkOutcome(sink, "failed", died) for sink in sorted(self.sinks)]

    def _listen(self, workload: RunSpec) -> None:
        while (told := self._heard()) is not None:
            if isinstance(told, list):
                self.found = told
                continue
            match told:
                case SinkStarting():
                    self.sinks.add(told.sink)
                case SinkStopped():
                    self.sinks.discard(told.sink)
                case _:
                    pass
            workload.progress(told)

    def _heard(self) -> Told | None:
        """Return what the child says next, None at its end; one that was killed may have said half of it."""
        try:
            told: Told = self.reader.recv()
        except (EOFError, OSError):
            return None
        return told


class _Voice:
    """The child's end of the pipe, for all of its threads."""

    def __init__(self, writer: Connection) -> None:
        self._writer = writer
        self._speaking = threading.Lock()

    def say(self, told: Told) -> None:
        """Tell the parent; one that is gone hears nothing."""
        with self._speaking, suppress(OSError):
            self._writer.send(told)


def settings(work: SinkAssignment) -> object:
    """Return what a cluster's process is started with: another one needs another process."""
    return work.job.master, work.job.conf


def _run(
    cluster: str,
    workload: RunSpec,
    voice: _Voice,
    parents: Sequence[Connection],
    parent: int,
    kept: set[signal.Signals],
) -> None:
    stopping = become_child(parent, kept)
    for reader in parents:
        reader.close()
    voice.say(run_application(cluster, replace(workload, progress=voice.say), stopping))
