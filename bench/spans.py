"""Run SinkQL and record the calls of some functions, to show how the latency of a row is spent.

    python -m bench.spans FILE exec pipeline.sql

Each line of the file is a `Span`: a call of one of the functions below, in any process.
"""

from __future__ import annotations

import bisect
import functools
import importlib
import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Note = Callable[[tuple[Any, ...], Any], Any]


def _end_of_log(arguments: tuple[Any, ...], result: Any) -> Any:
    return arguments[0].log.next_number - 1


def _end_of_batch(arguments: tuple[Any, ...], result: Any) -> Any:
    return arguments[0].checkpoint.end if result is not None else None


PUBLISHING, BATCH, COMMITTING = "publishes an entry", "batch", "commits"
_FUNCTIONS: Mapping[str, tuple[str, Note | None]] = {
    "sinkql.capture.session:CaptureSession.publish": (PUBLISHING, _end_of_log),
    "sinkql.capture.session:CaptureSession.confirm": ("confirms", None),
    "sinkql.capture.session:CaptureSession.check_sinks": ("capture checks its sinks", None),
    "sinkql.capture.session:CaptureSession.read_chunks": ("reads chunks", None),
    "sinkql.runtime.schedule.scheduler:BatchScheduler._run_round": ("round", None),
    "sinkql.runtime.batch.pacing:Pacer.next_end": ("looks for new input", None),
    "sinkql.runtime.batch.loop:BatchLoop.commit_batch": (BATCH, _end_of_batch),
    "sinkql.runtime.batch.attempt:BatchAttempt.execute": ("batch, other", None),
    "sinkql.runtime.batch.metrics:CommitReport.record": ("reports the commit", None),
    "sinkql.runtime.batch.maintenance:TableMaintenance.maintain": ("maintenance, other", None),
    "sinkql.runtime.batch.attempt:execute_batch": ("reads and writes rows", None),
    "sinkql.runtime.spark.engine:SparkEngine._execute_once": ("reads and writes rows in Spark", None),
    "sinkql.connectors.iceberg.write.writer:IcebergWriter.refresh": ("reads the checkpoint", None),
    "sinkql.connectors.iceberg.write.claimed_table:commit_proposal": (COMMITTING, None),
    "sinkql.connectors.iceberg.write.maintenance:expire": ("expires snapshots", None),
    "sinkql.connectors.iceberg.write.maintenance:OrphanFiles.run": ("looks for orphan files", None),
    "sinkql.connectors.iceberg.write.compaction:CompactionSchedule._step": ("compacts", None),
    "sinkql.connectors.iceberg.write.compaction:CompactionSchedule._compact_beside": ("compacts small files", None),
    "sinkql.connectors.iceberg.write.compaction:CompactionSchedule._commit": ("commits a compaction", None),
    "sinkql.connectors.iceberg.write.upsert:UpsertMode.stage": ("writes the index", None),
    "sinkql.connectors.iceberg.write.table_index:TableIndex.sweep": ("sweeps the index", None),
}


@dataclass(frozen=True, slots=True)
class Span:
    """A call: its times, its CPU, how long its thread waited for a CPU, and a note on its result."""

    name: str
    process: int
    thread: int
    begin: float
    end: float
    cpu: float
    waited: float
    note: Any

    @property
    def seconds(self) -> float:
        """Return the duration."""
        return self.end - self.begin


def main() -> None:
    """Run SinkQL's command line with the remaining arguments."""
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for path, (name, note) in _FUNCTIONS.items():
        _watch(path, name, note, file)
    from sinkql.cli import main

    sys.argv = ["sinkql", *sys.argv[2:]]
    main()


def _watch(path: str, name: str, note: Note | None, file: int) -> None:
    module, _, names = path.partition(":")
    *within, last = names.split(".")
    owner = functools.reduce(getattr, within, importlib.import_module(module))
    function = getattr(owner, last)

    @functools.wraps(function)
    def watched(*arguments: Any, **named: Any) -> Any:
        before = beginning()
        result = None
        try:
            result = function(*arguments, **named)
            return result
        finally:
            said = note(arguments, result) if note is not None else None
            os.write(file, json.dumps(ended(name, before, said)).encode() + b"\n")

    setattr(owner, last, watched)


Beginning = tuple[float, float, float]


def beginning() -> Beginning:
    """Return the time, and the CPU seconds that this thread has used and has waited for."""
    waited = int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    return time.time(), time.thread_time(), waited


def ended(name: str, before: Beginning, note: Any) -> tuple[str, int, int, float, float, float, float, Any]:
    """Return the fields of the span that ends now."""
    begin, cpu, waited = before
    end, cpu_now, waited_now = beginning()
    return name, os.getpid(), threading.get_ident(), begin, end, cpu_now - cpu, waited_now - waited, note


def read(file: Path) -> list[Span]:
    """Return the spans in the order of their beginning; the last line may be torn."""
    found = [Span(*json.loads(line)) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return sorted(found, key=lambda each: each.begin)


class Timeline:
    """The activity of some processes at each moment: the running call that began last."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = list(spans)
        self._moments: list[tuple[float, str | None]] = []
        edges = sorted({at for each in self._spans for at in (each.begin, each.end)})
        running: list[Span] = []
        left = iter(self._spans)
        coming = next(left, None)
        for at in edges:
            running = [each for each in running if each.end > at]
            while coming is not None and coming.begin <= at:
                if coming.end > at:
                    running.append(coming)
                coming = next(left, None)
            self._moments.append((at, max(running, key=lambda each: each.begin).name if running else None))

    def parts(self, begin: float, end: float, otherwise: str) -> Iterator[tuple[str, float]]:
        """Yield the activities within a period, with their seconds; `otherwise` stands for no call."""
        place = bisect.bisect_right(self._moments, begin, key=lambda each: each[0]) - 1
        while begin < end:
            name = self._moments[place][1] if place >= 0 else None
            until = self._moments[place + 1][0] if place + 1 < len(self._moments) else end
            yield name or otherwise, min(until, end) - begin
            begin, place = max(begin, min(until, end)), place + 1


def table(spans: Sequence[Span], begin: float, end: float) -> list[tuple[str, ...]]:
    """Return a table of the calls within a period: their number, and their mean and longest times in ms."""
    found: dict[str, list[Span]] = defaultdict(list)
    for each in spans:
        if begin <= each.begin and each.end <= end:
            found[each.name].append(each)
    rows: list[tuple[str, ...]] = [("call", "times", "ms", "CPU ms", "waited for a CPU ms", "longest ms", "its CPU ms")]
    for name, calls in sorted(found.items()):
        longest = max(calls, key=lambda each: each.seconds)
        mean = (sum(getattr(each, what) for each in calls) / len(calls) for what in ("seconds", "cpu", "waited"))
        numbers = (*mean, longest.seconds, longest.cpu)
        rows.append((name, str(len(calls)), *(f"{1000 * each:.1f}" for each in numbers)))
    return rows


if __name__ == "__main__":
    main()
