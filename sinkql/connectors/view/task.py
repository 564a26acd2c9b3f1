"""The changes of one bucket in one batch → a run, and the runs that are the bucket's contents after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sinkql import faults
from sinkql.connectors.view.log import Contents, Run, ViewLog
from sinkql.connectors.view.rows import added_up, read_runs, write_run
from sinkql.extension.stream import WriteResult
from sinkql.runs import Tiers

_FAN, _SMALL = 4, 256


@dataclass(frozen=True, slots=True)
class Written:
    """What a task leaves: its changes, and all runs of the bucket's contents, some of them merged."""

    run: Run
    contents: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class ViewTask:
    """Write the changes of one bucket; a `WriteTask`. `contents` are those before the batch."""

    commit: str
    buckets: int | None
    key: tuple[str, ...]
    epoch: int
    log: ViewLog
    schema: pa.Schema
    contents: Contents

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write the run; the result's data is what it leaves, None where nothing changed."""
        given = [batch for batch in batches if batch.num_rows]
        table = pa.Table.from_batches(given, given[0].schema) if given else self.schema.empty_table()
        table = added_up(table.select(self.schema.names).cast(self.schema))
        if not len(table):
            return WriteResult(bucket, 0, None)
        name = f"{self.epoch}-{self.commit}-{attempt}"
        run = self._write(bucket, name, table, 0)
        faults.point("view-run")
        runs, merged = [*self.contents.get(str(bucket), ()), run], 0
        while (length := _due(runs, bucket)) > 0:
            merged += 1
            runs = [*runs[:-length], *self._merged(bucket, f"{name}-m{merged}", runs[-length:])]
        return WriteResult(bucket, len(table), Written(run, tuple(runs)))

    def _merged(self, bucket: int, name: str, runs: Sequence[Run]) -> list[Run]:
        table = added_up(read_runs(map(self.log.run_path, runs), self.schema))
        merges = 1 + max(run.merges for run in runs)
        return [self._write(bucket, name, table, merges)] if len(table) else []

    def _write(self, bucket: int, name: str, table: pa.Table, merges: int) -> Run:
        run = Run(bucket, f"{name}.arrow", len(table), 0, merges)
        return Run(bucket, run.file, run.rows, write_run(self.log.run_path(run), table), merges)


def _due(runs: Sequence[Run], bucket: int) -> int:
    """Return how many of the newest runs are to be merged; the first merges of buckets come in different batches."""
    fresh = all(run.merges == 0 for run in runs)
    return Tiers(2 + bucket % _FAN if fresh else _FAN, _SMALL).due(run.rows for run in reversed(runs))
