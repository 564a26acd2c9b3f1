"""Rows of 9 to 16 bytes → their xxh3-128 with seed 0, all at once: a key of one number is so long."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_PRIME_1, _PRIME_2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_32 = np.uint64(0x85EBCA77 - 1)
_AVALANCHE = np.uint64(0x165667919E3779F9)
# of xxHash's secret, the words at 32 and 40, and those at 48 and 56, each pair by XOR
_FLIP_LOW = np.uint64(0x59973F0033362349)
_FLIP_HIGH = np.uint64(0xC202797692D63D58)


def hashed(rows: npt.NDArray[np.void]) -> tuple[Words, Words]:
    """Return the upper and the lower half of each row's hash."""
    size = rows.itemsize
    assert 9 <= size <= 16
    every = rows.view(np.uint8).reshape(len(rows), size)
    first = np.ascontiguousarray(every[:, :8]).view("<u8")[:, 0].astype(np.uint64)
    last = np.ascontiguousarray(every[:, size - 8 :]).view("<u8")[:, 0].astype(np.uint64)
    with np.errstate(over="ignore"):
        low, high = _product(first ^ last ^ _FLIP_LOW, _PRIME_1)
        low += np.uint64((size - 1) << 54)
        last ^= _FLIP_HIGH
        high += last + (last & _LOW) * _PRIME_32
        low ^= high.byteswap()
        end, top = _product(low, _PRIME_2)
        top += high * _PRIME_2
        return _avalanche(top), _avalanche(end)


def _product(values: Words, factor: np.uint64) -> tuple[Words, Words]:
    """Return the lower and the upper half of 128 bits."""
    low, high = values & _LOW, values >> _HALF
    factor_low, factor_high = factor & _LOW, factor >> _HALF
    middle = high * factor_low + (low * factor_low >> _HALF)
    other = low * factor_high + (middle & _LOW)
    return values * factor, high * factor_high + (middle >> _HALF) + (other >> _HALF)


def _avalanche(found: Words) -> Words:
    found = (found ^ found >> np.uint64(37)) * _AVALANCHE
    return found ^ found >> _HALF
