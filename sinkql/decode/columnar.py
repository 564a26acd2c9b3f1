"""Build Arrow arrays from offsets of values in a block of bytes, a column at a time, without a Python object per value.

Arrays of offsets, `starts` and `lengths`, locate the values. `valid` is True for values that are not NULL; None means
that all are valid. The offsets of a NULL are ignored, but must lie in the block.
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
"""Bytes behind a block, so that a number may be viewed anywhere in it: decimals have up to 30 bytes."""


class Block:
    """Bytes that can be viewed at any offset as numbers of any type."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.size = len(data)
        self._views: dict[str, NDArray[np.generic]] = {}

    @cached_property
    def raw(self) -> bytes:
        """The bytes, and room for the last number."""
        return b"".join((self.data, bytes(_ROOM)))

    @cached_property
    def buffer(self) -> pa.Buffer:
        """The bytes as an Arrow buffer."""
        return pa.py_buffer(self.raw)

    def view(self, type_: str) -> NDArray[np.generic]:
        """Return the numbers of a numpy type (`>i4`) that begin at each offset."""
        numbers = self._views.get(type_)
        if numbers is None:
            size = np.dtype(type_).itemsize
            numbers = np.ndarray((len(self.raw) - size + 1,), type_, self.raw, strides=(1,))
            self._views[type_] = numbers
        return numbers

    @cached_property
    def i2(self) -> NDArray[np.int16]:
        """Two-byte big-endian numbers."""
        return self.view(">i2")  # type: ignore[return-value]  # a numpy type by its name

    @cached_property
    def i4(self) -> NDArray[np.int32]:
        """Four-byte big-endian numbers."""
        return self.view(">i4")  # type: ignore[return-value]  # a numpy type by its name

    @cached_property
    def i8(self) -> NDArray[np.int64]:
        """Eight-byte big-endian numbers."""
        return self.view(">i8")  # type: ignore[return-value]  # a numpy type by its name

    def slice(self, start: int, length: int) -> bytes:
        """Return bytes of the block."""
        return self.raw[start : start + length]

    @cached_property
    def bytes(self) -> NDArray[np.uint8]:
        """The bytes as numbers."""
        return np.frombuffer(self.raw, np.uint8)


def bitmap(valid: Mask | None) -> pa.Buffer | None:
    """Return the validity buffer of an Arrow array."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def mask_or(one: Mask | None, other: Mask | None) -> Mask | None:
    """Return the union of two masks; None is an empty mask."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


def mask_or_none(mask: Mask) -> Mask | None:
    """Return a mask, None if it is False everywhere."""
    return mask if mask.any() else None


def fixed_width(values: NDArray[np.generic], valid: Mask | None, type_: pa.DataType) -> pa.Array:
    """Return numbers, in the machine's byte order and as wide as the type, as an array."""
    return pa.Array.from_buffers(type_, len(values), [bitmap(valid), pa.py_buffer(np.ascontiguousarray(values))])


def booleans(values: Mask, valid: Mask | None) -> pa.Array:
    """Return truth values as an array."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [bitmap(valid), bitmap(values)])


def binaries(block: Block, starts: Offsets, lengths: Offsets, valid: Mask | None) -> pa.Array:
    """Return ranges of the block as binaries; the ranges must be in order and must not overlap."""
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    # an array of the ranges and of the gaps between them; every second value is a range
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = starts
    offsets[1::2] = starts + lengths
    parts = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), block.buffer])
    array = parts.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
    if valid is None:
        return array
    return pa.Array.from_buffers(pa.binary(), count, [bitmap(valid), *array.buffers()[1:]])


def texts(block: Block, starts: Offsets, lengths: Offsets, valid: Mask | None) -> tuple[pa.Array, Mask | None]:
    """Return ranges of the block as texts, ordered as for `binaries`, and a mask of NULLs that were not UTF-8."""
    return as_text(binaries(block, starts, lengths, valid))


def as_text(binaries: pa.Array) -> tuple[pa.Array, Mask | None]:
    """Return binaries as texts, and a mask of values that are not UTF-8 and so NULL."""
    try:
        return binaries.cast(pa.string()), None
    except pa.ArrowInvalid:
        bad = np.fromiter(
            (value is not None and not _is_utf8(value) for value in binaries.to_pylist()), bool, len(binaries)
        )
        return pc.if_else(pa.array(~bad), binaries, None).cast(pa.string()), bad


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)
_HYPHENS = (8, 13, 18, 23)
_DIGITS = tuple(index for index in range(36) if index not in _HYPHENS)


def uuids(raw: NDArray[np.generic], valid: Mask | None) -> pa.Array:
    """Return the texts of UUIDs, given as sixteen bytes each."""
    count = len(raw)
    digits = _HEX[np.ascontiguousarray(raw).view(np.uint8)].view(np.uint8).reshape(count, 32)
    characters = np.full((count, 36), ord("-"), np.uint8)
    characters[:, _DIGITS] = digits
    offsets = pa.py_buffer(np.arange(0, 36 * (count + 1), 36, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), count, [bitmap(valid), offsets, pa.py_buffer(characters)])


def decimals(
    values: NDArray[np.int64],
    valid: Mask | None,
    type_: pa.DataType,
    wide: tuple[NDArray[np.int64] | Mask, NDArray[np.uint64]] | None = None,
) -> pa.Array:
    """Return decimals of whole numbers, which count units of the last digit of the type's scale.

    `wide` has indices of values that do not fit into eight bytes, and their `wide_words`.
    """
    words = np.empty((len(values), 2), np.int64)
    words[:, 0] = values
    words[:, 1] = values >> 63
    if wide is not None:
        words[wide[0]] = wide[1].view(np.int64)
    return pa.Array.from_buffers(type_, len(values), [bitmap(valid), pa.py_buffer(words)])


LIMB = 10**12
"""The upper bound of a limb of a wide number."""


def wide_words(limbs: Sequence[NDArray[np.int64]], negative: Mask) -> NDArray[np.uint64]:
    """Return whole numbers of up to 38 digits as two words each, from a sign and four limbs, the lowest one first."""
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
