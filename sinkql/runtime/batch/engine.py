"""What one batch's work is, and the engine that runs it: Spark in use, plain Python in the quick tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sinkql import physical
from sinkql.connector_api.stream import Reader, Split, Tally, WriteResult, WriteTask
from sinkql.errors import SinkqlError
from sinkql.runtime.state.arrangement import Arrangements, InputEvents
from sinkql.runtime.state.report import RowCounts


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as an engine gets it: what to read, the state to start from, and the task that writes.

    Of the sources `cleared`, all rows from before are gone; of those in `snapshotting`, some are still to come. With
    `settled`, rows that overwrite each other are the last of each key from the beginning. `letters` writes the records
    that do not decode, where they are kept. `clock` has the times between which the batch is, as `InputEvents`.
    """

    task: WriteTask
    splits: Mapping[str, Sequence[Split]]
    readers: Mapping[str, Reader]
    arrangements: Arrangements
    cleared: frozenset[str] = frozenset()
    snapshotting: frozenset[str] = frozenset()
    settled: bool = False
    letters: WriteTask | None = None
    clock: tuple[int, int] = (0, 0)

    def below(self, operator: physical.Operator, shared: physical.Shared) -> InputEvents:
        """Return what is special of the sources that an operator stands on; `shared` is that of its job."""
        reads = {each.source for each in physical.reads_below(operator, shared)}
        cleared, snapshotting = bool(reads & self.cleared), bool(reads & self.snapshotting)
        return InputEvents(cleared, snapshotting, *self.clock)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a batch gave: write results, a tally a source, and the new runs by arrangement and bucket.

    `flows` has the rows of each stateful operator by its name; those of others are not counted. `settled`: it was run
    without rows that are overwritten in it. `in_spark`: by tasks of Spark, and not in this process.
    """

    results: Sequence[WriteResult]
    tallies: Mapping[str, Tally]
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    flows: Mapping[str, RowCounts] = field(default_factory=dict)
    settled: bool = False
    in_spark: bool = False

    def letters(self) -> list[WriteResult]:
        """Return what was written of the records that do not decode."""
        return [each for tally in self.tallies.values() for each in tally.written]


class Engine(Protocol):
    """Run a job's operators over one batch. `bucketing` names how rows find their bucket; it belongs to the state."""

    bucketing: str
    buckets: int

    def run(self, job: physical.Job, batch: Batch) -> Outcome:
        """Run reads, operators and the write task; nothing is durable but files until the commit names them."""


def run_batch(engine: Engine, job: physical.Job, batch: Batch) -> Outcome:
    """Run a batch; where a row fails that is overwritten in the same batch, run it without such rows."""
    try:
        return engine.run(job, batch)
    except SinkqlError as error:
        for reader in batch.readers.values():
            reader.on_task_failure(error)
        if not error.of_rows or all(read.change != "upsert" for read in job.reads()):
            raise
        return replace(engine.run(job, replace(batch, settled=True)), settled=True)
