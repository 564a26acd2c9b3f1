"""Write the messages of a bucket's changed keys into a file, which the driver sends later.

The file is in Arrow's IPC format, with the columns `key` and `value` (binary, NULL if missing), and `headers` and
`partition` if the sink has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import MessageEncoder, WriteResult
from sinkql.connectors.kafka.sink.partition import Partitioning
from sinkql.physical import DIFF, SEQ
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint

_CHUNK_ROWS = 8192
_CHUNK_BYTES = 64 << 20
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True, slots=True)
class Encoders:
    """The encoders of keys and values; `key` is None if messages have no key."""

    key: MessageEncoder | None
    value: MessageEncoder


@dataclass(frozen=True, slots=True)
class MessageTask:
    """A `WriteTask` that writes the messages of one bucket into a file of `home`."""

    commit: str
    buckets: int | None
    key: tuple[str, ...]
    columns: tuple[str, ...]
    change: physical.Change
    debezium: bool
    headers: str | None
    partitioning: Partitioning | None
    encoders: Encoders
    home: StateDirectory

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        """Write the messages of all rows; no file without rows."""
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return WriteResult(bucket, 0, None, superseded=0)
        rows = pa.Table.from_batches(filled)
        filled.clear()
        rows = rows.combine_chunks()
        name = f"{self.commit}/{bucket}-{attempt}.arrow"
        count, removed = self._write(rows, self.home.folder / name)
        if count and self.home.remote:
            self.home.upload([name])
        failpoint.point("data-file")
        # without a key, a row with a diff of n becomes n messages, so superseded rows cannot be counted
        has_superseded = self.change != "retract" or self.encoders.key is not None
        return WriteResult(
            bucket, count, name if count else None, removed, len(rows) - count if has_superseded else None
        )

    def _write(self, rows: pa.Table, path: Path) -> tuple[int, int]:
        """Return the number of messages, and how many of them only delete a row."""
        keys = self._keys(rows)
        before, after = self._changes(rows, keys)
        if not len(after):
            return 0, 0
        path.parent.mkdir(parents=True, exist_ok=True)
        fields = [("key", pa.binary()), ("value", pa.binary())]
        fields += [("headers", _HEADERS)] if self.headers else []
        fields += [("partition", pa.int32())] if self.partitioning is not None else []
        schema = pa.schema(fields)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            most = _chunk_rows(rows)
            for first in range(0, len(after), most):
                part = slice(first, first + most)
                writer.write_batch(self._messages(rows, keys, before[part], after[part], schema))
        return len(after), int(np.count_nonzero(after < 0))

    def _keys(self, rows: pa.Table) -> pa.Array | None:
        """Return the encoded key of each row; None without a key."""
        if self.encoders.key is None:
            return None
        batches = rows.select(list(self.key)).to_batches(max_chunksize=_chunk_rows(rows))
        return pa.concat_arrays([pa.array(self.encoders.key.encode(batch), pa.binary()) for batch in batches])

    def _changes(self, rows: pa.Table, keys: pa.Array | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the indexes of the deleted and the inserted row of each message; -1 for a missing one."""
        diffs = rows.column(DIFF).to_numpy() if self.change == "retract" else np.ones(len(rows), np.int64)
        order = np.argsort(rows.column(SEQ).to_numpy(), kind="stable") if SEQ in rows.column_names else None
        indexes = np.arange(len(rows)) if order is None else order
        if keys is None:
            return _without_keys(indexes, diffs)
        codes = keys.dictionary_encode(null_encoding="encode").indices.to_numpy()
        if self.change == "append":
            chosen = indexes if self.debezium else _last_of_keys(indexes, codes)
            return np.full(len(chosen), -1), chosen
        return _pair(codes, diffs)

    def _messages(
        self, rows: pa.Table, keys: pa.Array | None, before: np.ndarray, after: np.ndarray, schema: pa.Schema
    ) -> pa.RecordBatch:
        indexes = np.where(after >= 0, after, before)
        key_array = pa.nulls(len(indexes), pa.binary()) if keys is None else keys.take(pa.array(indexes))
        arrays = [key_array, pa.array(self._values(rows, before, after), pa.binary())]
        if self.headers:
            arrays.append(_headers(rows.column(self.headers).take(pa.array(indexes))))
        if self.partitioning is not None:
            arrays.append(self.partitioning.of(rows.select(list(self.columns)).take(pa.array(indexes))))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _values(self, rows: pa.Table, before: np.ndarray, after: np.ndarray) -> Sequence[bytes | None]:
        columns = rows.select(list(self.columns))
        if self.debezium:
            records = [_records(columns, before), _records(columns, after)]
            return self.encoders.value.encode(pa.RecordBatch.from_arrays(records, names=["before", "after"]))
        present = after >= 0
        chosen = columns.take(pa.array(after[present])).combine_chunks()
        values: list[bytes | None] = []
        for batch in chosen.to_batches():
            values += self.encoders.value.encode(batch)
        left = iter(values)
        return [next(left) if has_row else None for has_row in present.tolist()]


def _chunk_rows(rows: pa.Table) -> int:
    """Return the number of rows to encode together: fewer if they are large, since an array holds at most 2 GB."""
    size: int = rows.get_total_buffer_size()
    return max(1, min(_CHUNK_ROWS, _CHUNK_BYTES * len(rows) // max(1, size)))


def _without_keys(indexes: np.ndarray, diffs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return one message for each copy of a row by its diff, deletions first."""
    indexes = indexes[np.argsort(diffs[indexes] > 0, kind="stable")]
    repeated = np.repeat(indexes, np.abs(diffs[indexes]))
    inserted = diffs[repeated] > 0
    return np.where(inserted, -1, repeated), np.where(inserted, repeated, -1)


def _last_of_keys(indexes: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the last row of each key, in the order of the rows."""
    _, first = np.unique(codes[indexes][::-1], return_index=True)
    return indexes[np.sort(len(indexes) - 1 - first)]


def _pair(codes: np.ndarray, diffs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the deleted and the inserted row of each key."""
    count = int(codes.max()) + 1
    before, after = np.full(count, -1), np.full(count, -1)
    deleted, inserted = np.flatnonzero(diffs < 0), np.flatnonzero(diffs > 0)
    before[codes[deleted]] = deleted
    after[codes[inserted]] = inserted
    return before, after


def _records(columns: pa.Table, indexes: np.ndarray) -> pa.StructArray:
    """Return rows by their indexes as records; NULL for -1."""
    present = indexes >= 0
    index = pa.array(np.where(present, indexes, 0), mask=~present)
    arrays = [column.combine_chunks().take(index) for column in columns.columns]
    return pa.StructArray.from_arrays(
        [array.chunk(0) if isinstance(array, pa.ChunkedArray) else array for array in arrays],
        fields=[pa.field(field.name, field.type) for field in columns.schema],
        mask=pa.array(~present),
    )


def _headers(column: pa.ChunkedArray) -> pa.Array:
    values = [
        None if entries is None else [(entry["key"], _binary(entry["value"])) for entry in entries]
        for entries in column.to_pylist()
    ]
    return pa.array(values, _HEADERS)


def _binary(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
