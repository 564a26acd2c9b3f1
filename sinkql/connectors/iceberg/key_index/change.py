"""Compute the changes of a batch per key, and write the rows that die.

Rows that die are written to delete files, or to deletion vectors if the table has them. A data file has at most one
vector, with all its dead rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs
from pyiceberg.schema import Schema

from sinkql import physical
from sinkql.connectors.iceberg.file.data_file import FileEntry, TaskTable, cast, target_schema
from sinkql.connectors.iceberg.file.deletes import (
    Positions,
    read_dead_of,
    read_vector,
    unite,
    write_position_deletes,
    write_vectors,
)
from sinkql.connectors.iceberg.file.manifest import VECTORS
from sinkql.connectors.iceberg.file.partition import PartitionValue
from sinkql.connectors.iceberg.key_index.index import Index, IndexChange
from sinkql.connectors.iceberg.key_index.key_hash import key_schema, key_text
from sinkql.connectors.iceberg.key_index.layer import FileRecord
from sinkql.connectors.iceberg.storage import missing_file_error
from sinkql.errors import SinkqlError
from sinkql.hash_key import HashKey
from sinkql.row_hash import Hashes, collision_error, hash_rows
from sinkql.storage.sorted_run import Indices, duplicates_mask, sort_indices

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """The number of one row for each key that changes, sorted by the key's hash.

    `upsert` is true if the row replaces or adds the key's row, false if it deletes it. `fresh` is true for a row that
    has no old row.
    """

    h1: Hashes
    h2: Hashes
    row: Indices
    upsert: Mask
    fresh: Mask


def key_changes(
    rows: pa.Table, schema: Schema, key: tuple[str, ...], change: physical.Change, hash_key: HashKey
) -> KeyChanges:
    """Return the changes of a batch's keys, as `UpsertTask` describes; raise SQ3552 for a key with two rows."""
    keys, h1, h2 = _hashed(rows, schema, key, hash_key)
    if change == "retract":
        diff = rows.column("$diff").to_numpy()
        order = sort_indices(h1, h2, np.sign(diff))  # the row with + is the last of its key
        _check_one_row(keys, h1[order], h2[order], diff[order], order)
        upsert = diff[order] > 0
        fresh = upsert & ~duplicates_mask(h1[order], h2[order])
    else:
        order = sort_indices(h1, h2, rows.column("$seq").to_numpy())
        upsert, fresh = np.ones(len(order), np.bool_), np.zeros(len(order), np.bool_)
        if change == "upsert":
            upsert = rows.column("$diff").to_numpy()[order] > 0
    again = np.flatnonzero(duplicates_mask(h1[order], h2[order]))
    if len(again):
        check_alike(keys.take(pa.array(order[again - 1])), keys.take(pa.array(order[again])))
    last = np.ones(len(order), np.bool_)
    last[again - 1] = False
    chosen = order[last]
    return KeyChanges(h1[chosen], h2[chosen], chosen, upsert[last], fresh[last])


def first_halves(rows: pa.Table, schema: Schema, key: tuple[str, ...], hash_key: HashKey) -> Hashes:
    """Return the first half of the hash of each row's key."""
    return _hashed(rows, schema, key, hash_key)[1]


def _hashed(rows: pa.Table, schema: Schema, key: tuple[str, ...], hash_key: HashKey) -> tuple[pa.Table, Hashes, Hashes]:
    keys = cast(rows, target_schema(key_schema(schema, key), rows.schema))
    return keys, *hash_rows(hash_key, [keys.column(name) for name in key])


def _check_one_row(keys: pa.Table, h1: Hashes, h2: Hashes, diff: Indices, order: Indices) -> None:
    twice = np.flatnonzero(duplicates_mask(h1, h2) & (diff > 0) & (np.roll(diff, 1) > 0) | (diff > 1))
    if len(twice):
        raise two_rows(keys, int(order[twice[0]]))


def check_alike(left: pa.Table, right: pa.Table) -> None:
    """Raise SQ3460 if keys with equal hashes differ."""
    for left_column, right_column in zip(
        map(_storage_column, left.columns), map(_storage_column, right.columns), strict=True
    ):
        unlike = pc.fill_null(
            pc.not_equal(left_column, right_column), pc.xor(left_column.is_null(), right_column.is_null())
        )
        if len(wrong := np.flatnonzero(unlike.to_numpy())):
            raise collision_error(key_text(left, int(wrong[0])), key_text(right, int(wrong[0])))


def _storage_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    type_ = column.type
    return column.cast(type_.storage_type) if isinstance(type_, pa.BaseExtensionType) else column


