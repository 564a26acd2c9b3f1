"""Spill the rows of a task to a temporary file if they exceed its memory, and read them back by ranges of hashes.

Like the Grace hash join (Kitsuregawa et al., 1983): rows of one hash are in one part. Parts come in the order of their
ranges, so that sorted parts concatenate to a sorted whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MOST = 64 << 20
"""The most bytes of rows that stay in memory."""
PART = 16 << 20
"""Bytes of rows that are written, or read back, together."""
_RANGES = 256

Ranges = NDArray[np.uint8]
"""The range of each row: a number below 256, such as the first byte of its hash."""

LAST = (1 << 64) - 1
"""The greatest hash."""


class Part(NamedTuple):
    """Rows with hashes from `low` to `high`, both included. The parts of a task cover all hashes without overlap."""

    rows: pa.Table
    low: int = 0
    high: int = LAST


def hash_range(hashes: NDArray[np.uint64]) -> Ranges:
    """Return the range of each hash."""
    return (hashes >> np.uint64(56)).astype(np.uint8)


def spilled_parts(
    tables: Iterable[pa.Table], schema: pa.Schema, ranges: Callable[[pa.Table], Ranges], folder: Path
) -> Iterator[Part]:
    """Yield all rows: in one part, or in parts of about `PART` bytes if they are more than `MOST` bytes.

    A range is never in two parts, so a part with a large range is larger. The temporary file is in `folder`.
    """
    in_memory, size = [schema.empty_table()], 0
    remaining = iter(tables)
    for table in remaining:
        in_memory.append(table)
        size += table.nbytes
        if size > MOST:
            break
    else:
        whole = pa.concat_tables(in_memory)
        in_memory.clear()  # the rows are not needed in both forms
        yield Part(whole.combine_chunks())
        return
    with Spill(folder, schema) as spill:
        for table in in_memory:
            spill.add(table, ranges(table))
        in_memory.clear()
        for table in remaining:
            spill.add(table, ranges(table))
        yield from spill.parts()


class Spill:
    """Rows in a temporary file, grouped by range. Use it in a `with` block; add all rows, then read the parts."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115  # closed with the spill
        self._schema = schema
        self._waiting: list[tuple[pa.Table, Ranges]] = []
        self._size = 0
        self._written: list[list[tuple[int, int]]] = [[] for _ in range(_RANGES)]

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, rows: pa.Table, ranges: Ranges) -> None:
        """Add rows, with the range of each."""
        if not rows.num_rows:
            return
        self._waiting.append((rows, ranges))
        self._size += rows.nbytes
        if self._size >= PART:
            self._write_waiting()

    def parts(self) -> Iterator[Part]:
        """Yield the rows with one chunk a column; neighbouring small ranges share a part."""
        self._write_waiting()
        chosen: list[tuple[int, int]] = []
        low = 0
        for number, written in enumerate(self._written):
            if chosen and written and sum(size for _, size in (*chosen, *written)) > PART:
                yield Part(self._read(chosen), low << 56, (number << 56) - 1)
                chosen, low = [], number
            chosen += written
        yield Part(self._read(chosen), low << 56)

    def _write_waiting(self) -> None:
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
