"""A path or a pattern → the rows of its files, of any format, read once and as far as they are wanted."""

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
from sinkql.connector_api.stream import Decoding, UndecodableError
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
from sinkql.connectors.files.reader import text_of, whole_lines
from sinkql.errors import GoneError, SinkqlError
from sinkql.local_path import expand_home
from sinkql.object_store.store import ObjectStore

_MOST_FILES = 100_000


def scan(path: str, format_: str, formats: Mapping[str, Decoding], store: ObjectStore | None = None) -> FilesScan:
    """Look at the files under a path. Raises SQ2645 where there are none, SQ3102 and SQ3305 for what cannot be read.

    With a store, the path is one in S3, and what is wrong with it is raised too.
    """
    with _of_no_sink():
        place, files = _local(path, format_) if store is None else _in_store(path, store)
        return _looked_at(place, files, format_, formats)


def _looked_at(place: Place, files: Sequence[SeenFile], format_: str, formats: Mapping[str, Decoding]) -> FilesScan:
    options: dict[str, Any] = {"name": format_}
    if format_ == "CSV":
        options |= {"header": True, "delimiter": ","}
    if format_ == "JSON" and _begins(place, files[0]) == b"[":
        options["array"] = True
    found = infer(place, files, formats[format_], options)
    options["whole"] = not found
    columns = tuple(physical.Column(name, type_) for name, type_ in found or [("data", "jsonb")])
    return FilesScan(place, files, columns, formats[format_], options)


@dataclass(frozen=True, slots=True)
class FilesScan:
    """Rows of files, one after the other."""

    place: Place
    files: Sequence[SeenFile]
    columns: tuple[physical.Column, ...]
    decoding: Decoding
    options: Mapping[str, Any]

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, reading on as they are taken; raises SQ3101 for a row that is not of the columns."""
        for file in self.files:
            path = self.place.shown(file.name)
            with _of_no_sink(), self.place.open(file) as stream:
                try:
                    yield from self._decoded(path, file, stream)
                except (UndecodableError, OSError, pa.ArrowException) as error:
                    raise undecodable(path, self.options["name"], error) from error
                except LongLineError as error:
                    why = f"line {error} is longer than {LONGEST_LINE >> 20} MiB"
                    raise undecodable(path, self.options["name"], why) from error

    def _decoded(self, path: str, file: SeenFile, opened: BinaryIO) -> Iterator[pa.RecordBatch]:
        decoder, before = self.decoding.open(self.options, self.columns), 0
        with Written().plain(opened, file) as stream:
            for block in whole_lines(stream) if self.decoding.lines(self.options) else (None,):
                for part in decoder.decode(stream if block is None else text_of(block, before)):
                    for failure in part.failures:
                        raise SinkqlError(
                            "SQ3101",
                            f"invalid row at {path}:{before + failure.line}: {failure.message}",
                            detail=f"The row is {failure.raw[:200].decode(errors='replace')}",
                            hint="Create a source with the columns you want, WITH (ON ERROR = SKIP), and query that.",
                        )
                    yield part.batch
                before += block.count(b"\n") if block is not None else 0


@contextmanager
def _of_no_sink() -> Iterator[None]:
    """Have the errors of files say what to do about a query: no sink waits, and no source has options."""
    try:
        yield
    except (GoneError, UnreadableError) as error:
        error.hint = "Correct the file, or name others."
        raise
    except ChangedError as error:
        error.hint = "Run the query again."
        raise


def _local(path: str, format_: str) -> tuple[Place, Sequence[SeenFile]]:
    """Return the files under a path, in the folder that relative paths begin in."""
    here = Folder(Path(), "*", False)
    found = ((each, regular(each)) for each in _paths(path))
    files = [seen_file(str(each), status) for each, status in found if status is not None]
    if not files and re.match(r"s3[an]?:", path):
        function = f"read_{format_.lower()}"
        raise SinkqlError(
            "SQ2645",
            f'"{path}" is in S3, which takes a connection',
            hint=f"Write FROM {function}('s3://bucket/folder', connection => name), with a connection made by "
            "CREATE CONNECTION name TO AWS (…).",
        )
    if not files:
        raise SinkqlError("SQ2645", f'no file is at "{path}"', hint="Paths are relative to the working folder.")
    return here, files


def _paths(path: str) -> Sequence[Path]:
    given = expand_home(path)
    if given.is_dir():
        folder = Folder(given, "*", False)
        return sorted(folder.file(name) for name, _ in folder.names())
    if given.exists() or given.is_symlink():
        return [given]
    return sorted(Path(each) for each in glob.glob(str(given), recursive=True) if not Path(each).is_dir())


def _in_store(path: str, store: ObjectStore) -> tuple[Place, Sequence[SeenFile]]:
    """Return the objects under a path, whose last part may be a pattern."""
    parts = re.fullmatch(r"s3://([^/]+)(?:/(.*?))??(?:/([^/]*[*?[][^/]*))?", path, re.DOTALL)
    if parts is None or re.search(r"[*?[]", parts[2] or ""):
        raise SinkqlError(
            "SQ2645",
            f'"{path}" is no path of files in S3',
            hint="Write 's3://bucket/folder', the path of an object, or a pattern of its name after the last slash.",
        )
    folder = f"{parts[2] or ''}/".lstrip("/") if parts[3] else parts[2] or ""
    bucket = Bucket.of(f"s3://{parts[1]}/{folder}", parts[3] or "*", False, store)
    files = bucket.first(_MOST_FILES + 1)
    if not files:
        raise SinkqlError("SQ2645", f'no file is at "{path}"', hint="Check the path; folders in it are not read.")
    if len(files) > _MOST_FILES:
        raise SinkqlError(
            "SQ2645",
            f'more than {_MOST_FILES:,} files are at "{path}"',
            hint="Name fewer by a pattern, or create a source from them.",
        )
    return bucket, files


def _begins(place: Place, file: SeenFile) -> bytes:
    """Return the first character of a file that is no white space."""
    with place.open(file) as opened:
        try:
            with Written().plain(opened, file) as stream:
                found: bytes = stream.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        except (OSError, pa.ArrowException, UndecodableError) as error:
            raise undecodable(place.shown(file.name), "JSON", error) from error
    return found
