"""One bucket's changes of one batch → a data file of new rows, delete files of old versions, and an index run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from sinkql import faults, physical
from sinkql.connector.stream import WriteResult
from sinkql.connectors.iceberg.datafile import FileEntry, TaskTable, cast, for_tasks, target_schema, write_data_file
from sinkql.connectors.iceberg.deletes import partitioned, write_position_deletes
from sinkql.connectors.iceberg.index import Index, KeyColumn, read_manifest, sync_folder
from sinkql.connectors.iceberg.keyhash import Hashes, hash_keys
from sinkql.connectors.iceberg.result import UpsertResult
from sinkql.connectors.iceberg.run import (
    TOMBSTONE,
    Entries,
    Places,
    merge,
    merge_length,
    open_run,
    probe,
    repeats,
    sort_places,
    write_run,
)
from sinkql.errors import SinkqlError

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Changes:
    """Hold one row's place for each key that changes, sorted by the key's hash.

    `upsert` tells where the row comes, else it goes; `fresh` where one comes that no other makes room for.
    """

    h1: Hashes
    h2: Hashes
    row: Places
    upsert: Mask
    fresh: Mask


@dataclass(frozen=True, slots=True)
class UpsertTask:
    """Write one bucket of a keyed batch; `index` is the name of a manifest saved in `folder`.

    With `change` append or upsert, rows end with `$seq`, and the last of a key wins. With retract they end with
    `$diff` and are consolidated: a key has at most one row with +, and one without it goes. Two rows of one key alive
    at once, in a batch or over several, have no place in the table: SQ3552, before anything of them is written.
    """

    commit: str
    buckets: int | None
    key: tuple[str, ...]
    bucketing: str
    change: physical.Change
    sink: str
    epoch: int
    folder: Path
    index: str
    table: TaskTable

    @classmethod
    def of(cls, table: Table, index: Index, folder: Path, *, epoch: int, commit: str, change: physical.Change,
           bucketing: str, buckets: int) -> UpsertTask:  # fmt: skip
        """Return the task of an attempt on a loaded table and its saved index; raises SQ2952 if it has partitions."""
        if not table.spec().is_unpartitioned():
            raise partitioned(table)
        key = tuple(column.name for column in index.key)
        return cls(commit, buckets, key, bucketing, change, index.sink, epoch, folder, index.name, for_tasks(table))

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write one bucket's rows; raises SQ3552 for a key with two rows, SQ3411 for a torn run."""
        given = [batch for batch in batches if batch.num_rows]
        if not given:
            return WriteResult(bucket, 0, None)
        rows = pa.Table.from_batches(given).combine_chunks()
        changes = self._changes(rows)
        result = _Attempt(self, bucket, attempt, load_index(self.folder / self.index)).write(rows, changes)
        return WriteResult(bucket, len(changes.row), result)

    def _changes(self, rows: pa.Table) -> Changes:
        keys = cast(rows, target_schema(key_schema(self.table.schema(), self.key), rows.schema))
        h1, h2 = hash_keys([keys.column(name) for name in self.key])
        if self.change == "retract":
            diff = rows.column("$diff").to_numpy()
            order = sort_places(h1, h2, np.sign(diff))  # the row with + comes last of its key
            _check_single(keys, h1[order], h2[order], diff[order], order)
            upsert = diff[order] > 0
            fresh = upsert & ~repeats(h1[order], h2[order])
        else:
            order = sort_places(h1, h2, rows.column("$seq").to_numpy())
            upsert, fresh = np.ones(len(order), np.bool_), np.zeros(len(order), np.bool_)
        last = np.ones(len(order), np.bool_)
        last[:-1] = ~repeats(h1[order], h2[order])[1:]
        chosen = order[last]
        return Changes(h1[chosen], h2[chosen], chosen, upsert[last], fresh[last])


