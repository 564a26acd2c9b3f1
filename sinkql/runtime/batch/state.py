"""The state that a marker names: read once, saved before each commit, and computed again where it is lost.

A sink's lost state → state again: its operators run once more over all that the table holds, and nothing is written.

The table is what the view gives over the input up to its marker, and sources are replayable, so the state that belongs
to that marker comes out; the next commit names it. All is one batch, unless a source's rows need what those before them
leave in the state (`Reader.step`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from sinkql import physical
from sinkql.connector_api.stream import Checkpoint, JobOffsets, Reader, WriteResult, same
from sinkql.errors import GoneError, LostStateError, SinkqlError
from sinkql.runtime.batch.accounting import check_account
from sinkql.runtime.batch.clock import step
from sinkql.runtime.batch.engine import Batch, Engine, Outcome, run_batch
from sinkql.runtime.batch.events import Progress, SinkRebuilding
from sinkql.runtime.batch.full_refresh import state_unrecoverable_error
from sinkql.runtime.batch.lookup import IndexLookup
from sinkql.runtime.batch.resume import snapshots_running_after, splits_between, truncated_between
from sinkql.runtime.state import manifest
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements
from sinkql.runtime.state.run import lost_run
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint, files

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class JobState:
    """Keep the state of a job's operators, in the sink's state folder, and where STATE of its cluster says."""

    job: physical.Job
    readers: Mapping[str, Reader]
    engine: Engine
    home: StateDirectory
    progress: Progress
    _held: tuple[str | None, manifest.Manifest] | None = None
    _renewed: str | None = None

    def forgotten(self, marker: Checkpoint) -> bool:
        """Tell whether it is lost, and cannot be made of what the table was made of: all rows are to come anew.

        Not where another host has made it since.
        """
        try:
            return self._forgotten.read_text() == marker.state
        except FileNotFoundError:
            return False

    @property
    def _forgotten(self) -> Path:
        return self.home.folder / "forgotten"

    def remember(self) -> None:
        """Take it for there again: the table's rows are computed anew, or what was lost may be put back."""
        self._forgotten.unlink(missing_ok=True)

    @property
    def fetched(self) -> Mapping[str, int]:
        """Return how many bytes of each arrangement came from elsewhere since this run began."""
        found: Counter[str] = Counter()
        for name, size in self.home.fetched.items():
            arrangement = manifest.arrangement_of(name)
            if arrangement is not None:
                found[arrangement] += size
        return found

    def load(self, marker: Checkpoint) -> manifest.Manifest:
        """Return that of a marker; raises SQ34… where it is lost."""
        if self._held is not None and self._held[0] == marker.state:
            return self._held[1]
        if marker.state is None:
            found = manifest.empty(
                bucketing=self.engine.bucketing, buckets=self.engine.buckets, hash_key=self.home.hash_key
            )
        else:
            found = self._loaded(marker.state)
            manifest.check(found, bucketing=self.engine.bucketing, hash_key=self.home.hash_key)
        self._held = (marker.state, found)
        return found

    def _loaded(self, name: str) -> manifest.Manifest:
        """Return a manifest; what it names is in the folder then, if anything has it."""
        home = self.home
        home.fetch({manifest.file(name): None})
        try:
            found = manifest.load(home.folder, name)
        except LostStateError:
            if home.store is None:
                raise
            home.mark_lost([manifest.file(name)])
            home.fetch({manifest.file(name): None})
            found = manifest.load(home.folder, name)
        missing: Sequence[str] = ()
        if home.remote:
            missing = home.missing(manifest.files(found))
            if not missing:
                home.ensure_uploaded(
                    (*manifest.files(found), manifest.file(name))
                )  # of one that was in this folder alone
        elif home.store is not None:
            missing = home.fetch(manifest.files(found))
        if missing:
            raise lost_run(home.folder / missing[0], f"{home.store} does not have it either")
        return found

    def known(self, marker: Checkpoint) -> manifest.Manifest | None:
        """Return that of a marker, None where it is lost and the first batch will compute it again."""
        try:
            return self.load(marker)
        except SinkqlError as error:
            if not can_rebuild_state(self.job, error):
                raise
            return None

    def spread(self, marker: Checkpoint) -> bool:
        """Tell whether it is to be in another number of buckets, and can be: then all rows are to come anew."""
        known = self.known(marker) if self.job.buckets is not None and self.job.stateful() else None
        return (
            known is not None
            and marker.state is not None
            and self.job.renewable
            and (int(known["buckets"]) != self.job.buckets)
        )

    def hold(self, marker: Checkpoint, found: manifest.Manifest) -> None:
        """Take this for the state of a marker: it has more than what is saved."""
        self._held = (marker.state, found)

    def after(self, before: manifest.Manifest, outcome: Outcome, *, epoch: int) -> str | None:
        """Save what a batch makes of it; return its name for a marker, None of a job without state."""
        return self.save(manifest.next_manifest(before, outcome.runs), epoch=epoch)

    def save(self, found: manifest.Manifest, *, epoch: int) -> str | None:
        """Save one; return its name for a marker, None of a job without state."""
        if not self.job.stateful():
            return None
        name = manifest.save(self.home.folder, found, epoch=epoch)
        self.home.ensure_uploaded((*manifest.files(found), manifest.file(name)))
        failpoint.point("state-kept")
        self._held = (name, found)
        return name

    def again(self, marker: Checkpoint, lost: SinkqlError) -> None:
        """Compute that of a marker again, from the sources; raises `lost` where they cannot be read so far back.

        Where the table's rows can be computed anew, that is what its next start does.
        """
        if self._fetched_again(marker):
            return
        self.progress(SinkRebuilding(self.job.sink, lost))
        try:
            found = rebuild_state(self.job, self.readers, self.engine, self.home, marker, lost)
        except LostStateError:
            if not self.job.renewable or not any(reader.can_full_refresh() for reader in self.readers.values()):
                raise
            files.write_atomic(self._forgotten, str(marker.state).encode())
            raise state_unrecoverable_error(self.job) from lost
        self._held = (marker.state, found)

    def _fetched_again(self, marker: Checkpoint) -> bool:
        """Have all that a marker names from the store, where there is one, in the place of what is damaged; once."""
        if self.home.store is None or marker.state is None or self._renewed == marker.state:
            return False
        self._renewed = marker.state
        if self._held is not None and self._held[0] == marker.state:
            self.home.mark_lost((manifest.file(marker.state), *manifest.files(self._held[1])))
            self._held = None
        try:
            self.load(marker)
        except LostStateError:
            return False
        return True

    def sweep(self, marker: Checkpoint, before: str | None, states: Mapping[str, Collection[str]]) -> None:
        """Delete what neither a marker nor the one before it names, but for the indexes of some `states`."""
        manifest.sweep_staged(self.home, epoch=marker.epoch)
        if marker.state is None and not states:
            return
        keep = {name for name in (before, marker.state) if name is not None}
        manifest.sweep(self.home, keep, epoch=marker.epoch, states=states)


