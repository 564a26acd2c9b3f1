"""The state that a checkpoint names: load it, save it before each commit, and recover it if it is lost.

State recovery runs the operators again over all input up to the checkpoint, and writes no rows. Sources are replayable,
so the result is the state of that checkpoint; the next commit names it. All input is one batch, unless the rows of a
source depend on the state after earlier rows (`Reader.step`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sinkql import physical
from sinkql.connector_api.stream import Checkpoint, JobOffsets, Reader, WriteResult, is_same
from sinkql.errors import GoneError, LostStateError, SinkqlError
from sinkql.machine.randomness import new_id
from sinkql.runtime.batch.accounting import check_account
from sinkql.runtime.batch.clock import step
from sinkql.runtime.batch.engine import Batch, Engine, Outcome, execute_batch
from sinkql.runtime.batch.events import Progress, SinkRecovering
from sinkql.runtime.batch.full_refresh import state_unrecoverable_error
from sinkql.runtime.batch.lookup import IndexLookup
from sinkql.runtime.batch.resume import restart_of, snapshots_running_after, splits_between, truncated_between
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
    """The state of a job's operators, in the sink's state directory and in the state store of the cluster."""

    job: physical.Job
    readers: Mapping[str, Reader]
    engine: Engine
    directory: StateDirectory
    progress: Progress
    _loaded: tuple[str | None, manifest.Manifest] | None = None
    _fetched_again: str | None = None

    def is_unrecoverable(self, checkpoint: Checkpoint) -> bool:
        """Return whether the state is lost and cannot be recovered, so that a full refresh is needed.

        False if another host has recovered it since.
        """
        try:
            return self._forgotten_file.read_text() == checkpoint.state
        except FileNotFoundError:
            return False

    @property
    def _forgotten_file(self) -> Path:
        return self.directory.folder / "forgotten"

    def clear_unrecoverable(self) -> None:
        """Undo `is_unrecoverable`, after a full refresh or because the user may have restored the state."""
        self._forgotten_file.unlink(missing_ok=True)

    @property
    def fetched(self) -> Mapping[str, int]:
        """Return the bytes of each arrangement that were fetched from the state store since this run began."""
        sizes: Counter[str] = Counter()
        for name, size in self.directory.fetched.items():
            arrangement = manifest.arrangement_of(name)
            if arrangement is not None:
                sizes[arrangement] += size
        return sizes

    def load(self, checkpoint: Checkpoint) -> manifest.Manifest:
        """Return the manifest of a checkpoint; raises SQ34… if the state is lost."""
        if self._loaded is not None and self._loaded[0] == checkpoint.state:
            return self._loaded[1]
        if checkpoint.state is None:
            loaded = manifest.empty(
                bucketing=self.engine.bucketing, buckets=self.engine.buckets, hash_key=self.directory.hash_key
            )
        else:
            loaded = self._load_manifest(checkpoint.state)
            manifest.check(loaded, bucketing=self.engine.bucketing, hash_key=self.directory.hash_key)
        self._loaded = (checkpoint.state, loaded)
        return loaded

    def _load_manifest(self, name: str) -> manifest.Manifest:
        """Return a manifest by name, after its files were fetched or, for remote tasks, found in the store."""
        home = self.directory
        home.fetch({manifest.file(name): None})
        try:
            loaded = manifest.load(home.folder, name)
        except LostStateError:
            if home.store is None:
                raise
            home.mark_lost([manifest.file(name)])
            home.fetch({manifest.file(name): None})
            loaded = manifest.load(home.folder, name)
        missing: Sequence[str] = ()
        if home.remote:
            missing = home.missing(manifest.files(loaded))
            if not missing:  # the state may have been in this folder only
                home.ensure_uploaded((*manifest.files(loaded), manifest.file(name)))
        elif home.store is not None:
            missing = home.fetch(manifest.files(loaded))
        if missing:
            raise lost_run(home.folder / missing[0], f"{home.store} does not have it either")
        return loaded

    def load_or_none(self, checkpoint: Checkpoint) -> manifest.Manifest | None:
        """Return the manifest of a checkpoint; None if it is lost and the first batch will recover it."""
        try:
            return self.load(checkpoint)
        except SinkqlError as error:
            if not can_recover_state(self.job, error):
                raise
            return None

    def needs_other_buckets(self, checkpoint: Checkpoint) -> bool:
        """Return whether the state must move to another number of buckets, which needs a full refresh."""
        loaded = self.load_or_none(checkpoint) if self.job.buckets is not None and self.job.stateful() else None
        return (
            loaded is not None
            and checkpoint.state is not None
            and self.job.renewable
            and (int(loaded["buckets"]) != self.job.buckets)
        )

    def replace(self, checkpoint: Checkpoint, complete: manifest.Manifest) -> None:
        """Use a manifest as the state of a checkpoint; it has more arrangements than the saved one."""
        self._loaded = (checkpoint.state, complete)

    def save_next(self, before: manifest.Manifest, outcome: Outcome, *, epoch: int) -> str | None:
        """Save the state after a batch; return its name for the checkpoint, None if the job has no state."""
        return self.save(manifest.next_manifest(before, outcome.runs), epoch=epoch)

    def save(self, new: manifest.Manifest, *, epoch: int) -> str | None:
        """Save a manifest and upload its files; return its name for the checkpoint, None if the job has no state."""
        if not self.job.stateful():
            return None
        name = manifest.save(self.directory.folder, new, epoch=epoch)
        self.directory.ensure_uploaded((*manifest.files(new), manifest.file(name)))
        failpoint.point("state-kept")
        self._loaded = (name, new)
        return name

    def recover(self, checkpoint: Checkpoint, lost: SinkqlError) -> None:
        """Recover the state of a checkpoint from the sources; raises `lost` if they can no longer be read.

        If a full refresh is possible instead, the next start runs it.
        """
        if self._fetch_again(checkpoint):
            return
        self.progress(SinkRecovering(self.job.sink, lost))
        try:
            recovered = recover_state(self.job, self.readers, self.engine, self.directory, checkpoint, lost)
        except LostStateError:
            if not self.job.renewable or not any(
                reader.full_refresh and reader.full_refresh.can_full_refresh() for reader in self.readers.values()
            ):
                raise
            files.write_atomic(self._forgotten_file, str(checkpoint.state).encode())
            raise state_unrecoverable_error(self.job) from lost
        self._loaded = (checkpoint.state, recovered)

    def _fetch_again(self, checkpoint: Checkpoint) -> bool:
        """Fetch all files of a checkpoint from the store, in place of damaged ones; return whether that helps. Once."""
        if self.directory.store is None or checkpoint.state is None or self._fetched_again == checkpoint.state:
            return False
        self._fetched_again = checkpoint.state
        if self._loaded is not None and self._loaded[0] == checkpoint.state:
            self.directory.mark_lost((manifest.file(checkpoint.state), *manifest.files(self._loaded[1])))
            self._loaded = None
        try:
            self.load(checkpoint)
        except LostStateError:
            return False
        return True

    def sweep(self, checkpoint: Checkpoint, before: str | None, states: Mapping[str, Collection[str]]) -> None:
        """Delete the files that neither a checkpoint nor the one before names, except the indexes of `states`."""
        manifest.sweep_staged(self.directory, epoch=checkpoint.epoch)
        if checkpoint.state is None and not states:
            return
        keep = {name for name in (before, checkpoint.state) if name is not None}
        manifest.sweep(self.directory, keep, epoch=checkpoint.epoch, states=states)


def can_recover_state(job: physical.Job, error: SinkqlError) -> bool:
    """Return whether an error means lost state that can be recovered: the sink has a key and read all input."""
    return isinstance(error, LostStateError) and job.write.mode != "append" and job.snapshot


@dataclass(frozen=True, slots=True)
class Discard:
    """A WriteTask that counts the rows of a bucket and writes nothing."""

    commit: str
    buckets: int | None
    key: tuple[str, ...]

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Count the rows."""
        return WriteResult(bucket, sum(batch.num_rows for batch in batches), None, superseded=0)


