"""Compare the staged rows of a full refresh with the table, and write the differences.

Equal rows stay in their files. Other rows of the table are deleted, and the staged rows that the table lacks are
written to new files. Both sides are sorted by key hash on disk, the table's rows only as hashes, and compared one range
of hashes at a time. So neither the table nor the view has to fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.table import Table

from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.compact.selection import target_size
from sinkql.connectors.iceberg.file.data_file import FileEntry, TaskTable, for_tasks, rewritten_name
from sinkql.connectors.iceberg.file.manifest import VECTORS
from sinkql.connectors.iceberg.file.partition import PartitionValue, divide
from sinkql.connectors.iceberg.file.sort_order import SortedWriter
from sinkql.connectors.iceberg.key_index.change import write_dead
from sinkql.connectors.iceberg.key_index.index import Index, IndexChange, Run
from sinkql.connectors.iceberg.key_index.layer import FileRecord
from sinkql.connectors.iceberg.key_index.run import Entries, map_run, write_run
from sinkql.connectors.iceberg.write.refresh_collect import range_starts
from sinkql.connectors.iceberg.write.refresh_rows import (
    StagedParts,
    StagedRows,
    TableHashes,
    TableRows,
    range_bounds,
)
from sinkql.row_hash import Hashes
from sinkql.storage import failpoint
from sinkql.storage.sorted_run import Indices, find, sort_indices


@dataclass(slots=True)
class RefreshResult:
    """The files to commit, the index after the commit, and the number of rows written."""

    change: FileChange
    index: Index
    rows: int


@dataclass(slots=True)
class _OpenFile:
    """An unfinished file of one partition, with the hashes of its rows' keys in the order of writing."""

    writer: SortedWriter
    keys: list[tuple[Hashes, Hashes]] = field(default_factory=list)
    bytes: int = 0


class _NewFiles:
    """The new data files, and a run for each with the positions of its rows. The index assigns their numbers."""

    def __init__(self, table: TaskTable, index: Index, folder: Path, *, size: int, attempt: str, epoch: int) -> None:
        self._table, self._index, self._folder = table, index, folder
        self._size, self._attempt, self._epoch = size, attempt, epoch
        self._open: dict[PartitionValue, _OpenFile] = {}
        self.records: dict[int, FileRecord] = {}
        self.runs: list[Path] = []
        self.entries: list[FileEntry] = []
        self.count = 0

    def write(self, rows: pa.Table, h1: Hashes, h2: Hashes) -> None:
        """Write rows to the files of their partitions."""
        for partition, places in divide(rows, self._table.schema(), self._table.spec()):
            file = self._open.get(partition)
            if file is None:
                file = self._open[partition] = _OpenFile(SortedWriter(self._table, self._next_name(), partition))
            part = rows if len(places) == rows.num_rows else rows.take(pa.array(places))
            file.writer.write(part)
            file.keys.append((h1[places], h2[places]))
            file.bytes += part.nbytes
            if file.bytes >= self._size:
                self._close(partition)

    def close(self) -> None:
        """Finish all files."""
        for partition in list(self._open):
            self._close(partition)

    def discard(self) -> None:
        """Delete the unfinished files."""
        for file in self._open.values():
            file.writer.discard()

    def _next_name(self) -> str:
        self.count += 1
        return rewritten_name(self._index.sink, self._epoch, self._attempt, self.count)

    def _close(self, partition: PartitionValue) -> None:
        """Finish a file, and write the run with its rows' positions."""
        file = self._open.pop(partition)
        entry = file.writer.close()
        assert entry is not None
        self.entries.append(entry)
        number = self._index.next_file_id + len(self.records)
        self.records[number] = FileRecord(entry.path, entry.rows, size=entry.size, place=partition)
        h1, h2 = (np.concatenate(halves) for halves in zip(*file.keys, strict=True))
        if file.writer.order is not None:
            h1, h2 = h1[file.writer.order], h2[file.writer.order]
        order = sort_indices(h1, h2)
        files = np.full(len(h1), number, np.uint32)
        path = self._folder / f"run-{self._attempt}-{len(self.runs)}"
        write_run(path, len(h1), [Entries(h1[order], h2[order], files, order.astype(np.uint32))])
        self.runs.append(path)


