"""Write the changes of one bucket in one batch as a run, and merge runs of the bucket's contents.

For a full refresh, collect all rows of a view in parts, and compute the changes from the present contents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connector_api.stream import WriteResult
from sinkql.connectors.view.log import Contents, Run, ViewLog, damaged_error, run_file
from sinkql.connectors.view.rows import HAD, RunFile, consolidate, consolidated_parts, in_batches, negate, read_runs
from sinkql.errors import LostIndexError
from sinkql.machine.randomness import new_id
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint
from sinkql.storage.sorted_run import MergePolicy

_FAN, _SMALL = 4, 256


@dataclass(frozen=True, slots=True)
class WrittenBucket:
    """The result of a task: its changes, and all runs of the bucket after merging."""

    run: Run
    contents: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class _BucketTask:
    """What the `WriteTask`s of a view have."""

    commit: str
    buckets: int | None
    key: tuple[str, ...]
    epoch: int
    directory: StateDirectory
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class ViewTask(_BucketTask):
    """Write the changes of one bucket; a `WriteTask`. `contents` are the runs before the batch."""

    contents: Contents

    @property
    def log(self) -> ViewLog:
        """Return the log in the task's folder."""
        return ViewLog(self.directory.folder)

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write the run; the result's data is `WrittenBucket`, None without changes."""
        name = f"{self.epoch}-{self.commit}-{attempt}"
        run = self._write(bucket, name, self._tables(batches), 0)
        if run is None:
            return WriteResult(bucket, 0, None)
        failpoint.point("view-run")
        runs, merged = [*self.contents.get(str(bucket), ()), run], 0
        while (length := _runs_to_merge(runs, bucket)) > 0:
            merged += 1
            runs = [*runs[:-length], *self._merged(bucket, f"{name}-m{merged}", runs[-length:])]
        if self.directory.remote:
            self.directory.upload(run_file(written) for written in {run, *runs} if written.file.startswith(name))
        return WriteResult(bucket, run.rows, WrittenBucket(run, tuple(runs)))

    def _tables(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        for batch in batches:
            if batch.num_rows:
                yield pa.Table.from_batches([batch]).select(self.schema.names).cast(self.schema)

    def _merged(self, bucket: int, name: str, runs: Sequence[Run]) -> list[Run]:
        if self.directory.remote and (lost := self.directory.fetch({run_file(run): run.bytes for run in runs})):
            raise LostIndexError(
                "SQ3404",
                f'file "{lost[0]}" of the view is missing or damaged',
                detail=f"{self.directory.store} does not have it",
                hint="The view uploads it again, or recomputes its rows.",
            )
        changes = in_batches(read_contents(self.log, runs, self.schema))
        merged = self._write(bucket, name, changes, 1 + max(run.merges for run in runs))
        return [merged] if merged is not None else []

    def _write(self, bucket: int, name: str, changes: Iterable[pa.Table], merges: int) -> Run | None:
        """Write consolidated changes; return None if they add up to nothing."""
        run = Run(bucket, f"{name}.arrow", 0, 0, merges)
        with RunFile(self.log.run_path(run), self.schema) as file:
            for part in consolidated_parts(changes, self.schema, self.log.spill):
                file.add(consolidate(part))
        return Run(bucket, run.file, file.rows, file.bytes, merges, file.digest) if file.rows else None


def read_contents(log: ViewLog, runs: Sequence[Run], schema: pa.Schema) -> pa.Table:
    """Return the changes in runs of the contents; raise SQ3452 if a run is damaged or gone."""
    try:
        return read_runs(log.stored_runs(runs), schema)
    except FileNotFoundError as error:
        lost = next((path for run in runs if not (path := log.run_path(run)).exists()), log.folder)
        raise damaged_error(lost, str(error)) from error


def _runs_to_merge(runs: Sequence[Run], bucket: int) -> int:
    """Return the number of newest runs to merge; the first merges of buckets happen in different batches."""
    fresh = all(run.merges == 0 for run in runs)
    return MergePolicy(2 + bucket % _FAN if fresh else _FAN, _SMALL).due(run.rows for run in reversed(runs))


@dataclass(frozen=True, slots=True)
class CollectTask(_BucketTask):
    """Collect the changes of one bucket in one part of a full refresh; a `WriteTask`."""

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write a file; the result's data is its run, None without rows."""
        run = Run(bucket, f"{self.epoch}-{self.commit}-{attempt}-c.arrow", 0, 0)
        with RunFile(ViewLog(self.directory.folder).run_path(run), self.schema) as file:
            for batch in batches:
                file.add(pa.Table.from_batches([batch]).select(self.schema.names).cast(self.schema))
        if not file.rows:
            return WriteResult(bucket, 0, None)
        if self.directory.remote:
            self.directory.upload([run_file(run)])
        failpoint.point("rebuild-part")
        return WriteResult(bucket, file.rows, _finished_run(run, file))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compare collected rows with a view's contents."""

    log: ViewLog
    schema: pa.Schema
    epoch: int
    between: Callable[[int], None]

    def compare(self, results: Sequence[WriteResult], contents: Contents) -> list[WrittenBucket]:
        """Write the changes of each bucket, and its new contents as one run."""
        collected: dict[int, list[Run]] = {}
        for result in results:
            if result.data is not None:
                collected.setdefault(result.bucket, []).append(result.data)
        written, rows, name = [], 0, f"{self.epoch}-{new_id()}"
        for bucket in sorted({*collected, *map(int, contents)}):
            new_contents, changed = Run(bucket, f"{name}-m1.arrow", 0, 0, 1), Run(bucket, f"{name}.arrow", 0, 0)
            with (
                RunFile(self.log.run_path(new_contents), self.schema) as contents_now,
                RunFile(self.log.run_path(changed), self.schema) as changes,
            ):
                for new, old_rows in self._parts(collected.get(bucket, ()), contents.get(str(bucket), ())):
                    contents_now.add(new)
                    changes.add(consolidate(pa.concat_tables([new, negate(old_rows)])))
                    rows += len(new)
                    self.between(rows)
            if changes.rows:
                after = (_finished_run(new_contents, contents_now),) if contents_now.rows else ()
                written.append(WrittenBucket(_finished_run(changed, changes), after))
            else:
                self.log.run_path(new_contents).unlink(missing_ok=True)
        return written

    def _parts(self, new: Sequence[Run], old: Sequence[Run]) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield consolidated collected rows, with the rows of the contents that may equal them."""
        schema = self.schema.append(pa.field(HAD, pa.bool_()))
        tables = (
            table.append_column(HAD, pa.repeat(before, len(table)))
            for before, runs in ((False, new), (True, old))
            for table in in_batches(read_contents(self.log, runs, self.schema))
        )
        for part in consolidated_parts(tables, schema, self.log.spill):
            before = part.column(HAD)
            sides = (part.filter(pc.invert(before)), part.filter(before))
            new_rows, old_rows = (side.drop_columns([HAD]) for side in sides)
            yield consolidate(new_rows), old_rows


def _finished_run(run: Run, file: RunFile) -> Run:
    return Run(run.bucket, run.file, file.rows, file.bytes, run.merges, file.digest)
