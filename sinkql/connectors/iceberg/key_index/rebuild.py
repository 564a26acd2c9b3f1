"""Build the key index from the current rows of a table, or bring it up to date."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from sinkql.connectors.iceberg.file.deletes import Positions, live_files, read_dead
from sinkql.connectors.iceberg.file.partition import Partitions, PartitionValue
from sinkql.connectors.iceberg.file.reader import names_by_id, opened
from sinkql.connectors.iceberg.file_damage import damage_as_error
from sinkql.connectors.iceberg.key_index.index import Index, Run
from sinkql.connectors.iceberg.key_index.key_hash import KeyColumn, key_schema, key_text
from sinkql.connectors.iceberg.key_index.layer import DeleteRecord, FileRecord, Layer
from sinkql.connectors.iceberg.key_index.run import (
    TOMBSTONE,
    Entries,
    map_run,
    open_run,
    probe,
    write_run,
)
from sinkql.errors import SharedKeyError
from sinkql.hash_key import PUBLIC_KEY, HashKey
from sinkql.keywords import qualified_name
from sinkql.machine.randomness import new_id
from sinkql.row_hash import collision_error, hash_rows
from sinkql.storage.sorted_run import duplicates_mask, sort_indices

_BATCH = 1 << 18
_PART = 1 << 21
"""Keys in memory, which take 24 bytes each, and the same again while they are sorted."""


def build_index(
    table: Table,
    key: Sequence[KeyColumn],
    folder: Path,
    *,
    sink: str,
    epoch: int,
    leaves: Callable[[str], bool] = lambda path: False,
    hash_key: HashKey = PUBLIC_KEY,
) -> Index:
    """Read the keys of every live row of the current snapshot into one run; return the unsaved index.

    Data files for which `leaves` is true leave the table, and are not read. Keys are read in parts of two million. A
    table without rows results in an index without runs. Raises SQ3551 for two live rows with one key, SQ3506 for
    equality deletes, and SQ3554 for files other than Parquet.
    """
    live = live_files(table)
    data = {path: file for path, file in live.data.items() if not leaves(path)}
    dead: dict[str, Positions] = {}
    positions: dict[str, int] = {}
    targets: dict[str, list[str]] = {}
    for path, file in live.deletes.items():
        positions_by_path = read_dead(table.io, path, file) if data else {}
        targets[path] = sorted(positions_by_path.keys() & data.keys())
        positions[path] = sum(map(len, positions_by_path.values()))
        for target in targets[path]:
            dead[target] = (
                np.union1d(dead[target], positions_by_path[target]) if target in dead else positions_by_path[target]
            )
    partitions = Partitions(table.metadata)
    places = {path: partitions.place_of(file) for path, file in data.items()}
    layer, idle = _layer_of(data, places, dead, targets, positions)
    commit = new_id()
    index = Index(
        sink,
        epoch,
        commit,
        tuple(key),
        layers=(layer,),
        idle=(*idle, *sorted(live.data.keys() - data.keys())),
        next_file_id=len(data),
        next_delete_id=len(live.deletes),
        hash_key=hash_key,
    )
    keys = _Keys(table, index, index.files)
    return replace(index, runs=_runs(keys, dead, folder, f"base-{sink}-{epoch}-{commit}"))


def _layer_of(
    data: Mapping[str, DataFile],
    places: Mapping[str, PartitionValue],
    dead: Mapping[str, Positions],
    targets: Mapping[str, Sequence[str]],
    positions: Mapping[str, int],
) -> tuple[Layer, tuple[str, ...]]:
    """Return the records of a table's files, and the paths of files without useful content."""
    rows = {path: file.record_count for path, file in data.items()}
    dead_counts = {path: int(np.searchsorted(dead[path], count)) for path, count in rows.items() if path in dead}
    empty = {path for path, count in rows.items() if dead_counts.get(path, 0) == count}
    needed = {
        path: [target for target in targets_of_file if target not in empty] for path, targets_of_file in targets.items()
    }
    naming: dict[str, list[int]] = defaultdict(list)
    for number, targets_of_file in enumerate(needed.values()):
        for path in targets_of_file:
            naming[path].append(number)
    files = {
        number: FileRecord(
            path,
            count,
            dead_counts.get(path, 0),
            tuple(naming[path]),
            data[path].file_size_in_bytes,
            place=places[path],
        )
        for number, (path, count) in enumerate(rows.items())
        if path not in empty
    }
    deletes = {
        number: DeleteRecord(path, len(targets_of_file), positions[path])
        for number, (path, targets_of_file) in enumerate(needed.items())
        if targets_of_file
    }
    idle = (*sorted(empty), *(path for path, targets_of_file in needed.items() if not targets_of_file))
    return Layer(dict(files), dict(deletes)), idle


