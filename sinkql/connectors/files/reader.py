"""Read FILES sources: each file exactly once, even if the process fails. A renamed file is still the same file.

Offsets: `log` is the head of the log of files that were read whole. `partial` is None, or a file of JSON lines or CSV
and the byte `at` up to which it was read. A batch takes new files in the order of their names, and cuts a file that is
longer than a batch may be. A file is listed with digests of the parts that a batch reads, and only bytes with these
digests become rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.source_options import OnError, on_error
from sinkql.connector_api.stream import (
    Context,
    DecodedMessages,
    Decoding,
    FileBackedReader,
    Limit,
    Measure,
    Offsets,
    ReadCounts,
    Reader,
    RowError,
    Size,
    Split,
)
from sinkql.connectors.files.content import ChangedError, SeenFile, Written, from_data
from sinkql.connectors.files.discovery import Watch
from sinkql.connectors.files.file_format import FileFormat
from sinkql.connectors.files.file_parts import FileParts, MovedError
from sinkql.connectors.files.local_listing import Folder
from sinkql.connectors.files.object_listing import Bucket, BucketWatch
from sinkql.connectors.files.options import PlannedFiles, planned_files
from sinkql.connectors.files.processed_files import ProcessedFilesLog
from sinkql.connectors.files.split_rows import SplitRows
from sinkql.errors import GoneError
from sinkql.machine import clock

_MOST_FILES = 10_000  # each task of a batch holds a list of them


@dataclass(frozen=True, slots=True)
class FilesReader(Reader, FileBackedReader):
    """The reader of one FILES source.

    `home` is the folder of its log, below `state`, which is the sink's folder. `format` has the options of the planned
    format.
    """

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
    measured_log: ProcessedFilesLog = field(init=False, repr=False, compare=False)
    """The same log for another thread, which measures progress: `log` caches the files of the present offsets."""
    watch: Watch | BucketWatch = field(init=False, repr=False, compare=False)
    parts: FileParts = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("log", "measured_log"):
            object.__setattr__(self, name, ProcessedFilesLog(self.state / self.home))
        watch = Watch(self.folder) if isinstance(self.folder, Folder) else BucketWatch(self.folder)
        object.__setattr__(self, "watch", watch)
        format_ = FileFormat(self.format, self.decoding, self.written, self.folder.pinned)
        object.__setattr__(self, "parts", FileParts(self.source, self.folder, format_))

    @classmethod
    def of(cls, read: physical.Read, context: Context) -> FilesReader:
        """Return the reader of a planned source."""
        options = planned_files(read.options)
        return cls(
            read.name,
            _open_folder(options, read.connection, context),
            context.folder,
            f"files/{hashlib.sha256(read.source.encode()).hexdigest()[:12]}",
            read.columns,
            options.format,
            context.formats[options.format["name"]],
            on_error(read.options),
            options.tuning.max_files_per_commit,
            options.written,
        )

    def local_only(self) -> bool:
        """Return whether the files lie in a folder of this machine."""
        return isinstance(self.folder, Folder)

    # --- offsets ---------------------------------------------------------------------------------------------------

    def initial(self, *, at_end: bool) -> Offsets:
        """Return the offsets before the first file, or with `at_end` after all present files."""
        start: Offsets = {"log": None, "partial": None}
        return self.target(start) if at_end else start

    def target(self, start: Offsets) -> Offsets:
        """Return the offsets after all present files."""
        partial, _ = _partial(start)
        files = [self.watch.still(partial)] if partial is not None else []
        new = self.watch.new(self.log.seen(start["log"]), settled=False)
        files += [file for file in new if partial is None or file.name != partial.name]
        measured = [whole for file in files if (whole := self.parts.measured(file)) is not None]
        return self._offsets_after(start, measured, None) if measured else start

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return the offsets after as many new files as the limit allows; a compressed file is never cut."""
        partial, at = _partial(start)
        waiting = self._new_files(start) if until is None else self._files_between(start, until)
        files: list[SeenFile] = []
        rows, size = limit.rows, limit.bytes
        for number, file in enumerate(waiting, 1):
            begin = at if partial is not None and file.name == partial.name else 0
            try:
                measured, to, count = self.parts.cut(file, begin, rows, size, is_listed=until is not None)
            except (MovedError, ChangedError, GoneError) as error:
                if not isinstance(error, MovedError) and (file.parts or not self.folder.pinned):
                    raise
                if begin:
                    break
                continue  # no offsets name it yet: the next listing tells its state
            if to < measured.size:
                cut = {"file": measured.data(), "at": to}
                if until is not None and number == len(waiting) and cut == until["partial"]:
                    return until
                return self._offsets_after(start, files, cut)
            if files and not self.parts.format.is_divisible(file) and (count > rows or file.size > size):
                break
            files.append(measured)
            if until is not None and number == len(waiting):
                return until  # another head may have the same files, but a run compares offsets with its target
            rows, size = rows - count, size - (file.size - begin)
            if rows <= 0 or size <= 0 or len(files) == (self.max_files or _MOST_FILES):
                break
        return self._offsets_after(start, files, None) if files else start

    def _new_files(self, start: Offsets) -> Sequence[SeenFile]:
        """Return the files to read next, by name; a file that was read in part comes first."""
        partial, _ = _partial(start)
        new = self.watch.new(self.log.seen(start["log"]), settled=True)
        if partial is None:
            return new
        return [self.watch.still(partial), *(file for file in new if file.name != partial.name)]

    def _files_between(self, start: Offsets, end: Offsets) -> Sequence[SeenFile]:
        """Return the files between two offsets, with their parts."""
        partial, _ = _partial(start)
        last, _ = _partial(end)
        files = self.log.added(start["log"], end["log"])
        if last is not None:
            files.append(last)
        if partial is None:
            return files
        return sorted(files, key=lambda file: file.name != partial.name)

    def _offsets_after(self, start: Offsets, files: list[SeenFile], partial: dict[str, Any] | None) -> Offsets:
        if not files:
            return {"log": start["log"], "partial": partial}
        seen = self.log.seen(start["log"])  # state recovery passes older offsets, which lack some of them
        again = [file for file in self.watch.again() if file.name in seen]
        renamed = [file for file, old_name in self.watch.renamed() if old_name in seen and file.name not in seen]
        return {"log": self.log.append(start["log"], files, again, renamed), "partial": partial}

    @property
    def files(self) -> FilesReader:
        """Return the reader itself: offsets name segments of the log."""
        return self

    def required_files(self, offsets: Offsets) -> tuple[str, ...]:
        """Return the log's segments, as paths below the sink's state folder."""
        return tuple(f"{self.home}/{name}" for name in self.log.names(offsets["log"]))

    def removable_files(self, needed: Sequence[Offsets], *, before: float) -> tuple[str, ...]:
        """Return the log's segments that none of the offsets needs."""
        names = self.log.unneeded([offsets["log"] for offsets in needed], before=before)
        return tuple(f"{self.home}/{name}" for name in names)

    def measure(self, offsets: Offsets) -> Measure:
        """Return the number of files read, and of all files as of the last measured lag."""
        read = len(self.measured_log.seen(offsets["log"]))
        return Measure(read + self.watch.unread, read, "files")

    def lag(self, offsets: Offsets) -> float:
        """Return the age in seconds of the oldest file that was not read to its end, by its modification time."""
        oldest = self.watch.oldest(self.measured_log.seen(offsets["log"]))
        return max(0.0, clock.time() - oldest) if oldest is not None else 0.0

    # --- rows --------------------------------------------------------------------------------------------------------

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return the splits of the files between two offsets, of about 64 MiB if their format can be cut."""
        partial, at = _partial(start)
        files = self._files_between({**start, "partial": None}, end)
        return [
            split
            for file in files
            for split in self.parts.format.splits(file, at if partial is not None and file.name == partial.name else 0)
        ]

    def size(self, splits: Sequence[Split]) -> Size | None:
        """Return the size of the splits' parts: exact for lines of plain files, otherwise by the bytes of files."""
        return Size.total(map(self.parts.format.size, splits))

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split; raise SQ3101 and SQ3301 as `SplitRows.read` does."""
        yield from self._rows().read(split, read_counts)

    def retry_dead_letters(self, records: Sequence[RowError]) -> Iterator[DecodedMessages]:
        """Decode records of files again."""
        yield from self._rows().retry_dead_letters(records)

    def _rows(self) -> SplitRows:
        return SplitRows(self.source, self.folder, self.parts.format, self.columns, self.policy)


def _open_folder(options: PlannedFiles, connection: physical.Connection | None, context: Context) -> Folder | Bucket:
    if connection is not None:
        return Bucket.of(options.path, options.glob, options.recursive, context.store(connection))
    return Folder(context.path(options.path), options.glob, options.recursive)


def _partial(offsets: Offsets) -> tuple[SeenFile | None, int]:
    """Return the file that was read in part, and the byte up to which it was read."""
    partial = offsets["partial"]
    return (None, 0) if partial is None else (from_data(partial["file"]), partial["at"])
