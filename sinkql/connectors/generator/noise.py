"""(seed, name of a column, numbers of rows) → random values that are the same in every process; all in numpy."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

Ints = np.ndarray[Any, np.dtype[np.int64]]
Words = np.ndarray[Any, np.dtype[np.uint64]]

_STEP = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def noise(seed: int, column: str, *numbers: Ints) -> Words:
    """Return 64 random bits for each row, which its numbers name. The mixing is that of SplitMix64."""
    key = (seed * _STEP + crc32(column.encode())) & _MASK
    found = np.full(1, key, np.uint64)
    for each in numbers:
        found = _mixed(found + (each.astype(np.uint64) + np.uint64(1)) * np.uint64(_STEP))
    return found


def _mixed(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def between(low: int, high: int, words: Words) -> Ints:
    """Return whole numbers from `low` to `high`, both included."""
    return (words >> np.uint64(11)).astype(np.int64) % (high - low + 1) + low


def fraction(words: Words) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return numbers from 0, below 1."""
    return (words >> np.uint64(11)).astype(np.float64) / float(1 << 53)