def catch_up(
    index: Index, table: Table, folder: Path, *, epoch: int, have: Callable[[Index], None] = lambda index: None
) -> Index:
    """Return the index of the table's current snapshot, not yet saved; `index` itself if it is current.

    It compares files, not snapshots, which may have expired. If other writers only added files, the new files are read.
    If they removed or deleted anything, the index is rebuilt. Raises as `build_index` does; SQ3551 also if another
    writer added an existing key. `index` must be saved; `have` is called before its runs are read.
    """
    live = live_files(table)
    known_paths = index.paths()
    if known_paths - live.data.keys() - live.deletes.keys() or live.deletes.keys() - known_paths:
        return build_index(table, index.key, folder, sink=index.sink, epoch=epoch, hash_key=index.hash_key)
    new = sorted(live.data.keys() - known_paths)
    if not new:
        return index
    empty = tuple(path for path in new if not live.data[path].record_count)
    filled = ((path, live.data[path]) for path in new if live.data[path].record_count)
    partitions = Partitions(table.metadata)
    added = {
        index.next_file_id + number: FileRecord(
            path, file.record_count, size=file.file_size_in_bytes, place=partitions.place_of(file)
        )
        for number, (path, file) in enumerate(filled)
    }
    commit = new_id()
    updated = replace(
        index.under(Layer(dict(added))),
        epoch=epoch,
        commit=commit,
        idle=(*index.idle, *empty),
        next_file_id=index.next_file_id + len(added),
    )
    keys = _Keys(table, index, updated.files)
    have(index)
    older = [open_run(folder / run.name) for run in index.runs]
    runs = _runs(keys, {}, folder, f"foreign-{index.sink}-{epoch}-{commit}", only=added, older=older)
    return replace(updated, runs=(*runs, *index.runs))


def _runs(
    keys: _Keys,
    dead: dict[str, Positions],
    folder: Path,
    name: str,
    *,
    only: Collection[int] | None = None,
    older: Sequence[Entries] = (),
) -> tuple[Run, ...]:
    """Write one run with the live keys of all files, of any bucket, in sorted parts first."""
    parts: list[Path] = []
    rows = 0
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for number, part in enumerate(_parts(keys.entries(dead, only))):
            keys.check(part, older)
            parts.append(folder / f"part-{name}-{number}.run")
            write_run(parts[-1], part.rows, [part])
            rows += part.rows
        if not rows:
            return ()
        whole = folder / f"{name}.run"
        write_run(whole, rows, _merged([map_run(path) for path in parts], keys))
        return (Run(whole.name, rows),)
    finally:
        for path in parts:
            path.unlink()


