"""Rows of a table ↔ a data file of Arrow batches with a digest. Records that did not decode are in another file.

Data files of a log → the splits of a batch, and the rows of a split.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from sinkql import codec
from sinkql.capture.log import DataFile
from sinkql.capture.log_store import LogStore, failed_records_name
from sinkql.capture.subscription import Subscription
from sinkql.connector_api.cdc import TableRows
from sinkql.connector_api.stream import ReadCounts, RowError, Split
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.machine.randomness import new_id
from sinkql.state_store.directory import EXECUTOR

_BATCH_ROWS = 1 << 16


class DamagedError(Exception):
    """A data file is missing or differs from what was written."""


def write(store: LogStore, table: str, epoch: int, parts: Sequence[TableRows]) -> DataFile | None:
    """Write rows and row errors of a table durably; return None if there are none."""
    batches = [part.rows for part in parts if part.rows.num_rows]
    errors = [error for part in parts for error in part.errors]
    if not batches and not errors:
        return None
    schema = parts[0].rows.schema
    rows = pa.Table.from_batches([batch.select(schema.names) for batch in batches], schema=schema)
    name = f"{epoch}-{new_id()}-{re.sub(r'[^A-Za-z0-9_.]', '_', table)[:60]}.arrow"
    if errors:
        store.write(failed_records_name(name), _encode(errors))
    with store.open_file(name) as file:
        digest = _DigestedFile(file)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.PythonFile(digest, "w") as sink, pa.ipc.new_file(sink, schema, options=options) as writer:
            for start in range(0, len(rows), _BATCH_ROWS):
                writer.write_table(rows.slice(start, _BATCH_ROWS).combine_chunks())
    return DataFile(name, len(rows), digest.size, digest.sha256.hexdigest(), len(errors))


class _DigestedFile(io.RawIOBase):
    """A file that counts and digests the bytes written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = 0
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # Any: any buffer
        self.sha256.update(data)
        self.size += len(data)
        return self._file.write(data)


def read(store: LogStore, file: DataFile, names: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file, with the columns in `names` or all.

    Raises DamagedError before the first batch.
    """
    data = _read_bytes(store, file.name)
    if len(data) != file.bytes or hashlib.sha256(data).hexdigest() != file.sha256:
        raise DamagedError(file.name)
    reader = pa.ipc.open_file(data)
    indices = [index for index, name in enumerate(reader.schema.names) if names is None or name in names]
    if 0 < len(indices) < len(reader.schema):
        reader = pa.ipc.open_file(data, options=pa.ipc.IpcReadOptions(included_fields=indices))
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number)


def read_failures(store: LogStore, file: DataFile) -> list[RowError]:
    """Return the records of a file that did not decode. Raises DamagedError."""
    if not file.failed:
        return []
    name = failed_records_name(file.name)
    try:
        return [codec.decoder(RowError).decode(line) for line in bytes(_read_bytes(store, name)).splitlines()]
    except ValueError:
        raise DamagedError(name) from None


def _read_bytes(store: LogStore, name: str) -> pa.Buffer:
    try:
        return store.read(name)
    except OSError:
        raise DamagedError(name) from None


def _encode(errors: Sequence[RowError]) -> bytes:
    return b"\n".join(msgspec.json.encode(error) for error in errors)  # bytes in base64


_SPLIT_ROWS = 1 << 18
_SPLIT_BYTES = 64 << 20


def group_files(reader: Subscription, files: Sequence[DataFile], *, one_group: bool) -> list[list[DataFile]]:
    """Group files into splits; with `one_group` a table without a key gets a single split."""
    groups: list[list[DataFile]] = []
    rows = size = 0
    for file in files:
        is_full = rows + file.rows > _SPLIT_ROWS or size + file.bytes > _SPLIT_BYTES
        if not groups or (is_full and not (one_group and reader.change == "retract")):
            groups.append([])
            rows = size = 0
        groups[-1].append(file)
        rows, size = rows + file.rows, size + file.bytes
    return groups


def read_split(reader: Subscription, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split's files in order.

    Raises SQ3435 for a damaged file, and reports it to the capture.
    """
    for file in codec.convert(split["files"], list[DataFile]):
        read_counts.rows += file.rows + file.failed
        read_counts.bytes += file.bytes
        for error in split_failures(reader, split["log"], file):
            reader.error_policy.handle(read_counts, error)
        try:
            for batch in read(reader.log.store, file, _column_types(reader)):
                yield _with_columns(reader, batch)
        except DamagedError as error:
            raise _damaged_error(reader, split["log"], file) from error


def split_failures(reader: Subscription, log: str, file: DataFile) -> Sequence[RowError]:
    """Return the records of a file that did not decode. Raises SQ3435 if it is damaged."""
    try:
        return read_failures(reader.log.store, file)
    except DamagedError as error:
        raise _damaged_error(reader, log, file) from error


def _with_columns(reader: Subscription, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with all columns of the reader; columns added later are NULL."""
    types, names = _column_types(reader), set(batch.schema.names)
    arrays = [batch.column(name) if name in names else pa.nulls(batch.num_rows, type_) for name, type_ in types.items()]
    return pa.record_batch(arrays, names=list(types))


def _column_types(reader: Subscription) -> dict[str, pa.DataType]:
    """Return the names and types of the reader's columns."""
    types = {column.name: arrow_type(column.type) for column in reader.table.columns}
    if reader.change != "append":
        types["$diff"] = pa.int64()
    if reader.unchanged_values:
        types |= {"$hole": pa.binary(), "$from": pa.struct([(name, types[name]) for name in reader.table.key])}
    return types


def _damaged_error(reader: Subscription, log: str, file: DataFile) -> SinkqlError:
    if EXECUTOR not in os.environ:  # otherwise the driver reports it
        reader.messages.report_damage(log, file.name)
    return reader.damaged_error(log, file.name)
