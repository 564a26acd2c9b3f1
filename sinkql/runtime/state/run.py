"""A run: a sorted Arrow table of an arrangement in one immutable, durable, memory-mapped file."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from sinkql.errors import LostStateError, SinkqlError
from sinkql.storage import failpoint, files
from sinkql.storage.digest import DigestingFile, cached_digest, digest_file

Entry = Mapping[str, Any]
"""A run in a manifest: `file`, `rows`, `bytes`, `merges` (0 for one batch's), `digest` of its rows.

Also `seal`, a digest of the file's bytes, which runs of earlier versions lack. A run of several pieces has `starts`,
the first key of each; a run whose rows have keys has `widest`, the maximum number of rows of one key.
"""

Keys = NDArray[np.uint64]
HIGH, LOW = np.uint64(0xFFFFFFFF00000000), np.uint64(0xFFFFFFFF)
_DIGESTED = 1 << 12
"""The number of rows that are digested together."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a run, sorted by `keys`, their first column (uint64)."""

    table: pa.Table
    keys: Keys

    def ints(self, column: str) -> NDArray[np.int64]:
        """Return a bigint column."""
        return ints(self.table.column(column))


@dataclass(frozen=True, slots=True)
class Run:
    """A run, in pieces: none begins with the upper half of a key that the previous one ends with.

    `rows` is the only piece, or the file of several.
    """

    starts: Keys
    rows: Piece | _File

    def asked(self, keys: Keys) -> Iterator[tuple[Piece, slice]]:
        """Yield the pieces that may contain some of sorted keys, by their upper half, and the slice of these keys."""
        rows = self.rows
        if isinstance(rows, Piece):
            yield rows, slice(0, len(keys))
            return
        which = np.searchsorted(self.starts & HIGH, keys & HIGH, "right") - 1
        numbers, begins = np.unique(which, return_index=True)
        for number, (begin, end) in zip(numbers, pairwise([*begins, len(keys)]), strict=True):
            if number >= 0:
                piece = _piece(rows.piece(int(number)))
                yield piece, slice(int(begin), int(end))
                rows.let_go(piece.table)

    def between(self, low: int, high: int) -> pa.Table:
        """Return the rows with keys from `low` to `high`."""
        rows = self.rows
        if isinstance(rows, Piece):
            return _cut(rows, low, high)
        first = np.searchsorted(self.starts, np.uint64(low), "left")
        last = np.searchsorted(self.starts, np.uint64(high), "right")
        numbers = range(max(0, int(first) - 1), max(1, int(last)))
        return pa.concat_tables([_cut(_piece(rows.piece(number)), low, high) for number in numbers])


@dataclass(frozen=True, slots=True)
class _File:
    """A run's file, mapped once: opening it for each piece takes longer than looking up a few keys in a piece."""

    path: Path
    mapped: mmap.mmap
    address: int
    reader: pa.RecordBatchFileReader

    @classmethod
    def open(cls, path: Path) -> _File:
        """Map a file; raises OSError, ArrowInvalid, and ValueError for an empty file."""
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        buffer = pa.py_buffer(mapped)
        return cls(path, mapped, buffer.address, pa.ipc.open_file(pa.BufferReader(buffer)))

    def piece(self, number: int) -> pa.Table:
        """Return a piece."""
        try:
            return pa.Table.from_batches([self.reader.get_batch(number)])
        except (OSError, pa.ArrowInvalid) as error:
            raise lost_run(self.path, str(error)) from error

    def let_go(self, piece: pa.Table) -> None:
        """Release the memory of a piece's pages; a later reader reads them from the file again."""
        # a piece is contiguous, its keys first
        begin = piece.column(0).chunk(0).buffers()[1].address - self.address
        start = begin // mmap.PAGESIZE * mmap.PAGESIZE
        self.mapped.madvise(mmap.MADV_DONTNEED, start, begin + piece.nbytes - start)


def _seal(path: Path) -> bytes:
    with path.open("rb", buffering=0) as file:
        return digest_file(file, path.stat().st_size)


def in_memory(table: pa.Table) -> Run:
    """Return a sorted table as a run without a file."""
    return Run(np.zeros(1, np.uint64), _piece(table))


def _piece(table: pa.Table) -> Piece:
    return Piece(table, unsigned(table.column(0)))


def _cut(piece: Piece, low: int, high: int) -> pa.Table:
    begin = int(np.searchsorted(piece.keys, np.uint64(low), "left"))
    return piece.table.slice(begin, int(np.searchsorted(piece.keys, np.uint64(high), "right")) - begin)


def open_run(folder: Path, entry: Entry) -> Run:
    """Map a run's file; SQ3404 if it is missing or not the file of the manifest."""
    path = folder / str(entry["file"])
    starts = np.array(entry.get("starts", [0]), np.uint64)
    try:
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise lost_run(path, f"it has {size} bytes, the manifest says {entry['bytes']}")
        if "seal" in entry and cached_digest(path, _seal).hex() != entry["seal"]:
            raise lost_run(path, "its content has changed since it was written")
        file = _File.open(path)
        if len(starts) > 1:
            if file.reader.num_record_batches != len(starts):
                raise lost_run(path, f"it has {file.reader.num_record_batches} pieces, the manifest says {len(starts)}")
            return Run(starts, file)
        table = file.reader.read_all()
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise lost_run(path, str(error)) from error
    if table.num_rows != entry["rows"]:
        raise lost_run(path, f"it has {table.num_rows} rows, the manifest says {entry['rows']}")
    return Run(starts, _piece(table))


class RunWriter:
    """Writes a run to a new file, durably, piece by piece; SQ3409 if the name exists.

    Pieces come in order, as `Run` requires. The file is created with the second piece, or at the end. If `keyed`, the
    rows of one key have the same upper half of the first column.
    """

    def __init__(self, path: Path, *, keyed: bool = False) -> None:
        self._path = path
        self._keyed = keyed
        self._widest = 0
        self._only: pa.Table | None = None
        self._starts: list[int] = []
        self._rows = 0
        self._digest = _Digest()
        self._open = ExitStack()
        self._file: DigestingFile | None = None
        self._writer: pa.RecordBatchFileWriter | None = None

    def add(self, piece: pa.Table) -> None:
        """Add sorted rows."""
        if not piece.num_rows:
            return
        self._starts.append(int(unsigned(piece.column(0).slice(0, 1))[0]))
        self._rows += piece.num_rows
        self._digest.add(piece)
        if self._keyed:
            self._widest = max(self._widest, _widest(piece))
        if len(self._starts) == 1:
            self._only = piece
            return
        if self._only is not None:
            only, self._only = self._only, None
            self._write(only)
        self._write(piece)

    def close(self, *, merges: int = 0, digest: str | None = None) -> tuple[Entry, Run] | None:
        """Finish the run, and return its manifest entry; None without rows. `digest` overrides its own digest."""
        only = self._only
        if only is not None:
            self._write(only)
        if self._file is None or self._writer is None:
            return None
        self._writer.close()
        size = self._file.tell()
        self._open.close()
        failpoint.point("arrangement-run")
        entry: dict[str, Any] = {
            "file": self._path.name, "rows": self._rows, "bytes": size, "merges": merges,
            "digest": self._digest.value if digest is None else digest, "seal": self._file.digest.hexdigest(),
        }  # fmt: skip
        if self._keyed:
            entry["widest"] = self._widest
        if only is not None:
            return entry, in_memory(only)
        entry["starts"] = self._starts
        return entry, open_run(self._path.parent, entry)

    def _write(self, piece: pa.Table) -> None:
        if self._writer is None:
            try:
                file = self._open.enter_context(files.write_stream(self._path))
            except FileExistsError as error:
                name = self._path.name
                raise SinkqlError("SQ3409", f'state file "{name}" already exists', detail=str(self._path)) from error
            self._file = DigestingFile(file, xxhash.xxh3_128())
            self._writer = pa.ipc.new_file(self._file, piece.schema)
        self._writer.write_table(piece.combine_chunks())


def _widest(piece: pa.Table) -> int:
    """Return the maximum number of rows with the same upper half of their key."""
    halves = unsigned(piece.column(0)) & HIGH
    ends = np.append(np.flatnonzero(halves[1:] != halves[:-1]), len(halves) - 1)
    return int(np.diff(ends, prepend=-1).max())


class _Digest:
    """A hash of values that does not depend on how tables split them."""

    def __init__(self) -> None:
        self._left: list[pa.Table] = []
        self._rows = 0
        self._digests: list[str] = []

    def add(self, table: pa.Table) -> None:
        self._left.append(table)
        self._rows += table.num_rows
        if self._rows < _DIGESTED:
            return
        whole = pa.concat_tables(self._left)
        full = self._rows - self._rows % _DIGESTED
        self._digests += [_digest(whole.slice(start, _DIGESTED)) for start in range(0, full, _DIGESTED)]
        self._left, self._rows = [whole.slice(full).combine_chunks()], self._rows - full

    @property
    def value(self) -> str:
        digests = [*self._digests, *([_digest(pa.concat_tables(self._left))] if self._rows else [])]
        return digests[0] if len(digests) == 1 else xxhash.xxh3_128_hexdigest(",".join(digests).encode())


def _digest(table: pa.Table) -> str:
    """Return a hash of a table's values; the bytes below a NULL do not count."""
    digest = xxhash.xxh3_128()
    for column in table.columns:
        _add(digest, one_chunk(column))
    return digest.hexdigest()


def _add(digest: Any, array: pa.Array) -> None:  # Any: xxhash publishes no types
    digest.update(np.packbits(np.asarray(array.is_valid())).tobytes())
    values = array.drop_null()
    if pa.types.is_struct(values.type):
        for child in values.flatten():
            _add(digest, child)
        return
    if pa.types.is_list(values.type):
        digest.update(values.value_lengths().to_numpy(zero_copy_only=False).tobytes())
        _add(digest, values.flatten())
        return
    if not len(values):
        return
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    start, end = values.offset, values.offset + len(values)
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        offsets = np.frombuffer(values.buffers()[1], np.int32)[start : end + 1]
        digest.update(np.diff(offsets).tobytes())
        start, end, buffer, width = int(offsets[0]), int(offsets[-1]), values.buffers()[2], 1
    else:
        buffer, width = values.buffers()[1], values.type.bit_width // 8
    if end > start:
        digest.update(memoryview(buffer)[start * width : end * width])


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def ints(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Return a 64-bit integer column without NULLs as int64."""
    numbers: NDArray[np.int64] = one_chunk(column).to_numpy(zero_copy_only=False).view(np.int64)
    return numbers


def unsigned(column: pa.Array | pa.ChunkedArray) -> NDArray[np.uint64]:
    """Return a 64-bit integer column without NULLs as uint64."""
    return ints(column).view(np.uint64)


def lost_run(path: Path, why: str) -> LostStateError:
    """Return the error for a run that is missing or incomplete."""
    return LostStateError(
        "SQ3404",
        f'state file "{path.name}" is missing or damaged',
        detail=f"{path}: {why}",
        hint="Restore the sink's state folder, or drop the sink and create it again with a new table.",
    )
