"""Rows of a task that are too many for its memory → parts, each of a range of hashes, by way of a temporary file.

As the Grace hash join does (Kitsuregawa et al., 1983): what is to meet is in one part, and parts come in the order of
their ranges, so that what is made of them is sorted where each part is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MOST = 32 << 20
"""Bytes of rows that stay in memory."""
PART = 16 << 20
"""Bytes of rows that are put by, or taken up again, at once."""
_RANGES = 256

Ranges = NDArray[np.uint8]
"""The range of each row: the first byte of its hash, or another number below 256."""

LAST = (1 << 64) - 1
"""The greatest hash."""


class Part(NamedTuple):
    """Rows with hashes from `low` to `high`; the parts of a task have all hashes, each once."""

    rows: pa.Table
    low: int = 0
    high: int = LAST


def hash_range(hashes: NDArray[np.uint64]) -> Ranges:
    """Return the ranges of hashes."""
    return (hashes >> np.uint64(56)).astype(np.uint8)


def spilled_parts(
    tables: Iterable[pa.Table], schema: pa.Schema, ranges: Callable[[pa.Table], Ranges], folder: Path
) -> Iterator[Part]:
    """Yield all rows, in one part, or in several of about `PART` bytes where they are more than `MOST` bytes.

    No range is in two parts, so that a part with a range of many rows is larger. The file is in `folder`.
    """
    waiting, size = [schema.empty_table()], 0
    left = iter(tables)
    for each in left:
        waiting.append(each)
        size += each.nbytes
        if size > MOST:
            break
    else:
        yield Part(pa.concat_tables(waiting).combine_chunks())
        return
    with Spill(folder, schema) as spill:
        for each in waiting:
            spill.add(each, ranges(each))
        waiting.clear()
        for each in left:
            spill.add(each, ranges(each))
        yield from spill.parts()


class Spill:
    """Rows in a temporary file, by their ranges."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115  # it is closed with the spill
        self._schema = schema
        self._waiting: list[tuple[pa.Table, Ranges]] = []
        self._size = 0
        self._written: list[list[tuple[int, int]]] = [[] for _ in range(_RANGES)]

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, rows: pa.Table, ranges: Ranges) -> None:
        """Add rows and the range of each."""
        if not rows.num_rows:
            return
        self._waiting.append((rows, ranges))
        self._size += rows.nbytes
        if self._size >= PART:
            self._put_by()

    def parts(self) -> Iterator[Part]:
        """Yield the rows, each of one chunk a column, neighbouring ranges together while they are few bytes."""
        self._put_by()
        chosen: list[tuple[int, int]] = []
        low = 0
        for number, written in enumerate(self._written):
            if chosen and written and sum(size for _, size in (*chosen, *written)) > PART:
                yield Part(self._read(chosen), low << 56, (number << 56) - 1)
                chosen, low = [], number
            chosen += written
        yield Part(self._read(chosen), low << 56)

    def _put_by(self) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables([rows for rows, _ in self._waiting]).combine_chunks()
        ranges = np.concatenate([ranges for _, ranges in self._waiting])
        self._waiting, self._size = [], 0
        order = np.argsort(ranges, kind="stable")
        rows = rows.take(pa.array(order)).combine_chunks()
        cuts = np.searchsorted(ranges[order], np.arange(_RANGES + 1)).tolist()
        for number, written in enumerate(self._written):
            for batch in rows.slice(cuts[number], cuts[number + 1] - cuts[number]).to_batches():
                data = batch.serialize()
                written.append((self._file.tell(), len(data)))
                self._file.write(data)

    def _read(self, written: list[tuple[int, int]]) -> pa.Table:
        batches = []
        for start, size in written:
            self._file.seek(start)
            batches.append(pa.ipc.read_record_batch(pa.py_buffer(self._file.read(size)), self._schema))
        return pa.Table.from_batches(batches, self._schema).combine_chunks()
