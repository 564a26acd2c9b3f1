"""Rows of a table ↔ a file of Arrow batches, with a digest; records that did not decode lie in a file beside it."""

from __future__ import annotations

import hashlib
import io
import re
import uuid
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from sinkql import codec
from sinkql.capture.log import DataFile
from sinkql.capture.log_store import LogStore, failed_records_name
from sinkql.connector_api.cdc import TableRows
from sinkql.connector_api.stream import RowError

_BATCH_ROWS = 1 << 16


class DamagedError(Exception):
    """A data file is not there, or is not what was written."""


def write(store: LogStore, table: str, epoch: int, parts: Sequence[TableRows]) -> DataFile | None:
    """Write rows and failed records of a table, durably; None where there are none."""
    batches = [each.rows for each in parts if each.rows.num_rows]
    errors = [error for each in parts for error in each.errors]
    if not batches and not errors:
        return None
    schema = parts[0].rows.schema
    rows = pa.Table.from_batches([each.select(schema.names) for each in batches], schema=schema)
    name = f"{epoch}-{uuid.uuid4().hex}-{re.sub(r'[^A-Za-z0-9_.]', '_', table)[:60]}.arrow"
    if errors:
        store.write(failed_records_name(name), _encoded(errors))
    with store.file(name) as file:
        digested = _Digested(file)
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.PythonFile(digested, "w") as sink, pa.ipc.new_file(sink, schema, options=options) as writer:
            for start in range(0, len(rows), _BATCH_ROWS):
                writer.write_table(rows.slice(start, _BATCH_ROWS).combine_chunks())
    return DataFile(name, len(rows), digested.size, digested.sha256.hexdigest(), len(errors))


class _Digested(io.RawIOBase):
    """Write to a file, and count and digest what is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = 0
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:  # Any: what has a buffer
        self.sha256.update(data)
        self.size += len(data)
        return self._file.write(data)


def read(store: LogStore, file: DataFile, names: Collection[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield a file's batches, with these of its columns if there are names; raises DamagedError before the first."""
    data = _whole(store, file.name)
    if len(data) != file.bytes or hashlib.sha256(data).hexdigest() != file.sha256:
        raise DamagedError(file.name)
    found = pa.ipc.open_file(data)
    places = [place for place, name in enumerate(found.schema.names) if names is None or name in names]
    if 0 < len(places) < len(found.schema):
        found = pa.ipc.open_file(data, options=pa.ipc.IpcReadOptions(included_fields=places))
    for number in range(found.num_record_batches):
        yield found.get_batch(number)


def failed(store: LogStore, file: DataFile) -> list[RowError]:
    """Return the records of a file that did not decode; raises DamagedError."""
    if not file.failed:
        return []
    name = failed_records_name(file.name)
    try:
        return [codec.decoder(RowError).decode(line) for line in bytes(_whole(store, name)).splitlines()]
    except ValueError:
        raise DamagedError(name) from None


def _whole(store: LogStore, name: str) -> pa.Buffer:
    try:
        return store.read(name)
    except OSError:
        raise DamagedError(name) from None


def _encoded(errors: Sequence[RowError]) -> bytes:
    return b"\n".join(msgspec.json.encode(each) for each in errors)  # bytes in base64
