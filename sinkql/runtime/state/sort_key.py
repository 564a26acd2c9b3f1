"""Numbers that sort like the columns of an order: exact ones, and 32 or 64 bits for the order of a run.

NULL comes first or last depending on the term, NaN is the greatest float, text is ordered by its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql import physical
from sinkql.connector_api.types import python_values
from sinkql.evaluate import comparable
from sinkql.logical.type import INTEGER
from sinkql.runtime.state.arithmetic import ordered
from sinkql.runtime.state.arrangement import Ints
from sinkql.runtime.state.run import Keys, one_chunk

Terms = Sequence[tuple[physical.Order, str]]
"""The terms of an order, each with its column's name in a table."""

_MOST = np.uint64(0xFFFFFFFF)
_HALF = np.int64(1 << 31)
_SECOND = 1_000_000
_DIGITS = 18
"""The minimum number of digits of a decimal for 64 bits."""
_BIASED = np.uint64(1 << 63)
_EXACT = frozenset({"boolean", "smallint", "date", "real"})
"""Types whose values, and NULL, have different keys of 32 bits."""


def sort_keys(rows: pa.Table, terms: Terms) -> list[Ints]:
    """Return columns of integers that order the rows like the terms, most significant first; peers are equal in all."""
    found: list[Ints] = []
    for term, name in terms:
        values = one_chunk(rows.column(name))
        numbers = _exact(values)
        if values.null_count:
            nulls = values.is_null().to_numpy(zero_copy_only=False)
            found.append(np.where(nulls, -1, 1) * (1 if term.nulls_first else -1))
            numbers = np.where(nulls, 0, numbers)
        found.append(~numbers if term.descending else numbers)
    return found


def starts_of(owner: Ints, keys: Sequence[Ints]) -> NDArray[np.bool_]:
    """Return for each of sorted rows whether its owner or a key differs from the row before."""
    found = np.ones(len(owner), np.bool_)
    found[1:] = owner[1:] != owner[:-1]
    for key in keys:
        found[1:] |= key[1:] != key[:-1]
    return found