def can_rebuild_state(job: physical.Job, error: SinkqlError) -> bool:
    """Tell whether an error means lost state that can be rebuilt: of a sink by key that began at its beginning."""
    return isinstance(error, LostStateError) and job.write.mode != "append" and job.snapshot


@dataclass(frozen=True, slots=True)
class Discard:
    """Take the rows of a bucket and write nothing: a WriteTask."""

    commit: str
    buckets: int | None
    key: tuple[str, ...]

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Count the rows."""
        return WriteResult(bucket, sum(batch.num_rows for batch in batches), None, superseded=0)


def rebuild_state(
    job: physical.Job,
    readers: Mapping[str, Reader],
    engine: Engine,
    home: StateDirectory,
    marker: Checkpoint,
    lost: SinkqlError,
) -> state.Manifest:
    """Return the manifest of the state at `marker`; raises `lost`, with why, where a source cannot be read again."""
    manifest = state.empty(bucketing=engine.bucketing, buckets=engine.buckets, hash_key=home.hash_key)
    try:
        begin = {name: reader.restart_of(marker.end[name]) for name, reader in readers.items()}
        at: JobOffsets = begin
        while True:
            end = {name: reader.step(at[name], marker.end[name]) for name, reader in readers.items()}
            fresh = frozenset(name for name in readers if same({name: at[name]}, {name: begin[name]}))
            manifest = _stepped(job, readers, engine, home, marker.epoch, manifest, at, end, fresh)
            if same(end, {name: marker.end[name] for name in readers}):
                return manifest
            at = end
    except SinkqlError as error:
        if error.retryable and not isinstance(error, GoneError):  # what is there is there still
            raise
        raise LostStateError(
            lost.code,
            lost.message,
            detail=f"it cannot be rebuilt from the sources: {error.message}",
            hint=lost.hint,
        ) from error


def _stepped(
    job: physical.Job,
    readers: Mapping[str, Reader],
    engine: Engine,
    home: StateDirectory,
    epoch: int,
    manifest: state.Manifest,
    start: JobOffsets,
    end: JobOffsets,
    fresh: Collection[str],
) -> state.Manifest:
    """Return the state after the rows between two offsets; of the sources in `fresh` none were read before."""
    task = Discard(f"rebuild-{uuid4().hex[:12]}", engine.buckets, job.write.key)
    indexes = IndexLookup(job, readers, engine, home).indexes_at(start, end)
    arrangements = Arrangements(home, manifest, epoch, task.commit, indexes)
    splits = splits_between(readers, start, end)
    cleared = truncated_between(job, readers, start, end, fresh)
    snapshotting = snapshots_running_after(readers, start)
    batch = Batch(
        task, splits, readers, arrangements, cleared, snapshotting=snapshotting, clock=step(start, end)
    )  # fmt: skip
    outcome = run_batch(engine, job, batch)
    check_account(job, outcome)
    return state.next_manifest(manifest, outcome.runs)
