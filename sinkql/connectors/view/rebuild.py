"""All rows of a view again, put by in parts → the changes that make the contents just these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from sinkql import faults
from sinkql.connectors.view.log import Contents, Run, ViewLog
from sinkql.connectors.view.rows import added_up, negated, read_runs, write_run
from sinkql.connectors.view.task import Written
from sinkql.extension.stream import WriteResult


@dataclass(frozen=True, slots=True)
class CollectTask:
    """Put by the changes of one bucket of a part; a `WriteTask`."""

    commit: str
    buckets: int | None
    key: tuple[str, ...]
    epoch: int
    log: ViewLog
    schema: pa.Schema

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write a file; the result's data is its run, None where nothing changed."""
        given = [batch for batch in batches if batch.num_rows]
        if not given:
            return WriteResult(bucket, 0, None)
        table = pa.Table.from_batches(given, given[0].schema).select(self.schema.names).cast(self.schema)
        run = Run(bucket, f"{self.epoch}-{self.commit}-{attempt}-c.arrow", len(table), 0)
        write_run(self.log.run_path(run), table)
        faults.point("rebuild-part")
        return WriteResult(bucket, len(table), run)


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
            had = contents.get(str(bucket), ())
            new = added_up(self._read(put_by.get(bucket, ())))
            changes = added_up(pa.concat_tables([new, negated(self._read(had))]))
            rows += len(new)
            self.between(rows)
            if len(changes):
                whole = (self._write(bucket, f"{name}-m1", new, 1),) if len(new) else ()
                found.append(Written(self._write(bucket, name, changes, 0), whole))
        return found

    def _read(self, runs: Sequence[Run]) -> pa.Table:
        return read_runs(map(self.log.run_path, runs), self.schema)

    def _write(self, bucket: int, name: str, table: pa.Table, merges: int) -> Run:
        run = Run(bucket, f"{name}.arrow", len(table), 0, merges)
        return Run(bucket, run.file, run.rows, write_run(self.log.run_path(run), table), merges)
