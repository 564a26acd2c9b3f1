"""How far a running sink is in its sources, again and again → the catalog, and those who watch a first snapshot.

A job, its state and what went through its operators → figures for who watches the sink.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from sinkql import physical
from sinkql.connector_api.stream import Committed, Compacted, FirstSnapshot, JobOffsets, Measure, Reader
from sinkql.errors import SinkqlError
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
    """Measure one sink. `sample` is called each second, by a thread that a source which answers late may hold up."""

    sink_id: str
    control: Control
    progress: Progress
    clock: Callable[[], float] = time.monotonic
    _looked_at: float = float("-inf")
    _told_at: float = float("-inf")
    _told: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
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
        """Look how far a sink is at `at`; of one that `waits`, as its batch fails, also for how long it has.

        `state` is what `Figures.now` has, `tick` where it is on the timeline. Nothing is left untold at the `last`
        look.
        """
        with self._lock:
            going_on = self._snapshot is not None and not self._snapshot.done
            if last or going_on or self.clock() >= self._looked_at + _EVERY_SECONDS:
                own = {**({STATE: state} if state else {}), **({TIMELINE: {"tick": tick}} if tick is not None else {})}
                self._look(sink, readers, at, own, waits=waits, last=last)

    def _look(
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
        self._looked_at = now
        measures: dict[str, Measure] = {}
        figures = dict(state)
        for name, reader in readers.items():
            with suppress(SinkqlError):
                measures[name] = reader.measure(at[name])
                figures[name] = _figures(measures[name]) | ({"lag": round(reader.lag(at[name]), 1)} if waits else {})
        ended = self._tell_snapshot(sink, _sum(each.snapshot for each in measures.values() if each.snapshot))
        if figures != self._told and (last or ended or now >= self._told_at + _EVERY_SECONDS):
            with suppress(SinkqlError):
                self.control.measured(self.sink_id, figures)
                self._told, self._told_at = figures, now

    def _tell_snapshot(self, sink: str, now: FirstSnapshot | None) -> bool:
        """Tell how far the first snapshot is, where it goes on, and once that it is done; return whether it ended."""
        before, self._snapshot = self._snapshot, now
        if now is None or now == before or (now.done and before is None):
            return now is not None and before is None
        self.progress(SinkSnapshotting(sink, now))
        return now.done


def _figures(measure: Measure) -> dict[str, Any]:
    """Return what is known, flat."""
    found: dict[str, Any] = {"known": measure.known, "committed": measure.committed, "unit": measure.unit}
    if measure.snapshot is not None:
        found |= asdict(measure.snapshot)
    return {name: value for name, value in found.items() if value is not None}


def _sum(snapshots: Iterable[FirstSnapshot]) -> FirstSnapshot | None:
    """Return those of several sources as one; it takes as long as the longest."""
    found = list(snapshots)
    if not found:
        return None
    left = [each.seconds_left for each in found if not each.done]
    return FirstSnapshot(
        sum(each.rows for each in found),
        _total(each.of_rows for each in found),
        sum(each.chunks for each in found),
        _total(each.of_chunks for each in found),
        all(each.done for each in found),
        None if None in left else max((each for each in left if each is not None), default=None),
    )


def _total(numbers: Iterable[int | None]) -> int | None:
    found = list(numbers)
    return None if None in found else sum(each for each in found if each is not None)


STATE, TIMELINE = "$state", "$timeline"
"""The names that the figures of a sink's state, and of where it is on the timeline, have among those of its sources."""


@dataclass(slots=True)
class SinkMetrics:
    """What a job's state holds, and how many rows its operators were given and gave, since this run began.

    `now` has `arrangements` by name, `read` (rows of the sources) and `given` (rows that operators gave); `fetched`
    says how many bytes of each came from where STATE keeps them.
    """

    job: physical.Job
    now: Mapping[str, Any] = field(default_factory=dict)
    fetched: Callable[[], Mapping[str, int]] = dict
    _read: int = 0
    _given: int = 0

    def known(self, manifest: Manifest | None) -> None:
        """Take note of the state that a run begins with; None where it is lost."""
        if manifest is not None:
            self._tell(manifest, {})

    def take(self, manifest: Manifest, outcome: Outcome) -> None:
        """Take note of a batch, and the state after it."""
        self._read += sum(tally.given for tally in outcome.tallies.values())
        self._given += sum(flow.given for flow in outcome.flows.values())
        self._tell(manifest, outcome.flows)

    def _tell(self, manifest: Manifest, flows: Mapping[str, RowCounts]) -> None:
        operators = [*self.job.graph.stateful(), *self.job.indexes]
        if not operators:
            return
        kept, fetched = manifest["arrangements"], self.fetched()
        found: dict[str, dict[str, Any]] = {}
        for operator in operators:
            flow = flows.get(operator.arrangement)
            through = {} if flow is None else {"taken": flow.taken, "gave": flow.given}
            kind = str(operator.__struct_config__.tag)
            for each in (each for each in stateful(operator).arrangements if not each.reads):
                runs = [run for runs in kept.get(each.name, {}).values() for run in runs]
                found[each.name] = {"operator": kind, "of": operator.arrangement, **_held(runs), **through}
                found[each.name]["fetched"] = fetched.get(each.name, 0)
        self.now = {"arrangements": found, "read": self._read, "given": self._given}


def _held(runs: Iterable[Entry]) -> dict[str, int]:
    """Return how many rows and bytes runs have, and the rows of the widest key that one of them has."""
    found = list(runs)
    widest = [int(run.get("widest", 1)) for run in found]
    return {
        "held_rows": sum(int(run["rows"]) for run in found),
        "bytes": sum(int(run["bytes"]) for run in found),
        "runs": len(found),
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
        self._committed_at = time.monotonic()

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
        lag = self._lag(committed.marker.end)
        self.control.committed(
            self.job.sink_id,
            rows=committed.rows,
            size=committed.bytes,
            offsets=committed.marker.end,
            epoch=committed.marker.epoch,
            snapshot=committed.snapshot,
            lag=lag,
            counts=account.counts(),
        )
        failpoint.point("status")
        now = time.monotonic()
        elapsed, self._committed_at = max(1e-3, now - self._committed_at), now
        self.progress(
            SinkCommitted(
                self.job.sink,
                rows=committed.rows,
                read=account.read,
                failed=account.failed,
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
