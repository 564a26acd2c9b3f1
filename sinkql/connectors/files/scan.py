"""A path or a pattern → the rows of its files, of any format, read once and as far as they are wanted."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from sinkql import physical
from sinkql.connectors.files.compression import codec_of, plain
from sinkql.connectors.files.content import LONGEST_LINE, LongLineError, undecodable
from sinkql.connectors.files.folder import Folder, regular
from sinkql.connectors.files.infer import infer
from sinkql.connectors.files.reader import text_of, whole_lines
from sinkql.connectors.files.seen import UnreadableError, open_file
from sinkql.errors import GoneError, SinkqlError
from sinkql.extension.stream import Decoding, UndecodableError


def scan(path: str, format_: str, formats: Mapping[str, Decoding]) -> FilesScan:
    """Look at the files under a path. Raises SQ2645 where there are none, SQ3102 and SQ3305 for what cannot be read."""
    with _of_no_sink():
        return _looked_at(_paths(path), format_, formats)


def _looked_at(paths: Sequence[Path], format_: str, formats: Mapping[str, Decoding]) -> FilesScan:
    for path in paths:
        regular(path)
    options: dict[str, Any] = {"name": format_}
    if format_ == "CSV":
        options |= {"header": True, "delimiter": ","}
    if format_ == "JSON" and _begins(paths[0]) == b"[":
        options["array"] = True
    found = infer(paths, formats[format_], options)
    options["whole"] = not found
    columns = tuple(physical.Column(name, type_) for name, type_ in found or [("data", "jsonb")])
    return FilesScan(paths, columns, formats[format_], options)


@dataclass(frozen=True, slots=True)
class FilesScan:
    """Rows of files, one after the other."""

    paths: Sequence[Path]
    columns: tuple[physical.Column, ...]
    decoding: Decoding
    options: Mapping[str, Any]

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, reading on as they are taken; raises SQ3101 for a row that is not of the columns."""
        for path in self.paths:
            with _of_no_sink(), open_file(path) as file:
                try:
                    yield from self._decoded(path, file)
                except (UndecodableError, OSError, pa.ArrowException) as error:
                    raise undecodable(path, self.options["name"], error) from error
                except LongLineError as error:
                    why = f"line {error} is longer than {LONGEST_LINE >> 20} MiB"
                    raise undecodable(path, self.options["name"], why) from error

    def _decoded(self, path: Path, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        decoder, before = self.decoding.open(self.options, self.columns), 0
        with plain(file, codec_of(path.name), size=os.fstat(file.fileno()).st_size) as stream:
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


def _paths(path: str) -> Sequence[Path]:
    given = Path(path).expanduser()
    if given.is_dir():
        folder = Folder(given, "*", False)
        found = [folder.file(name) for name, _ in folder.names() if folder.status(name) is not None]
    elif given.exists() or given.is_symlink():
        found = [given]
    else:
        found = [Path(each) for each in glob.glob(str(given), recursive=True) if not Path(each).is_dir()]
    if not found and re.match(r"s3[an]?:", path):
        hint = "Create a source of it: CREATE SOURCE name (id bigint) FROM FILES CONNECTION name (PATH = '…') …."
        raise SinkqlError("SQ2645", f'"{path}" is in S3, which a query reads through a source', hint=hint)
    if not found:
        raise SinkqlError("SQ2645", f'no file is at "{path}"', hint="Paths are relative to the working folder.")
    return sorted(found)


def _begins(path: Path) -> bytes:
    """Return the first character of a file that is no white space."""
    with open_file(path) as file:
        try:
            with plain(file, codec_of(path.name), size=os.fstat(file.fileno()).st_size) as stream:
                found: bytes = stream.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        except (OSError, pa.ArrowException, UndecodableError) as error:
            raise undecodable(path, "JSON", error) from error
    return found
