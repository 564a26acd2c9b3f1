"""A keyed batch: a bucket's changes → data files, delete files and an index run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.table import Table

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
from sinkql.state_store.directory import StateDirectory as StateHome
from sinkql.storage import failpoint
from sinkql.storage.spill import Ranges, hash_range, spilled_parts

_WAITING = 1 << 18
"""Entries that wait in memory."""


@dataclass(frozen=True, slots=True)
class UpsertTask:
    """Write one bucket of a keyed batch; `index` is the name of a manifest saved in `home`.

    With `change` append or upsert, rows end with `$seq`, and the last of a key wins; with upsert that may be one whose
    `$diff`, before `$seq`, says that the key is gone. With retract they end with `$diff` and are consolidated: a key
    has at most one row with +, and one without it goes. Two rows of one key alive at once, in a batch or over several,
    have no place in the table: SQ3552, before anything of them is written.
    """

    commit: str
    buckets: int | None
    key: tuple[str, ...]
    bucketing: str
    change: physical.Change
    sink: str
    epoch: int
    home: StateHome
    index: str
    table: TaskTable

    @classmethod
    def of(cls, table: Table, index: Index, home: StateHome, *, epoch: int, commit: str, change: physical.Change,
           bucketing: str, buckets: int) -> UpsertTask:  # fmt: skip
        """Return the task of an attempt on a loaded table and its saved index."""
        key = tuple(column.name for column in index.key)
        return cls(
            commit, buckets, key, bucketing, change, index.sink, epoch, home, index.name, for_tasks(table, key=key)
        )

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write one bucket's rows; raises SQ3552 for a key with two rows, SQ3411 for a torn run."""
        given = (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
        first = next(given, None)
        if first is None:
            return WriteResult(bucket, 0, None, superseded=0)
        files = _BucketFiles(self, bucket, attempt, fetched_index(self.home, self.index))
        schema, rows = self.table.schema(), 0

        def ranges(some: pa.Table) -> Ranges:
            return hash_range(first_halves(some, schema, self.key, self.home.hash_key))

        for part in spilled_parts(chain([first], given), first.schema, ranges, self.home.folder):
            rows += part.rows.num_rows
            files.add(part.rows, key_changes(part.rows, schema, self.key, self.change, self.home.hash_key))
        result = files.close()
        return WriteResult(bucket, files.keys, result, files.keys - files.upserts, rows - files.keys)


@dataclass(frozen=True, slots=True)
class UpsertResult:
    """What a task did in one bucket: `WriteResult.data`, None in its place where no row came."""

    change: IndexChange
    entries: tuple[FileEntry, ...]


class _BucketFiles:
    """Write the files of one bucket in one task attempt; its rows come in parts, each of later hashes."""

    def __init__(self, task: UpsertTask, bucket: int, attempt: str, index: Index) -> None:
        assert task.buckets is not None
        self._task, self._bucket, self._index = task, bucket, index
        self._buckets = task.buckets
        self._name = f"b{bucket}-{task.sink}-{task.epoch}-{task.commit}-{attempt}"
        self._runs = index.probed(bucket, buckets=task.buckets, bucketing=task.bucketing)
        fetch_runs(task.home, self._runs)
        self._mapped = [open_run(task.home.folder / run.name) for run in self._runs]
        self._rows = ClusteredWriter(task.table, lambda number: f"{self._name}-{number}.parquet", task.home.folder)
        self._dead: list[tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]] = []
        self._entries = _Waiting(task.home.folder)
        self.keys = self.upserts = 0

    def add(self, rows: pa.Table, changes: KeyChanges) -> None:
        """Take a part; raises SQ3552."""
        files, positions = probe(self._mapped, changes.h1, changes.h2)
        live = files != TOMBSTONE
        self._check_room(rows, changes, files)
        self._dead.append((files[live], positions[live]))
        chosen = rows.take(pa.array(changes.row[changes.upsert]))
        self._rows.add(cast(chosen, target_schema(self._task.table.schema(), chosen.schema)))
        # the index learns of new places, which are not known yet, and of keys that lived and go
        number = np.zeros(len(changes.row), np.uint32)
        number[changes.upsert] = np.arange(self.upserts, self.upserts + chosen.num_rows)
        comes = np.where(changes.upsert, 0, TOMBSTONE).astype(np.uint32)
        self._entries.add(Entries(changes.h1, changes.h2, comes, number).take(changes.upsert | live))
        self.keys += len(changes.row)
        self.upserts += chosen.num_rows

    def close(self) -> UpsertResult:
        """Write what is left to write."""
        entries, where = self._rows.close()
        failpoint.point("data-file")
        ids = [self._index.next_file_id + self._bucket + number * self._buckets for number in range(len(entries))]
        deletes, dead = self._write_deletes()
        run, gone = self._write_run(np.array(ids, np.uint32), where)
        home = IndexLocation(self._bucket, self._buckets, self._task.bucketing)
        notes = {
            id_: FileRecord(file.path, file.rows, size=file.size, home=home, place=file.place)
            for id_, file in zip(ids, entries, strict=True)
        }
        named = {entry.name: ids for entry, ids in deletes}
        vectors = self._task.table.version >= VECTORS
        change = IndexChange(self._index.name, notes, named, dead, run, gone, whole=vectors)
        return UpsertResult(change, (*entries, *(entry for entry, _ in deletes)))

    def _check_room(self, rows: pa.Table, changes: KeyChanges, files: npt.NDArray[np.uint32]) -> None:
        """Raise SQ3552 where a row comes while another of its key stays; rows found in the table make room."""
        crowded = np.flatnonzero(changes.fresh & (files != TOMBSTONE))
        ids, first = np.unique(files[crowded], return_index=True)
        for id_, place in zip(ids, crowded[first], strict=True):
            if has_rows_of(self._index.file(int(id_)).path, self._task.sink):
                raise two_rows(rows.select(list(self._task.key)), int(changes.row[place]))

    def _write_deletes(self) -> tuple[Named, dict[int, int]]:
        """Write what names dead rows, each returned with the ids of its data files; return the dead by id too."""
        files, positions = (np.concatenate(each) for each in zip(*self._dead, strict=True))
        if not len(files):
            return (), {}
        order = np.lexsort((positions, files))
        ids, starts = np.unique(files[order], return_index=True)
        each = np.split(positions[order].astype(np.int64), starts[1:])
        dead = {int(id_): part for id_, part in zip(ids, each, strict=True)}
        counts = {id_: len(part) for id_, part in dead.items()}
        return write_dead(self._task.table, self._index, dead, self._name), counts

    def _write_run(self, ids: npt.NDArray[np.uint32], where: Where) -> tuple[Run | None, tuple[str, ...]]:
        """Write the run, merged with the newest older ones when it is time: only runs of this bucket alone."""
        if not self._entries.rows:
            return None, ()
        owned = [run.rows for run in self._runs]
        for place, run in enumerate(self._runs):
            if (run.bucket, run.buckets, run.bucketing) != (self._bucket, self._buckets, self._task.bucketing):
                # Runs that hold keys of other buckets stay, and nothing may be merged across them.
                owned = owned[:place]
                break
        length = TIERS.due([self._entries.rows, *owned])
        gone = self._runs[: length - 1] if length else ()
        name, own = f"{self._name}.run", self._entries.resolved(ids, where)
        if not gone:
            return self._put(name, self._entries.rows, own), ()
        part = self._task.home.folder / f"part-{name}"
        try:
            if self._entries.large:
                write_run(part, self._entries.rows, own)
                newest = map_run(part)
            else:
                newest = next(own)
            both = [newest, *(open_run(self._task.home.folder / run.name) for run in gone)]
            found = self._merged(name, both, keep_tombstones=len(gone) < len(self._runs))
        finally:
            part.unlink(missing_ok=True)
        return found, tuple(run.name for run in gone)

    def _merged(self, name: str, runs: Sequence[Entries], *, keep_tombstones: bool) -> Run | None:
        if sum(run.rows for run in runs) <= MERGED_AT_ONCE:
            whole = merge(runs, keep_tombstones=keep_tombstones)
            return self._put(name, whole.rows, [whole])
        rows = sum(each.rows for each in merged(runs, keep_tombstones=keep_tombstones))
        return self._put(name, rows, merged(runs, keep_tombstones=keep_tombstones))

    def _put(self, name: str, rows: int, given: Iterable[Entries]) -> Run | None:
        """Write a run; None where all that was merged is gone."""
        if not rows:
            return None
        low, high = int(TOMBSTONE), 0

        def spanned() -> Iterator[Entries]:
            nonlocal low, high
            for each in given:
                named = each.file[each.file != TOMBSTONE]
                if len(named):
                    low, high = min(low, int(named.min())), max(high, int(named.max()))
                yield each

        write_run(self._task.home.folder / name, rows, spanned())
        failpoint.point("index-run")
        if self._task.home.remote:
            self._task.home.upload([name])
        span = (low, high) if low <= high else (1, 0)
        return Run(name, rows, self._bucket, self._buckets, self._task.bucketing, files=span)


