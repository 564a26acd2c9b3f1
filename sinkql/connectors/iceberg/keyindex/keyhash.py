"""Key columns in Arrow → 128-bit key hashes, as two uint64 arrays. The hash is part of the index's format.

A row's bytes are, for each key column in the key's order: one byte 0x00 for NULL and nothing else, or one byte 0x01,
the value's length as an unsigned 32-bit little-endian number, and the value in Iceberg's single-value binary form
(table specification, appendix D): boolean one byte 0x00 or 0x01; int and date 4 bytes, long, time, timestamp and
timestamptz 8 bytes (days, microseconds) little-endian two's complement; decimal the unscaled value, big-endian two's
complement in as few bytes as hold it; string its UTF-8; uuid, fixed and binary as they are. Floats cannot be keys. The
hash is xxh3-128 of a row's bytes with seed 0; `h1` is its upper half, `h2` its lower. Nothing else decides it: not the
batch, the version or the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_128_digest

from sinkql.connectors.iceberg.keyindex import xxh3

if TYPE_CHECKING:
    from collections.abc import Iterable

Hashes = npt.NDArray[np.uint64]

_SLICE = 1 << 18
"""Rows hashed at a time: bounds the memory for the rows' bytes."""


def hash_keys(columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[Hashes, Hashes]:
    """Hash the rows of equally long key columns, in the table's Arrow types; raises TypeError for another type.

    Small ints count as Iceberg's int, large strings and dictionaries as their plain kind.
    """
    arrays = [_plain(column) for column in columns]
    starts = range(0, len(arrays[0]), _SLICE)
    halves = [_halves([array.slice(start, _SLICE) for array in arrays]) for start in starts]
    nothing = np.zeros(0, np.uint64)
    upper, lower = (np.concatenate([nothing, *(each[half] for each in halves)]) for half in (0, 1))
    return upper, lower


def _halves(columns: list[pa.Array]) -> tuple[Hashes, Hashes]:
    """Return the hashes of one slice."""
    if all(_width(column.type) and not column.null_count for column in columns):
        rows = _fixed(columns)
        if 9 <= rows.itemsize <= 16:
            return xxh3.hashed(rows)
        every: Iterable[bytes] = cast("list[bytes]", rows.view(f"V{rows.itemsize}").tolist())
    else:
        every = _joined(columns)
    both = np.frombuffer(b"".join(map(xxh3_128_digest, every)), ">u8").astype(np.uint64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
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
    if pa.types.is_int8(type_) or pa.types.is_int16(type_):
        return column.cast(pa.int32())
    if pa.types.is_boolean(type_):
        return column.cast(pa.uint8())
    return column


def _joined(columns: list[pa.Array]) -> Iterable[bytes]:
    """Return each row's bytes, of one slice."""
    empty = pa.scalar(b"", pa.large_binary())
    pieces = [piece for column in columns for piece in _pieces(column)]
    joined = pc.binary_join_element_wise(*pieces, empty, null_handling="replace", null_replacement="")
    data = joined.buffers()[2]
    raw = data.to_pybytes() if data is not None else b""
    ends = np.frombuffer(joined.buffers()[1], np.int64, len(joined) + 1, 8 * joined.offset).tolist()
    return [raw[start:end] for start, end in pairwise(ends)]


def _fixed(columns: list[pa.Array]) -> npt.NDArray[np.void]:
    layout: list[tuple[str, str]] = []
    for place, column in enumerate(columns):
        layout += [(f"flag{place}", "u1"), (f"length{place}", "<u4"), (f"value{place}", _width(column.type))]
    rows = np.empty(len(columns[0]), np.dtype(layout))
    for place, column in enumerate(columns):
        rows[f"flag{place}"], rows[f"length{place}"] = 1, rows.dtype[f"value{place}"].itemsize
        rows[f"value{place}"] = _values(column)
    return rows


def _pieces(column: pa.Array) -> list[pa.Array]:
    """Return arrays of bytes that, joined row by row, are the column's part of the rows."""
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_large_binary(column.type):
        lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy()
        return [_masked(_head(valid, lengths), valid), column]
    if pa.types.is_decimal128(column.type):
        values, lengths = _decimals(column)
        head = _masked(_head(valid, lengths), valid)
        kept = np.arange(16) >= 16 - np.where(valid, lengths, 0)[:, None]
        return [head, _binary(values, kept)]
    rows = _fixed([column]).view(np.uint8).reshape(len(column), -1)
    rows[:, 0] = valid
    return [_masked(rows, valid)]


def _head(valid: npt.NDArray[np.bool_], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    rows = np.empty(len(valid), np.dtype([("flag", "u1"), ("length", "<u4")]))
    rows["flag"], rows["length"] = valid, lengths
    return rows.view(np.uint8).reshape(len(valid), 5)


def _masked(rows: npt.NDArray[np.uint8], valid: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the rows, those of NULLs cut to their flag."""
    kept = np.repeat(valid[:, None], rows.shape[1], axis=1)
    kept[:, 0] = True
    return _binary(rows, kept)


def _binary(rows: npt.NDArray[np.uint8], kept: npt.NDArray[np.bool_]) -> pa.Array:
    ends = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(kept.sum(axis=1), out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(rows[kept].tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(rows), buffers)


def _decimals(column: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return big-endian 16-byte values, and how many of their last bytes hold each."""
    little = np.frombuffer(column.buffers()[1], np.uint8, 16 * len(column), 16 * column.offset)
    big = little.reshape(len(column), 16)[:, ::-1]
    sign = np.where(big[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    # A leading byte is needless if it is all sign, and the next byte's top bit says the same.
    needless = (big[:, :-1] == sign) & ((big[:, 1:] & 0x80) == (sign & 0x80))
    return big, 16 - np.cumprod(needless, axis=1).sum(axis=1)


def _width(type_: pa.DataType) -> str:
    """Return the numpy type of a value's bytes; empty for a value whose length varies."""
    if pa.types.is_large_binary(type_) or pa.types.is_decimal128(type_):
        return ""
    if pa.types.is_fixed_size_binary(type_):
        return f"V{type_.byte_width}"
    found = {
        pa.uint8(): "u1", pa.int32(): "<i4", pa.int64(): "<i8", pa.date32(): "<i4", pa.time64("us"): "<i8",
    }.get(type_)  # fmt: skip
    if found is None and pa.types.is_timestamp(type_) and type_.unit == "us":
        return "<i8"
    if found is None:
        raise TypeError(f"a key column cannot be of Arrow type {type_}")
    return found


def _values(column: pa.Array) -> npt.NDArray[np.generic]:
    """Return a fixed-width column's values; those of NULLs are arbitrary."""
    width = np.dtype(_width(column.type))
    if not len(column):
        return np.empty(0, width)
    return np.frombuffer(column.buffers()[1], width, len(column), width.itemsize * column.offset)
