"""The input and the result of one batch, and the protocol of an engine that executes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from sinkql import physical
from sinkql.connector_api.stream import ReadCounts, Reader, Split, WriteResult, WriteTask
from sinkql.errors import SinkqlError
from sinkql.runtime.state.arrangement import Arrangements, InputEvents
from sinkql.runtime.state.report import RowCounts

Place = Literal["in process", "Spark"]
"""Where a batch runs: in a thread of this process, or in a streaming query of Spark."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as an engine gets it: the splits to read, the state before it, and the task that writes.

    * `cleared`: sources that were truncated, so that all earlier rows are deleted.
    * `snapshotting`: sources whose initial snapshot is incomplete.
    * `deduplicated`: only the last row of each key is read.
    * `dead_letters`: the task that writes dead letters, if the sink keeps them.
    * `clock`: the times at which the batch starts and ends, as in `InputEvents`.
    """

    task: WriteTask
    splits: Mapping[str, Sequence[Split]]
    readers: Mapping[str, Reader]
    arrangements: Arrangements
    cleared: frozenset[str] = frozenset()
    snapshotting: frozenset[str] = frozenset()
    deduplicated: bool = False
    dead_letters: WriteTask | None = None
    clock: tuple[int, int] = (0, 0)

    def below(self, operator: physical.Operator, shared: physical.Shared) -> InputEvents:
        """Return the events in the sources below an operator; `shared` has the job's common subplans."""
        reads = {read.source for read in physical.reads_below(operator, shared)}
        cleared, snapshotting = bool(reads & self.cleared), bool(reads & self.snapshotting)
        return InputEvents(cleared, snapshotting, *self.clock)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a batch: write results, the counts of each source, and the new runs by arrangement and bucket.

    * `flows`: row counts of each stateful operator, by arrangement.
    * `deduplicated`: rows that the batch itself overwrites were not read.
    * `in_spark`: Spark tasks computed it, rather than this process.
    """

    results: Sequence[WriteResult]
    source_counts: Mapping[str, ReadCounts]
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    flows: Mapping[str, RowCounts] = field(default_factory=dict)
    deduplicated: bool = False
    in_spark: bool = False

    def dead_letter_results(self) -> list[WriteResult]:
        """Return the write results of the dead letters."""
        return [result for read_counts in self.source_counts.values() for result in read_counts.written]


class SparkNeededError(Exception):
    """Spark must run the batch; nothing of it was committed. The text is the short reason, in words."""


class Engine(Protocol):
    """Executes a job's operators over a batch. `bucketing` names the hash of the buckets; the state depends on it."""

    bucketing: str
    buckets: int

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        """Execute reads, operators and the write task. The files count only once a commit names them.

        An engine without Spark raises SparkNeededError for a batch that it leaves to Spark.
        """


def execute_batch(engine: Engine, job: physical.Job, batch: Batch) -> Outcome:
    """Execute a batch. After a row error, execute it again without the rows that the batch itself overwrites."""
    try:
        return engine.execute(job, batch)
    except SinkqlError as error:
        for reader in batch.readers.values():
            reader.on_task_failure(error)
        if not error.of_rows or all(read.change != "upsert" for read in job.reads()):
            raise
        return replace(engine.execute(job, replace(batch, deduplicated=True)), deduplicated=True)
