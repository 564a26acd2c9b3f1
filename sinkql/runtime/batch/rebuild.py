"""A sink's lost state → state again: its operators run once more over all that the table holds, and nothing is written.

The table is what the view gives over the input up to its marker, and sources are replayable, so the state that belongs
to that marker comes out; the next commit names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from sinkql import physical
from sinkql.errors import GoneError, LostStateError, SinkqlError
from sinkql.extension.home import Home
from sinkql.extension.stream import Marker, Reader, WriteResult
from sinkql.runtime.batch.clock import step
from sinkql.runtime.batch.conservation import account
from sinkql.runtime.batch.engine import Batch, Engine, run_batch
from sinkql.runtime.batch.looking import LookingUp
from sinkql.runtime.batch.special import snapshotting_after
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import Arrangements

if TYPE_CHECKING:
    import pyarrow as pa


def rebuildable(job: physical.Job, error: SinkqlError) -> bool:
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


def rebuild(
    job: physical.Job,
    readers: Mapping[str, Reader],
    engine: Engine,
    home: Home,
    marker: Marker,
    lost: SinkqlError,
) -> state.Manifest:
    """Return the manifest of the state at `marker`; raises `lost`, with why, where a source cannot be read again."""
    manifest = state.empty(bucketing=engine.bucketing, buckets=engine.buckets)
    task = Discard(f"rebuild-{uuid4().hex[:12]}", engine.buckets, job.write.key)
    try:
        begin = {name: reader.initial_of(marker.end[name]) for name, reader in readers.items()}
        indexes = LookingUp(job, readers, engine, home).between(begin, marker.end)
        arrangements = Arrangements(home, manifest, marker.epoch, task.commit, indexes)
        splits = {name: reader.splits(begin[name], marker.end[name]) for name, reader in readers.items()}
        snapshotting = snapshotting_after(readers, begin)
        clock = step(begin, marker.end)
        batch = Batch(task, splits, readers, arrangements, snapshotting=snapshotting, clock=clock)
        outcome = run_batch(engine, job, batch)
        account(job, outcome)
    except SinkqlError as error:
        if error.retryable and not isinstance(error, GoneError):  # what is there is there still
            raise
        raise LostStateError(
            lost.code,
            lost.message,
            detail=f"it cannot be rebuilt from the sources: {error.message}",
            hint=lost.hint,
        ) from error
    return state.after(manifest, outcome.runs)
