"""Places of values in a block of bytes → Arrow arrays, a column at a time, without a Python object a value.

Where a value stands is told by arrays of offsets, `starts` and `lengths`; `valid` is True for what is not NULL, or None
where nothing is. What stands at the place of a NULL is not looked at, as long as it lies in the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Offsets = NDArray[np.int64]
Mask = NDArray[np.bool_]

_ROOM = 32
"""Bytes behind a block, so that a number may be looked at anywhere in it: decimals have up to 30 bytes."""


class Block:
    """Bytes that can be looked at, at any offset, as numbers of any kind."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self.raw = data + bytes(_ROOM)
        self.bytes = np.frombuffer(self.raw, np.uint8)
        self.buffer = pa.py_buffer(self.raw)
        self._views: dict[str, NDArray[np.generic]] = {}

    def view(self, type_: str) -> NDArray[np.generic]:
        """Return the numbers of a numpy type, such as `>i4`, that begin at each offset."""
        found = self._views.get(type_)
        if found is None:
            size = np.dtype(type_).itemsize
            found = np.ndarray((len(self.raw) - size + 1,), type_, self.raw, strides=(1,))
            self._views[type_] = found
        return found

    @cached_property
    def i2(self) -> NDArray[np.int16]:
        """Two-byte numbers, the greatest byte first."""
        return self.view(">i2")  # type: ignore[return-value]  # a numpy type by its name

    @cached_property
    def i4(self) -> NDArray[np.int32]:
        """Four-byte numbers, the greatest byte first."""
        return self.view(">i4")  # type: ignore[return-value]  # a numpy type by its name

    @cached_property
    def i8(self) -> NDArray[np.int64]:
        """Eight-byte numbers, the greatest byte first."""
        return self.view(">i8")  # type: ignore[return-value]  # a numpy type by its name

    def slice(self, start: int, length: int) -> bytes:
        """Return bytes of the block."""
        return self.raw[start : start + length]


def bitmap(valid: Mask | None) -> pa.Buffer | None:
    """Return the validity of an Arrow array."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def mask_or(one: Mask | None, other: Mask | None) -> Mask | None:
    """Return where one of both is True; None is nowhere."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


def mask_or_none(mask: Mask) -> Mask | None:
    """Return a mask, None where it is False everywhere."""
    return mask if mask.any() else None


def fixed_width(values: NDArray[np.generic], valid: Mask | None, type_: pa.DataType) -> pa.Array:
    """Return numbers, in the machine's byte order and as wide as the type, as an array."""
    return pa.Array.from_buffers(type_, len(values), [bitmap(valid), pa.py_buffer(np.ascontiguousarray(values))])


def booleans(values: Mask, valid: Mask | None) -> pa.Array:
    """Return truth values as an array."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [bitmap(valid), bitmap(values)])


def binaries(block: Block, starts: Offsets, lengths: Offsets, valid: Mask | None) -> pa.Array:
    """Return parts of the block, none of which begins before the end of one that stands before it."""
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    # an array of the parts and of what stands between them, of which each second one is taken
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = starts + lengths
    parts = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), block.buffer])
    found = parts.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
    if valid is None:
        return found
    return pa.Array.from_buffers(pa.binary(), count, [bitmap(valid), *found.buffers()[1:]])


def texts(block: Block, starts: Offsets, lengths: Offsets, valid: Mask | None) -> tuple[pa.Array, Mask | None]:
    """Return parts of the block as texts, in the order of `binaries`, and which are not UTF-8: those are NULL."""
    return as_text(binaries(block, starts, lengths, valid))


def as_text(found: pa.Array) -> tuple[pa.Array, Mask | None]:
    """Return binaries as texts, and which are not UTF-8: those are NULL."""
    try:
        return found.cast(pa.string()), None
    except pa.ArrowInvalid:
        bad = np.fromiter((each is not None and not _readable(each) for each in found.to_pylist()), bool, len(found))
        return pc.if_else(pa.array(~bad), found, None).cast(pa.string()), bad


def _readable(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


_HEX = np.frombuffer(b"".join(b"%02x" % each for each in range(256)), np.uint16)
_HYPHENS = (8, 13, 18, 23)
_DIGITS = tuple(each for each in range(36) if each not in _HYPHENS)


def uuids(block: Block, starts: Offsets, valid: Mask | None) -> pa.Array:
    """Return the texts of UUIDs of sixteen bytes."""
    count = len(starts)
    digits = _HEX[block.view("V16")[starts].view(np.uint8)].view(np.uint8).reshape(count, 32)
    found = np.full((count, 36), ord("-"), np.uint8)
    found[:, _DIGITS] = digits
    offsets = pa.py_buffer(np.arange(0, 36 * (count + 1), 36, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), count, [bitmap(valid), offsets, pa.py_buffer(found)])


def decimals(
    values: NDArray[np.int64],
    valid: Mask | None,
    type_: pa.DataType,
    wide: tuple[NDArray[np.int64] | Mask, NDArray[np.uint64]] | None = None,
) -> pa.Array:
    """Return decimals of whole numbers, in each of which the last digit is the last one of the type's scale.

    `wide` has places of values that do not fit into eight bytes, and their `wide_words`.
    """
    words = np.empty((len(values), 2), np.int64)
    words[:, 0] = values
    words[:, 1] = values >> 63
    if wide is not None:
        words[wide[0]] = wide[1].view(np.int64)
    return pa.Array.from_buffers(type_, len(values), [bitmap(valid), pa.py_buffer(words)])


LIMB = 10**12
"""What a limb of a wide number is less than."""


def wide_words(limbs: Sequence[NDArray[np.int64]], negative: Mask) -> NDArray[np.uint64]:
    """Return whole numbers of up to 38 digits, given as four limbs, the lowest one first, and a sign, as two words."""
    low = np.zeros(len(negative), np.uint64)
    high = np.zeros(len(negative), np.uint64)
    for limb in reversed(limbs):
        for factor in (10**6, 10**6):  # so that no product has more than 64 bits
            below = (low & _LOWER) * np.uint64(factor)
            above = (low >> _HALF) * np.uint64(factor) + (below >> _HALF)
            low = (above << _HALF) | (below & _LOWER)
            high = high * np.uint64(factor) + (above >> _HALF)
        low = low + limb.astype(np.uint64)
        high += low < limb.astype(np.uint64)
    words = np.empty((len(negative), 2), np.uint64)
    words[:, 0] = np.where(negative, ~low + np.uint64(1), low)
    words[:, 1] = np.where(negative, ~high + (low == 0), high)
    return words


_HALF = np.uint64(32)
_LOWER = np.uint64(2**32 - 1)
