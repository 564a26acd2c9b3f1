"""One micro-batch: offsets → operators → data files → one commit, with the table's marker as the only truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from sinkql import durable, faults, physical
from sinkql.errors import FencedError, SinkqlError
from sinkql.extension.stream import (
    NO_PLAN,
    Committed,
    Compacted,
    JobOffsets,
    Marker,
    Reader,
    RedoBatchError,
    Split,
    Switch,
    Tally,
    Writer,
    switch_of,
)
from sinkql.runtime.batch.allowance import Allowance
from sinkql.runtime.batch.anew import Reread, same
from sinkql.runtime.batch.control import CommitLog
from sinkql.runtime.batch.engine import Batch, Engine, Outcome, run_batch
from sinkql.runtime.batch.failure import room_needed
from sinkql.runtime.batch.progress import Progress, Rereading, SinkCommitted, SinkCompacted, SinkRebuilding, silent
from sinkql.runtime.batch.rebuild import rebuild, rebuildable
from sinkql.runtime.batch.special import cleared_between, snapshotting_after
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements
from sinkql.runtime.state.operator.pick import CONFLICTS

_ATTEMPTS = 5
_SWEEP_EVERY = 20
_KEEP_EVERY = 6 * 3600.0
_SKEW_SECONDS = 60.0
"""How far the clocks of hosts that share a state folder may differ."""


class DivergedError(Exception):
    """Say that a batch neither follows the table's marker nor ends there: start again from the marker's offsets."""


@dataclass(slots=True)
class BatchLoop:
    """Run a job's batches one after the other. No Spark in it: the engine may be anything that runs operators.

    `folder` is the sink's own state folder, the readers' `Context.folder`; `allowance` is how much time goes into the
    table between batches; `committing` is called before a batch commits, and may raise. `start` comes first; after an
    error of `process` the same batch may be processed again.
    """

    job: physical.Job
    readers: Mapping[str, Reader]
    writer: Writer
    engine: Engine
    folder: Path
    control: CommitLog
    progress: Progress = silent
    allowance: Allowance = field(default_factory=Allowance)
    committing: Callable[[], None] = lambda: None
    targets: JobOffsets | None = field(default=None, init=False)
    marker: Marker = field(init=False)
    _manifest: tuple[str | None, state.Manifest] | None = field(default=None, init=False)
    _batches: int = field(default=0, init=False)
    _attached: set[str] = field(default_factory=set, init=False)
    _committed_at: float = field(default=0.0, init=False)
    _owned_at: float = field(default=0.0, init=False)
    _anew: bool = field(default=False, init=False)
    _keep_at: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.allowance.last = self.caught_up
        self.allowance.share = self.writer.share()

    @room_needed()
    def start(self, *, epoch: int, once: bool = False) -> Marker:
        """Claim the table above `epoch` - 1 and bring back what its marker needs; return the marker.

        With `once`, pin `targets`: where a run that commits what there is now will end. Raises SQ3410 for a changed
        plan, SQ3412 for a lost file of a source, SQ34… for lost state, SQ2405 for a source that has no end to pin; and
        what the writer and `Reader.verify` raise.
        """
        self.writer.open()
        found = self.writer.marker()
        switch = self._switch()
        begin = self._going_on(found, switch) if found is not None else self._initial()
        if found is not None:
            self._restore(begin)
            self._verify(begin)
        if once and self.targets is None:
            self.targets = {name: reader.target(begin[name]) for name, reader in self.readers.items()}
        self._owned_at = time.time()
        self.marker = self.writer.claim(begin, epoch=epoch, switch=switch)
        self._anew = switch is not None and self.marker.plan in switch.again
        if not self._anew:
            self._check_plan(self.marker)
            self._restore(self.marker.end)
            if found is not None and not same(found.end, self.marker.end):
                self._attach(self.marker.end)
            self._known_state()
        self._sweep_positions()
        self._committed_at = time.monotonic()
        return self.marker

    def rebuilds(self) -> bool:
        """Tell whether all rows of the table are to come anew before the first batch: by `rebuild`."""
        return self._anew

    @room_needed()
    def rebuild(self, between: Callable[[Rereading, int], None] = lambda step, rows: None) -> Committed:
        """Compute all rows up to now, and commit what differs from the table in one snapshot.

        `between` is called again and again, with the rows read or compared so far, and may raise: the table is as
        before then, and a rebuild begins anew. Raises SQ3415 where a source cannot be read from its beginning.
        """
        faults.point("rebuild")

        reading, comparing = partial(between, "reading"), partial(between, "comparing")
        self.marker = self.writer.refresh()
        reading(0)
        anew = Reread(self.job, self.readers, self.engine, self.writer, self.folder, self.marker, reading).run()
        named = state.save(self.folder, anew.manifest, epoch=self.marker.epoch) if self.job.stateful() else None
        self._attach(anew.at)
        for _ in range(_ATTEMPTS):
            self.marker = self.writer.refresh()
            self._verify(anew.at)
            marker = replace(self.marker, start=anew.at, end=anew.at, plan=self.job.plan, state=named)
            self._owned_at = time.time()
            self.committing()
            try:
                committed = self.writer.rebuild(anew.results, marker, comparing)
            except RedoBatchError:
                continue
            self._anew, self.marker, self._manifest = False, committed.marker, (named, anew.manifest)
            if self.targets is not None:
                self.targets = {name: reader.target_at(anew.at[name]) for name, reader in self.readers.items()}
            self._record(committed, anew.tallies(), more=False)
            self._maintain(None)
            return committed
        raise self._disturbed()

    def caught_up(self) -> bool:
        """Tell whether the targets are reached; never without `once`."""
        if self.targets is None or self._anew or self.owing():
            return False
        ends = self.marker.end
        return all(name in ends and self.readers[name].reached(ends[name], to) for name, to in self.targets.items())

    def owing(self) -> bool:
        """Tell whether the table lacks a row that is there of no input, or has rows that are to go whatever comes.

        The former is that of an aggregate without GROUP BY, the latter are others'. `process` mends it with a batch
        that ends where it begins; any other first batch does as well.
        """
        if self.marker.plan == NO_PLAN and not self._anew and self.writer.replaces():
            return True
        operators = physical.walk(self.job.write.input)
        return self.marker.state is None and any(
            isinstance(each, physical.Aggregate) and not each.group for each in operators
        )

    def conflicts(self) -> int:
        """Return how many keys of a promised KEY have several rows now, of which one is shown."""
        known = self._known_state()
        return state.total(known, CONFLICTS) if known is not None else 0

    @room_needed()
    def process(self, start: JobOffsets, end: JobOffsets, *, more: bool = False) -> Committed | None:
        """Commit the batch from `start` to `end`; return None if the table has it already.

        Where a row fails, the batch goes on to changes that may take it back. Raises DivergedError where the table is
        at neither end of the batch, SinkqlError for what a user can mend.
        """
        offered = end
        for _ in range(_ATTEMPTS):
            self.marker = self.writer.refresh()
            faults.point("read-marker")
            if not same(start, self.marker.end):
                if not same(end, self.marker.end):
                    raise DivergedError(f"the table is at {self.marker.end}, the batch goes from {start} to {end}")
                self._release()
                return None
            self._verify(start)
            self._verify(end)
            try:
                before = self.marker.state
                committed, outcome = self._try(start, end)
            except RedoBatchError:
                continue
            except SinkqlError as error:
                end = self._mended(error, end, offered)
                continue
            self.marker = committed.marker
            self._record(committed, outcome.tallies, more=more)
            self._maintain(before)
            return committed
        raise self._disturbed()

    def _disturbed(self) -> SinkqlError:
        return SinkqlError(
            "SQ5206",
            f"another writer replaced files under the batch each of the {_ATTEMPTS} times it was written",
            hint="The sink tries again by itself. If it does not get through, let other maintenance run less often.",
        )

    def _mended(self, error: SinkqlError, end: JobOffsets, offered: JobOffsets) -> JobOffsets:
        """Return where the batch that failed ends when it is tried again; raises the error if that is of no use."""
        if rebuildable(self.job, error):
            self._rebuild(error)
            return end
        further = self._extended(end) if same(end, offered) and error.of_rows else end
        if same(further, end):
            raise error
        return further

    def _extended(self, end: JobOffsets) -> JobOffsets:
        targets = self.targets or {}
        return {name: reader.extended(end[name], targets.get(name)) for name, reader in self.readers.items()}

    def _try(self, start: JobOffsets, end: JobOffsets) -> tuple[Committed, Outcome]:
        cleared = cleared_between(self.job, self.readers, start, end)
        overwritten = physical.change_of(self.job.write.input) == "upsert"
        task = self.writer.begin(
            bucketing=self.engine.bucketing, buckets=self.engine.buckets, cleared=overwritten and bool(cleared)
        )
        manifest = self._load_state()
        arrangements = Arrangements(self.folder, manifest, self.marker.epoch, task.commit)
        snapshotting = snapshotting_after(self.readers, start)
        batch = Batch(task, self._splits(start, end), self.readers, arrangements, cleared, snapshotting)
        outcome = run_batch(self.engine, self.job, batch)
        faults.point("data-files")
        self._verify(end)  # of the one that was there before and is still there, all that was read is
        named = self._save_state(manifest, outcome)
        self._attach(end)
        marker = replace(self.marker, commit=task.commit, start=start, end=end, plan=self.job.plan, state=named)
        self._owned_at = time.time()
        self.committing()
        return self.writer.commit(task, outcome.results, marker), outcome

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
        """Return the state, None where it is lost and the first batch will rebuild it."""
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
        switch = switch_of(self.job)
        if self.writer.replaces():
            if self.job.write.mode == "upsert":
                switch = switch or Switch(self.job.plan, {NO_PLAN: {}}, stateful=self.job.stateful())
                switch = replace(switch, again=switch.again | {NO_PLAN})
            elif switch is not None:
                switch = replace(switch, empties=True)
        return replace(switch, check=self._check_unread) if switch is not None else None

    def _going_on(self, found: Marker, switch: Switch | None) -> JobOffsets:
        """Return where the job goes on: sources that are new to a table with rows begin at their present end.

        Where the rows come anew, all are read, so that new sources begin at their beginning.
        """
        if switch is None or found.plan not in switch.follows:
            self._check_plan(found)
            return found.end
        at_end = (found.plan != NO_PLAN and found.plan not in switch.again) or not self.job.snapshot
        return {
            name: found.end[name] if name in found.end else reader.initial(at_end=at_end)
            for name, reader in self.readers.items()
        }

    def _check_unread(self, found: Marker) -> None:
        """Raise SQ3413 where rows that the table has should have values in a column that is new to it."""
        for source, column in next((each.unread for each in self.job.follows if each.plan == found.plan), ()):
            reader = self.readers.get(source)
            if reader is not None and source in found.end and not reader.unread(found.end[source], column):
                raise SinkqlError(
                    "SQ3413",
                    f'sink "{self.job.sink}" wrote rows of "{source}" that have values in column "{column}", '
                    "before it had the column",
                    hint="Drop the sink and create it again, into a new table.",
                )

    def _check_plan(self, marker: Marker) -> None:
        if marker.plan not in (NO_PLAN, self.job.plan):
            raise SinkqlError(
                "SQ3410",
                f'the plan of sink "{self.job.sink}" has changed since its table was last written',
                detail=f"the table was written by plan {marker.plan}, the sink is now plan {self.job.plan}",
                hint="Drop the sink and create it again, into a new table.",
            )

    def _restore(self, offsets: JobOffsets) -> None:
        for source, reader in self.readers.items():
            tried: set[str] = set()
            while missing := [
                name for name in reader.attachments(offsets[source]) if not (self.folder / name).exists()
            ]:
                for name in missing:
                    self._bring_back(source, name, again=name in tried)
                tried |= set(missing)
        faults.point("restored")

    def _bring_back(self, source: str, name: str, *, again: bool) -> None:
        data = self.writer.attached(name)
        if data is None or again:
            raise SinkqlError(
                "SQ3412",
                f'the position of source "{source}" is lost',
                detail=f'file "{name}" is neither in the state folder nor, undamaged, in the table folder',
                hint="Restore the file, or drop the sink and create it again, into a new table.",
            )
        durable.write(self.folder / name, data)

    def _verify(self, offsets: JobOffsets) -> None:
        for source, reader in self.readers.items():
            reader.verify(offsets[source])

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
                next_commit=self.job.commit_interval,
                more=more,
            )
        )

    def optimize(self, go_on: Callable[[], bool]) -> tuple[Sequence[Compacted], bool]:
        """Make the table as cheap to read as it can be; return what was done, and whether nothing is left to do.

        `go_on` is asked before each step. Raises what a batch may raise before it is written, as SQ5101 (fenced).
        """
        self.marker = self.writer.refresh()
        done, finished = self.writer.optimize(go_on)
        self._tell(done)
        return done, finished

    def keep(self) -> None:
        """Every few hours, while no batch runs, have the table keep what its marker needs of the sink's files.

        No sink stops where that fails.
        """
        if time.monotonic() < self._keep_at:
            return
        self._keep_at = time.monotonic() + _KEEP_EVERY
        try:
            self.marker = self.writer.refresh()
        except FencedError:
            return  # another run has the table, and its files
        except (SinkqlError, OSError):
            pass  # one of them may be gone already
        files: dict[str, bytes] = {}
        for source, reader in self.readers.items():
            with suppress(SinkqlError):
                for name in reader.attachments(self.marker.end[source]):
                    with suppress(OSError):
                        files[name] = (self.folder / name).read_bytes()
        with suppress(SinkqlError, OSError):
            self.writer.keep(files)

    def _tell(self, compacted: Sequence[Compacted]) -> None:
        for each in compacted:
            with suppress(SinkqlError):  # the table is what counts
                self.control.compacted(self.job.sink_id, each)
            self.progress(SinkCompacted(self.job.sink, each))

    def _maintain(self, before: str | None) -> None:
        with self.allowance.spent() as go_on:
            compacted = self.writer.maintain(go_on)
        self._tell(compacted)
        self.keep()
        self._batches += 1
        if self._batches % _SWEEP_EVERY == 0 and self.marker.state is not None:
            keep = {name for name in (before, self.marker.state) if name is not None}
            state.sweep(self.folder, keep, epoch=self.marker.epoch)
        if self._batches % _SWEEP_EVERY == 0:
            self._sweep_positions()
        faults.point("maintained")

    def _sweep_positions(self) -> None:
        """Delete the readers' files that no marker needs: the table's copy first, for the other one tells its name.

        The marker has the last two offsets, and a bounded run its target. A newer owner of the sink writes after this
        one's last commit.
        """
        for source, reader in self.readers.items():
            ends = (self.marker.start, self.marker.end, self.targets or {})
            kept = [offsets[source] for offsets in ends if source in offsets]
            for name in reader.unneeded(kept, before=self._owned_at - _SKEW_SECONDS):
                faults.point("position-unneeded")
                if not self.writer.detach(name):
                    continue
                self._attached.discard(name)
                faults.point("position-detached")
                (self.folder / name).unlink(missing_ok=True)

    def _release(self) -> None:
        for source, reader in self.readers.items():
            reader.committed(self.marker.end[source])
        faults.point("released")
