"""Compute random values in numpy and convert them to Arrow columns, without a Python object for each row.

Random values are a function of the seed, the column's name and the numbers of a row, and the same in every process.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_POOL_WORDS = 40_000
_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789, "
_SPEECH = (
    "the a its their every some slow quick quiet bold final even regular ironic silent careful express special furious "
    "pending unusual blithe daring stealthy brave idle busy packages requests accounts deposits foxes ideas theories "
    "platelets instructions courts dolphins pinto beans asymptotes warhorses sheaves sentiments hockey players frets "
    "sleep wake nag haggle cajole detect integrate boost doze engage believe promise solve affix snooze wake above "
    "along among against after before beyond beneath between among despite during except inside near over under until "
    "upon within without slyly quickly carefully furiously blithely daringly ruthlessly finally evenly never always"
)


def decimals(hundredths: Ints) -> pa.Array:
    """Return numbers of hundredths as numeric(15,2)."""
    halves = np.empty((len(hundredths), 2), np.int64)  # the low and the high half of a 128-bit decimal
    halves[:, 0] = hundredths
    halves[:, 1] = hundredths >> 63
    return pa.Array.from_buffers(pa.decimal128(15, 2), len(hundredths), [None, pa.py_buffer(halves)])


def times(micros: Ints) -> pa.Array:
    """Return microseconds since 1970 as times."""
    return pa.array(micros, pa.timestamp("us", "UTC"))


def days(since_1970: Ints) -> pa.Array:
    """Return days since 1970 as dates."""
    return pa.array(since_1970.astype(np.int32), pa.date32())


def integers(numbers: Ints) -> pa.Array:
    """Return 32-bit integers."""
    return pa.array(numbers.astype(np.int32))


def choice(words: Sequence[str], indexes: Ints) -> pa.Array:
    """Return the word at each index."""
    return pa.array(words).take(pa.array(indexes))


def patterned(*parts: str | tuple[Ints, int]) -> pa.Array:
    """Return texts of fixed length from fixed parts and numbers with their digit counts; at least one is a number."""
    rows = next(len(part[0]) for part in parts if not isinstance(part, str))
    matrix = [_characters(part, rows) if isinstance(part, str) else _digits(*part) for part in parts]
    return fixed_length(np.concatenate(matrix, axis=1), pa.string())


def _characters(text: str, rows: int) -> Bytes:
    return np.broadcast_to(np.frombuffer(text.encode(), np.uint8), (rows, len(text)))


def _digits(numbers: Ints, count: int) -> Bytes:
    powers = 10 ** np.arange(count - 1, -1, -1, dtype=np.int64)
    return (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def fixed_length(matrix: Bytes, type_: pa.DataType) -> pa.Array:
    """Return each row of a byte matrix as a text or a binary value."""
    rows, width = matrix.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    data = np.ascontiguousarray(matrix)
    return pa.Array.from_buffers(type_, rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def sentences(low: int, high: int, words: Words) -> pa.Array:
    """Return texts of words, from `low` to `high` characters long."""
    pool, begins = _text_pool()
    starts = begins[between(0, len(begins) - 1, words)]
    return _cut(pool, starts, between(low, high, words ^ np.uint64(0xAAAAAAAAAAAAAAAA)))


def addresses(low: int, high: int, words: Words) -> pa.Array:
    """Return texts of alphanumeric characters, commas and spaces, from `low` to `high` characters long."""
    pool = _character_pool()
    return _cut(pool, between(0, len(pool) - high, words), between(low, high, words >> np.uint64(7)))


def _cut(pool: Bytes, starts: Ints, lengths: Ints) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    indexes = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    return pa.Array.from_buffers(pa.string(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(pool[indexes])])


@cache
def _text_pool() -> tuple[Bytes, Ints]:
    """Return a long text, and the positions of the words that are far enough from its end."""
    words = _SPEECH.split()
    chosen = between(0, len(words) - 1, noise(0, "text", np.arange(_POOL_WORDS)))
    text = " ".join(words[index] for index in chosen)
    pool = np.frombuffer(text.encode(), np.uint8)
    begins = np.flatnonzero(pool == ord(" ")) + 1
    return pool, begins[begins < len(pool) - 256]


@cache
def _character_pool() -> Bytes:
    characters = np.frombuffer(_ALPHABET.encode(), np.uint8)
    return characters[between(0, len(characters) - 1, noise(0, "letters", np.arange(1 << 16)))]


Ints = np.ndarray[Any, np.dtype[np.int64]]
Words = np.ndarray[Any, np.dtype[np.uint64]]

_STEP = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def noise(seed: int, column: str, *numbers: Ints) -> Words:
    """Return 64 random bits for each row, identified by its numbers. The mixing function is SplitMix64's."""
    key = (seed * _STEP + crc32(column.encode())) & _MASK
    words = np.full(1, key, np.uint64)
    for values in numbers:
        words = _mix(words + (values.astype(np.uint64) + np.uint64(1)) * np.uint64(_STEP))
    return words


def _mix(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def between(low: int, high: int, words: Words) -> Ints:
    """Return integers from `low` to `high`, both included."""
    return (words >> np.uint64(11)).astype(np.int64) % (high - low + 1) + low


def fraction(words: Words) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return numbers from 0 to below 1."""
    return (words >> np.uint64(11)).astype(np.float64) / float(1 << 53)
