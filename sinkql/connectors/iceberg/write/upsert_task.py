"""Write one bucket of a keyed batch: data files, delete files and a run of the key index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import WriteResult
from sinkql.connectors.iceberg.file.data_file import FileEntry, TaskTable, cast, for_tasks, has_rows_of, target_schema
from sinkql.connectors.iceberg.file.manifest import VECTORS
from sinkql.connectors.iceberg.file.partitioned_writer import ClusteredWriter, Where
from sinkql.connectors.iceberg.key_index.change import (
    KeyChanges,
    Named,
    first_halves,
    key_changes,
    two_rows,
    write_dead,
)
from sinkql.connectors.iceberg.key_index.index import Index, IndexChange, Run, fetch_runs, fetched_index
from sinkql.connectors.iceberg.key_index.layer import FileRecord, IndexLocation
from sinkql.connectors.iceberg.key_index.run import (
    MERGED_AT_ONCE,
    TIERS,
    TOMBSTONE,
    Entries,
    map_run,
    merge,
    merged,
    open_run,
    probe,
    write_run,
)
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint
from sinkql.storage.sorted_run import Indices
from sinkql.storage.spill import Ranges, hash_range, spilled_parts

if TYPE_CHECKING:  # a task imports only what it uses of pyiceberg
    from pyiceberg.table import Table

_MOST_IN_MEMORY = 1 << 18
"""Index entries."""


@dataclass(frozen=True, slots=True)
class UpsertTask:
    """Writes one bucket of a keyed batch; `index` is the name of an index saved in `directory`.

    If `change` is append or upsert, rows end with `$seq`, and the last row of a key wins. With upsert, a `$diff` before
    `$seq` marks deleted keys. If `change` is retract, rows end with `$diff` and are consolidated: a key has at most one
    inserted row, and a key with only a deleted row is deleted. If two rows of one key would exist together, in one
    batch or over several, the task raises SQ3552 before it writes any of them.
    """

    commit: str
    buckets: int | None
    key: tuple[str, ...]
    bucketing: str
    change: physical.Change
    sink: str
    epoch: int
    directory: StateDirectory
    index: str
    table: TaskTable

    @classmethod
    def from_index(
        cls,
        table: Table,
        index: Index,
        directory: StateDirectory,
        *,
        epoch: int,
        commit: str,
        change: physical.Change,
        bucketing: str,
        buckets: int,
    ) -> UpsertTask:
        """Return the task of an attempt on a loaded table and its saved index."""
        key = tuple(column.name for column in index.key)
        return cls(
            commit, buckets, key, bucketing, change, index.sink, epoch, directory, index.name, for_tasks(table, key=key)
        )

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write one bucket's rows; raises SQ3552 for a key with two rows, SQ3411 for a torn run."""
        tables = (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
        first = next(tables, None)
        if first is None:
            return WriteResult(bucket, 0, None, superseded=0)
        files = _BucketFiles(self, bucket, attempt, fetched_index(self.directory, self.index))
        schema, hash_key, rows = self.table.schema(), self.directory.hash_key, 0

        def ranges(some: pa.Table) -> Ranges:
            return hash_range(first_halves(some, schema, self.key, hash_key))

        for part in spilled_parts(chain([first], tables), first.schema, ranges, self.directory.folder):
            rows += part.rows.num_rows
            files.add(part.rows, key_changes(part.rows, schema, self.key, self.change, hash_key))
        result = files.close()
        return WriteResult(bucket, files.keys, result, files.keys - files.upserts, rows - files.keys)


@dataclass(frozen=True, slots=True)
class UpsertResult:
    """A task's change of the index and its files: `WriteResult.data`, which is None if the bucket has no rows."""

    change: IndexChange
    entries: tuple[FileEntry, ...]


class _BucketFiles:
    """Writes the files of one bucket in one task attempt. Rows are added in parts, in the order of their hashes."""

    def __init__(self, task: UpsertTask, bucket: int, attempt: str, index: Index) -> None:
        assert task.buckets is not None
        self._task, self._bucket, self._index = task, bucket, index
        self._buckets = task.buckets
        self._folder = task.directory.folder
        self._name = f"b{bucket}-{task.sink}-{task.epoch}-{task.commit}-{attempt}"
        self._runs = index.probed(bucket, buckets=task.buckets, bucketing=task.bucketing)
        fetch_runs(task.directory, self._runs)
        self._mapped = [open_run(self._folder / run.name) for run in self._runs]
        self._rows = ClusteredWriter(task.table, lambda number: f"{self._name}-{number}.parquet", self._folder)
        self._dead: list[tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]] = []
        self._entries = _PendingEntries(self._folder)
        self.keys = self.upserts = 0

    def add(self, rows: pa.Table, changes: KeyChanges) -> None:
        """Add a part; raises SQ3552."""
        files, positions = probe(self._mapped, changes.h1, changes.h2)
        live = files != TOMBSTONE
        self._check_replaceable(rows, changes, files)
        self._dead.append((files[live], positions[live]))
        upserts, places = _selected(rows, changes.row[changes.upsert])
        self._rows.add(cast(upserts, target_schema(self._task.table.schema(), upserts.schema)))
        # the index gets the new rows, whose positions are not known yet, and the deletion of live keys
        number = np.zeros(len(changes.row), np.uint32)
        number[changes.upsert] = self.upserts + places
        file = np.where(changes.upsert, 0, TOMBSTONE).astype(np.uint32)
        self._entries.add(Entries(changes.h1, changes.h2, file, number).take(changes.upsert | live))
        self.keys += len(changes.row)
        self.upserts += upserts.num_rows

    def close(self) -> UpsertResult:
        """Finish the data files, then write the delete files and the run."""
        entries, where = self._rows.close()
        failpoint.point("data-file")
        ids = [self._index.next_file_id + self._bucket + number * self._buckets for number in range(len(entries))]
        deletes, dead = self._write_deletes()
        run, merged_runs = self._write_run(np.array(ids, np.uint32), where)
        location = IndexLocation(self._bucket, self._buckets, self._task.bucketing)
        records = {
            id_: FileRecord(file.path, file.rows, size=file.size, home=location, place=file.place)
            for id_, file in zip(ids, entries, strict=True)
        }
        targets = {entry.name: ids for entry, ids in deletes}
        vectors = self._task.table.version >= VECTORS
        change = IndexChange(self._index.name, records, targets, dead, run, merged_runs, whole=vectors)
        return UpsertResult(change, (*entries, *(entry for entry, _ in deletes)))

    def _check_replaceable(self, rows: pa.Table, changes: KeyChanges, files: npt.NDArray[np.uint32]) -> None:
        """Raise SQ3552 if a row is inserted while the table has another row of this sink with its key."""
        conflicts = np.flatnonzero(changes.fresh & (files != TOMBSTONE))
        ids, first = np.unique(files[conflicts], return_index=True)
        for id_, place in zip(ids, conflicts[first], strict=True):
            if has_rows_of(self._index.file(int(id_)).path, self._task.sink):
                raise two_rows(rows.select(list(self._task.key)), int(changes.row[place]))

    def _write_deletes(self) -> tuple[Named, dict[int, int]]:
        """Write the delete files, each returned with the ids of its data files; also return the dead rows by id."""
        files, positions = (np.concatenate(parts) for parts in zip(*self._dead, strict=True))
        if not len(files):
            return (), {}
        order = np.lexsort((positions, files))
        ids, starts = np.unique(files[order], return_index=True)
        parts = np.split(positions[order].astype(np.int64), starts[1:])
        dead = {int(id_): part for id_, part in zip(ids, parts, strict=True)}
        counts = {id_: len(part) for id_, part in dead.items()}
        return write_dead(self._task.table, self._index, dead, self._name), counts

    def _write_run(self, ids: npt.NDArray[np.uint32], where: Where) -> tuple[Run | None, tuple[str, ...]]:
        """Write the run, merged with the newest runs of this bucket if that is due; return the merged ones too."""
        if not self._entries.rows:
            return None, ()
        sizes = [run.rows for run in self._runs]
        for place, run in enumerate(self._runs):
            if (run.bucket, run.buckets, run.bucketing) != (self._bucket, self._buckets, self._task.bucketing):
                # Runs that hold keys of other buckets stay, and no merge may skip them.
                sizes = sizes[:place]
                break
        length = TIERS.due([self._entries.rows, *sizes])
        merged_runs = self._runs[: length - 1] if length else ()
        name, resolved = f"{self._name}.run", self._entries.resolve(ids, where)
        if not merged_runs:
            return self._save(name, self._entries.rows, resolved), ()
        part = self._folder / f"part-{name}"
        try:
            if self._entries.is_large:
                write_run(part, self._entries.rows, resolved)
                newest = map_run(part)
            else:
                newest = next(resolved)
            runs = [newest, *(open_run(self._folder / run.name) for run in merged_runs)]
            merged_run = self._merge(name, runs, keep_tombstones=len(merged_runs) < len(self._runs))
        finally:
            part.unlink(missing_ok=True)
        return merged_run, tuple(run.name for run in merged_runs)

    def _merge(self, name: str, runs: Sequence[Entries], *, keep_tombstones: bool) -> Run | None:
        if sum(run.rows for run in runs) <= MERGED_AT_ONCE:
            entries = merge(runs, keep_tombstones=keep_tombstones)
            return self._save(name, entries.rows, [entries])
        rows = sum(part.rows for part in merged(runs, keep_tombstones=keep_tombstones))
        return self._save(name, rows, merged(runs, keep_tombstones=keep_tombstones))

    def _save(self, name: str, rows: int, parts: Iterable[Entries]) -> Run | None:
        """Write and upload a run; return None if a merge left no entries."""
        if not rows:
            return None
        low, high = int(TOMBSTONE), 0

        def with_span() -> Iterator[Entries]:
            nonlocal low, high
            for part in parts:
                files = part.file[part.file != TOMBSTONE]
                if len(files):
                    low, high = min(low, int(files.min())), max(high, int(files.max()))
                yield part

        write_run(self._folder / name, rows, with_span())
        failpoint.point("index-run")
        if self._task.directory.remote:
            self._task.directory.upload([name])
        span = (low, high) if low <= high else (1, 0)
        return Run(name, rows, self._bucket, self._buckets, self._task.bucketing, files=span)


