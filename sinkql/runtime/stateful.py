"""What tasks of stateful operators have in common: a bucket's rows and runs → the report of a complete attempt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sinkql.errors import SinkqlError
from sinkql.runtime.arrangement import Place, bucket_folder
from sinkql.runtime.engine import Arrangements
from sinkql.runtime.preparation import Preparation
from sinkql.runtime.report import Runs, write_report
from sinkql.runtime.run import Entry

ROWS = 65_536
"""The most rows of a batch that a task yields."""


@dataclass(frozen=True, slots=True)
class StatefulTask:
    """Hold what one attempt at a batch needs of an operator in any bucket; picklable."""

    name: str
    preparation: Preparation
    folder: Path
    epoch: int
    commit: str
    runs: Runs

    def delivered(self, bucket: int, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        """Return all rows, in the declared types; SQ3407 for a row of another bucket."""
        schema = self.preparation.delivered()
        tables = [self._checked(bucket, batch, schema) for batch in batches if batch.num_rows]
        return pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()

    def _checked(self, bucket: int, batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
        if "$b" in batch.schema.names and not pc.all(pc.equal(batch.column("$b"), bucket)).as_py():
            others = sorted(pc.unique(batch.column("$b")).to_pylist())
            raise SinkqlError("SQ3407", f'state task "{self.name}" gets rows of buckets {others} in bucket {bucket}')
        return pa.table([_typed(batch.column(each.name), each.type) for each in schema], schema=schema)

    def place(self, arrangement: str, bucket: int, attempt: str) -> tuple[Place, list[Entry]]:
        """Return where an arrangement's new runs of this attempt go, and the entries of its live ones."""
        entries = list(self.runs.get(arrangement, {}).get(str(bucket), ()))
        folder = bucket_folder(self.folder, arrangement, bucket)
        return Place(folder, bucket, f"{self.epoch}-{self.commit}-{attempt}"), entries

    def report(self, bucket: int, attempt: str, runs: Mapping[str, list[Entry]]) -> None:
        """Leave word that this attempt is complete, with the runs that are live after it."""
        write_report(
            self.folder,
            epoch=self.epoch,
            commit=self.commit,
            operator=self.name,
            bucket=bucket,
            attempt=attempt,
            runs=runs,
        )


def known_runs(arrangements: Arrangements, names: set[str]) -> Runs:
    """Return the live runs of the arrangements of these names."""
    known = arrangements.manifest.get("arrangements", {})
    return {each: known[each] for each in sorted(names & set(known))}


def _typed(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return the values in the declared type; an unsigned hash keeps its bits."""
    if values.type == pa.uint64() and type_ == pa.int64():
        return values.view(type_)
    return values if values.type == type_ else values.cast(type_)
