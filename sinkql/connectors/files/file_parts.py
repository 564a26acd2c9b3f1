"""Measure the parts of a listed file, as much of it as one batch may read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import BinaryIO

import msgspec
import numpy as np

from sinkql.connector_api.stream import UndecodableError
from sinkql.connectors.files.content import (
    LONGEST_LINE,
    PART_BYTES,
    LongLineError,
    Part,
    SeenFile,
    changed,
    digest,
    listed,
    measure,
    whole_parts,
)
from sinkql.connectors.files.file_format import FileFormat
from sinkql.connectors.files.local_listing import Folder
from sinkql.connectors.files.object_listing import Bucket
from sinkql.errors import GoneError, SinkqlError

_GUESSED_ROW_BYTES = 20
_TRIES = 3


class MovedError(Exception):
    """A file was written to while it was listed."""


@dataclass(frozen=True, slots=True)
class FileParts:
    """The parts of one source's files: each has a digest, and ends with a record if its format can be cut."""

    source: str
    folder: Folder | Bucket
    format: FileFormat

    def cut(self, file: SeenFile, begin: int, rows: int, size: int, *, is_listed: bool) -> tuple[SeenFile, int, int]:
        """Return the file with the parts that one batch reads from `begin`, the byte after them, and their rows.

        A batch reads about `rows` and `size` bytes. If `is_listed`, its parts are known; otherwise they are
        measured as far as needed. The rows of a compressed file are guessed. Raises MovedError.
        """
        if not self.format.is_divisible(file):
            whole = file if is_listed else self.measured(file)
            if whole is None:
                raise MovedError
            return whole, whole.size, self._rows(whole)
        parts: list[Part] = []
        to, count = begin, 0
        with nullcontext() if is_listed else self._open(file) as stream:
            for part, data in self._parts(file, stream):
                base, end = (parts[-1][0] if parts else 0), part[0]
                if end <= begin:
                    parts.append(part)
                    continue
                if part[1] < 0:
                    parts.append(part)
                    to = end
                    continue
                if base < begin or count + part[1] > rows or end - begin > size:
                    text = data if data is not None else self._bytes(file, base, part)
                    skip = max(0, begin - base)
                    cut = _cut(text, skip, rows - count, size - (to - begin), self.format.quote, first=to == begin)
                    count, to = count + text.count(b"\n", skip, cut), base + cut
                    if cut < len(text):
                        parts += [(to, text.count(b"\n", 0, cut), digest(text[:cut]))] if cut else []
                        break
                else:
                    count, to = count + part[1], end
                parts.append(part)
                if count >= rows or to - begin >= size:
                    break
            if stream is not None and self.folder.now(stream, file).stamp != file.stamp:
                raise MovedError
        return msgspec.structs.replace(file, parts=tuple(parts)), to, count

    def measured(self, file: SeenFile) -> SeenFile | None:
        """Return the file with all its parts; None if it was removed. Raise SQ3301 if it keeps changing."""
        if self.folder.pinned and not self.format.is_divisible(file):
            ends = (*range(PART_BYTES, file.size, PART_BYTES), file.size) if file.size else ()
            return msgspec.structs.replace(file, parts=tuple((end, 0, "") for end in ends))
        for _ in range(_TRIES):
            try:
                with self._open(file) as stream:
                    now = self.folder.now(stream, file)
                    new = tuple(part for part, _ in self._parts_after(stream, now))
                    if self.folder.now(stream, file).stamp == now.stamp:
                        return msgspec.structs.replace(now, parts=whole_parts(now) + new)
            except (MovedError, GoneError):
                if file.parts:
                    raise
                return None
        raise changed(self.folder, file)

    def _rows(self, file: SeenFile) -> int:
        """Return the number of rows of a file that is read whole: exact, or guessed if only decoding would tell."""
        if self.folder.pinned:
            return file.size // _GUESSED_ROW_BYTES  # a request for the footer of each object would take long
        stored = self.format.decoding.stored
        if stored is not None:
            try:
                with self.folder.open(file) as stream:
                    return stored(self.format.options, ()).rows(stream)
            except (UndecodableError, GoneError):
                return 0  # reading the file raises the error
        return file.size // _GUESSED_ROW_BYTES if not self.format.is_plain(file) else file.lines

    def _open(self, file: SeenFile) -> BinaryIO:
        try:
            return self.folder.open(file)
        except GoneError as error:
            if file.parts:
                raise
            raise MovedError from error

    def _parts(self, file: SeenFile, stream: BinaryIO | None) -> Iterator[tuple[Part, bytes | None]]:
        if stream is None:
            for part in file.parts:
                yield part, None
            return
        for part in whole_parts(file):
            yield part, None
        yield from self._parts_after(stream, file)

    def _parts_after(self, stream: BinaryIO, file: SeenFile) -> Iterator[tuple[Part, bytes]]:
        try:
            lines = self.format.is_divisible(file)
            quote = self.format.quote if lines else b""
            yield from measure(stream, self.folder, file, lines=lines, quote=quote)
        except LongLineError as error:
            raise long_line_error(self.source, file, error) from error

    def _bytes(self, file: SeenFile, base: int, part: Part) -> bytes:
        with self.folder.open(file) as stream:
            return next(listed(stream, self.folder, file, base, [part]))


def long_line_error(source: str, file: SeenFile, error: LongLineError) -> SinkqlError:
    """Return the error for a line that does not fit into memory."""
    return SinkqlError(
        "SQ3101",
        f'invalid row of source "{source}" at {file.name}:{error}: it is longer than {LONGEST_LINE >> 20} MiB',
        hint="Correct the file; the sink then continues.",
    )


def _cut(data: bytes, skip: int, rows: int, size: int, quote: bytes, *, first: bool) -> int:
    """Return where to cut a part that is read from `skip`: after a record, at least one if it is the `first`."""
    if data.count(b"\n", skip) <= rows and len(data) - skip <= size:
        return len(data)
    ends = _record_ends(data, skip, quote)
    allowed = ends[: max(1, rows)]
    within = allowed[allowed - skip <= max(0, size)]
    if len(within):
        return int(within[-1]) if len(ends) > len(within) or len(data) - skip > size else len(data)
    if not first:
        return skip
    return int(ends[0]) if len(ends) else len(data)


def _record_ends(data: bytes, skip: int, quote: bytes) -> np.ndarray:
    """Return the offsets after the line ends from `skip` on that have an even number of quotes before them."""
    characters = np.frombuffer(data, np.uint8, offset=skip)
    ends = np.flatnonzero(characters == ord("\n"))
    if quote and quote in data:
        quotes = np.flatnonzero(characters == quote[0])
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return ends + skip + 1