class _Waiting:
    """What the index is to learn, in parts: the place of a row is its number, and file 0, until all files are written.

    Many entries wait in a temporary file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts: list[Entries] = []
        self._file: IO[bytes] | None = None
        self._lengths: list[int] = []
        self.rows = 0

    @property
    def large(self) -> bool:
        """Tell whether they are more than one part, or in the file."""
        return self._file is not None or len(self._parts) > 1

    def add(self, entries: Entries) -> None:
        """Add a part, of later hashes than all before it."""
        if not entries.rows:
            return
        self.rows += entries.rows
        self._parts.append(entries)
        if sum(part.rows for part in self._parts) > _WAITING and len(self._parts) > 1:
            self._put_by()

    def _put_by(self) -> None:
        if self._file is None:
            self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115  # it is needed until the run is written
        for part in self._parts:
            self._lengths.append(part.rows)
            for column in part:
                self._file.write(np.ascontiguousarray(column).data)
        self._parts = []

    def resolved(self, ids: npt.NDArray[np.uint32], where: Where) -> Iterator[Entries]:
        """Yield the parts, with the file and the position of each row that came."""
        for part in chain(self._taken_up(), self._parts):
            comes = part.file != TOMBSTONE
            files, positions = np.full(part.rows, TOMBSTONE, np.uint32), np.zeros(part.rows, np.uint32)
            found = where[part.pos[comes]]
            files[comes], positions[comes] = ids[found[:, 0]], found[:, 1]
            yield Entries(part.h1, part.h2, files, positions)

    def _taken_up(self) -> Iterator[Entries]:
        if self._file is None:
            return
        self._file.seek(0)
        for length in self._lengths:
            yield Entries._make(
                np.frombuffer(self._file.read(length * column.itemsize), column.dtype) for column in Entries.none()
            )