def _selected(rows: pa.Table, numbers: Indices) -> tuple[pa.Table, Indices]:
    """Return the rows with these numbers in the order of `rows`, and the place of each number among them.

    The input is often in the order of the file, or nearly, so that sorting it costs little and copying it nothing.
    """
    if len(numbers) == rows.num_rows:
        return rows, numbers
    is_chosen = np.zeros(rows.num_rows, np.bool_)
    is_chosen[numbers] = True
    return rows.filter(pa.array(is_chosen)), (np.cumsum(is_chosen) - 1)[numbers]


class _PendingEntries:
    """The entries of the new run, in parts. Until all files are written, a row's position is its number and its file 0.

    If there are many entries, they wait in a temporary file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts: list[Entries] = []
        self._file: IO[bytes] | None = None
        self._lengths: list[int] = []
        self.rows = 0

    @property
    def is_large(self) -> bool:
        """Return whether the entries are more than one part, or in the file."""
        return self._file is not None or len(self._parts) > 1

    def add(self, entries: Entries) -> None:
        """Add a part, whose hashes are greater than all before it."""
        if not entries.rows:
            return
        self.rows += entries.rows
        self._parts.append(entries)
        if sum(part.rows for part in self._parts) > _MOST_IN_MEMORY and len(self._parts) > 1:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115  # it is needed until the run is written
        for part in self._parts:
            self._lengths.append(part.rows)
            for column in part:
                self._file.write(np.ascontiguousarray(column).data)
        self._parts = []

    def resolve(self, ids: npt.NDArray[np.uint32], where: Where) -> Iterator[Entries]:
        """Yield the parts with the files and positions of the rows."""
        for part in chain(self._read_spilled(), self._parts):
            upserts = part.file != TOMBSTONE
            files, positions = np.full(part.rows, TOMBSTONE, np.uint32), np.zeros(part.rows, np.uint32)
            locations = where[part.pos[upserts]]
            files[upserts], positions[upserts] = ids[locations[:, 0]], locations[:, 1]
            yield Entries(part.h1, part.h2, files, positions)

    def _read_spilled(self) -> Iterator[Entries]:
        if self._file is None:
            return
        self._file.seek(0)
        for length in self._lengths:
            yield Entries._make(
                np.frombuffer(self._file.read(length * column.itemsize), column.dtype) for column in Entries.none()
            )
