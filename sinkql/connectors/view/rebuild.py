"""All rows of a view again, put by in parts → the changes that make the contents just these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connector_api.stream import WriteResult
from sinkql.connectors.view.log import Contents, Run, ViewLog, run_file
from sinkql.connectors.view.rows import HAD, RunFile, consolidate, consolidated_parts, in_batches, negate
from sinkql.connectors.view.task import Written, read_contents
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint


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
