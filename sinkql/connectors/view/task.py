"""The changes of one bucket in one batch → a run, and the runs that are the bucket's contents after it.

All rows of a view again, put by in parts → the changes that make the contents just these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connector_api.stream import WriteResult
from sinkql.connectors.view.log import Contents, Run, ViewLog, damaged, run_file
from sinkql.connectors.view.rows import HAD, RunFile, consolidate, consolidated_parts, in_batches, negate, read_runs
from sinkql.errors import LostIndexError
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint
from sinkql.storage.sorted_run import MergePolicy

_FAN, _SMALL = 4, 256


@dataclass(frozen=True, slots=True)
class Written:
    """What a task leaves: its changes, and all runs of the bucket's contents, some of them merged."""

    run: Run
    contents: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class ViewTask:
    """Write the changes of one bucket; a `WriteTask`. `contents` are those before the batch, `home` has the log's
    folder."""

    commit: str
    buckets: int | None
    key: tuple[str, ...]
    epoch: int
    home: StateDirectory
    schema: pa.Schema
    contents: Contents

    @property
    def log(self) -> ViewLog:
        """Return the log, or where this task finds runs of it."""
        return ViewLog(self.home.folder)

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write the run; the result's data is what it leaves, None where nothing changed."""
        name = f"{self.epoch}-{self.commit}-{attempt}"
        run = self._write(bucket, name, self._tables(batches), 0)
        if run is None:
            return WriteResult(bucket, 0, None)
        failpoint.point("view-run")
        runs, merged = [*self.contents.get(str(bucket), ()), run], 0
        while (length := _due(runs, bucket)) > 0:
            merged += 1
            runs = [*runs[:-length], *self._merged(bucket, f"{name}-m{merged}", runs[-length:])]
        if self.home.remote:
            self.home.upload(run_file(each) for each in {run, *runs} if each.file.startswith(name))
        return WriteResult(bucket, run.rows, Written(run, tuple(runs)))

    def _tables(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        for batch in batches:
            if batch.num_rows:
                yield pa.Table.from_batches([batch]).select(self.schema.names).cast(self.schema)

    def _merged(self, bucket: int, name: str, runs: Sequence[Run]) -> list[Run]:
        if self.home.remote and (lost := self.home.fetch({run_file(run): run.bytes for run in runs})):
            raise LostIndexError(
                "SQ3404",
                f'file "{lost[0]}" of the view is missing or damaged',
                detail=f"{self.home.store} does not have it",
                hint="The view puts it there again, or computes its rows again.",
            )
        changes = in_batches(read_contents(self.log, runs, self.schema))
        merged = self._write(bucket, name, changes, 1 + max(run.merges for run in runs))
        return [merged] if merged is not None else []

    def _write(self, bucket: int, name: str, changes: Iterable[pa.Table], merges: int) -> Run | None:
        """Write changes, added up; return None where nothing is left of them."""
        run = Run(bucket, f"{name}.arrow", 0, 0, merges)
        with RunFile(self.log.run_path(run), self.schema) as file:
            for part in consolidated_parts(changes, self.schema, self.log.spill):
                file.add(consolidate(part))
        return Run(bucket, run.file, file.rows, file.bytes, merges, file.digest) if file.rows else None


def read_contents(log: ViewLog, runs: Sequence[Run], schema: pa.Schema) -> pa.Table:
    """Return the changes in runs of the contents; raises SQ3452 where one is damaged or gone."""
    try:
        return read_runs(log.stored(runs), schema)
    except FileNotFoundError as error:
        lost = next((path for each in runs if not (path := log.run_path(each)).exists()), log.folder)
        raise damaged(lost, str(error)) from error


def _due(runs: Sequence[Run], bucket: int) -> int:
    """Return how many of the newest runs are to be merged; the first merges of buckets come in different batches."""
    fresh = all(run.merges == 0 for run in runs)
    return MergePolicy(2 + bucket % _FAN if fresh else _FAN, _SMALL).due(run.rows for run in reversed(runs))


@dataclass(frozen=True, slots=True)
class CollectTask:
    """Put by the changes of one bucket of a part; a `WriteTask`."""

    commit: str
    buckets: int | None
    key: tuple[str, ...]
    epoch: int
    home: StateDirectory
    schema: pa.Schema

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write a file; the result's data is its run, None where nothing changed."""
        run = Run(bucket, f"{self.epoch}-{self.commit}-{attempt}-c.arrow", 0, 0)
        with RunFile(ViewLog(self.home.folder).run_path(run), self.schema) as file:
            for batch in batches:
                file.add(pa.Table.from_batches([batch]).select(self.schema.names).cast(self.schema))
        if not file.rows:
            return WriteResult(bucket, 0, None)
        if self.home.remote:
            self.home.upload([run_file(run)])
        failpoint.point("rebuild-part")
        return WriteResult(bucket, file.rows, _as_written(run, file))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compare rows that were put by with a view's contents."""

    log: ViewLog
    schema: pa.Schema
    epoch: int
    between: Callable[[int], None]

    def run(self, results: Sequence[WriteResult], contents: Contents) -> list[Written]:
        """Write what changes in each bucket, and its new contents, which are one run."""
        put_by: dict[int, list[Run]] = {}
        for each in results:
            if each.data is not None:
                put_by.setdefault(each.bucket, []).append(each.data)
        found, rows, name = [], 0, f"{self.epoch}-{uuid4().hex}"
        for bucket in sorted({*put_by, *map(int, contents)}):
            whole, changed = Run(bucket, f"{name}-m1.arrow", 0, 0, 1), Run(bucket, f"{name}.arrow", 0, 0)
            with (
                RunFile(self.log.run_path(whole), self.schema) as contents_now,
                RunFile(self.log.run_path(changed), self.schema) as changes,
            ):
                for new, had in self._parts(put_by.get(bucket, ()), contents.get(str(bucket), ())):
                    contents_now.add(new)
                    changes.add(consolidate(pa.concat_tables([new, negate(had)])))
                    rows += len(new)
                    self.between(rows)
            if changes.rows:
                kept = (_as_written(whole, contents_now),) if contents_now.rows else ()
                found.append(Written(_as_written(changed, changes), kept))
            else:
                self.log.run_path(whole).unlink(missing_ok=True)
        return found

    def _parts(self, new: Sequence[Run], had: Sequence[Run]) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield rows that were put by, added up, and those of the contents that may be equal to them."""
        schema = self.schema.append(pa.field(HAD, pa.bool_()))
        tables = (
            table.append_column(HAD, pa.repeat(before, len(table)))
            for before, runs in ((False, new), (True, had))
            for table in in_batches(read_contents(self.log, runs, self.schema))
        )
        for part in consolidated_parts(tables, schema, self.log.spill):
            before = part.column(HAD)
            sides = (part.filter(pc.invert(before)), part.filter(before))
            come, gone = (side.drop_columns([HAD]) for side in sides)
            yield consolidate(come), gone


def _as_written(run: Run, file: RunFile) -> Run:
    return Run(run.bucket, run.file, file.rows, file.bytes, run.merges, file.digest)