def _parts(entries: Iterable[Entries]) -> Iterator[Entries]:
    """Gather entries into large sorted parts."""
    waiting: list[Entries] = []
    rows = 0
    for entry in entries:
        waiting.append(entry)
        rows += entry.rows
        if rows >= _PART:
            yield _sorted(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _sorted(waiting)


def _sorted(parts: Sequence[Entries]) -> Entries:
    whole = Entries._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
    return whole.take(sort_indices(whole.h1, whole.h2))


def _merged(parts: Sequence[Entries], keys: _Keys) -> Iterator[Entries]:
    """Merge sorted parts, one range of hashes at a time, to have at most one part in memory."""
    if len(parts) == 1:
        yield parts[0]
        return
    ranges = -(-sum(part.rows for part in parts) // (_PART // 2))
    bounds = np.array([(number << 64) // ranges for number in range(1, ranges)], np.uint64)
    cuts = [[0, *np.searchsorted(part.h1, bounds).tolist(), part.rows] for part in parts]
    for number in range(ranges):
        chosen = [
            part.take(np.arange(cut[number], cut[number + 1])) for part, cut in zip(parts, cuts, strict=True)
        ]  # fmt: skip
        merged = _sorted(chosen)
        keys.check(merged)
        yield merged


class _Keys:
    """The reader of the key columns of a table's files."""

    def __init__(self, table: Table, index: Index, files: Mapping[int, FileRecord]) -> None:
        self._io: FileIO = table.io
        self._properties: Mapping[str, str] = table.properties
        self._table, self._key, self._files = qualified_name(*table.name()), index.key, files
        self._hash_key = index.hash_key
        schema = schema_to_pyarrow(key_schema(table.schema(), tuple(column.name for column in self._key)))
        self._types = {field.name: field.type for field in schema}

    def entries(self, dead: dict[str, Positions], only: Collection[int] | None = None) -> Iterator[Entries]:
        """Yield the live keys of all files, or only of some."""
        for id_ in self._files if only is None else only:
            dead_positions = dead.get(self._files[id_].path)
            start = 0
            for batch in self._read(self._files[id_].path):
                h1, h2 = hash_rows(self._hash_key, batch.columns)
                positions = np.arange(start, start + batch.num_rows, dtype=np.uint32)
                start += batch.num_rows
                entries = Entries(h1, h2, np.full(batch.num_rows, id_, np.uint32), positions)
                if dead_positions is None:
                    yield entries
                    continue
                alive = np.ones(batch.num_rows, np.bool_)
                low, high = np.searchsorted(dead_positions, [start - batch.num_rows, start])
                alive[dead_positions[low:high] - (start - batch.num_rows)] = False
                yield entries.take(alive)

    def check(self, entries: Entries, older: Sequence[Entries] = ()) -> None:
        """Raise SQ3551 if sorted entries have a key twice, or a key that is live in older runs.

        Raises SQ3460 if the hashes are equal but the keys differ.
        """
        files, positions = probe(older, entries.h1, entries.h2)
        twice = np.flatnonzero(duplicates_mask(entries.h1, entries.h2) | (files != TOMBSTONE))
        if not len(twice):
            return
        place = int(twice[0])
        path = self._files[int(entries.file[place])].path
        key = self._key_at(path, int(entries.pos[place]))
        if files[place] != TOMBSTONE:
            number, position = int(files[place]), int(positions[place])
        else:
            number, position = int(entries.file[place - 1]), int(entries.pos[place - 1])
        other_key = self._key_at(self._files[number].path, position) if number in self._files else key
        if key != other_key:
            raise collision_error(other_key, key)
        raise SharedKeyError(
            "SQ3551",
            f'table "{self._table}" has two rows with the key {key}',
            detail=f"One of them is in {path}; The part read last has {len(twice)} duplicate rows.",
            hint="Delete the wrong row. An upsert sink must be the only writer of its table.",
        )

    def _key_at(self, path: str, position: int) -> str:
        for batch in self._read(path):
            if position < batch.num_rows:
                return key_text(pa.Table.from_batches([batch]), position)
            position -= batch.num_rows
        return "?"

    def _read(self, path: str) -> Iterator[pa.RecordBatch]:
        """Yield a file's key columns in the key's order and the table's types, found by field id."""
        with damage_as_error(path), self._io.new_input(path).open() as stream:
            parquet, _ = opened(stream, path)
            wanted = {column.id: column.name for column in self._key}
            names_in_file = names_by_id(parquet.schema_arrow, wanted, self._properties)
            names = [names_in_file.get(column.name) for column in self._key]
            for batch in parquet.iter_batches(_BATCH, columns=list(names_in_file.values())):
                columns = [
                    pa.nulls(batch.num_rows, self._types[column.name])
                    if name is None
                    else _as_type(batch.column(name), self._types[column.name])
                    for name, column in zip(names, self._key, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, names=[column.name for column in self._key])


def _as_type(column: pa.Array, type_: pa.DataType) -> pa.Array:
    return column if isinstance(type_, pa.UuidType) else column.cast(type_)
