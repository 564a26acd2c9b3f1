"""Measure and report a running sink: its progress in its sources, the size of its state, its commits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from sinkql import physical
from sinkql.connector_api.stream import Committed, Compacted, FirstSnapshot, JobOffsets, Measure, Reader
from sinkql.errors import SinkqlError
from sinkql.machine import clock
from sinkql.runtime.batch.accounting import RecordAccount
from sinkql.runtime.batch.control import CommitLog, Control
from sinkql.runtime.batch.engine import Outcome
from sinkql.runtime.batch.events import Progress, SinkCommitted, SinkCompacted, SinkSnapshotting
from sinkql.runtime.state.manifest import Manifest
from sinkql.runtime.state.operator import stateful
from sinkql.runtime.state.report import RowCounts
from sinkql.runtime.state.run import Entry
from sinkql.storage import failpoint

_EVERY_SECONDS = 5.0


@dataclass(slots=True)
class ProgressMeter:
    """Measures the progress of one sink. A thread that a slow source may delay calls `sample` each second."""

    sink_id: str
    control: Control
    progress: Progress
    clock: Callable[[], float] = clock.monotonic
    _sampled_at: float = float("-inf")
    _recorded_at: float = float("-inf")
    _recorded: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    _snapshot: FirstSnapshot | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sample(
        self,
        sink: str,
        readers: Mapping[str, Reader],
        at: JobOffsets,
        *,
        waits: bool,
        last: bool,
        state: Mapping[str, Any] | None = None,
        tick: int | None = None,
    ) -> None:
        """Measure a sink at the offsets `at`; if it `waits` because its batch fails, also its lag.

        `state` is `SinkMetrics.now`, and `tick` the sink's tick of the timeline. The `last` sample is always recorded.
        """
        with self._lock:
            is_snapshotting = self._snapshot is not None and not self._snapshot.done
            if last or is_snapshotting or self.clock() >= self._sampled_at + _EVERY_SECONDS:
                figures = {
                    **({STATE: state} if state else {}),
                    **({TIMELINE: {"tick": tick}} if tick is not None else {}),
                }
                self._measure(sink, readers, at, figures, waits=waits, last=last)

    def _measure(
        self,
        sink: str,
        readers: Mapping[str, Reader],
        at: JobOffsets,
        state: Mapping[str, Mapping[str, Any]],
        *,
        waits: bool,
        last: bool,
    ) -> None:
        now = self.clock()
        self._sampled_at = now
        measures: dict[str, Measure] = {}
        figures = dict(state)
        for name, reader in readers.items():
            with suppress(SinkqlError):
                measures[name] = reader.measure(at[name])
                figures[name] = _figures(measures[name]) | ({"lag": round(reader.lag(at[name]), 1)} if waits else {})
        snapshots = (measure.snapshot for measure in measures.values() if measure.snapshot)
        ended = self._report_snapshot(sink, _sum_snapshots(snapshots))
        if figures != self._recorded and (last or ended or now >= self._recorded_at + _EVERY_SECONDS):
            with suppress(SinkqlError):
                self.control.measured(self.sink_id, figures)
                self._recorded, self._recorded_at = figures, now

    def _report_snapshot(self, sink: str, snapshot: FirstSnapshot | None) -> bool:
        """Report a change in the initial snapshot, the last time when it is done; return whether it has ended."""
        before, self._snapshot = self._snapshot, snapshot
        if snapshot is None or snapshot == before or (snapshot.done and before is None):
            return snapshot is not None and before is None
        self.progress(SinkSnapshotting(sink, snapshot))
        return snapshot.done


def _figures(measure: Measure) -> dict[str, Any]:
    """Return the fields of a measure that have a value, including fields of the snapshot."""
    fields: dict[str, Any] = {"known": measure.known, "committed": measure.committed, "unit": measure.unit}
    if measure.snapshot is not None:
        fields |= asdict(measure.snapshot)
    return {name: value for name, value in fields.items() if value is not None}


def _sum_snapshots(snapshots: Iterable[FirstSnapshot]) -> FirstSnapshot | None:
    """Return the snapshots of several sources as one, which takes as long as the longest."""
    parts = list(snapshots)
    if not parts:
        return None
    left = [part.seconds_left for part in parts if not part.done]
    return FirstSnapshot(
        sum(part.rows for part in parts),
        _sum_known(part.of_rows for part in parts),
        sum(part.chunks for part in parts),
        _sum_known(part.of_chunks for part in parts),
        all(part.done for part in parts),
        None if None in left else max((seconds for seconds in left if seconds is not None), default=None),
    )


def _sum_known(numbers: Iterable[int | None]) -> int | None:
    """Return the sum; None if a number is unknown."""
    values = list(numbers)
    return None if None in values else sum(value for value in values if value is not None)


STATE, TIMELINE = "$state", "$timeline"
"""The names of the figures of the state and of the timeline, among the figures of the sources."""


@dataclass(slots=True)
class SinkMetrics:
    """The size of a job's state, and the rows that its operators took and returned since this run began.

    `now` has `arrangements` by name, `read` (rows of the sources) and `given` (rows that operators returned).
    `fetched` returns the bytes of each arrangement that were fetched from the state store.
    """

    job: physical.Job
    now: Mapping[str, Any] = field(default_factory=dict)
    fetched: Callable[[], Mapping[str, int]] = dict
    _read: int = 0
    _written: int = 0

    def begin(self, manifest: Manifest | None) -> None:
        """Set the state at the start of a run; None if it is lost."""
        if manifest is not None:
            self._update(manifest, {})

    def add(self, manifest: Manifest, outcome: Outcome) -> None:
        """Add a batch and set the state after it."""
        self._read += sum(read_counts.decoded for read_counts in outcome.source_counts.values())
        self._written += sum(counts.written for counts in outcome.flows.values())
        self._update(manifest, outcome.flows)

    def _update(self, manifest: Manifest, flows: Mapping[str, RowCounts]) -> None:
        operators = [*self.job.graph.stateful(), *self.job.indexes]
        if not operators:
            return
        stored, fetched = manifest["arrangements"], self.fetched()
        arrangements: dict[str, dict[str, Any]] = {}
        for operator in operators:
            counts = flows.get(operator.arrangement)
            row_counts = {} if counts is None else {"taken": counts.read, "gave": counts.written}
            kind = str(operator.__struct_config__.tag)
            for arrangement in stateful(operator).arrangements:
                if arrangement.reads:
                    continue
                name = arrangement.name
                runs = [run for entries in stored.get(name, {}).values() for run in entries]
                arrangements[name] = {"operator": kind, "of": operator.arrangement, **_size(runs), **row_counts}
                arrangements[name]["fetched"] = fetched.get(name, 0)
        self.now = {"arrangements": arrangements, "read": self._read, "given": self._written}


def _size(runs: Sequence[Entry]) -> dict[str, int]:
    """Return the rows and bytes of runs, their number, and the rows of the widest key in one of them."""
    widest = [int(run.get("widest", 1)) for run in runs]
    return {
        "held_rows": sum(int(run["rows"]) for run in runs),
        "bytes": sum(int(run["bytes"]) for run in runs),
        "runs": len(runs),
        "widest": max(widest, default=0),
    }


@dataclass(slots=True)
class CommitReport:
    """Reports a sink's commits and compactions: to the catalog by `control`, to the user by `progress`.

    `metrics` has sums since the start. `start` comes first.
    """

    job: physical.Job
    readers: Mapping[str, Reader]
    control: CommitLog
    progress: Progress
    metrics: SinkMetrics
    _committed_at: float = field(default=0.0, init=False)

    def start(self) -> None:
        """Begin the time until the first commit, over which its rate of rows is computed."""
        self._committed_at = clock.monotonic()

    def record(
        self,
        committed: Committed,
        account: RecordAccount,
        *,
        next_commit: timedelta,
        more: bool = False,
        in_spark: bool = False,
    ) -> None:
        """Report a commit; `more` if a limit cut the batch, so that the next one does not wait for `next_commit`."""
        lag = self._lag(committed.checkpoint.end)
        self.control.committed(
            self.job.sink_id,
            rows=committed.rows,
            size=committed.bytes,
            offsets=committed.checkpoint.end,
            epoch=committed.checkpoint.epoch,
            snapshot=committed.snapshot,
            lag=lag,
            counts=account.counts(),
            in_spark=in_spark,
        )
        failpoint.point("status")
        now = clock.monotonic()
        elapsed, self._committed_at = max(1e-3, now - self._committed_at), now
        self.progress(
            SinkCommitted(
                self.job.sink,
                rows=committed.rows,
                read=account.read,
                failed=account.failed,
                dead_letters=account.dead_letters,
                bytes=committed.bytes,
                snapshot=committed.snapshot,
                rows_per_second=account.read / elapsed,
                lag=timedelta(seconds=lag),
                next_commit=next_commit,
                more=more,
                in_spark=in_spark,
            )
        )

    def report_compactions(self, compactions: Sequence[Compacted]) -> None:
        """Report compactions; errors of the catalog are ignored, since the table is compacted."""
        for compacted in compactions:
            with suppress(SinkqlError):
                self.control.compacted(self.job.sink_id, compacted)
            self.progress(SinkCompacted(self.job.sink, compacted))

    def _lag(self, end: JobOffsets) -> float:
        """Return the age of the oldest unread input in seconds, over the sources that answer."""
        lag = 0.0
        for source, reader in self.readers.items():
            with suppress(SinkqlError, OSError):
                lag = max(lag, reader.lag(end[source]))
        return lag
