"""A table of a server that is captured → the rows that it has now, asked of the server itself; rows that are pushed.

Nothing is made there, no slot above all, and the log of the capture is not asked: it has only what sinks need.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sinkql import physical
from sinkql.capture.storage import OpenJobStore, log_folder
from sinkql.connector_api.cdc import Key, Reveal, captured_source, captured_table
from sinkql.connector_api.planning import SourceKind
from sinkql.connector_api.stream import Tally

if TYPE_CHECKING:
    import pyarrow as pa

_PART = 8 << 20
_ROW = 1600
"""How many bytes a row is taken to have at most, as long as that is not known."""


def present_rows(
    kind: SourceKind, read: physical.Read, secret: Reveal, tally: Tally, limit: int | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table as one transaction of its server sees them, part by part as they are taken.

    Where a `limit` of rows is wanted, little more is asked for. Raises what the connector does.
    """
    assert kind.stream is not None
    source, _ = captured_source(read.connector, read.options, read.connection)
    table = captured_table(read)
    size = _PART if limit is None else min(_PART, _ROW * max(limit, 1))
    stream = kind.stream(source, secret)
    try:
        with stream.chunk(table) as chunks:
            last: Key | None = None
            while True:
                chunk = chunks.read(last, size)
                for part in chunk.rows:
                    tally.failed += len(part.errors)
                    yield part.rows.select([column.name for column in read.columns])
                last = chunk.last
                if last is None:
                    return
    finally:
        stream.close()


def pushed_rows(read: physical.Read, folder: Path, open_store: OpenJobStore) -> Iterator[pa.RecordBatch]:
    """Yield the rows that the log has now, in order: what sinks forget meanwhile is left out. `folder`: the catalog's.

    Nobody is asked, no capture above all: it runs only while a sink does.
    """
    from sinkql.capture import data_file  # pyarrow

    source, keeping = captured_source(read.connector, read.options, read.connection, read.log)
    table, log = captured_table(read), log_folder(folder, source, keeping, open_store)
    for number in log.numbers():
        entry = log.entry(number)
        part = entry.tables.get(table.id) if entry is not None else None
        for file in part.files if part is not None else ():
            with suppress(data_file.DamagedError):
                for batch in data_file.read(log.store, file):
                    yield batch.select([column.name for column in read.columns])
