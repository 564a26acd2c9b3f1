"""Rows of a table ↔ a file of Arrow batches, with a digest; records that did not decode lie in a file beside it.

Data files of a log → splits, and the rows of one.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import uuid
from collections.abc import Collection, Iterator, Sequence
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from sinkql import codec
from sinkql.capture import messages
from sinkql.capture.log import DataFile
from sinkql.capture.log_store import LogStore, failed_records_name
from sinkql.capture.subscription import Subscription
from sinkql.connector_api.cdc import TableRows
from sinkql.connector_api.stream import RowError, Split, Tally
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.state_store.directory import EXECUTOR

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


_SPLIT_ROWS = 1 << 18
_SPLIT_BYTES = 64 << 20


def group_files(reader: Subscription, files: Sequence[DataFile], *, whole: bool) -> list[list[DataFile]]:
    """Return files in groups, each for a split; all in one with `whole`, where rows come and go."""
    found: list[list[DataFile]] = []
    rows = size = 0
    for file in files:
        full = rows + file.rows > _SPLIT_ROWS or size + file.bytes > _SPLIT_BYTES
        if not found or (full and not (whole and reader.change == "retract")):
            found.append([])
            rows = size = 0
        found[-1].append(file)
        rows, size = rows + file.rows, size + file.bytes
    return found


def read_split(reader: Subscription, split: Split, tally: Tally) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split's files, in order; raises SQ3435 for one that is damaged, and tells the capture."""

    for file in codec.convert(split["files"], list[DataFile]):
        tally.rows += file.rows + file.failed
        tally.bytes += file.bytes
        for error in split_failures(reader, split["log"], file):
            reader.bad.take(tally, error)
        try:
            for batch in read(reader.log.store, file, _wanted(reader)):
                yield _projected(reader, batch)
        except DamagedError as error:
            raise _damaged(reader, split["log"], file) from error


def split_failures(reader: Subscription, log: str, file: DataFile) -> Sequence[RowError]:
    """Return what of a file of a log did not decode."""

    try:
        return failed(reader.log.store, file)
    except DamagedError as error:
        raise _damaged(reader, log, file) from error


def _projected(reader: Subscription, batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow as pa

    wanted, there = _wanted(reader), set(batch.schema.names)
    # a column that the table did not have when the row was written
    arrays = [
        batch.column(name) if name in there else pa.nulls(batch.num_rows, type_) for name, type_ in wanted.items()
    ]
    return pa.record_batch(arrays, names=list(wanted))


def _wanted(reader: Subscription) -> dict[str, pa.DataType]:
    """Return names and types of what it gives."""
    import pyarrow as pa

    wanted = {each.name: arrow_type(each.type) for each in reader.table.columns}
    if reader.change != "append":
        wanted["$diff"] = pa.int64()
    if reader.holes:
        wanted |= {"$hole": pa.binary(), "$from": _key_type(reader)}
    return wanted


def _key_type(reader: Subscription) -> pa.DataType:
    import pyarrow as pa

    types = {each.name: each.type for each in reader.table.columns}
    return pa.struct([(name, arrow_type(types[name])) for name in reader.table.key])


def _damaged(reader: Subscription, log: str, file: DataFile) -> SinkqlError:
    if EXECUTOR not in os.environ:  # else the driver tells the capture
        messages.send(reader.notes, "damaged", messages.DamagedFileReport(log, file.name))
    return reader.damaged(log, file.name)
