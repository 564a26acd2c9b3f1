"""Columns of rows → a hash of 128 bits a row, under a secret key: what tells keys, and rows of a key, apart.

Whoever writes rows must not be able to write two that have one hash. So the hash is a message authentication code: the
chain of AES blocks over a row's bytes (CBC-MAC; Bellare, Kilian and Rogaway, 1994), which nobody who lacks the key can
tell from chance, as long as no message begins another. A row's message begins with which columns are NULL, and how long
each is; so none does. Two rows of one column of 64 bits never have the same hash.

A message has, in blocks of 16 bytes, words of 64 bits, little-endian: a word with the `domain` in its lowest byte, and
then a bit a column that is NULL (further words from the 57th column on); of each column its one or two words, or the
number of its bytes; then the bytes of each column that has such, in blocks filled with zeros. Numbers have the words of
64 bits that they have as bigint, numerics 128 bits, floats those of their double, with one zero and one NaN. An array
has the hashes of its elements, a record that of its fields. A value of many bytes has a BLAKE2b hash in their place.

All rows of a slice are hashed together, block by block. Ciphers are the C library's, which costs a few nanoseconds a
block where the processor knows AES.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.errors import SinkqlError
from sinkql.hash_key import PUBLIC_KEY, HashKey

Hashes = npt.NDArray[np.uint64]
"""One of the halves of the rows' hashes."""
_Word = npt.NDArray[np.uint64]
"""One word of each row."""
_Words = npt.NDArray[np.uint64]
"""Two words of each row, a block."""
_Lengths = npt.NDArray[np.int64]

_BLOCK = 16
_SLICE = 1 << 14
"""Rows hashed at a time: what is hashed of them stays in the processor's cache."""
_LONG = 1 << 10
"""From so many bytes on a value is hashed by itself: its blocks would be hashed for it alone."""
_FLAGS = 56
"""NULLs that the first word tells of."""
_INNER = 0xFF
"""The domain of what is within arrays and records."""
_MASKS = np.zeros((_BLOCK + 1, _BLOCK), np.uint8)
for _length in range(_BLOCK + 1):
    _MASKS[_length, :_length] = 0xFF
_KEPT = _MASKS.view(np.uint64)


def hash_rows(
    key: HashKey, columns: Sequence[pa.Array | pa.ChunkedArray], *, domain: int = 0, count: int = 0
) -> tuple[Hashes, Hashes]:
    """Return both halves of the hashes of equally long columns' rows, or of `count` rows that have no column.

    Raises TypeError for a type that has no hash.
    """
    arrays = [_plain(column) for column in columns] or [pa.nulls(count)]
    hasher = _Hasher(key.secret)
    slices = [
        hasher.hashed([array.slice(start, _SLICE) for array in arrays], domain)
        for start in range(0, len(arrays[0]), _SLICE)
    ]
    both = np.concatenate([np.empty((0, 2), np.uint64), *slices])
    return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])


