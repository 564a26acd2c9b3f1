"""Complete rows from which a server omitted unchanged values.

An omitted value is the value of the row before: of the same key, earlier in the batch or in the state; or of the key
that the row had before, in the state of any bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql import physical
from sinkql.runtime.state.arrangement import Ints, KeyedRuns, LookUp
from sinkql.runtime.state.run import ints, one_chunk, unsigned
from sinkql.storage.sorted_run import duplicates_mask

Mask = NDArray[np.bool_]


def flattened(read: physical.Read, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a reader's rows with a column for each part of the key before the change, in place of `$from`."""
    if not read.holes:
        return batch
    *columns, before = batch.columns
    parts = dict(zip(before.type.names, before.flatten(), strict=True))
    names = [*batch.schema.names[:-1], *(column.name for column in physical.unchanged_value_columns(read)[1:])]
    return pa.RecordBatch.from_arrays([*columns, *(parts[name] for name in read.key)], names=names)


class UnknownValueError(Exception):
    """Values that are not found: of the rows at these places of the chains, in this column."""

    def __init__(self, places: Ints, column: int) -> None:
        super().__init__(places, column)
        self.places, self.column = places, column


@dataclass(frozen=True, slots=True)
class KeyHistories:
    """The changes of a batch by key, in their order: `order` has places of rows, `start` the start of each row's key.

    `alive` is true for rows, `moved` for rows that had another key; both are in the order of `order`.
    """

    order: Ints
    start: Ints
    alive: Mask
    moved: Mask

    def source(self, last: Ints, missing: Mask) -> Ints:
        """Return the place of a column's value for the last changes of keys, -1 if it is in the state.

        The row at the place has the value, has the value of its old key, or is a deleted key.
        """
        stops = np.where(~missing | self.moved, np.arange(len(missing)), -1)
        found = np.maximum.accumulate(stops)[last]
        return np.where(found < self.start[last], -1, found)


@dataclass(slots=True)
class UnchangedValues:
    """Finds the omitted values in the rows of a batch.

    `rows` are the rows of a bucket, `columns` the names of their columns, `places` their places among the source's
    columns; `others` opens the state of all buckets.
    """

    rows: pa.Table
    columns: Sequence[str]
    places: Sequence[int]
    chains: KeyHistories
    others: Callable[[], Sequence[KeyedRuns]]

    def fill(self, last: Ints, found: LookUp, was: Mask) -> list[pa.Array]:
        """Return the complete columns of the rows at the places `last` of the chains; raises UnknownValueError.

        `found` is the state of their keys, and `was` is true for keys with a row there.
        """
        omitted = self._omitted()
        whole = []
        for number, name in enumerate(self.columns):
            values = one_chunk(self.rows.column(name)).take(pa.array(self.chains.order))
            missing = omitted[:, number]
            if not missing[last].any():
                whole.append(values.take(pa.array(last)))
                continue
            whole.append(self._filled(number, values, missing, last, found, was))
        return whole

    def _filled(self, number: int, values: pa.Array, missing: Mask, last: Ints, found: LookUp, was: Mask) -> pa.Array:
        chains, name = self.chains, self.columns[number]
        at = chains.source(last, missing)
        own, lacks = at < 0, chains.alive[last] & missing[last]
        before = lacks & ~own & missing[at]  # the value is in the row's old key
        unknown = lacks & np.where(own, ~was, ~chains.alive[at])
        index = np.where(own, len(values) + np.arange(len(last)), at)
        parts = [values, found.column(name, values.type)]
        if before.any():
            asked = at[before]
            there, old = self._before(chains.order[asked], name, values.type)
            index[before] = sum(map(len, parts)) + np.arange(len(asked))
            parts.append(old)
            unknown[np.flatnonzero(before)] |= ~there
        if unknown.any():
            raise UnknownValueError(last[unknown], number)
        return pa.concat_arrays(parts).take(pa.array(index))

    def _before(self, rows: Ints, name: str, type_: pa.DataType) -> tuple[Mask, pa.Array]:
        """Return whether each row's old key has a row, and a column of these rows."""
        keys = unsigned(self.rows.column("$f1"))[rows]
        hashes = ints(self.rows.column("$f2"))[rows]
        order = np.lexsort((hashes, keys))
        there = np.zeros(len(rows), np.bool_)
        index = np.zeros(len(rows), np.int64)
        parts: list[pa.Array] = [pa.nulls(1, type_)]
        for other in self.others():
            found = other.find(keys[order], hashes[order])
            has = order[found.mask & (ints(found.column("$count", pa.int64()).fill_null(0)) > 0)]
            column = found.column(name, type_)
            index[has] = sum(map(len, parts)) + np.argsort(order)[has]
            parts.append(column)
            there[has] = True
        return there, pa.concat_arrays(parts).take(pa.array(index))

    def _omitted(self) -> Mask:
        """Return which columns each row lacks."""
        count = max(self.places) + 1
        coded = one_chunk(self.rows.column("$hole")).take(pa.array(self.chains.order)).dictionary_encode()
        masks = np.zeros((len(coded.dictionary) + 1, count), np.bool_)
        for number, bits in enumerate(coded.dictionary.to_pylist()):
            one = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[:count]
            masks[number, : len(one)] = one
        masks = masks[:, list(self.places)]
        found: Mask = masks[coded.indices.fill_null(len(coded.dictionary)).to_numpy()]
        return found


def key_histories(rows: pa.Table, order: Ints) -> KeyHistories:
    """Return the histories of rows; `order` puts the rows of a key together."""
    keys, hashes = unsigned(rows.column("$h1"))[order], ints(rows.column("$h2"))[order]
    start = np.maximum.accumulate(np.where(duplicates_mask(keys, hashes), 0, np.arange(len(order))))
    alive = ints(rows.column(physical.DIFF))[order] > 0
    moved = np.asarray(one_chunk(rows.column("$o0")).is_valid())[order]
    return KeyHistories(order, start, alive, moved)
