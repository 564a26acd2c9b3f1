"""Files → splits → Arrow rows: each file once, whatever happens in between. One that is renamed is the same file.

Offsets: `log`, the head of the log of files that were read whole; `partial`, a file of JSON lines that was read up to
byte `at`, or None. A batch takes new files by name, in parts where one is longer than a batch may be. A file is listed
with digests of what a batch reads of it, and its rows come only of bytes that have these digests.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.source_options import OnError, RecordErrorPolicy, on_error
from sinkql.connector_api.stream import (
    Context,
    Decoded,
    DecodedMessages,
    Decoder,
    Decoding,
    FileBackedReader,
    Limit,
    Measure,
    Offsets,
    QuotedDecoder,
    Reader,
    RowError,
    Split,
    Tally,
    UndecodableError,
    not_kept,
)
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.files.content import (
    LONGEST_LINE,
    PART_BYTES,
    ChangedError,
    ListedFile,
    ListedStream,
    LongLineError,
    Part,
    SeenFile,
    Written,
    changed,
    digest,
    from_data,
    listed,
    measure,
    undecodable,
    whole_parts,
)
from sinkql.connectors.files.discovery import Watch
from sinkql.connectors.files.local_listing import Folder
from sinkql.connectors.files.object_listing import Bucket, BucketWatch
from sinkql.connectors.files.processed_files import ProcessedFilesLog
from sinkql.errors import GoneError, SinkqlError

_SMALL_BYTES = 1 << 20
_SMALL_FILES = 8
_SPLIT_BYTES = 64 << 20
_MOST_SPLITS = 64
_MOST_FILES = 10_000  # of a batch: it keeps a list of them, and so does each of its tasks
_BLOCK_BYTES = 1 << 20
_GUESSED_ROW_BYTES = 20
_TRIES = 3
_BOM = b"\xef\xbb\xbf"
_CORRECT = "Correct the file."
_THEN = """ No row of it was written, and a file that is put there later is read then. The sink continues when it is \
started again."""


class _MovedError(Exception):
    """Say that a file was written to while it was listed."""


@dataclass(frozen=True, slots=True)
class FilesReader(Reader, FileBackedReader):
    """Read one FILES source; `home` is the folder of its log, below `state`, that of the sink."""

    source: str
    folder: Folder | Bucket
    state: Path
    home: str
    columns: tuple[physical.Column, ...]
    format: dict[str, Any]
    decoding: Decoding
    policy: OnError
    max_files: int | None
    written: Written = Written()
    log: ProcessedFilesLog = field(init=False, repr=False, compare=False)
    told: ProcessedFilesLog = field(init=False, repr=False, compare=False)
    """The same for figures, which another thread asks for: what `log` has in memory is of where batches are."""
    watch: Watch | BucketWatch = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("log", "told"):
            object.__setattr__(self, name, ProcessedFilesLog(self.state / self.home))
        watch = Watch(self.folder) if isinstance(self.folder, Folder) else BucketWatch(self.folder)
        object.__setattr__(self, "watch", watch)

    @classmethod
    def of(cls, read: physical.Read, context: Context) -> FilesReader:
        """Return the reader of a planned source."""
        options = read.options
        return cls(
            read.name,
            _place(read, context),
            context.folder,
            f"files/{hashlib.sha256(read.source.encode()).hexdigest()[:12]}",
            read.columns,
            options["format"],
            context.formats[options["format"]["name"]],
            on_error(options),
            options["tuning"]["max_files_per_commit"],
            Written(options.get("compression", "AUTO"), options.get("encoding")),
        )

    def local_only(self) -> bool:
        """Tell whether the files lie in a folder of this machine."""
        return isinstance(self.folder, Folder)

    # --- offsets ---------------------------------------------------------------------------------------------------

    def initial(self, *, at_end: bool) -> Offsets:
        """Return no file yet, or with `at_end` every file that is there now."""
        start: Offsets = {"log": None, "partial": None}
        return self.target(start) if at_end else start

    def target(self, start: Offsets) -> Offsets:
        """Return all files that are there now."""
        partial, _ = _partial(start)
        files = [self.watch.still(partial)] if partial is not None else []
        new = self.watch.new(self.log.seen(start["log"]), settled=False)
        files += [file for file in new if partial is None or file.name != partial.name]
        measured = [found for file in files if (found := self._measured(file)) is not None]
        return self._moved(start, measured, None) if measured else start

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return `start` and as many new files as the limit lets in; a CSV or compressed file is never divided."""
        partial, at = _partial(start)
        waiting = self._new(start) if until is None else self._known(start, until)
        taken: list[SeenFile] = []
        rows, size = limit.rows, limit.bytes
        for number, file in enumerate(waiting, 1):
            begin = at if partial is not None and file.name == partial.name else 0
            try:
                found, to, count = self._take(file, begin, rows, size, known=until is not None)
            except (_MovedError, ChangedError, GoneError) as error:
                if not isinstance(error, _MovedError) and (file.parts or not self.folder.pinned):
                    raise
                if begin:
                    break
                continue  # no offset names it yet: the next look says what it is now
            if to < found.size:
                cut = {"file": found.data(), "at": to}
                if until is not None and number == len(waiting) and cut == until["partial"]:
                    return until
                return self._moved(start, taken, cut)
            if taken and not self._divisible(file) and (count > rows or file.size > size):
                break
            taken.append(found)
            if until is not None and number == len(waiting):
                return until  # the same files by another head: who waits for the target compares offsets
            rows, size = rows - count, size - (file.size - begin)
            if rows <= 0 or size <= 0 or len(taken) == (self.max_files or _MOST_FILES):
                break
        return self._moved(start, taken, None) if taken else start

    def _new(self, start: Offsets) -> Sequence[SeenFile]:
        """Return the files to go on with, by name, after the one that was read in part."""
        partial, _ = _partial(start)
        new = self.watch.new(self.log.seen(start["log"]), settled=True)
        if partial is None:
            return new
        return [self.watch.still(partial), *(file for file in new if file.name != partial.name)]

    def _known(self, start: Offsets, until: Offsets) -> Sequence[SeenFile]:
        """Return the files that lie between two offsets, with their parts."""
        partial, _ = _partial(start)
        last, _ = _partial(until)
        files = self.log.added(start["log"], until["log"])
        if last is not None:
            files.append(last)
        if partial is None:
            return files
        return sorted(files, key=lambda file: file.name != partial.name)

    def _moved(self, start: Offsets, taken: list[SeenFile], partial: dict[str, Any] | None) -> Offsets:
        if not taken:
            return {"log": start["log"], "partial": partial}
        seen = self.log.seen(start["log"])  # a rebuild goes through older offsets, which have not all of them
        again = [file for file in self.watch.again() if file.name in seen]
        renamed = [file for file, was in self.watch.renamed() if was in seen and file.name not in seen]
        return {"log": self.log.append(start["log"], taken, again, renamed), "partial": partial}

    def _take(self, file: SeenFile, begin: int, rows: int, size: int, *, known: bool) -> tuple[SeenFile, int, int]:
        """Return the file with parts up to where `rows` and `size` let it be read from `begin`, that place, its rows.

        Of a `known` file the parts are given; otherwise it is measured as far as needed. The rows of a compressed file
        are only guessed.
        """
        if not self._divisible(file):
            whole = file if known else self._measured(file)
            if whole is None:
                raise _MovedError
            return whole, whole.size, self._count(whole)
        parts: list[Part] = []
        to, count = begin, 0
        with nullcontext() if known else self._open(file) as stream:
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
                    cut = _cut(text, skip, rows - count, size - (to - begin), self._quote(), first=to == begin)
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
                raise _MovedError
        return msgspec.structs.replace(file, parts=tuple(parts)), to, count

    def _count(self, file: SeenFile) -> int:
        """Return how many rows a file has that is not divided, as far as it can be told without decoding it."""
        if self.folder.pinned:
            return file.size // _GUESSED_ROW_BYTES  # to ask for the end of each would take a while
        if self.decoding.stored is not None:
            try:
                with self.folder.open(file) as stream:
                    return self.decoding.stored(self.format, ()).rows(stream)
            except (UndecodableError, GoneError):
                return 0  # which is said where it is read
        return file.size // _GUESSED_ROW_BYTES if not self._plainly(file) else file.lines

    def _open(self, file: SeenFile) -> BinaryIO:
        try:
            return self.folder.open(file)
        except GoneError as error:
            if file.parts:
                raise
            raise _MovedError from error

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
            cut = self._divisible(file)
            yield from measure(stream, self.folder, file, lines=cut, quote=self._quote() if cut else b"")
        except LongLineError as error:
            raise self._too_long(file, error) from error

    def _bytes(self, file: SeenFile, base: int, part: Part) -> bytes:
        with self.folder.open(file) as stream:
            return next(listed(stream, self.folder, file, base, [part]))

    def _measured(self, file: SeenFile) -> SeenFile | None:
        """Return the file with all its parts, None where it is gone; SQ3301 where it is written to all the time."""
        if self.folder.pinned and not self._divisible(file):
            ends = (*range(PART_BYTES, file.size, PART_BYTES), file.size) if file.size else ()
            return msgspec.structs.replace(file, parts=tuple((end, 0, "") for end in ends))
        for _ in range(_TRIES):
            try:
                with self._open(file) as stream:
                    now = self.folder.now(stream, file)
                    new = tuple(part for part, _ in self._parts_after(stream, now))
                    if self.folder.now(stream, file).stamp == now.stamp:
                        return msgspec.structs.replace(now, parts=whole_parts(now) + new)
            except (_MovedError, GoneError):
                if file.parts:
                    raise
                return None
        raise changed(self.folder, file)

    def _divisible(self, file: SeenFile) -> bool:
        if self.folder.pinned and file.size <= _SPLIT_BYTES:
            return False  # so that it is fetched once
        return (self.decoding.lines(self.format) or self._quote() != b"") and self._plainly(file)

    def _quote(self) -> bytes:
        return self.decoding.quote(self.format)

    def _plainly(self, file: SeenFile) -> bool:
        return self.decoding.stored is not None or self.written.plainly(file.name)

    @property
    def files(self) -> FilesReader:
        """Return the reader itself: offsets name segments of the log."""
        return self

    def required_files(self, offsets: Offsets) -> tuple[str, ...]:
        """Return the log's segments, as paths below the sink's state folder."""
        return tuple(f"{self.home}/{name}" for name in self.log.names(offsets["log"]))

    def removable_files(self, kept: Sequence[Offsets], *, before: float) -> tuple[str, ...]:
        """Return the log's segments that none of the offsets needs."""
        names = self.log.unneeded([offsets["log"] for offsets in kept], before=before)
        return tuple(f"{self.home}/{name}" for name in names)

    def measure(self, offsets: Offsets) -> Measure:
        """Return how many files were read, and how many more there were when it was looked for the oldest."""
        read = len(self.told.seen(offsets["log"]))
        return Measure(read + self.watch.unread, read, "files")

    def lag(self, offsets: Offsets) -> float:
        """Return the age of the oldest file that was not read to its end, by the time it was written."""
        oldest = self.watch.oldest(self.told.seen(offsets["log"]))
        return max(0.0, time.time() - oldest) if oldest is not None else 0.0

    # --- rows --------------------------------------------------------------------------------------------------------

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return the files between two offsets; long ones in ranges of about 64 MiB, where their format can be cut."""
        partial, at = _partial(start)
        files = self._known({**start, "partial": None}, end)
        return [
            split
            for file in files
            for split in self._ranges(file, at if partial is not None and file.name == partial.name else 0)
        ]

    def fits_in_process(self, splits: Sequence[Split]) -> bool:
        """Tell by the sizes of plain files: what is in compressed ones may be a thousand times as large."""
        if self.decoding.stored is not None or len(splits) > _SMALL_FILES:
            return False
        files = [from_data(split["file"]) for split in splits]
        return sum(file.size for file in files) <= _SMALL_BYTES and all(map(self._plainly, files))

    def _ranges(self, file: SeenFile, begin: int) -> Iterator[Split]:
        if self.decoding.stored is not None:
            yield from self._stored_ranges(file)
            return
        base = lines = 0
        parts: list[Part] = []
        name = msgspec.structs.replace(file, parts=()).data()
        head = {"head": file.parts[0]} if self._quote() and self._divisible(file) and file.parts else {}
        for part in file.parts:
            if part[0] <= begin:
                base, lines = part[0], lines + part[1]
                continue
            parts.append(part)
            if self._divisible(file) and part[0] - base >= _SPLIT_BYTES and part[1] >= 0:
                yield {"file": name, "base": base, "from": max(begin, base), "lines": lines, "parts": parts, **head}
                base, lines, parts = part[0], lines + sum(each[1] for each in parts), []
        if parts or not file.parts:
            yield {"file": name, "base": base, "from": max(begin, base), "lines": lines, "parts": parts, **head}

    def _stored_ranges(self, file: SeenFile) -> Iterator[Split]:
        """Yield ranges of a file that is sought: each has all parts, since any of them may be asked for."""
        name = msgspec.structs.replace(file, parts=()).data()
        begin, least = 0, max(_SPLIT_BYTES, file.size // _MOST_SPLITS)
        for end, _, _ in file.parts:
            if end - begin >= least or end == file.size:
                yield {"file": name, "base": 0, "from": begin, "to": end, "lines": 0, "parts": file.parts}
                begin = end
        if not file.parts:
            yield {"file": name, "base": 0, "from": 0, "to": 0, "lines": 0, "parts": ()}

    def read(self, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, less those that do not decode; raises SQ3101 where these stop the sinks.

        Raises SQ3301 before a row comes of bytes that are not as they were listed.
        """
        file = from_data(split["file"])
        with self.folder.open(file) as stream:
            if self.decoding.stored is not None:
                yield from self._read_stored(file, split, stream, tally)
                return
            chunks = listed(stream, self.folder, file, split["base"], split["parts"])
            if split["from"] and split.get("head"):
                yield from self._read_records(file, split, stream, chunks, tally)
            elif self._divisible(file) and not self._quote():
                yield from self._read_lines(file, split, chunks, tally)
            else:
                yield from self._read_whole(file, chunks, tally)
        if split["parts"]:
            tally.bytes += split["parts"][-1][0] - split["from"]

    def retry_dead_letters(self, records: Sequence[RowError]) -> Iterator[DecodedMessages]:
        """Decode lines, elements of arrays and CSV records, these as the header of their file says."""
        if self.decoding.stored is not None:
            raise not_kept(f"files of FORMAT {self.format['name']} are not cut into records")
        form = {name: value for name, value in self.format.items() if name != "array"}
        decoder = self.decoding.open(form, self.columns)
        for record in records:
            yield self._once_more(record, decoder)

    def _once_more(self, record: RowError, decoder: Decoder) -> DecodedMessages:
        raw = record.raw.replace(b"\n", b" ") if self.format.get("array") else record.raw
        head = record.about.get("header")
        stream = BytesIO(raw if head is None else f"{head}\n".encode() + raw)
        try:
            found = list(decoder.decode(stream))
        except (UndecodableError, pa.ArrowException) as error:
            return DecodedMessages(_none(self.columns), {0: str(error)})
        failures = [failure.message for each in found for failure in each.failures]
        if failures or sum(each.records for each in found) != 1:
            return DecodedMessages(_none(self.columns), {0: failures[0] if failures else "it is not one record"})
        return DecodedMessages(next(each.batch for each in found if each.records), {})

    def _read_lines(
        self, file: SeenFile, split: Split, chunks: Iterator[bytes], tally: Tally
    ) -> Iterator[pa.RecordBatch]:
        decoder = self.decoding.open(self.format, self.columns)
        skip, before = split["from"] - split["base"], split["lines"]
        for data in chunks:
            before += data.count(b"\n", 0, skip)
            for block in _blocks(data, skip):
                yield from self._decoded(file, decoder, text_of(block, before), tally, before=before)
                before += block.count(b"\n")
            skip = 0

    def _read_records(
        self, file: SeenFile, split: Split, stream: BinaryIO, chunks: Iterator[bytes], tally: Tally
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split that is not the first one of its file, to which the head says what is in it."""
        decoder = cast(QuotedDecoder, self.decoding.open(self.format, self.columns))
        head = next(listed(stream, self.folder, file, 0, [split["head"]]))
        first, skip = next(chunks), split["from"] - split["base"]
        line = 1 + split["lines"] + first.count(b"\n", 0, skip)
        source = ListedStream(itertools.chain([first[skip:]], chunks))
        try:
            with BufferedReader(source, _BLOCK_BYTES) as buffered:
                yield from self._tallied(file, decoder.decode_after(head, buffered, line), tally)
        except UndecodableError as error:
            if source.error is not None:
                raise source.error from error
            raise undecodable(self.folder.shown(file.name), self.format["name"], error, then=_THEN) from error

    def _read_whole(self, file: SeenFile, chunks: Iterator[bytes], tally: Tally) -> Iterator[pa.RecordBatch]:
        decoder = self.decoding.open(self.format, self.columns)
        source = ListedStream(chunks)
        try:
            with (
                BufferedReader(source, _BLOCK_BYTES) as buffered,
                self.written.plain(buffered, file) as stream,
            ):
                if not self.decoding.lines(self.format):
                    yield from self._decoded(file, decoder, stream, tally, before=0)
                    return
                before = 0
                for block in whole_lines(stream):
                    yield from self._decoded(file, decoder, text_of(block, before), tally, before=before)
                    before += block.count(b"\n")
        except LongLineError as error:
            raise self._too_long(file, error) from error
        except (OSError, pa.ArrowException, UndecodableError) as error:
            if source.error is not None:
                raise source.error from error
            raise undecodable(self.folder.shown(file.name), self.format["name"], error, then=_THEN) from error

    def _read_stored(self, file: SeenFile, split: Split, stream: BinaryIO, tally: Tally) -> Iterator[pa.RecordBatch]:
        assert self.decoding.stored is not None
        source = ListedFile(stream, self.folder, file, split["parts"])
        decoder = self.decoding.stored(self.format, self.columns)
        try:
            with BufferedReader(source) as found:
                yield from self._tallied(file, decoder.decode_range(found, split["from"], split["to"]), tally)
        except UndecodableError as error:
            if source.error is not None:
                raise source.error from error
            raise undecodable(self.folder.shown(file.name), self.format["name"], error, then=_THEN) from error
        tally.bytes += split["to"] - split["from"]

    def _decoded(
        self, file: SeenFile, decoder: Decoder, stream: BinaryIO, tally: Tally, *, before: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a stream, before which the file has so many lines."""
        yield from self._tallied(file, decoder.decode(stream), tally, before=before)

    def _tallied(
        self, file: SeenFile, parts: Iterator[Decoded], tally: Tally, *, before: int = 0
    ) -> Iterator[pa.RecordBatch]:
        bad = RecordErrorPolicy(self.source, self.policy)
        for decoded in parts:
            tally.rows += decoded.records
            for failure in decoded.failures:
                if self.policy == "fail":
                    bad = replace(bad, correct=self._remedy(failure.raw))
                position = f"{file.name}:{before + failure.line}"
                about = {"header": decoded.head.decode(errors="replace")} if decoded.head else {}
                bad.take(tally, RowError(position, "SQ3101", failure.message, failure.raw, about=about))
            yield decoded.batch

    def _remedy(self, raw: bytes) -> str:
        """Return what to do about a record that does not decode."""
        if self.format["name"] == "CSV" and not raw:
            return "Correct the file, or create the source with FORMAT CSV … (SKIP BLANK LINES = true)."
        try:
            raw.decode()
        except UnicodeDecodeError:
            return "Correct the file, or create the source with the ENCODING that its files have."
        if self.format["name"] == "JSON" and not self.format.get("array") and raw.lstrip().startswith(b"["):
            return "Correct the file; if its rows are in one array, create the source with FORMAT JSON ARRAY."
        if self.format["name"] == "JSON" and raw.strip() == b"{":
            return "Correct the file: FORMAT JSON reads an object from each line."
        return _CORRECT

    def _too_long(self, file: SeenFile, error: LongLineError) -> SinkqlError:
        return SinkqlError(
            "SQ3101",
            f'invalid row of source "{self.source}" at {file.name}:{error}: it is longer than {LONGEST_LINE >> 20} MiB',
            hint="Correct the file; the sink then continues.",
        )


def _place(read: physical.Read, context: Context) -> Folder | Bucket:
    options = read.options
    if read.connection is not None:
        store = context.store(read.connection)
        return Bucket.of(options["path"], options["glob"], options["recursive"], store)
    return Folder(context.path(options["path"]), options["glob"], options["recursive"])


def _none(columns: Sequence[physical.Column]) -> pa.RecordBatch:
    fields = [pa.field(column.name, arrow_type(column.type)) for column in columns]
    return pa.RecordBatch.from_pylist([], schema=pa.schema(fields))


def _partial(offsets: Offsets) -> tuple[SeenFile | None, int]:
    """Return the file that was read in part, and up to where."""
    partial = offsets["partial"]
    return (None, 0) if partial is None else (from_data(partial["file"]), partial["at"])


def _cut(data: bytes, skip: int, rows: int, size: int, quote: bytes, *, first: bool) -> int:
    """Return where a part is cut that is read from `skip`: after a record, at least one if it is the `first`."""
    if data.count(b"\n", skip) <= rows and len(data) - skip <= size:
        return len(data)
    ends = _record_ends(data, skip, quote)
    found = ends[: max(1, rows)]
    within = found[found - skip <= max(0, size)]
    if len(within):
        return int(within[-1]) if len(ends) > len(within) or len(data) - skip > size else len(data)
    if not first:
        return skip
    return int(ends[0]) if len(ends) else len(data)


def _record_ends(data: bytes, skip: int, quote: bytes) -> np.ndarray:
    """Return the places after the line ends from `skip` on that have an even number of quotes before them."""
    characters = np.frombuffer(data, np.uint8, offset=skip)
    ends = np.flatnonzero(characters == ord("\n"))
    if quote and quote in data:
        quotes = np.flatnonzero(characters == quote[0])
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return ends + skip + 1


def _blocks(data: bytes, at: int) -> Iterator[bytes]:
    """Yield whole lines from there, about a megabyte at a time."""
    while at < len(data):
        end = len(data)
        if at + _BLOCK_BYTES < end:
            end = data.rfind(b"\n", at, at + _BLOCK_BYTES) + 1 or data.find(b"\n", at + _BLOCK_BYTES) + 1 or end
        yield data[at:end]
        at = end


def text_of(block: bytes, before: int) -> BytesIO:
    """Return a block as a stream; what is before the first line of a file is no part of it."""
    return BytesIO(block if before else block.removeprefix(_BOM))


def whole_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield a stream in blocks of whole lines; raises LongLineError."""
    rest, line = b"", 1
    while block := stream.read(max(_BLOCK_BYTES, len(rest))):  # as much again: a long line is copied a few times only
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end]
            line += block.count(b"\n")
            rest = block[end:]
        else:
            rest += block
            if len(rest) > LONGEST_LINE:
                raise LongLineError(line)
    if rest.strip():
        yield rest
