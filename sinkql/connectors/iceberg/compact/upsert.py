"""Rewrite files of an upsert sink without their dead rows, and update the rows' positions in the key index.

The key index decides which rows are live, and has the hashes of their keys; the keys of the first rows of each file are
compared with it. Delete files are not read for that. They leave the table with the last data file that they name, and
many small ones are combined.

Rows are copied a part at a time, with batches in between. At the end, the new runs of the index show which copied rows
these batches changed: these rows are dead in the new file from the start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.table.snapshots import Operation

from sinkql.connectors.iceberg.commit.committer import delete_manifests
from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.compact.compaction import (
    Attempt,
    Compaction,
    Footprint,
    UnreadableFileError,
    WrongIndexError,
    delete_files,
    readable,
)
from sinkql.connectors.iceberg.compact.selection import CompactionCandidates, FileGroup
from sinkql.connectors.iceberg.file.data_file import (
    FileEntry,
    TaskTable,
    cast,
    for_tasks,
    rewritten_name,
    target_schema,
)
from sinkql.connectors.iceberg.file.deletes import (
    Positions,
    read_position_deletes,
    write_position_deletes,
    write_vectors,
)
from sinkql.connectors.iceberg.file.manifest import VECTORS
from sinkql.connectors.iceberg.file.partition import PartitionValue
from sinkql.connectors.iceberg.file.reader import RewrittenRows
from sinkql.connectors.iceberg.file.sort_order import SortedWriter
from sinkql.connectors.iceberg.key_index.compaction import compact_runs
from sinkql.connectors.iceberg.key_index.index import Index, MergedDeletes, Rewrite, Run
from sinkql.connectors.iceberg.key_index.key_hash import key_schema
from sinkql.connectors.iceberg.key_index.layer import FileRecord
from sinkql.connectors.iceberg.key_index.run import Entries, live_rows, lives, open_run, write_run
from sinkql.hash_key import HashKey
from sinkql.row_hash import hash_rows
from sinkql.storage import failpoint
from sinkql.storage.sorted_run import Indices

_CHECKED_ROWS = 256
"""The rows of each file whose keys are compared with the index."""


@dataclass(slots=True)
class _Copy:
    """The copy of a group's live rows, according to the `runs` at its beginning.

    `entries` are their old files and positions, sorted by key hash; `positions` are the new positions. Rows of a
    file that left the table during the copy may have none, and are removed from `entries`.
    """

    group: FileGroup
    number: int
    runs: frozenset[str]
    entries: Entries
    hash_key: HashKey
    positions: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    written: FileEntry | None = None


class UpsertCompaction:
    """One compaction of a table. `index` returns the present key index; None while the table is newer."""

    def __init__(
        self, index: Callable[[], Index | None], folder: Path, attempt: Attempt, *, sink: str, key: tuple[str, ...],
        epoch: int, failed: Container[str] = (),
    ) -> None:  # fmt: skip
        self._present_index, self._folder, self._attempt = index, folder, attempt
        self._sink, self._key, self._epoch, self._failed = sink, key, epoch, failed
        self._table = attempt.table()
        self._written: list[FileEntry] = []
        self._deletes = 0

    def rewrite(self, groups: Sequence[FileGroup]) -> Generator[bool, None, tuple[Compaction, Index] | None]:
        """Write the files and runs, and save the index; return the compaction to commit, and the index as of it.

        Raises WrongIndexError if a file differs from the index, and UnreadableFileError if a file is unreadable. The
        written files are deleted then.
        """
        try:
            return (yield from self._rewrite(groups))
        except BaseException:  # also if the sink ends
            delete_files(self._table, self._written)
            raise

    def _rewrite(self, groups: Sequence[FileGroup]) -> Generator[bool, None, tuple[Compaction, Index] | None]:
        failpoint.point("compaction-read")
        copies: list[_Copy] = []
        for number, group in enumerate(groups):
            copies.append((yield from self._copy(group, number)))
        failpoint.point("compaction-file")
        return self._finish(copies, (yield from self._await_index()))

    def _copy(self, group: FileGroup, number: int) -> Generator[bool, None, _Copy]:
        name = rewritten_name(self._sink, self._epoch, self._attempt.id, number, foreign=group.foreign)
        copy = self._begin(group, number, (yield from self._await_index()))
        yield True
        paths = {record.path for record in group.files.values()}
        source = RewrittenRows(self._table, self._ordered_table(group), paths)
        writer = SortedWriter(source.table, name, group.place)
        order = [np.empty(0, np.int64)]
        try:
            for file in group.files:
                if not (yield from self._is_present(group, file)):
                    continue
                entries = np.flatnonzero(copy.entries.file == file)
                entries = entries[np.argsort(copy.entries.pos[entries], kind="stable")]
                try:
                    for rows, live in self._read(copy, file, entries, source):
                        writer.write(rows)
                        order.append(live)
                        if not self._attempt.late():
                            yield True
                except UnreadableFileError:
                    if (yield from self._is_present(group, file)):
                        raise
                    # The file left the table and was deleted: the rows read from it are dead.
            copy.written = writer.close()
        except BaseException:
            writer.discard()
            raise
        if copy.written is not None:
            self._written.append(copy.written)
        copied = np.concatenate(order)
        copied = copied if writer.order is None else copied[writer.order]
        positions = np.full(copy.entries.rows, -1, np.int64)
        positions[copied] = np.arange(len(copied))
        copy.entries, copy.positions = copy.entries.take(positions >= 0), positions[positions >= 0]
        return copy

    def _ordered_table(self, group: FileGroup) -> TaskTable:
        """Return the table with the sort order of the new file: by key, unless all rows are of one sorted file."""
        declared, keyed = for_tasks(self._table), for_tasks(self._table, key=self._key)
        return declared if len(group.files) == 1 and not group.foreign else keyed

    def _begin(self, group: FileGroup, number: int, index: Index) -> _Copy:
        """Find the present live rows of a group."""
        files = _present_files(group, index)
        runs = _runs(group, index)
        mapped = [(open_run(self._folder / run.name), run.may_name(files)) for run in runs]
        return _Copy(group, number, frozenset(run.name for run in runs), live_rows(mapped, files), index.hash_key)

    def _read(
        self, copy: _Copy, file: int, entries: Indices, source: RewrittenRows
    ) -> Iterator[tuple[pa.Table, Indices]]:
        """Yield the live rows of a file in their order, a part at a time, with the places of their entries."""
        record, positions = copy.group.files[file], copy.entries.pos[entries]
        start = 0
        for rows in readable(record.path, source.rows(record.path)):
            first, last = np.searchsorted(positions, [start, start + rows.num_rows])
            live = entries[first:last]
            if len(live):
                part = rows if len(live) == rows.num_rows else rows.filter(_mask(positions[first:last] - start, rows))
                if not first:
                    self._check_keys(record, part.slice(0, _CHECKED_ROWS), copy, live[:_CHECKED_ROWS])
                yield part, live
            start += rows.num_rows
        if start != record.rows:
            raise UnreadableFileError(record.path, f"it has {start} rows, its manifest says {record.rows}")

    def _check_keys(self, record: FileRecord, rows: pa.Table, copy: _Copy, live: Indices) -> None:
        """Raise WrongIndexError if the first rows of a file have other keys than the index."""
        keys = cast(rows, target_schema(key_schema(self._table.schema(), self._key), rows.schema))
        h1, h2 = hash_rows(copy.hash_key, [keys.column(name) for name in self._key])
        entries = copy.entries.take(live)
        if not (np.array_equal(h1, entries.h1) and np.array_equal(h2, entries.h2)):
            raise WrongIndexError(record.path, "its rows have other keys than the index says")

    def _await_index(self) -> Generator[bool, None, Index]:
        """Wait until the index is as of the present table, and return it."""
        while (index := self._present_index()) is None:
            yield False
        return index

    def _is_present(self, group: FileGroup, file: int) -> Generator[bool, None, bool]:
        """Return whether the table still has a file; else it is deleted when its snapshots expire."""
        return file in _present_files(group, (yield from self._await_index()))

    def _finish(self, copies: Sequence[_Copy], index: Index) -> tuple[Compaction, Index] | None:
        index.save(self._folder)
        table = self._attempt.table()
        records: dict[int, FileRecord] = {}
        runs: list[Run] = []
        deletes: list[MergedDeletes] = []
        removed = frozenset(number for copy in copies for number in _present_files(copy.group, index))
        for copy in copies:
            self._finish_copy(copy, index, records, runs, deletes)
        pools = CompactionCandidates(index, table, self._failed, self._attempt.scope).pools(removed)
        merged = frozenset(number for pool in pools for number in pool)
        if not removed and not merged:
            delete_files(table, self._written)
            return None
        deletes += [merged_file for pool in pools for merged_file in self._merge(index, pool, removed)]
        rewrite = Rewrite(removed, records, tuple(runs), merged, tuple(deletes))
        after = index.rewritten(rewrite, epoch=self._epoch, commit=self._attempt.id)
        try:
            after = compact_runs(after, self._folder, f"base-{self._sink}-{self._epoch}-{self._attempt.id}")
        except ValueError as error:
            raise WrongIndexError(index.name, str(error)) from error
        failpoint.point("compaction-run")
        change = FileChange(tuple(self._written), after.leaving, Operation.REPLACE)
        old_files = [index.file(number) for number in removed]
        before = Footprint(len(old_files) + len(merged), sum(record.size for record in old_files))
        data_bytes = sum(entry.size for entry in self._written if entry.content == "data")
        footprint = Footprint(len(self._written), data_bytes)
        return Compaction(change, delete_manifests(table), before, footprint, after.save(self._folder)), after

    def _finish_copy(
        self, copy: _Copy, index: Index, records: dict[int, FileRecord], runs: list[Run], deletes: list[MergedDeletes]
    ) -> None:
        """Add the new file, the run of its live rows, and the deletes of its dead rows."""
        entries, file = copy.entries, copy.written
        present = _present_files(copy.group, index)
        present_runs = _runs(copy.group, index)
        # New runs, and all runs above them: a new run may be a merge of older runs, below other old runs.
        since = max((number for number, run in enumerate(present_runs, 1) if run.name not in copy.runs), default=0)
        newer = [open_run(self._folder / run.name) for run in present_runs[:since]]
        live = lives(entries, newer, older=since < len(present_runs))
        live &= np.isin(entries.file, np.fromiter(present, np.uint32))
        for number, record in present.items():
            count = int(np.count_nonzero(live & (entries.file == number)))
            if count != record.rows - record.dead:
                raise WrongIndexError(
                    record.path, f"it has {count} live rows of {record.rows}, the index says {record}"
                )
        if file is None:
            return
        if not live.any():
            self._written.remove(file)
            delete_files(self._table, [file])
            return
        id_ = index.next_file_id + copy.number
        dead = np.sort(copy.positions[~live])
        home, place = copy.group.home, copy.group.place
        records[id_] = FileRecord(file.path, file.rows, len(dead), size=file.size, home=home, place=place)
        if len(dead):
            deletes.append(self._delete({file.path: dead}, {file.path: id_}, place))
        positions = copy.positions.astype(np.uint32)
        moved = Entries(entries.h1, entries.h2, np.full(entries.rows, id_, np.uint32), positions).take(live)
        run = f"c{copy.number}-{self._sink}-{self._epoch}-{self._attempt.id}.run"
        write_run(self._folder / run, moved.rows, [moved])
        bucket, buckets, bucketing = (home.bucket, home.buckets, home.bucketing) if home else (None, 0, "")
        runs.append(Run(run, moved.rows, bucket, buckets, bucketing, (id_, id_)))

    def _merge(self, index: Index, pool: Sequence[int], removed: frozenset[int]) -> Iterator[MergedDeletes]:
        """Combine a pool of delete files, without deletes of removed files."""
        numbers = {record.path: number for number, record in index.files.items() if number not in removed}
        parts: dict[str, list[Positions]] = defaultdict(list)
        for path in (index.deletes[number].path for number in pool):
            for deletes in readable(path, (read_position_deletes(self._table.io, [name]) for name in (path,))):
                for target in deletes.keys() & numbers.keys():
                    parts[target].append(deletes[target])
        dead = {path: _unite(positions) for path, positions in parts.items()}
        if dead:
            place = index.file(numbers[next(iter(dead))]).place
            yield self._delete(dead, numbers, place)

    def _delete(
        self, dead: Mapping[str, Positions], numbers: Mapping[str, int], place: PartitionValue
    ) -> MergedDeletes:
        """Write the positions of dead rows by file; `numbers` has the files' numbers in the index."""
        name = f"c{self._deletes}-{self._sink}-{self._epoch}-{self._attempt.id}-deletes"
        self._deletes += 1  # not the length of `_written`, which may shrink: names are unique
        table = for_tasks(self._table)
        if table.version >= VECTORS:
            (entry,) = write_vectors(table, name, dead, dict.fromkeys(dead, place))
        else:
            entry = write_position_deletes(table, f"{name}.parquet", dead, place)
        self._written.append(entry)
        return MergedDeletes(entry.name, entry.rows, tuple(numbers[path] for path in sorted(dead)))


def _runs(group: FileGroup, index: Index) -> tuple[Run, ...]:
    """Return the runs that may have keys of a group, newest first."""
    home = group.home
    return index.runs if home is None else index.probed(home.bucket, buckets=home.buckets, bucketing=home.bucketing)


def _mask(places: npt.NDArray[np.uint32], rows: pa.Table) -> pa.Array:
    """Return a mask of rows by their numbers; filtering is much faster than taking them."""
    mask = np.zeros(rows.num_rows, np.bool_)
    mask[places] = True
    return pa.array(mask)


def _unite(parts: Sequence[Positions]) -> Positions:
    """Return the positions in order, without duplicates."""
    positions = np.sort(np.concatenate(parts), kind="stable")
    return positions[np.concatenate(([True], positions[1:] != positions[:-1]))]


def _present_files(group: FileGroup, index: Index) -> dict[int, FileRecord]:
    """Return the files of a group that the table still has under the same numbers."""
    records = ((number, index.files.get(number), old.path) for number, old in group.files.items())
    return {number: record for number, record, path in records if record is not None and record.path == path}
