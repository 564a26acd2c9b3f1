"""Run the job of one sink or view of a pipeline batch by batch, and store its rows in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sinkql import physical
from sinkql.connector_api.stream import (
    Checkpoint,
    ClaimRequest,
    Committed,
    Compacted,
    JobOffsets,
    Offsets,
    Reader,
    Writer,
    WriteResult,
    WriteTask,
    claim_checkpoint,
)
from sinkql.connector_api.types import python_values
from sinkql.machine.randomness import new_id
from sinkql.runtime.batch.clock import CLOCK
from sinkql.runtime.batch.control import CommitLog
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local.engine import LocalEngine
from sinkql.table.row import Row
from sinkql.testing.rows import alike, in_order, ordered

if TYPE_CHECKING:
    import pyarrow as pa

DIFF = "_mz_diff"


@dataclass(frozen=True, slots=True)
class CollectRows:
    """A `WriteTask` that returns the rows of a bucket."""

    commit: str
    buckets: int | None
    key: tuple[str, ...]

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Return the rows, each with `$seq`, `$diff` or both."""
        rows = [row for batch in batches for row in zip(*map(python_values, batch.columns), strict=True)]
        return WriteResult(bucket, len(rows), rows)


@dataclass(slots=True)
class MemoryWriter(Writer):
    """A writer that stores rows in memory as the sink's table does: by key, appended, or as a changelog.

    `rows` has each row with its number of copies, or the changes of a changelog in order. `last` has the changes of the
    last batch.
    """

    write: physical.Write
    sink: str
    rows: list[tuple[Row, int]] = field(default_factory=list)
    last: list[tuple[Row, int]] = field(default_factory=list)
    _checkpoint: Checkpoint | None = None
    _by_key: dict[Row, Row] = field(default_factory=dict)

    def open(self) -> None:
        """Do nothing."""

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint of the last commit."""
        return self._checkpoint

    def claim(self, request: ClaimRequest) -> Checkpoint:
        """Create the first checkpoint."""
        self._checkpoint = claim_checkpoint(self._checkpoint, request, sink=self.sink, claim=new_id())
        return self._checkpoint

    def refresh(self) -> Checkpoint:
        """Return the checkpoint. No other process writes."""
        assert self._checkpoint is not None
        return self._checkpoint

    def begin(self, *, bucketing: str, buckets: int, cleared: bool = False) -> WriteTask:
        """Return a task that collects rows by key or in any order. Sources of a test are never cleared."""
        keyed = self.write.mode == "upsert"
        return CollectRows(new_id(), buckets if keyed else None, self.write.key)

    def commit(self, task: WriteTask, results: Sequence[WriteResult], checkpoint: Checkpoint) -> Committed:
        """Commit the batch atomically."""
        has_order = self.write.mode != "append" and physical.sequenced(self.write.input)
        ends = [1] if self.write.change == "append" and not has_order else []  # these rows have no internal column
        changes = [(tuple(row), end) for result in results for *row, end in ((*data, *ends) for data in result.data)]
        if self.write.change == "upsert":
            self.last = self._overwrite(changes)
        else:
            self.last = self._upsert(changes) if self.write.mode == "upsert" else self._append(changes)
        self._checkpoint = replace(checkpoint, commit=task.commit)
        return Committed(self._checkpoint, 0, len(changes), 0, 0)

    def _append(self, changes: list[tuple[Row, int]]) -> list[tuple[Row, int]]:
        appended = [(row, end if self.write.change == "retract" else 1) for row, end in changes]
        self.rows += appended
        return appended

    def _upsert(self, changes: list[tuple[Row, int]]) -> list[tuple[Row, int]]:
        places, after = self._key_places(), dict(self._by_key)
        retract = self.write.change == "retract"
        for row, end in sorted(changes, key=lambda change: change[1]):  # deletions first, or in the order of `$seq`
            key = alike(tuple(row[place] for place in places))
            if not retract or end > 0:
                assert not retract or (key not in after and end == 1), "a batch inserts one row per key"
                after[key] = row
            else:
                after.pop(key, None)
        return self._replace_rows(after, places)

    def _overwrite(self, changes: list[tuple[Row, int]]) -> list[tuple[Row, int]]:
        """Apply rows that end with `$diff`, in the order of `$seq`."""
        places, after = self._key_places(), dict(self._by_key)
        for (*row, diff), _ in sorted(changes, key=lambda change: change[1]):
            key = alike(tuple(row[place] for place in places))
            if diff > 0:
                after[key] = tuple(row)
            else:
                after.pop(key, None)
        return self._replace_rows(after, places)

    def _key_places(self) -> list[int]:
        names = [column.name for column in self.write.columns]
        return [names.index(name) for name in self.write.key]

    def _replace_rows(self, after: dict[Row, Row], places: list[int]) -> list[tuple[Row, int]]:
        """Replace the rows by key and return the changes."""
        before, self._by_key = self._by_key, after
        self.rows = [(row, 1) for row in in_order(after.values(), places)]
        deleted = [(row, -1) for key, row in before.items() if key not in after or alike(after[key]) != alike(row)]
        inserted = [(row, 1) for key, row in after.items() if key not in before or alike(before[key]) != alike(row)]
        return sorted(deleted + inserted, key=lambda change: (ordered(change[0][place] for place in places), change[1]))


class NoCommitLog(CommitLog):
    """A commit log that discards the statistics."""

    def committed(
        self,
        sink_id: str,
        *,
        rows: int,
        size: int,
        offsets: JobOffsets,
        epoch: int,
        snapshot: int | None = None,
        lag: float | None = None,
        counts: Mapping[str, int] | None = None,
        in_spark: bool = False,
    ) -> None:
        """Do nothing."""

    def compacted(self, sink_id: str, done: Compacted) -> None:
        """Do nothing."""


class Target:
    """The job of a sink, which runs the batches of the test at its `times` when its rows are requested."""

    def __init__(self, job: physical.Job, readers: Mapping[str, Reader], folder: Path, times: Sequence[int]) -> None:
        self._times = times
        self.writer = MemoryWriter(job.write, job.sink)
        self._loop = BatchLoop(job, readers, self.writer, LocalEngine(buckets=1), folder, NoCommitLog())
        self._started = self._failed = False

    def run(self, batches: int) -> None:
        """Process the remaining batches up to a number. After a failure, process them as one batch."""
        loop = self._loop
        if not self._started:
            loop.start(epoch=1)
            self._started = True
            if loop.has_unread_output():
                loop.commit_batch(loop.checkpoint.end, loop.checkpoint.end)
        for number in range(self._processed_batches() + 1, batches + 1):
            if number == batches or not self._failed:
                self._process(number)

    def _processed_batches(self) -> int:
        ends = self._loop.checkpoint.end
        return max((int(offsets["batch"]) for name, offsets in ends.items() if name != CLOCK), default=0)

    def _process(self, number: int) -> None:
        end: dict[str, Offsets] = {name: {"batch": number} for name in self._loop.readers}
        if CLOCK in end:
            end[CLOCK] = {"at": self._times[number - 1]}
        self._failed = True
        self._loop.commit_batch(self._loop.checkpoint.end, end)
        self._failed = False

    def shown(self) -> list[dict[str, Any]]:
        """Return the rows of the table."""
        names = [column.name for column in self.writer.write.columns]
        if self.writer.write.changelog:
            return [{**dict(zip(names, row, strict=True)), DIFF: diff} for row, diff in self.writer.rows]
        return [dict(zip(names, row, strict=True)) for row, diff in self.writer.rows for _ in range(diff)]

    def changes(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the changes of the last batch."""
        names = [column.name for column in self.writer.write.columns]
        return [(diff, dict(zip(names, row, strict=True))) for row, diff in self.writer.last]


class ViewTarget(Target):
    """The job of a view, whose rows are the sum of its changes."""

    def shown(self) -> list[dict[str, Any]]:
        """Return the rows in the order of their values."""
        names = [column.name for column in self.writer.write.columns]
        counts: Counter[Row] = Counter()
        rows: dict[Row, Row] = {}
        for row, diff in self.writer.rows:
            rows.setdefault(alike(row), row)
            counts[alike(row)] += diff
        present = [rows[key] for key, count in counts.items() for _ in range(count)]
        return [dict(zip(names, row, strict=True)) for row in in_order(present, ())]

    def changes(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the changes of the last batch in the order of the rows' values."""
        return sorted(super().changes(), key=lambda change: (ordered(change[1].values()), change[0]))
