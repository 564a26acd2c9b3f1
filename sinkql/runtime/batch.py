"""One micro-batch: offsets → operators → data files → one commit, with the table's marker as the only truth."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from sinkql import faults, physical
from sinkql.connector.stream import Committed, JobOffsets, Marker, Reader, RedoBatchError, Split, Switch, Tally, Writer
from sinkql.errors import SinkqlError
from sinkql.runtime import state
from sinkql.runtime.control import Control
from sinkql.runtime.engine import Arrangements, Attempt, Engine, Outcome
from sinkql.runtime.pacing import Orders, Pacer
from sinkql.runtime.pick import conflicts
from sinkql.runtime.progress import Progress, SinkCommitted, SinkRebuilding, silent
from sinkql.runtime.rebuild import rebuild, rebuildable

_ATTEMPTS = 5
_SWEEP_EVERY = 20
NO_PLAN = "none"


class DivergedError(Exception):
    """Say that a batch neither follows the table's marker nor ends there: start again from the marker's offsets."""


@dataclass(slots=True)
class BatchLoop:
    """Run a job's batches one after the other. No Spark in it: the engine may be anything that runs operators.

    `folder` is the sink's own state folder, the readers' `Context.folder`. `start` comes first; after an error of
    `process` the same batch may be processed again.
    """

    job: physical.Job
    readers: Mapping[str, Reader]
    writer: Writer
    engine: Engine
    folder: Path
    control: Control
    progress: Progress = silent
    targets: JobOffsets | None = field(default=None, init=False)
    marker: Marker = field(init=False)
    _manifest: tuple[str | None, state.Manifest] | None = field(default=None, init=False)
    _batches: int = field(default=0, init=False)
    _attached: set[str] = field(default_factory=set, init=False)
    _committed_at: float = field(default=0.0, init=False)

    def start(self, *, epoch: int, once: bool = False) -> Marker:
        """Claim the table above `epoch` - 1 and bring back what its marker needs; return the marker.

        With `once`, pin `targets`: where a run that commits what there is now will end. Raises SQ3410 for a changed
        plan, SQ3412 for a lost file of a source, SQ34… for lost state, SQ2405 for a source that has no end to pin; and
        what the writer raises.
        """
        self.writer.open()
        found = self.writer.marker()
        begin = self._going_on(found) if found is not None else self._initial()
        if found is not None:
            self._restore(begin)
        if once and self.targets is None:
            self.targets = {name: reader.target(begin[name]) for name, reader in self.readers.items()}
        self.marker = self.writer.claim(begin, epoch=epoch, switch=self._switch())
        self._check_plan(self.marker)
        self._restore(self.marker.end)
        if found is not None and found.plan != self.marker.plan:
            self._attach(self.marker.end)
        self._known_state()
        self._committed_at = time.monotonic()
        return self.marker

    def caught_up(self) -> bool:
        """Tell whether the targets are reached; never without `once`."""
        return self.targets is not None and _same(self.marker.end, self.targets)

    def conflicts(self) -> int:
        """Return how many keys of a promised KEY have several rows now, of which one is shown."""
        known = self._known_state()
        return conflicts(known) if known is not None else 0

    def process(self, start: JobOffsets, end: JobOffsets, *, more: bool = False) -> Committed | None:
        """Commit the batch from `start` to `end`; return None if the table has it already.

        Raises DivergedError where the table is at neither end of it, SinkqlError for what a user can mend.
        """
        for _ in range(_ATTEMPTS):
            self.marker = self.writer.refresh()
            faults.point("read-marker")
            if not _same(start, self.marker.end):
                if not _same(end, self.marker.end):
                    raise DivergedError(f"the table is at {self.marker.end}, the batch goes from {start} to {end}")
                self._release()
                return None
            try:
                before = self.marker.state
                committed, outcome = self._attempt(start, end)
            except RedoBatchError:
                continue
            except SinkqlError as error:
                if not rebuildable(self.job, error):
                    raise
                self._rebuild(error)
                continue
            self.marker = committed.marker
            self._record(committed, outcome.tallies, more=more)
            self._maintain(before)
            return committed
        raise SinkqlError(
            "SQ5206",
            f"another writer replaced files below a batch each of the {_ATTEMPTS} times it was written",
            hint="Let other maintenance of the table pause, then start the sink again.",
        )

    def _attempt(self, start: JobOffsets, end: JobOffsets) -> tuple[Committed, Outcome]:
        task = self.writer.begin(bucketing=self.engine.bucketing, buckets=self.engine.buckets)
        manifest = self._load_state()
        arrangements = Arrangements(self.folder, manifest, self.marker.epoch, task.commit)
        attempt = Attempt(task, self._splits(start, end), self.readers, arrangements)
        outcome = self.engine.run(self.job, attempt)
        faults.point("data-files")
        named = self._save_state(manifest, outcome)
        self._attach(end)
        committed = self.writer.commit(task, outcome.results, start=start, end=end, state=named, plan=self.job.plan)
        return committed, outcome

    def _load_state(self) -> state.Manifest:
        if self._manifest is not None and self._manifest[0] == self.marker.state:
            return self._manifest[1]
        if self.marker.state is None:
            manifest = state.empty(bucketing=self.engine.bucketing, buckets=self.engine.buckets)
        else:
            manifest = state.load(self.folder, self.marker.state)
            state.check(manifest, bucketing=self.engine.bucketing)
        self._manifest = (self.marker.state, manifest)
        return manifest

    def _known_state(self) -> state.Manifest | None:
        """Return the state, None where it is lost and the first batch will make it anew."""
        try:
            return self._load_state()
        except SinkqlError as error:
            if not rebuildable(self.job, error):
                raise
            return None

    def _rebuild(self, lost: SinkqlError) -> None:
        self.progress(SinkRebuilding(self.job.sink, lost))
        manifest = rebuild(self.job, self.readers, self.engine, self.folder, self.marker, lost)
        self._manifest = (self.marker.state, manifest)

    def _save_state(self, manifest: state.Manifest, outcome: Outcome) -> str | None:
        if not self.job.stateful():
            return None
        manifest = state.after(manifest, outcome.runs)
        name = state.save(self.folder, manifest, epoch=self.marker.epoch)
        self._manifest = (name, manifest)
        return name

    def _splits(self, start: JobOffsets, end: JobOffsets) -> dict[str, list[Split]]:
        return {
            name: [] if start[name] == end[name] else reader.splits(start[name], end[name])
            for name, reader in self.readers.items()
        }

    def _initial(self) -> JobOffsets:
        return {name: reader.initial(at_end=not self.job.snapshot) for name, reader in self.readers.items()}

    def _switch(self) -> Switch | None:
        """Return how the job goes on in a table that its earlier plans wrote, or claimed before a first batch."""
        follows = tuple(plan for plan in self.job.follows if plan != self.job.plan)
        return Switch(self.job.plan, (*follows, NO_PLAN)) if follows else None

    def _going_on(self, found: Marker) -> JobOffsets:
        """Return where the job goes on: sources that are new to a table with rows begin at their present end."""
        switch = self._switch()
        if switch is None or found.plan not in switch.follows:
            self._check_plan(found)
            return found.end
        at_end = found.plan != NO_PLAN or not self.job.snapshot
        return {
            name: found.end[name] if name in found.end else reader.initial(at_end=at_end)
            for name, reader in self.readers.items()
        }

    def _check_plan(self, marker: Marker) -> None:
        if marker.plan not in (NO_PLAN, self.job.plan, self.job.former_plan):
            raise SinkqlError(
                "SQ3410",
                f'the plan of sink "{self.job.sink}" changed since its table was last written',
                detail=f"the table was written by plan {marker.plan}, the sink is now plan {self.job.plan}",
                hint="Drop the sink and create it again, into a new table.",
            )

    def _restore(self, offsets: JobOffsets) -> None:
        for source, reader in self.readers.items():
            for name in reader.attachments(offsets[source]):
                path = self.folder / name
                if path.exists():
                    continue
                data = self.writer.attached(name)
                if data is None:
                    raise SinkqlError(
                        "SQ3412",
                        f'source "{source}" lost what says how far it was read',
                        detail=f'file "{name}" is neither in the state folder nor in the table folder',
                        hint="Restore the file, or drop the sink and create it again, into a new table.",
                    )
                _write_whole(path, data)
        faults.point("restored")

    def _attach(self, end: JobOffsets) -> None:
        for source, reader in self.readers.items():
            for name in reader.attachments(end[source]):
                if name not in self._attached:
                    self.writer.attach(name, (self.folder / name).read_bytes())
                    self._attached.add(name)
        faults.point("attached")

    def _record(self, committed: Committed, tallies: Mapping[str, Tally], *, more: bool) -> None:
        faults.point("committed")
        self._release()
        read = sum(tally.rows for tally in tallies.values())
        failed = sum(tally.failed for tally in tallies.values())
        lag = max(reader.lag(committed.marker.end[source]) for source, reader in self.readers.items())
        self.control.committed(
            self.job.sink_id,
            rows=committed.rows,
            size=committed.bytes,
            offsets=committed.marker.end,
            epoch=committed.marker.epoch,
            snapshot=committed.snapshot,
            lag=lag,
            failed_rows=failed,
        )
        faults.point("status")
        now = time.monotonic()
        elapsed, self._committed_at = max(1e-3, now - self._committed_at), now
        self.progress(
            SinkCommitted(
                self.job.sink,
                rows=committed.rows,
                read=read,
                failed=failed,
                bytes=committed.bytes,
                snapshot=committed.snapshot,
                rows_per_second=read / elapsed,
                lag=timedelta(seconds=lag),
                next_commit=timedelta(milliseconds=self.job.commit_interval_ms),
                more=more,
            )
        )

    def _maintain(self, before: str | None) -> None:
        self.writer.maintain()
        self._batches += 1
        if self._batches % _SWEEP_EVERY == 0 and self.marker.state is not None:
            keep = {name for name in (before, self.marker.state) if name is not None}
            state.sweep(self.folder, keep, epoch=self.marker.epoch)
        faults.point("maintained")

    def _release(self) -> None:
        for source, reader in self.readers.items():
            reader.committed(self.marker.end[source])
        faults.point("released")


def drain(loop: BatchLoop) -> int:
    """Commit all that there is now, or up to the loop's targets; return how many batches. `start` came before."""
    pacer = Pacer(loop.readers)
    orders = Orders(loop.marker.end, 0, loop.job.max_rows, loop.targets)
    batches = 0
    while True:
        start = loop.marker.end
        end = pacer.offer(start, orders, time.time_ns() // 1_000_000)
        if _same(start, end):
            return batches
        loop.process(start, end)
        batches += 1


def _same(left: JobOffsets, right: JobOffsets) -> bool:
    """Compare what JSON makes of them: a marker's offsets were JSON, a reader's may hold tuples."""
    return left == right or json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _write_whole(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.draft")
    draft.write_bytes(data)
    draft.replace(path)