@dataclass(frozen=True, slots=True)
class _Hasher:
    """Hash rows under a secret."""

    secret: bytes = field(repr=False)

    def hashed(self, columns: Sequence[pa.Array], domain: int) -> _Words:
        """Return the hash of each row of some, as two words."""
        words: list[_Word] = list(_heads(columns, domain))
        tails: list[_Tail] = []
        for column in columns:
            if (column_words := self._words(column)) is not None:
                words += column_words
                continue
            tails.append(self._tail(column))
            words.append(tails[-1].lengths.astype(np.uint64))
        words += [np.zeros(len(words[0]), np.uint64)] * (len(words) % 2)
        hashes = np.zeros((len(words[0]), 2), np.uint64)
        for pair in zip(words[::2], words[1::2], strict=True):
            hashes = self._enciphered(hashes ^ np.column_stack(pair))
        for tail in tails:
            self._chain(hashes, tail)
        return hashes

    def _words(self, column: pa.Array) -> list[_Word] | None:
        """Return the words that each value has, zeros for NULL; None for a type whose values have no certain number."""
        type_ = column.type
        if pa.types.is_null(type_):
            return []
        if pa.types.is_struct(type_):
            fields = [_plain(child) for child in column.flatten()]
            if not fields:
                return []
            both = self.hashed(fields, _INNER)
            return [_zeroed(column, both[:, half]) for half in (0, 1)]
        if pa.types.is_decimal128(type_) or pa.types.is_fixed_size_binary(type_):
            both = np.frombuffer(column.buffers()[1], np.uint64, 2 * len(column), _BLOCK * column.offset).reshape(-1, 2)
            return [_zeroed(column, both[:, half]) for half in (0, 1)]
        if pa.types.is_floating(type_):
            values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
            values[np.isnan(values)] = np.nan
            return [values.view(np.uint64)]
        if (kind := _KINDS.get(type_.id)) is None:
            return None
        values = np.frombuffer(column.buffers()[1], kind, len(column), kind.itemsize * column.offset)
        return [_zeroed(column, values.astype(np.int64).view(np.uint64))]

    def _tail(self, column: pa.Array) -> _Tail:
        """Return a column's values as bytes, those of arrays as the hashes of their elements."""
        if pa.types.is_large_binary(column.type):
            lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
            return _Tail(self._shortened(column, lengths), lengths)
        if not _is_list(column.type):
            raise TypeError(f"a row with a column of Arrow type {column.type} has no hash")
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64) * _BLOCK
        elements = np.ascontiguousarray(self.hashed([_plain(column.flatten())], _INNER))
        ends = np.zeros(len(column) + 1, np.int64)
        np.cumsum(lengths, out=ends[1:])
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(elements)]
        values = pa.Array.from_buffers(pa.large_binary(), len(column), buffers)
        return _Tail(self._shortened(values, lengths), lengths)

    def _shortened(self, values: pa.Array, lengths: _Lengths) -> pa.Array:
        """Return values with hashes in the place of long ones."""
        long = lengths > _LONG
        if not long.any():
            return values
        offsets = np.frombuffer(values.buffers()[1], np.int64, len(values) + 1, 8 * values.offset)
        which, data = np.flatnonzero(long), memoryview(values.buffers()[2])
        bounds = zip(offsets[which].tolist(), offsets[which + 1].tolist(), strict=True)
        hashed = [hashlib.blake2b(data[low:high], key=self.secret, digest_size=32).digest() for low, high in bounds]
        return pc.replace_with_mask(values, pa.array(long), pa.array(hashed, pa.large_binary()))

    def _chain(self, hashes: _Words, tail: _Tail) -> None:
        """Go on with the blocks of values' bytes, in place."""
        offsets = np.frombuffer(tail.values.buffers()[1], np.int64, len(tail.lengths) + 1, 8 * tail.values.offset)
        begin, end = int(offsets[0]), int(offsets[-1])
        rows = np.flatnonzero(tail.lengths)
        if not len(rows):
            return
        data = np.zeros(end - begin + _BLOCK, np.uint8)
        data[: end - begin] = np.frombuffer(tail.values.buffers()[2], np.uint8, end - begin, begin)
        blocks: npt.NDArray[np.void] = np.ndarray((len(data) - _BLOCK + 1,), f"V{_BLOCK}", data, strides=(1,))
        left, at = np.diff(offsets)[rows], offsets[rows] - begin
        while len(rows):
            block = blocks[at].view(np.uint64).reshape(-1, 2)
            if len(ends := np.flatnonzero(left < _BLOCK)):
                block[ends] &= _KEPT[left[ends]]
            if len(rows) == len(hashes):
                hashes[:] = self._enciphered(hashes ^ block)
            else:
                hashes[rows] = self._enciphered(hashes[rows] ^ block)
            left, at = left - _BLOCK, at + _BLOCK
            if not (on := left > 0).all():
                rows, left, at = rows[on], left[on], at[on]

    def _enciphered(self, blocks: _Words) -> _Words:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # slow, and often not needed

        if not len(blocks):
            return blocks
        output = np.empty(blocks.nbytes + _BLOCK - 1, np.uint8)
        cipher = Cipher(algorithms.AES(self.secret), modes.ECB())  # the chain is made here
        cipher.encryptor().update_into(np.ascontiguousarray(blocks).data.cast("B"), output.data)
        return output[: blocks.nbytes].view(np.uint64).reshape(-1, 2)


def is_hashable(type_: pa.DataType) -> bool:
    """Tell whether columns of a type have hashes."""
    try:
        hash_rows(PUBLIC_KEY, [pa.nulls(1, type_)])
    except TypeError:
        return False
    return True


def collision_error(one: str, other: str) -> SinkqlError:
    """Return the error for two values that have one hash."""
    return SinkqlError(
        "SQ3460",
        f"{one} and {other} have the same hash",
        hint="Drop the sink and create it again, into a new table, with a catalog whose secret nobody knows.",
    )


@dataclass(frozen=True, slots=True)
class _Tail:
    """Values as large binary, which go behind the words, and the length that each has, 0 for NULL."""

    values: pa.Array
    lengths: _Lengths


def _heads(columns: Sequence[pa.Array], domain: int) -> Iterator[_Word]:
    """Yield the words that tell which columns of each row are NULL."""
    start, end, shift = 0, _FLAGS, 8
    while start < max(1, len(columns)):
        word = np.full(len(columns[0]), domain, np.uint64)
        for bit, column in enumerate(columns[start:end], shift):
            if column.null_count:
                word |= column.is_null().to_numpy(zero_copy_only=False).astype(np.uint64) << np.uint64(bit)
        yield word
        start, end, shift, domain = end, end + 64, 0, 0


def _zeroed(column: pa.Array, words: _Word) -> _Word:
    """Return words without those of NULLs, which are arbitrary."""
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), words, 0) if column.null_count else words


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array of one of the types that are hashed."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # older versions keep the chunks of an empty one
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    type_ = column.type
    if pa.types.is_dictionary(type_):
        return _plain(column.dictionary_decode())
    if pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_large_string(type_):
        return column.cast(pa.large_binary())
    if pa.types.is_fixed_size_binary(type_) and type_.byte_width != _BLOCK:
        return column.cast(pa.binary()).cast(pa.large_binary())
    if pa.types.is_boolean(type_):
        return column.cast(pa.uint8())
    return column


def _is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_map(type_))


_KINDS = {
    type_.id: np.dtype(kind)
    for type_, kind in (
        (pa.uint8(), "u1"), (pa.int8(), "i1"), (pa.int16(), "i2"), (pa.int32(), "i4"), (pa.int64(), "i8"),
        (pa.uint32(), "u4"), (pa.date32(), "i4"), (pa.time64("us"), "i8"), (pa.timestamp("us"), "i8"),
    )
}  # fmt: skip
"""How Arrow has the numbers that have one word, by the id of the type."""
