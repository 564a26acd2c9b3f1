"""Run the sinks of a cluster in a forked process, which sends its events and outcomes through a pipe."""

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

Message = Event | list[SinkOutcome]
"""A message of the child: an event, or at the end its outcomes."""


@dataclass(slots=True)
class Child:
    """A forked process that runs the sinks of one cluster, and the thread that receives its messages.

    `sinks` has the full names of the sinks that it reported as running; `reported` is None until it reports outcomes.
    """

    cluster: str
    settings: object
    process: ForkProcess
    reader: Connection
    listener: threading.Thread
    sinks: set[str]
    reported: list[SinkOutcome] | None = None

    @classmethod
    def start(cls, works: Sequence[SinkAssignment], workload: RunSpec, elder: Sequence[Child] = ()) -> Child:
        """Fork. Contexts, secrets and catalog are inherited and pass through no file or argument.

        `works` are the assignments of one cluster; `elder` are the children whose outcomes have not been collected. The
        parent must have no Spark.
        """
        context = multiprocessing.get_context("fork")
        reader, writer = context.Pipe(duplex=False)
        cluster = works[0].job.cluster
        # A process with a reading end would keep the child from noticing that its parent has ended.
        parents = (reader, *(child.reader for child in elder))
        with hold_signals() as signal_mask:
            arguments = (cluster, workload, _Sender(writer), parents, os.getpid(), signal_mask)
            process = context.Process(target=_run, args=arguments, daemon=False)
            process.start()
        writer.close()  # the pipe then ends with the child, for whatever reason
        sinks = {work.job.sink for work in works}
        child = cls(cluster, settings(works[0]), process, reader, threading.Thread(daemon=True), sinks)
        child.listener = threading.Thread(target=child._listen, args=(workload,), daemon=True)
        child.listener.start()
        return child

    def alive(self) -> bool:
        """Return whether it runs."""
        return self.process.is_alive()

    def stop(self) -> None:
        """Stop it after its running batches."""
        if self.process.is_alive():
            self.process.terminate()

    def kill(self) -> None:
        """Kill it immediately."""
        self.process.kill()

    def died(self) -> bool:
        """Return whether an ended process reported no outcomes."""
        return self.reported is None

    def outcomes(self) -> list[SinkOutcome]:
        """Wait for its end and return its outcomes; if it died, SQ4004 for each sink."""
        self.process.join()
        self.listener.join()
        self.reader.close()
        error = SinkqlError(
            "SQ4004",
            f'the process of cluster "{self.cluster}" died',
            detail=f"exit code {self.process.exitcode}",
            hint="Start the sinks again; they continue where they stopped.",
        )
        if self.reported is not None:
            return self.reported
        return [SinkOutcome(sink, "failed", error) for sink in sorted(self.sinks)]

    def _listen(self, workload: RunSpec) -> None:
        while (message := self._receive()) is not None:
            if isinstance(message, list):
                self.reported = message
                continue
            match message:
                case SinkStarting():
                    self.sinks.add(message.sink)
                case SinkStopped():
                    self.sinks.discard(message.sink)
                case _:
                    pass
            workload.progress(message)

    def _receive(self) -> Message | None:
        """Return the next message, None at the end; a killed child may have sent half of one."""
        try:
            message: Message = self.reader.recv()
        except (EOFError, OSError):
            return None
        return message


class _Sender:
    """The child's end of the pipe, for all of its threads."""

    def __init__(self, writer: Connection) -> None:
        self._writer = writer
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Send a message; ignore that the parent has ended."""
        with self._lock, suppress(OSError):
            self._writer.send(message)


def settings(work: SinkAssignment) -> object:
    """Return the settings of a cluster's process; a change needs another process."""
    return work.job.master, work.job.conf


def _run(
    cluster: str,
    workload: RunSpec,
    sender: _Sender,
    parents: Sequence[Connection],
    parent: int,
    signal_mask: set[signal.Signals],
) -> None:
    stopping = become_child(parent, signal_mask)
    for reader in parents:
        reader.close()
    sender.send(run_application(cluster, replace(workload, progress=sender.send), stopping))