def _exact(values: pa.Array) -> Ints:
    """Return integers that sort like the values; the integers for NULL have no meaning."""
    type_ = values.type
    if pa.types.is_decimal(type_):
        low, high = _words(values)
        if bool(((low.view(np.int64) >> np.int64(63)) == high).all()):
            return low.view(np.int64)
    elif pa.types.is_nested(type_):
        return _ranks(values)
    elif not (pa.types.is_string(type_) or pa.types.is_binary(type_)):
        return _integers(values)
    ranks: Ints = pc.rank(values, tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    return ranks


def _ranks(values: pa.Array) -> Ints:
    """Return the ranks of arrays: by elements, with NULL last, then by their number."""
    keys = [None if value is None else _key(value) for value in python_values(values)]
    places = {key: place for place, key in enumerate(sorted({key for key in keys if key is not None}))}
    return np.array([0 if key is None else places[key] for key in keys], np.int64)


def _key(value: tuple[Any, ...]) -> tuple[Any, ...]:
    sizes = [len(value)]
    while value and isinstance(value[0], tuple):
        sizes.append(len(value[0]))
        value = tuple(chain.from_iterable(value))
    return comparable(value), *sizes


def _integers(values: pa.Array) -> Ints:
    """Return booleans, integers, floats, dates and times as integers of the same order."""
    type_ = values.type
    if pa.types.is_floating(type_):
        values = ordered(values.fill_null(0.0) if values.null_count else values)
    elif pa.types.is_boolean(type_):
        values = values.cast(pa.int8())
    elif pa.types.is_date(type_):
        values = values.view(pa.int32())
    elif pa.types.is_temporal(type_):
        values = values.view(pa.int64())
    if values.null_count:
        values = values.fill_null(0)
    found: Ints = values.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _words(values: pa.Array) -> tuple[Keys, Ints]:
    """Return the lower and the upper half of decimals, 0 for NULL."""
    if values.null_count:
        values = values.fill_null(pa.scalar(0, values.type))
    words = np.frombuffer(values.buffers()[1], np.uint64)[2 * values.offset : 2 * (values.offset + len(values))]
    return words[0::2].copy(), words[1::2].view(np.int64).copy()


def first_bits(rows: pa.Table, terms: Terms, hashes: Ints) -> Keys:
    """Return 32 bits of each row, in a uint64, that sort like the first term; without terms like the row's hash."""
    if not terms:
        return hash_bits(hashes)
    term, name = terms[0]
    values = one_chunk(rows.column(name))
    bits = _bits(values)
    if term.descending:
        bits = _MOST - bits
    if values.null_count:
        nulls = values.is_null().to_numpy(zero_copy_only=False)
        bits = np.where(nulls, np.uint64(0) if term.nulls_first else _MOST, bits)
    return bits


def hash_bits(hashes: Ints) -> Keys:
    """Return the first 32 bits of signed hashes, with the same order."""
    found: Keys = (hashes.view(np.uint64) ^ _BIASED) >> np.uint64(32)
    return found


def exact_bits(terms: Terms, columns: Sequence[physical.Column]) -> bool:
    """Return whether rows with equal `first_bits` are peers; `columns` are the terms' columns."""
    if not terms:
        return True
    (column, *more) = columns
    return not more and (column.type.name in _EXACT or (column.type == INTEGER and not column.nullable))


def wide_bits(values: pa.Array) -> tuple[Keys, bool]:
    """Return 64 bits of each value that sort like it, and whether they identify all values of the type; no NULLs."""
    type_ = values.type
    if pa.types.is_string(type_):
        return _of_bytes(values, 8), False
    if not pa.types.is_decimal(type_):
        return _unsigned(_integers(values)), True
    if type_.precision <= _DIGITS:
        return _unsigned(_words(values)[0].view(np.int64)), True
    magnitude, negative = _magnitudes(*_words(values))
    return _unsigned(_integers(pa.array(np.where(negative, -magnitude, magnitude)))), False


def _unsigned(numbers: Ints) -> Keys:
    found: Keys = numbers.view(np.uint64) ^ _BIASED
    return found


def _bits(values: pa.Array) -> Keys:
    type_ = values.type
    if pa.types.is_decimal(type_):
        return _scaled(*_magnitudes(*_words(values)))
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return _of_bytes(values, 4)
    if pa.types.is_nested(type_):
        return np.full(len(values), int(_HALF), np.uint64)  # all values have the same key
    numbers = _integers(values)
    if type_ == pa.float64():
        return ((numbers.view(np.uint64) ^ _BIASED) >> np.uint64(32)) & _MOST
    if type_ == pa.int64():
        return _scaled(np.abs(numbers.astype(np.float64)), numbers < 0)
    if pa.types.is_timestamp(type_):
        return np.clip(numbers // _SECOND, 0, int(_MOST)).astype(np.uint64)
    if pa.types.is_time(type_):
        return (numbers >> np.int64(5)).astype(np.uint64)
    # the ends of the range are reserved for NULL
    return (numbers + _HALF).astype(np.uint64)


def _magnitudes(low: Keys, high: Ints) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return decimals without their signs, as floats that sort like them, and whether each is negative."""
    negative = high < 0
    low = np.where(negative, ~low + np.uint64(1), low)
    high = np.where(negative, ~high + (low == 0), high)
    upper = high.view(np.uint64)
    narrow = (upper << np.uint64(32)) | (low >> np.uint64(32))
    wide = upper.astype(np.float64) * 2.0**64
    middle = narrow.astype(np.float64) * 2.0**32
    return np.where(upper == 0, low.astype(np.float64), np.where(upper < 1 << 32, middle, wide)), negative


def _scaled(magnitude: NDArray[np.float64], negative: NDArray[np.bool_]) -> Keys:
    """Return numbers up to 2^128 as 32 bits, with 24 significant bits."""
    bits = ((magnitude + 1.0).view(np.int64) - np.int64(1023 << 52)) >> np.int64(28)
    return np.where(negative, _HALF - 1 - bits, _HALF + bits).astype(np.uint64)


def _of_bytes(values: pa.Array, most: int) -> Keys:
    """Return the first bytes of each text."""
    if values.null_count:
        values = values.fill_null("" if pa.types.is_string(values.type) else b"")
    count = len(values)
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + count + 1].astype(np.int64)
    data = values.buffers()[2]
    text = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    found = np.zeros(count, np.uint64)
    for place in range(most):
        at = offsets[:-1] + place
        there = at < offsets[1:]
        byte = np.where(there, text[np.where(there, at, 0)] if len(text) else 0, 0)
        found = (found << np.uint64(8)) | byte.astype(np.uint64)
    return found
