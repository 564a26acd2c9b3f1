"""Read the files at a path or a pattern once, lazily, and yield their rows; for queries that name files."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import Decoding, UndecodableError, shown_record
from sinkql.connectors.files.content import (
    LONGEST_LINE,
    ChangedError,
    LongLineError,
    Place,
    SeenFile,
    UnreadableError,
    Written,
    seen_file,
    undecodable,
)
from sinkql.connectors.files.infer import infer
from sinkql.connectors.files.local_listing import Folder, regular
from sinkql.connectors.files.object_listing import Bucket
from sinkql.connectors.files.split_rows import text_of, whole_lines
from sinkql.errors import GoneError, SinkqlError
from sinkql.local_path import expand_home
from sinkql.logical.type import parse_type
from sinkql.object_store.store import ObjectStore

_MOST_FILES = 100_000


def scan(path: str, format_: str, formats: Mapping[str, Decoding], store: ObjectStore | None = None) -> FilesScan:
    """Open the files at a path. Raise SQ2645 if none exists, SQ3102 and SQ3305 if a file cannot be read.

    With a store, the path is one in S3, and the errors of S3 are raised too.
    """
    with _hints_for_query():
        place, files = _local_files(path, format_) if store is None else _objects(path, store)
        return _open_files(place, files, format_, formats)


def _open_files(place: Place, files: Sequence[SeenFile], format_: str, formats: Mapping[str, Decoding]) -> FilesScan:
    options: dict[str, Any] = {"name": format_}
    if format_ == "CSV":
        options |= {"header": True, "delimiter": ","}
    if format_ == "JSON" and _first_character(place, files[0]) == b"[":
        options["array"] = True
    inferred = infer(place, files, formats[format_], options)
    options["whole"] = not inferred
    columns = tuple(physical.Column(name, parse_type(type_)) for name, type_ in inferred or [("data", "jsonb")])
    return FilesScan(place, files, columns, format_, formats[format_], options)


@dataclass(frozen=True, slots=True)
class FilesScan:
    """The rows of some files, file by file."""

    place: Place
    files: Sequence[SeenFile]
    columns: tuple[physical.Column, ...]
    format: str
    decoding: Decoding
    options: Mapping[str, Any]

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, and read on demand; raise SQ3101 for a row that does not fit the columns."""
        for file in self.files:
            path = self.place.shown(file.name)
            with _hints_for_query(), self.place.open(file) as stream:
                try:
                    yield from self._decoded(path, file, stream)
                except (UndecodableError, OSError, pa.ArrowException) as error:
                    raise undecodable(path, self.format, error) from error
                except LongLineError as error:
                    why = f"line {error} is longer than {LONGEST_LINE >> 20} MiB"
                    raise undecodable(path, self.format, why) from error

    def _decoded(self, path: str, file: SeenFile, opened: BinaryIO) -> Iterator[pa.RecordBatch]:
        decoder, before = self.decoding.open(self.options, self.columns), 0
        with Written().plain(opened, file) as stream:
            for block in whole_lines(stream) if self.decoding.lines(self.options) else (None,):
                for part in decoder.decode(stream if block is None else text_of(block, before)):
                    for failure in part.failures:
                        raise SinkqlError(
                            "SQ3101",
                            f"invalid row at {path}:{before + failure.line}: {failure.message}",
                            detail=f"The row is {shown_record(failure.raw)}",
                            hint="Create a source with the columns you want, WITH (ON ERROR = SKIP), and query it.",
                        )
                    yield part.batch
                before += block.count(b"\n") if block is not None else 0


@contextmanager
def _hints_for_query() -> Iterator[None]:
    """Replace the hints of file errors by hints for a query, which has no sink and no source options."""
    try:
        yield
    except (GoneError, UnreadableError) as error:
        error.hint = "Correct the file, or name other files."
        raise
    except ChangedError as error:
        error.hint = "Run the query again."
        raise


def _local_files(path: str, format_: str) -> tuple[Place, Sequence[SeenFile]]:
    """Return the files at a path, relative to the working folder."""
    folder = Folder(Path(), "*", False)
    statuses = ((file, regular(file)) for file in _paths(path))
    files = [seen_file(str(file), status) for file, status in statuses if status is not None]
    if not files and re.match(r"s3[an]?:", path):
        function = f"read_{format_.lower()}"
        raise SinkqlError(
            "SQ2645",
            f'"{path}" is in S3, which requires a connection',
            hint=f"Write FROM {function}('s3://bucket/folder', connection => name), with a connection from "
            "CREATE CONNECTION name TO AWS (…).",
        )
    if not files:
        raise SinkqlError("SQ2645", f'no file is at "{path}"', hint="Paths are relative to the working folder.")
    return folder, files


def _paths(path: str) -> Sequence[Path]:
    expanded = expand_home(path)
    if expanded.is_dir():
        folder = Folder(expanded, "*", False)
        return sorted(folder.file(name) for name, _ in folder.names())
    if expanded.exists() or expanded.is_symlink():
        return [expanded]
    return sorted(Path(name) for name in glob.glob(str(expanded), recursive=True) if not Path(name).is_dir())


def _objects(path: str, store: ObjectStore) -> tuple[Place, Sequence[SeenFile]]:
    """Return the objects at a path, whose last part may be a pattern."""
    parts = re.fullmatch(r"s3://([^/]+)(?:/(.*?))??(?:/([^/]*[*?[][^/]*))?", path, re.DOTALL)
    if parts is None or re.search(r"[*?[]", parts[2] or ""):
        raise SinkqlError(
            "SQ2645",
            f'"{path}" is not a path of files in S3',
            hint="Write 's3://bucket/folder', the path of an object, or a pattern of its name after the last slash.",
        )
    folder = f"{parts[2] or ''}/".lstrip("/") if parts[3] else parts[2] or ""
    bucket = Bucket.of(f"s3://{parts[1]}/{folder}", parts[3] or "*", False, store)
    files = bucket.first(_MOST_FILES + 1)
    if not files:
        raise SinkqlError("SQ2645", f'no file is at "{path}"', hint="Check the path; subfolders are not read.")
    if len(files) > _MOST_FILES:
        raise SinkqlError(
            "SQ2645",
            f'more than {_MOST_FILES:,} files are at "{path}"',
            hint="Use a pattern that matches fewer files, or create a source from them.",
        )
    return bucket, files


def _first_character(place: Place, file: SeenFile) -> bytes:
    """Return the first character of a file that is not white space."""
    with place.open(file) as opened:
        try:
            with Written().plain(opened, file) as stream:
                first: bytes = stream.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        except (OSError, pa.ArrowException, UndecodableError) as error:
            raise undecodable(place.shown(file.name), "JSON", error) from error
    return first
