"""A bucket's changes → what becomes of each key.

Rows that die → delete files, or in a table that takes them deletion vectors.

Each data file has one vector at most, with all its dead rows.
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
    united,
    write_position_deletes,
    write_vectors,
)
from sinkql.connectors.iceberg.file.manifest import VECTORS
from sinkql.connectors.iceberg.file.partition import PartitionValue
from sinkql.connectors.iceberg.key_index.index import Index, IndexChange
from sinkql.connectors.iceberg.key_index.key_hash import key_schema, key_text
from sinkql.connectors.iceberg.key_index.layer import FileRecord
from sinkql.connectors.iceberg.storage import missing
from sinkql.errors import SinkqlError
from sinkql.hash_key import HashKey
from sinkql.row_hash import Hashes, collision_error, hash_rows
from sinkql.storage.sorted_run import Indices, duplicates_mask, sort_indices

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """One row's place for each key that changes, sorted by the key's hash.

    `upsert` tells where the row comes, else it goes; `fresh` where one comes that no other makes room for.
    """

    h1: Hashes
    h2: Hashes
    row: Indices
    upsert: Mask
    fresh: Mask


def key_changes(
    rows: pa.Table, schema: Schema, key: tuple[str, ...], change: physical.Change, hash_key: HashKey
) -> KeyChanges:
    """Return what becomes of each key of a batch's rows, as `UpsertTask` says; SQ3552 for a key with two rows."""
    keys, h1, h2 = _hashed(rows, schema, key, hash_key)
    if change == "retract":
        diff = rows.column("$diff").to_numpy()
        order = sort_indices(h1, h2, np.sign(diff))  # the row with + comes last of its key
        _check_single(keys, h1[order], h2[order], diff[order], order)
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


def _check_single(keys: pa.Table, h1: Hashes, h2: Hashes, diff: Indices, order: Indices) -> None:
    twice = np.flatnonzero(duplicates_mask(h1, h2) & (diff > 0) & (np.roll(diff, 1) > 0) | (diff > 1))
    if len(twice):
        raise two_rows(keys, int(order[twice[0]]))


def check_alike(left: pa.Table, right: pa.Table) -> None:
    """Raise SQ3460 where keys differ whose hashes are equal."""
    for mine, other in zip(map(_stored, left.columns), map(_stored, right.columns), strict=True):
        unlike = pc.fill_null(pc.not_equal(mine, other), pc.xor(mine.is_null(), other.is_null()))
        if len(wrong := np.flatnonzero(unlike.to_numpy())):
            raise collision_error(key_text(left, int(wrong[0])), key_text(right, int(wrong[0])))


def _stored(column: pa.ChunkedArray) -> pa.ChunkedArray:
    type_ = column.type
    return column.cast(type_.storage_type) if isinstance(type_, pa.BaseExtensionType) else column


def two_rows(keys: pa.Table, row: int) -> SinkqlError:
    """Return the error for a key of two rows; `row` is the place of one of them."""
    return SinkqlError(
        "SQ3552",
        f"two rows have the key {key_text(keys, row)}",
        hint="Choose a KEY that identifies each row of the view.",
    )


Named = tuple[tuple[FileEntry, tuple[int, ...]], ...]
"""Entries, each with the ids of the data files that it names."""


def write_dead(table: TaskTable, index: Index, dead: Mapping[int, Positions], name: str) -> Named:
    """Write what names rows that die, by the ids of their files; the files' names begin with `name`.

    A data file of which nothing is left is not named: it leaves the table.
    """
    notes = ((id_, index.file(id_)) for id_ in dead)
    known = {id_: note for id_, note in notes if note.dead + len(dead[id_]) < note.rows}
    if table.version >= VECTORS:
        return _write_whole(table, index, known, dead, f"{name}-deletes")
    return _write_files(table, known, dead, name)


def _write_files(table: TaskTable, known: Mapping[int, FileRecord], dead: Mapping[int, Positions], name: str) -> Named:
    """Write delete files, which name files of one partition each, the one of the old rows wherever new ones go."""
    by_file = table.properties.get("write.delete.granularity") == "file"
    groups: dict[tuple[PartitionValue, int], list[int]] = defaultdict(list)
    for id_, note in known.items():
        groups[note.place, id_ if by_file else 0].append(id_)
    return tuple(
        (
            write_position_deletes(
                table, f"{name}-{number}-deletes.parquet", {known[id_].path: dead[id_] for id_ in group}, place
            ),
            tuple(group),
        )
        for number, ((place, _), group) in enumerate(groups.items())
    )


def _write_whole(
    table: TaskTable, index: Index, known: Mapping[int, FileRecord], dead: Mapping[int, Positions], name: str
) -> Named:
    """Write a file of deletion vectors of known data files: of the rows that die, and of those dead before.

    Raises SQ3556 where an older vector is missing, SQ3555 where it is damaged.
    """
    if not known:
        return ()
    io = table.io()

    def whole_of(id_: int, note: FileRecord) -> Positions:
        older = (read_dead_of(io, index.delete(each).path, note.path) for each in note.deletes)
        return united(dead[id_], *older)

    try:
        whole = {note.path: whole_of(id_, note) for id_, note in known.items()}
    except FileNotFoundError as error:
        raise missing(table.name, error) from error
    ids = {note.path: id_ for id_, note in known.items()}
    written = write_vectors(table, name, whole, {note.path: note.place for note in known.values()})
    return tuple((entry, (ids[entry.vector.file],)) for entry in written if entry.vector)


def one_each(
    changes: Sequence[IndexChange], entries: Sequence[FileEntry], index: Index, table: TaskTable, name: str
) -> tuple[Sequence[IndexChange], Sequence[FileEntry]]:
    """Return what tasks did with one vector in place of two of the same data file, which two buckets' tasks wrote.

    Only a data file with keys of several buckets has two, such as one of another program. One of which both together
    leave nothing leaves the table, and has none.
    """
    vectors: dict[str, list[FileEntry]] = defaultdict(list)
    for entry in entries:
        if entry.vector is not None:
            vectors[entry.vector.file].append(entry)
    twins = {path: found for path, found in vectors.items() if len(found) > 1}
    if not twins:
        return changes, entries
    dropped = {entry.name for found in twins.values() for entry in found}
    ids = {each: target for change in changes for each, (target,) in change.deletes.items()}
    dead: dict[str, Positions] = {}
    for path, found in twins.items():
        positions = united(*(read_vector(table.io(), entry.name) for entry in found))
        if len(positions) < index.file(ids[found[0].name]).rows:
            dead[path] = positions
    written = write_vectors(table, name, dead, {path: twins[path][0].place for path in dead}) if dead else ()
    named = {entry.name: (ids[twins[entry.vector.file][0].name],) for entry in written if entry.vector}
    kept = [
        structs.replace(
            change,
            deletes={each: targets for each, targets in change.deletes.items() if each not in dropped}
            | (named if not number else {}),
        )
        for number, change in enumerate(changes)
    ]
    return kept, (*(entry for entry in entries if entry.name not in dropped), *written)
