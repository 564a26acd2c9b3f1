"""A sink's lost state → state again: its operators run once more over all that the table holds, and nothing is written.

The table is what the view gives over the input up to its marker, and sources are replayable, so the state that belongs
to that marker comes out; the next commit names it. All is one batch, unless a source's rows need what those before them
leave in the state (`Reader.step`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from sinkql import physical
from sinkql.connector_api.stream import Checkpoint, JobOffsets, Reader, WriteResult, same
from sinkql.errors import GoneError, LostStateError, SinkqlError
from sinkql.runtime.batch.accounting import check_account
from sinkql.runtime.batch.clock import step
from sinkql.runtime.batch.engine import Batch, Engine, run_batch
from sinkql.runtime.batch.lookup import IndexLookup
from sinkql.runtime.batch.special import snapshots_running_after, truncated_between
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements
from sinkql.state_store.directory import StateDirectory

if TYPE_CHECKING:
    import pyarrow as pa


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
    splits = {
        name: [] if start[name] == end[name] else reader.splits(start[name], end[name])
        for name, reader in readers.items()
    }
    cleared = truncated_between(job, readers, start, end, fresh)
    snapshotting = snapshots_running_after(readers, start)
    batch = Batch(
        task, splits, readers, arrangements, cleared, snapshotting=snapshotting, clock=step(start, end)
    )  # fmt: skip
    outcome = run_batch(engine, job, batch)
    check_account(job, outcome)
    return state.next_manifest(manifest, outcome.runs)