class _Attempt:
    """Write the files of one bucket in one task attempt."""

    def __init__(self, task: UpsertTask, bucket: int, attempt: str, index: Index) -> None:
        assert task.buckets is not None
        self._task, self._bucket, self._index = task, bucket, index
        self._buckets = task.buckets
        self._name = f"b{bucket}-{task.sink}-{task.epoch}-{task.commit}-{attempt}"
        self._file_id = index.next_file_id + bucket
        self._runs = index.probed(bucket, buckets=task.buckets, bucketing=task.bucketing)

    def write(self, rows: pa.Table, changes: Changes) -> UpsertResult:
        mapped = [open_run(self._task.folder / run.name) for run in self._runs]
        files, positions = probe(mapped, changes.h1, changes.h2)
        live = files != TOMBSTONE
        self._check_room(rows, changes, files)
        file = self._write_rows(rows, changes)
        deletes, dead = self._write_deletes(files[live], positions[live])
        run, run_rows, merged = self._write_run(self._entries(changes, live))
        return UpsertResult(
            index=self._index.name,
            buckets=self._buckets,
            bucketing=self._task.bucketing,
            file_id=self._file_id,
            file=file,
            deletes=deletes,
            dead=dead,
            run=run,
            run_rows=run_rows,
            merged=merged,
        )

    def _check_room(self, rows: pa.Table, changes: Changes, files: npt.NDArray[np.uint32]) -> None:
        """Raise SQ3552 where a row comes while another of its key stays; rows found in the table make room."""
        crowded = np.flatnonzero(changes.fresh & (files != TOMBSTONE))
        ids, first = np.unique(files[crowded], return_index=True)
        for id_, place in zip(ids, crowded[first], strict=True):
            name = self._index.files[int(id_)].path.rpartition("/")[2]
            if f"-{self._task.sink}-" in name:
                raise _two_rows(rows.select(list(self._task.key)), int(changes.row[place]))

    def _write_rows(self, rows: pa.Table, changes: Changes) -> FileEntry | None:
        """Write the new rows in hash order, so that a key's position is its rank."""
        chosen = rows.take(pa.array(changes.row[changes.upsert]))
        file = write_data_file(self._task.table, f"{self._name}.parquet", chosen)
        faults.point("data-file")
        return file

    def _write_deletes(
        self, files: npt.NDArray[np.uint32], positions: npt.NDArray[np.uint32]
    ) -> tuple[tuple[FileEntry, ...], dict[int, int]]:
        if not len(files):
            return (), {}
        order = np.lexsort((positions, files))
        ids, starts = np.unique(files[order], return_index=True)
        parts = np.split(positions[order].astype(np.int64), starts[1:])
        dead = {self._index.files[int(id_)].path: part for id_, part in zip(ids, parts, strict=True)}
        whole = [dead]
        if self._task.table.properties.get("write.delete.granularity") == "file":
            whole = [{path: part} for path, part in dead.items()]
        deletes = tuple(
            write_position_deletes(self._task.table, f"{self._name}-{number}-deletes.parquet", each)
            for number, each in enumerate(whole)
        )
        return deletes, {int(id_): len(part) for id_, part in zip(ids, parts, strict=True)}

    def _entries(self, changes: Changes, live: Mask) -> Entries:
        """Return what the index learns: new places, and tombstones for keys that lived and go."""
        files = np.full(len(changes.row), TOMBSTONE, np.uint32)
        positions = np.zeros(len(changes.row), np.uint32)
        files[changes.upsert] = self._file_id
        positions[changes.upsert] = np.arange(np.count_nonzero(changes.upsert), dtype=np.uint32)
        return Entries(changes.h1, changes.h2, files, positions).take(changes.upsert | live)

    def _write_run(self, entries: Entries) -> tuple[str | None, int, tuple[str, ...]]:
        """Write the run, merged with the newest older ones when it is time: only runs of this bucket alone."""
        if not entries.rows:
            return None, 0, ()
        owned = [run.rows for run in self._runs]
        for place, run in enumerate(self._runs):
            if (run.bucket, run.buckets, run.bucketing) != (self._bucket, self._buckets, self._task.bucketing):
                # Runs that hold keys of other buckets stay, and nothing may be merged across them.
                owned = owned[:place]
                break
        length = merge_length([entries.rows, *owned])
        merged = self._runs[: length - 1] if length else ()
        if merged:
            older = [open_run(self._task.folder / run.name) for run in merged]
            entries = merge([entries, *older], keep_tombstones=len(merged) < len(self._runs))
        if not entries.rows:  # all that was merged is gone
            return None, 0, tuple(run.name for run in merged)
        name = f"{self._name}.run"
        write_run(self._task.folder / name, entries.rows, [entries])
        sync_folder(self._task.folder)
        faults.point("index-run")
        return name, entries.rows, tuple(run.name for run in merged)


def key_schema(schema: Schema, key: tuple[str, ...]) -> Schema:
    """Return the part of a table's schema that is its key."""
    return Schema(*(field for field in schema.fields if field.name in key))


def key_columns(table: Table, key: tuple[str, ...]) -> tuple[KeyColumn, ...]:
    """Return the key columns as the table has them, for `Index.load` and `rebuild`."""
    fields = {field.name: field for field in table.schema().fields}
    return tuple(KeyColumn(name, fields[name].field_id, str(fields[name].field_type)) for name in key)


@lru_cache(maxsize=4)
def load_index(path: Path) -> Index:
    """Read a saved manifest; the tasks of a batch in one process read it once."""
    return read_manifest(path)


def _check_single(keys: pa.Table, h1: Hashes, h2: Hashes, diff: Places, order: Places) -> None:
    twice = np.flatnonzero(repeats(h1, h2) & (diff > 0) & (np.roll(diff, 1) > 0) | (diff > 1))
    if len(twice):
        raise _two_rows(keys, int(order[twice[0]]))


def _two_rows(keys: pa.Table, row: int) -> SinkqlError:
    return SinkqlError(
        "SQ3552",
        f"two rows have the key {key_text(keys, row)}",
        hint="Choose a KEY that identifies each row of the view.",
    )


def key_text(keys: pa.Table, row: int) -> str:
    """Return a row's key for a message: `(id = 7, name = 'x')`."""
    values = keys.slice(row, 1).to_pylist()[0]
    return "(" + ", ".join(f"{name} = {value!r}" for name, value in values.items()) + ")"
