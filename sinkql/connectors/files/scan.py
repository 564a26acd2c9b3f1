"""A path or a pattern → the rows of its files, read once and as far as they are wanted: CSV, JSON, Parquet."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from sinkql import physical
from sinkql.connectors.files.compression import codec_of, plain
from sinkql.connectors.files.content import LONGEST_LINE, LongLineError, open_file, undecodable
from sinkql.connectors.files.folder import Folder
from sinkql.connectors.files.infer import Columns, infer
from sinkql.connectors.files.reader import text_of, whole_lines
from sinkql.errors import SinkqlError
from sinkql.extension.jsonb import jsonb
from sinkql.extension.stream import Decoding, UndecodableError
from sinkql.extension.types import arrow_type

_BATCH_ROWS = 1 << 16
_PARQUET: Mapping[str, str] = {
    "bool": "boolean", "int8": "smallint", "int16": "smallint", "uint8": "smallint", "int32": "integer",
    "uint16": "integer", "int64": "bigint", "uint32": "bigint", "uint64": "numeric(20,0)", "halffloat": "real",
    "float": "real", "double": "double precision", "string": "text", "large_string": "text", "binary": "bytea",
    "large_binary": "bytea", "date32[day]": "date",
}  # fmt: skip


def scan(path: str, format_: str, formats: Mapping[str, Decoding]) -> FilesScan:
    """Look at the files under a path. Raises SQ2645 where there are none, SQ3102 and SQ3305 for what cannot be read."""
    paths = _paths(path)
    if format_ == "PARQUET":
        with open_file(paths[0]) as file:
            columns = [(each.name, _type(each.type)) for each in _parquet(paths[0], file).schema_arrow]
        return FilesScan(paths, _columns(columns), None, {"name": format_})
    options: dict[str, Any] = {"name": format_, "header": True, "delimiter": ","}
    if format_ == "JSON" and _begins(paths[0]) == b"[":
        options["array"] = True
    found = infer(paths, formats[format_], options)
    options["whole"] = not found
    return FilesScan(paths, _columns(found or [("data", "jsonb")]), formats[format_], options)


@dataclass(frozen=True, slots=True)
class FilesScan:
    """Rows of files, one after the other; `decoding` is None for Parquet."""

    paths: Sequence[Path]
    columns: tuple[physical.Column, ...]
    decoding: Decoding | None
    options: Mapping[str, Any]

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, reading on as they are taken; raises SQ3101 for a row that is not of the columns."""
        for path in self.paths:
            with open_file(path) as file:
                try:
                    yield from self._parquet(path, file) if self.decoding is None else self._decoded(path, file)
                except (UndecodableError, OSError, pa.ArrowException) as error:
                    raise undecodable(path, self.options["name"], error) from error
                except LongLineError as error:
                    why = f"line {error} is longer than {LONGEST_LINE >> 20} MiB"
                    raise undecodable(path, self.options["name"], why) from error

    def _decoded(self, path: Path, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        assert self.decoding is not None
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

    def _parquet(self, path: Path, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        names = [column.name for column in self.columns]
        reader = _parquet(path, file)
        missing = [name for name in names if name not in reader.schema_arrow.names]
        if missing:
            raise UndecodableError(f"it has no column {', '.join(missing)}")
        for batch in reader.iter_batches(_BATCH_ROWS, columns=names):
            arrays = [_column(batch.column(each.name), each.type) for each in self.columns]
            yield pa.record_batch(arrays, names=names)


def _paths(path: str) -> Sequence[Path]:
    given = Path(path).expanduser()
    if given.is_dir():
        folder = Folder(given, "*", False)
        found = [folder.file(name) for name, _ in folder.names() if folder.status(name) is not None]
    elif given.exists() or given.is_symlink():
        found = [given]
    else:
        found = [Path(each) for each in glob.glob(str(given), recursive=True) if not Path(each).is_dir()]
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


def _columns(found: Columns) -> tuple[physical.Column, ...]:
    return tuple(physical.Column(name, type_) for name, type_ in found)


def _type(type_: pa.DataType) -> str:
    if pa.types.is_dictionary(type_):
        return _type(type_.value_type)
    if pa.types.is_timestamp(type_):
        return "timestamp" if type_.tz is None else "timestamptz"
    if pa.types.is_decimal(type_) and type_.precision <= 38 and 0 <= type_.scale <= type_.precision:
        return f"numeric({type_.precision},{type_.scale})"
    return _PARQUET.get(str(type_), "jsonb" if pa.types.is_nested(type_) else "text")


def _column(values: pa.Array, type_: str) -> pa.Array:
    """Return Parquet's values in the type of the query's column; nested ones as JSON."""
    wanted = arrow_type(type_)
    if type_ == "jsonb":
        texts = (None if each is None else jsonb(json.dumps(each, default=str)) for each in values.to_pylist())
        return pa.array(list(texts), wanted)
    try:
        return values.cast(wanted)
    except pa.ArrowNotImplementedError:
        return pa.array([None if each is None else str(each) for each in values.to_pylist()], wanted)


def _parquet(path: Path, file: BinaryIO) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise undecodable(path, "PARQUET", error) from error
