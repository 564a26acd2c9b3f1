"""A job's sources from their beginning to a pinned target → the rows that its table is to have, put by, and its state.

They come in parts of the size of batches, whose operators keep state of their own. Nothing of it counts before the
writer has committed it in one snapshot: a rebuild that is broken off begins anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from sinkql import faults, physical
from sinkql.errors import EndlessError, GoneError, SinkqlError
from sinkql.extension.stream import NO_PLAN, JobOffsets, Limit, Marker, Reader, Tally, Writer, WriteResult
from sinkql.runtime.batch.engine import Batch, Engine, Outcome, run_batch
from sinkql.runtime.batch.pacing import Orders, Pacer
from sinkql.runtime.batch.special import cleared_between, snapshotting_after
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements

_PARTS_OF_A_LENGTH = 50
_LONG_PART = 5_000_000
_LOOK_SECONDS = 0.05


@dataclass(slots=True)
class Anew:
    """What a rebuild has read so far: up to `at`, what tasks put by, and how many rows."""

    at: JobOffsets
    manifest: state.Manifest
    results: list[WriteResult] = field(default_factory=list)
    read: int = 0
    failed: int = 0
    parts: int = 0

    def take(self, end: JobOffsets, outcome: Outcome) -> None:
        """Take note of a part."""
        self.at, self.parts = end, self.parts + 1
        self.manifest = state.after(self.manifest, outcome.runs)
        self.results += outcome.results
        self.read += sum(tally.rows for tally in outcome.tallies.values())
        self.failed += sum(tally.failed for tally in outcome.tallies.values())

    def tallies(self) -> Mapping[str, Tally]:
        """Return what was read, as of one batch."""
        return {"": Tally(rows=self.read, failed=self.failed)}


@dataclass(frozen=True, slots=True)
class Reread:
    """One rebuild of a job's table, whose marker is the one claimed: its sources up to where the table was, and on.

    What was read before is read again as it was, or not at all: rows of files that are gone would else go too. Where a
    row fails that has been taken back since, what takes it back is in the same part.
    `between` is called with the number of rows read after each part, and may raise.
    """

    job: physical.Job
    readers: Mapping[str, Reader]
    engine: Engine
    writer: Writer
    folder: Path
    marker: Marker
    between: Callable[[int], None]

    def run(self) -> Anew:
        """Put by all rows of the job up to now; raises SQ3415 where a source cannot be read from its beginning."""
        begin, known = self._begin(), self._known()
        done = Anew(begin, state.empty(bucketing=self.engine.bucketing, buckets=self.engine.buckets))
        if not same(begin, known):
            try:
                self._read(done, {name: self.readers[name].target_at(at) for name, at in known.items()})
            except SinkqlError as error:
                if error.of_rows or (error.retryable and not isinstance(error, GoneError)):
                    raise
                raise _refused(self.job, error) from error
        target = self._target(done.at)
        if done.parts == 0 or not self._reached(done.at, target):
            self._read(done, target)
        return done

    def _begin(self) -> JobOffsets:
        return self._known() if self.marker.plan == NO_PLAN else self._initial()

    def _initial(self) -> JobOffsets:
        return {name: reader.initial(at_end=False) for name, reader in self.readers.items()}

    def _known(self) -> JobOffsets:
        """Return how far the table is; sources that are new to it are at their beginning."""
        return {**self._initial(), **{name: self.marker.end[name] for name in self.readers if name in self.marker.end}}

    def _target(self, known: JobOffsets) -> JobOffsets:
        """Return where it ends: at what there is now."""
        found = {}
        for name, reader in self.readers.items():
            try:
                found[name] = reader.target(known[name])
            except EndlessError:
                found[name] = reader.latest(known[name], Limit(self.job.max_rows_per_commit))
        return found

    def _read(self, done: Anew, target: JobOffsets) -> None:
        pacer = Pacer(self.readers)
        while True:
            orders = Orders(done.at, timedelta(0), self._most_rows(done), target)
            end = pacer.offer(done.at, orders, time.time_ns() // 1_000_000)
            if same(done.at, end):
                if not self._reached(done.at, target):  # what is to come is not there yet
                    time.sleep(_LOOK_SECONDS)
                    self.between(done.read)
                    continue
                if done.parts:
                    return
            try:
                self._part(done, end)
            except SinkqlError as error:
                target = self._mended(done, end, target, error)
            self.between(done.read)
            if self._reached(done.at, target):
                return

    def _reached(self, at: JobOffsets, target: JobOffsets) -> bool:
        return all(self.readers[name].reached(at[name], to) for name, to in target.items())

    def _most_rows(self, done: Anew) -> int:
        """Return how long a part may be: longer ones come after many, for all are open at once in the end."""
        most = self.job.max_rows_per_commit
        return max(most, min(_LONG_PART, most << done.parts // _PARTS_OF_A_LENGTH))

    def _mended(self, done: Anew, end: JobOffsets, target: JobOffsets, error: SinkqlError) -> JobOffsets:
        """Go on to what takes the row of a failed part back, be it beyond the target; return the target after that."""
        further = self._extended(end, target)
        if error.of_rows and not same(further, end):
            try:
                self._part(done, further)
            except SinkqlError as again:
                error = again
            else:
                return target
        beyond = self._extended(target, self._target(target)) if error.of_rows else target
        if same(beyond, target):
            raise error
        moved = {name for name in beyond if not same({name: beyond[name]}, {name: target[name]})}
        self._part(done, {name: beyond[name] if name in moved else further[name] for name in further})
        return beyond

    def _extended(self, end: JobOffsets, target: JobOffsets) -> JobOffsets:
        return {name: reader.extended(end[name], target[name]) for name, reader in self.readers.items()}

    def _part(self, done: Anew, end: JobOffsets) -> None:
        for name, reader in self.readers.items():
            reader.verify(end[name])
        splits = {
            name: [] if done.at[name] == end[name] else reader.splits(done.at[name], end[name])
            for name, reader in self.readers.items()
        }
        cleared = cleared_between(self.job, self.readers, done.at, end)
        snapshotting = snapshotting_after(self.readers, done.at)
        task = self.writer.collect(done.parts, buckets=self.engine.buckets)
        arrangements = Arrangements(self.folder, done.manifest, self.marker.epoch, task.commit)
        batch = Batch(task, splits, self.readers, arrangements, cleared, snapshotting)
        outcome = run_batch(self.engine, self.job, batch)
        faults.point("rebuild-read")
        if cleared and physical.change_of(self.job.write.input) == "upsert":
            done.results.clear()
        done.take(end, outcome)


def _refused(job: physical.Job, error: SinkqlError) -> SinkqlError:
    return SinkqlError(
        "SQ3415",
        f'the rows of sink "{job.sink}" cannot be computed again: {error.message}',
        detail=error.detail,
        hint="Its table stays as it is. Put back what is missing, change the sink back, or drop it and create it "
        "again, into a new table.",
    )


def same(left: JobOffsets, right: JobOffsets) -> bool:
    """Compare what JSON makes of them: a marker's offsets were JSON, a reader's may hold tuples."""
    return left == right or json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