class RefreshDiff:
    """One comparison. `folder` has the index, and `staging` the staged rows.

    `between` is called with the number of rows compared.
    """

    def __init__(
        self, table: Table, index: Index, folder: Path, staging: Path, *, attempt: str, epoch: int,
        between: Callable[[int], None],
    ) -> None:  # fmt: skip
        key = tuple(column.name for column in index.key)
        self._table = for_tasks(table, key=key)
        self._index, self._folder, self._staging = index, folder, staging
        self._attempt, self._epoch, self._between = attempt, epoch, between
        self._hashes = TableHashes(self._table, index, folder, staging, attempt=attempt)
        self._files = _NewFiles(
            self._table, index, staging, size=target_size(table.properties), attempt=attempt, epoch=epoch
        )
        self._dead: dict[int, npt.NDArray[np.bool_]] = {}
        self._equal: list[Path] = []
        self._rows = 0
        self.written: list[FileEntry] = self._files.entries

    def compare(self, names: Sequence[str]) -> RefreshResult:
        """Compare the table with the parts of these names, and write the rows that it lacks.

        Raises SQ3552 for two rows of one key.
        """
        self._staging.mkdir(parents=True, exist_ok=True)
        for _ in self._hashes.write():
            self._between(self._hashes.rows)
        staged = StagedParts(self._staging, names, [column.name for column in self._index.key])
        compared = self._hashes.rows
        bounds = range_bounds(staged.rows + compared)
        staged.divide(bounds)
        self._hashes.divide(bounds)
        try:
            for number in range(len(bounds) + 1):
                rows = staged.read_range(number)
                self._compare_range(staged, rows, self._hashes.read_range(number))
                compared += len(rows.h1)
                self._between(compared)
            self._files.close()
        except BaseException:
            self._files.discard()
            raise
        failpoint.point("rebuild-files")
        return self._finish()

    def _compare_range(self, parts: StagedParts, staged: StagedRows, present: TableRows) -> None:
        matches = find(present.h1, present.h2, staged.h1, staged.h2)
        matched: Indices = np.flatnonzero(matches >= 0)
        places = matches[matched]
        equal = matched[(present.d1[places] == staged.d1[matched]) & (present.d2[places] == staged.d2[matched])]
        stays = np.zeros(len(present.h1), np.bool_)
        stays[matches[equal]] = True
        self._keep(present.take(stays))
        self._delete(present.take(~stays))
        differs = np.ones(len(staged.h1), np.bool_)
        differs[equal] = False
        self._write(parts, staged.take(differs))

    def _keep(self, rows: TableRows) -> None:
        """Write a run of the rows that stay in their files."""
        if len(rows.h1):
            path = self._staging / f"kept-{self._attempt}-{len(self._equal)}"
            write_run(path, len(rows.h1), [Entries(rows.h1, rows.h2, rows.file, rows.pos)])
            self._equal.append(path)

    def _delete(self, rows: TableRows) -> None:
        """Mark rows of the table as dead."""
        for number in np.unique(rows.file).tolist():
            dead = self._dead.setdefault(number, np.zeros(self._index.file(number).rows, np.bool_))
            dead[rows.pos[rows.file == number]] = True

    def _write(self, parts: StagedParts, rows: StagedRows) -> None:
        for number in np.unique(rows.part).tolist():
            of_part = rows.take(rows.part == number)
            self._files.write(parts.take(number, of_part.place), of_part.h1, of_part.h2)
        self._rows += len(rows.h1)

    def _finish(self) -> RefreshResult:
        dead = {number: np.flatnonzero(mask) for number, mask in self._dead.items()}
        name = f"c{self._files.count}-{self._index.sink}-{self._epoch}-{self._attempt}"
        deletes = write_dead(self._table, self._index, dead, name)
        self.written += [entry for entry, _ in deletes]
        change = IndexChange(
            self._index.name,
            self._files.records,
            {entry.name: targets for entry, targets in deletes},
            {number: len(rows) for number, rows in dead.items()},
            self._write_base(),
            tuple(run.name for run in self._index.runs),
            whole=self._table.version >= VECTORS,
        )
        index = self._index.after([change], epoch=self._epoch, commit=self._attempt)
        return RefreshResult(FileChange(tuple(self.written), index.leaving), index, self._rows)

    def _write_base(self) -> Run | None:
        """Write one run of all rows that the table has after the refresh."""
        runs = [map_run(path) for path in (*self._equal, *self._files.runs)]
        rows = sum(run.rows for run in runs)
        if not rows:
            return None
        bounds = range_bounds(rows)
        sides = [(run, range_starts(run.h1, bounds)) for run in runs]

        def merge() -> Iterator[Entries]:
            for number in range(len(bounds) + 1):
                parts = [run.take(np.arange(starts[number], starts[number + 1])) for run, starts in sides]
                entries = Entries._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
                yield entries.take(sort_indices(entries.h1, entries.h2))

        name = f"base-{self._index.sink}-{self._epoch}-{self._attempt}.run"
        write_run(self._folder / name, rows, merge())
        return Run(name, rows)
