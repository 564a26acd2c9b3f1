"""A bucket's changes → what becomes of each key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from sinkql import physical
from sinkql.connectors.iceberg.file.data_file import cast, target_schema
from sinkql.connectors.iceberg.key_index.key_hash import key_schema, key_text
from sinkql.errors import SinkqlError
from sinkql.hash_key import HashKey
from sinkql.row_hash import Hashes, collision_error, hash_rows
from sinkql.storage.sorted_run import Places, duplicates_mask, sort_indices

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """One row's place for each key that changes, sorted by the key's hash.

    `upsert` tells where the row comes, else it goes; `fresh` where one comes that no other makes room for.
    """

    h1: Hashes
    h2: Hashes
    row: Places
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


def _check_single(keys: pa.Table, h1: Hashes, h2: Hashes, diff: Places, order: Places) -> None:
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