def recover_state(
    job: physical.Job,
    readers: Mapping[str, Reader],
    engine: Engine,
    home: StateDirectory,
    checkpoint: Checkpoint,
    lost: SinkqlError,
) -> state.Manifest:
    """Return the state at a checkpoint, recovered; raises `lost` with the reason if a source cannot be read again."""
    manifest = state.empty(bucketing=engine.bucketing, buckets=engine.buckets, hash_key=home.hash_key)
    try:
        begin = {name: restart_of(reader, checkpoint.end[name]) for name, reader in readers.items()}
        at: JobOffsets = begin
        while True:
            end = {name: reader.step(at[name], checkpoint.end[name]) for name, reader in readers.items()}
            fresh = frozenset(name for name in readers if is_same({name: at[name]}, {name: begin[name]}))
            manifest = _advance(job, readers, engine, home, checkpoint.epoch, manifest, at, end, fresh)
            if is_same(end, {name: checkpoint.end[name] for name in readers}):
                return manifest
            at = end
    except SinkqlError as error:
        if error.retryable and not isinstance(error, GoneError):  # the input still exists
            raise
        raise LostStateError(
            lost.code,
            lost.message,
            detail=f"it cannot be rebuilt from the sources: {error.message}",
            hint=lost.hint,
        ) from error


def _advance(
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
    """Return the state after the rows between two offsets; the sources in `fresh` were not read before."""
    task = Discard(f"rebuild-{new_id()[:12]}", engine.buckets, job.write.key)
    indexes = IndexLookup(job, readers, engine, home).indexes_at(start, end)
    arrangements = Arrangements(home, manifest, epoch, task.commit, indexes)
    splits = splits_between(readers, start, end)
    cleared = truncated_between(job, readers, start, end, fresh)
    snapshotting = snapshots_running_after(readers, start)
    batch = Batch(task, splits, readers, arrangements, cleared, snapshotting=snapshotting, clock=step(start, end))
    outcome = execute_batch(engine, job, batch)
    check_account(job, outcome)
    return state.next_manifest(manifest, outcome.runs)
