"""Data files of a log → splits, and the rows of one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sinkql import codec
from sinkql.capture import messages
from sinkql.capture.log import DataFile
from sinkql.capture.subscription import Subscription
from sinkql.connector_api.stream import RowError, Split, Tally
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.state_store.directory import EXECUTOR

if TYPE_CHECKING:
    import pyarrow as pa

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
    from sinkql.capture import data_file

    for file in codec.convert(split["files"], list[DataFile]):
        tally.rows += file.rows + file.failed
        tally.bytes += file.bytes
        for error in split_failures(reader, split["log"], file):
            reader.bad.take(tally, error)
        try:
            for batch in data_file.read(reader.log.store, file, _wanted(reader)):
                yield _projected(reader, batch)
        except data_file.DamagedError as error:
            raise _damaged(reader, split["log"], file) from error


def split_failures(reader: Subscription, log: str, file: DataFile) -> Sequence[RowError]:
    """Return what of a file of a log did not decode."""
    from sinkql.capture import data_file

    try:
        return data_file.failed(reader.log.store, file)
    except data_file.DamagedError as error:
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