def two_rows(keys: pa.Table, row: int) -> SinkqlError:
    """Return the error for a key with two rows, where `row` is the number of one of them."""
    return SinkqlError(
        "SQ3552",
        f"two rows have the key {key_text(keys, row)}",
        hint="Choose a KEY that identifies each row of the view.",
    )


Named = tuple[tuple[FileEntry, tuple[int, ...]], ...]
"""Entries, each with the ids of the data files that it names."""


def write_dead(table: TaskTable, index: Index, dead: Mapping[int, Positions], name: str) -> Named:
    """Write delete files or vectors for rows that die, given by file id; file names begin with `name`.

    A data file without any live row gets none, because it leaves the table.
    """
    records = ((id_, index.file(id_)) for id_ in dead)
    records_to_write = {id_: record for id_, record in records if record.dead + len(dead[id_]) < record.rows}
    if table.version >= VECTORS:
        return _write_whole(table, index, records_to_write, dead, f"{name}-deletes")
    return _write_files(table, records_to_write, dead, name)


def _write_files(
    table: TaskTable, records: Mapping[int, FileRecord], dead: Mapping[int, Positions], name: str
) -> Named:
    """Write delete files of one partition each: the partition of the old rows, wherever the new rows go."""
    by_file = table.properties.get("write.delete.granularity") == "file"
    groups: dict[tuple[PartitionValue, int], list[int]] = defaultdict(list)
    for id_, record in records.items():
        groups[record.place, id_ if by_file else 0].append(id_)
    return tuple(
        (
            write_position_deletes(
                table, f"{name}-{number}-deletes.parquet", {records[id_].path: dead[id_] for id_ in group}, place
            ),
            tuple(group),
        )
        for number, ((place, _), group) in enumerate(groups.items())
    )


def _write_whole(
    table: TaskTable, index: Index, records: Mapping[int, FileRecord], dead: Mapping[int, Positions], name: str
) -> Named:
    """Write a file of deletion vectors of known data files, with new and earlier dead rows.

    Raises SQ3556 if an older vector is missing, SQ3555 if it is damaged.
    """
    if not records:
        return ()
    io = table.io()

    def all_dead(id_: int, record: FileRecord) -> Positions:
        older = (read_dead_of(io, index.delete(delete_id).path, record.path) for delete_id in record.deletes)
        return unite(dead[id_], *older)

    try:
        positions = {record.path: all_dead(id_, record) for id_, record in records.items()}
    except FileNotFoundError as error:
        raise missing_file_error(table.name, error) from error
    ids = {record.path: id_ for id_, record in records.items()}
    written = write_vectors(table, name, positions, {record.path: record.place for record in records.values()})
    return tuple((entry, (ids[entry.vector.file],)) for entry in written if entry.vector)


def one_each(
    changes: Sequence[IndexChange], entries: Sequence[FileEntry], index: Index, table: TaskTable, name: str
) -> tuple[Sequence[IndexChange], Sequence[FileEntry]]:
    """Merge deletion vectors of the same data file that the tasks of two buckets wrote.

    Only a data file with keys of several buckets has two vectors, for example a file of another program. If the merged
    vector covers all rows, the data file leaves the table and gets no vector.
    """
    vectors: dict[str, list[FileEntry]] = defaultdict(list)
    for entry in entries:
        if entry.vector is not None:
            vectors[entry.vector.file].append(entry)
    twins = {path: entries_of_file for path, entries_of_file in vectors.items() if len(entries_of_file) > 1}
    if not twins:
        return changes, entries
    dropped = {entry.name for entries_of_file in twins.values() for entry in entries_of_file}
    ids = {name: target for change in changes for name, (target,) in change.deletes.items()}
    dead: dict[str, Positions] = {}
    for path, entries_of_file in twins.items():
        positions = unite(*(read_vector(table.io(), entry.name) for entry in entries_of_file))
        if len(positions) < index.file(ids[entries_of_file[0].name]).rows:
            dead[path] = positions
    written = write_vectors(table, name, dead, {path: twins[path][0].place for path in dead}) if dead else ()
    named = {entry.name: (ids[twins[entry.vector.file][0].name],) for entry in written if entry.vector}
    merged_changes = [
        structs.replace(
            change,
            deletes={name: targets for name, targets in change.deletes.items() if name not in dropped}
            | (named if not number else {}),
        )
        for number, change in enumerate(changes)
    ]
    return merged_changes, (*(entry for entry in entries if entry.name not in dropped), *written)
