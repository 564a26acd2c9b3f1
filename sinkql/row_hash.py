"""Hash the rows of Arrow columns to 128 bits under a secret key, to identify keys and the rows of a key.

A writer of rows must not be able to produce two rows with the same hash. So the hash is a message authentication code:
a chain of AES blocks over the bytes of a row (CBC-MAC; Bellare, Kilian and Rogaway, 1994). Without the key, it looks
random as long as no message is a prefix of another. No message of a row is, because it begins with the NULL columns and
the lengths of all values. Two rows of one 64-bit column never have the same hash.

A message has blocks of 16 bytes, and begins with little-endian words of 64 bits. The lowest byte of the first word is
the `domain`; its other bits mark the columns that are NULL, with further words from the 57th column on. Each column
follows with its one or two words, or with its number of bytes. After the words come the bytes of the columns with
bytes, in blocks padded with zeros.

An integer is one word, as a bigint. A numeric is two words. A float is the word of its double, with -0 as 0 and a
single NaN. An array has the hashes of its elements as bytes, and a record has the hash of its fields as two words. A
BLAKE2b hash replaces the bytes of a long value.

All rows of a slice are hashed together, block by block. The C library computes AES in a few nanoseconds per block if
the processor supports it.
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
"""The number of rows that are hashed together: their data stay in the processor's cache."""
_LONG = 1 << 10
"""A value with more bytes is hashed separately: no other row would share the hashing of its last blocks."""
_FLAGS = 56
"""The number of columns whose NULLs the first word marks."""
_INNER = 0xFF
"""The domain of values inside arrays and records."""
_MASKS = np.zeros((_BLOCK + 1, _BLOCK), np.uint8)
for _length in range(_BLOCK + 1):
    _MASKS[_length, :_length] = 0xFF
_KEEP_BYTES = _MASKS.view(np.uint64)


def hash_rows(
    key: HashKey, columns: Sequence[pa.Array | pa.ChunkedArray], *, domain: int = 0, count: int = 0
) -> tuple[Hashes, Hashes]:
    """Return both halves of each row's hash, for columns of equal length or `count` rows without columns.

    Raises TypeError for a type without a hash.
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
    """Hashes rows under a secret key."""

    secret: bytes = field(repr=False)

    def hashed(self, columns: Sequence[pa.Array], domain: int) -> _Words:
        """Return the hash of each row as two words."""
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
            hashes = self._encrypt(hashes ^ np.column_stack(pair))
        for tail in tails:
            self._chain(hashes, tail)
        return hashes

    def _words(self, column: pa.Array) -> list[_Word] | None:
        """Return the words of the values, zeros for NULL; None for a type whose values vary in length."""
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
        """Return a column's values as bytes; an array is the hashes of its elements."""
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
        """Return the values, with long ones replaced by their hashes."""
        long = lengths > _LONG
        if not long.any():
            return values
        offsets = np.frombuffer(values.buffers()[1], np.int64, len(values) + 1, 8 * values.offset)
        which, data = np.flatnonzero(long), memoryview(values.buffers()[2])
        bounds = zip(offsets[which].tolist(), offsets[which + 1].tolist(), strict=True)
        hashed = [hashlib.blake2b(data[low:high], key=self.secret, digest_size=32).digest() for low, high in bounds]
        return pc.replace_with_mask(values, pa.array(long), pa.array(hashed, pa.large_binary()))

    def _chain(self, hashes: _Words, tail: _Tail) -> None:
        """Continue the hashes with the blocks of the values' bytes, in place."""
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
                block[ends] &= _KEEP_BYTES[left[ends]]
            if len(rows) == len(hashes):
                hashes[:] = self._encrypt(hashes ^ block)
            else:
                hashes[rows] = self._encrypt(hashes[rows] ^ block)
            left, at = left - _BLOCK, at + _BLOCK
            if not (on := left > 0).all():
                rows, left, at = rows[on], left[on], at[on]

    def _encrypt(self, blocks: _Words) -> _Words:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # slow, and often not needed

        if not len(blocks):
            return blocks
        output = np.empty(blocks.nbytes + _BLOCK - 1, np.uint8)
        cipher = Cipher(algorithms.AES(self.secret), modes.ECB())  # `hashed` and `_chain` build the chain
        cipher.encryptor().update_into(np.ascontiguousarray(blocks).data.cast("B"), output.data)
        return output[: blocks.nbytes].view(np.uint64).reshape(-1, 2)


def is_hashable(type_: pa.DataType) -> bool:
    """Return whether columns of a type have hashes."""
    try:
        hash_rows(PUBLIC_KEY, [pa.nulls(1, type_)])
    except TypeError:
        return False
    return True


def collision_error(one: str, other: str) -> SinkqlError:
    """Return the error for two values with the same hash."""
    return SinkqlError(
        "SQ3460",
        f"{one} and {other} have the same hash",
        hint="Drop the sink, and create it with a new table in a new catalog, which gets a new secret hash key.",
    )


@dataclass(frozen=True, slots=True)
class _Tail:
    """Values as large binary, which follow the words, and the length of each, 0 for NULL."""

    values: pa.Array
    lengths: _Lengths


def _heads(columns: Sequence[pa.Array], domain: int) -> Iterator[_Word]:
    """Yield the words that mark the NULL columns of each row."""
    start, end, shift = 0, _FLAGS, 8
    while start < max(1, len(columns)):
        word = np.full(len(columns[0]), domain, np.uint64)
        for bit, column in enumerate(columns[start:end], shift):
            if column.null_count:
                word |= column.is_null().to_numpy(zero_copy_only=False).astype(np.uint64) << np.uint64(bit)
        yield word
        start, end, shift, domain = end, end + 64, 0, 0


def _zeroed(column: pa.Array, words: _Word) -> _Word:
    """Return the words with 0 for NULLs, whose words are arbitrary."""
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), words, 0) if column.null_count else words


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array of a type that is hashed."""
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
"""The numpy types of numbers that are one word, by the id of their Arrow type."""
