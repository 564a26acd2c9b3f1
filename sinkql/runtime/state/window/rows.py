"""The rows of several keys in sequence, each key's rows in the order of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sinkql import physical
from sinkql.runtime.state.arrangement import Ints
from sinkql.runtime.state.run import one_chunk
from sinkql.runtime.state.sort_key import sort_keys, starts_of

Mask = NDArray[np.bool_]

_FAR = 1 << 40
"""A number above all numbers of rows."""


@dataclass(frozen=True)
class Rows:
    """Rows in an order: the number of each row's key, and the integers of its order.

    Keys are numbered from 0 to `count` - 1; a key may have no rows. Rows are repeated by their multiplicity.
    """

    table: pa.Table
    owner: Ints
    count: int
    keys: tuple[Ints, ...]

    def __len__(self) -> int:
        return len(self.owner)

    def column(self, name: str) -> pa.Array:
        """Return a column, in the order of the rows."""
        return one_chunk(self.table.column(name))

    def where(self, kept: pa.Array) -> Rows:
        """Return the rows for which a mask is true."""
        mask = kept.to_numpy(zero_copy_only=False)
        return Rows(self.table.filter(kept), self.owner[mask], self.count, tuple(key[mask] for key in self.keys))

    @cached_property
    def begins(self) -> Ints:
        """Return the start of each key's rows."""
        return np.searchsorted(self.owner, np.arange(self.count), "left")

    @cached_property
    def ends(self) -> Ints:
        """Return the end of each key's rows."""
        return np.searchsorted(self.owner, np.arange(self.count), "right")

    @property
    def first(self) -> Ints:
        """Return for each row the start of its key's rows."""
        return self.begins[self.owner]

    @property
    def last(self) -> Ints:
        """Return for each row the end of its key's rows (exclusive)."""
        return self.ends[self.owner]

    @cached_property
    def starts(self) -> Mask:
        """Return for each row whether its order differs from the row before."""
        return starts_of(self.owner, self.keys)

    @cached_property
    def peer(self) -> Ints:
        """Return for each row the number of its group of peers, over all keys."""
        return np.cumsum(self.starts) - 1

    @cached_property
    def peers(self) -> tuple[Ints, Ints]:
        """Return the start and the end of each group of peers."""
        begins = np.flatnonzero(self.starts)
        return begins, np.append(begins[1:], len(self)) if len(begins) else begins

    @property
    def peers_first(self) -> Ints:
        """Return for each row the start of its peers."""
        return self.peers[0][self.peer]

    @property
    def peers_last(self) -> Ints:
        """Return for each row the end of its peers."""
        return self.peers[1][self.peer]


@dataclass(frozen=True, slots=True)
class Counted:
    """A number for each row, and whether it is not NULL."""

    numbers: Ints
    known: Mask


def counted(rows: Rows, call: physical.WindowCall, place: int) -> Counted:
    """Return a number from a constant of a call, or from its column at a place."""
    if call.constants:
        number = max(-_FAR, min(int(call.constants[0]), _FAR))
        return Counted(np.full(len(rows), number), np.ones(len(rows), np.bool_))
    values = rows.column(call.columns[place])
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return Counted(numbers, values.is_valid().to_numpy(zero_copy_only=False))


def in_order(
    table: pa.Table, owner: Ints, hashes: Ints, count: int, order: tuple[physical.Order, ...]
) -> tuple[Rows, Ints]:
    """Return rows in an order, with equal ones by their hashes, and the original place of each."""
    keys = sort_keys(table, [(each, each.column) for each in order])
    places: Ints = np.lexsort((hashes, *reversed(keys), owner))
    return Rows(table.take(pa.array(places)), owner[places], count, tuple(key[places] for key in keys)), places


def told_apart(values: pa.Array) -> Ints:
    """Return numbers that are equal exactly if the values are: NULL equals NULL, and NaN equals NaN."""
    if pa.types.is_nested(values.type):
        known: Mapping[str, int]
        texts = list(map(repr, values.to_pylist()))
        known = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        return np.array([known[text] for text in texts], np.int64)
    found = values.dictionary_encode(null_encoding="encode").indices
    numbers: Ints = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
