"""Rows of a table ↔ a file of Arrow batches, with a digest; records that did not decode lie in a file beside it."""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from sinkql import durable
from sinkql.capture.log import DataFile
from sinkql.extension.capture import TableRows
from sinkql.extension.stream import RowError

_BATCH_ROWS = 1 << 16


class DamagedError(Exception):
    """A data file is not there, or is not what was written."""


def write(folder: Path, table: str, epoch: int, parts: Sequence[TableRows]) -> DataFile | None:
    """Write rows and failed records of a table, durably; None where there are none."""
    batches = [each.rows for each in parts if each.rows.num_rows]
    errors = [error for each in parts for error in each.errors]
    if not batches and not errors:
        return None
    schema = parts[0].rows.schema
    rows = pa.Table.from_batches([each.select(schema.names) for each in batches], schema=schema).combine_chunks()
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_file(buffer, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows, max_chunksize=_BATCH_ROWS)
    data = buffer.getvalue()
    name = f"{epoch}-{uuid.uuid4().hex}-{re.sub(r'[^A-Za-z0-9_.]', '_', table)[:60]}.arrow"
    if errors:
        durable.write(folder / f"{name}.errors", _encoded(errors), private=True)
    with durable.stream(folder / name) as file:
        file.write(data)
    return DataFile(name, len(rows), len(data), hashlib.sha256(data).hexdigest(), len(errors))


def read(folder: Path, file: DataFile) -> Iterator[pa.RecordBatch]:
    """Yield a file's batches; raises DamagedError before the first."""
    try:
        with pa.memory_map(str(folder / file.name)) as mapped:
            data = mapped.read_buffer()
            if len(data) != file.bytes or hashlib.sha256(data).hexdigest() != file.sha256:
                raise DamagedError(file.name)
            found = pa.ipc.open_file(data)
            for number in range(found.num_record_batches):
                yield found.get_batch(number)
    except FileNotFoundError:
        raise DamagedError(file.name) from None


def failed(folder: Path, file: DataFile) -> list[RowError]:
    """Return the records of a file that did not decode; raises DamagedError."""
    if not file.failed:
        return []
    try:
        lines = (folder / f"{file.name}.errors").read_bytes().splitlines()
        found = [msgspec.json.decode(line) for line in lines]
        return [RowError(**{**each, "raw": base64.b64decode(each["raw"])}) for each in found]
    except (OSError, ValueError):
        raise DamagedError(f"{file.name}.errors") from None


def _encoded(errors: Sequence[RowError]) -> bytes:
    lines: list[dict[str, Any]] = [{**asdict(each), "raw": base64.b64encode(each.raw).decode()} for each in errors]
    return b"\n".join(msgspec.json.encode(each) for each in lines)
