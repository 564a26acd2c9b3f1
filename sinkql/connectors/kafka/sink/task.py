"""Rows of a bucket → the messages that tell how its keys change, put by in a file that the driver sends from.

A file is Arrow's own: `key` and `value` (bytes, NULL for none), and `headers` and `partition` where there are some.
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

_ROWS_AT_ONCE = 8192
_BYTES_AT_ONCE = 64 << 20
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass(frozen=True, slots=True)
class Encoders:
    """How keys and values are written; without a key messages have none."""

    key: MessageEncoder | None
    value: MessageEncoder


@dataclass(frozen=True, slots=True)
class MessageTask:
    """Write the messages of one bucket into a file of `home`; a `WriteTask`."""

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
        """Write the messages of all rows; without any there is no file."""
        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return WriteResult(bucket, 0, None, superseded=0)
        rows = pa.Table.from_batches(found)
        found.clear()
        rows = rows.combine_chunks()
        name = f"{self.commit}/{bucket}-{attempt}.arrow"
        count, removed = self._write(rows, self.home.folder / name)
        if count and self.home.remote:
            self.home.upload([name])
        failpoint.point("data-file")
        # without a key a row that comes or goes several times is as many messages
        counted = self.change != "retract" or self.encoders.key is not None
        return WriteResult(bucket, count, name if count else None, removed, len(rows) - count if counted else None)

    def _write(self, rows: pa.Table, path: Path) -> tuple[int, int]:
        """Return how many messages there are, and how many of them only take a row away."""
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
            most = _at_once(rows)
            for first in range(0, len(after), most):
                part = slice(first, first + most)
                writer.write_batch(self._messages(rows, keys, before[part], after[part], schema))
        return len(after), int(np.count_nonzero(after < 0))

    def _keys(self, rows: pa.Table) -> pa.Array | None:
        """Return the key of each row's message."""
        if self.encoders.key is None:
            return None
        batches = rows.select(list(self.key)).to_batches(max_chunksize=_at_once(rows))
        return pa.concat_arrays([pa.array(self.encoders.key.encode(batch), pa.binary()) for batch in batches])

    def _changes(self, rows: pa.Table, keys: pa.Array | None) -> tuple[np.ndarray, np.ndarray]:
        """Return for each message the places of the row that goes and of the one that comes, -1 for none."""
        diffs = rows.column(DIFF).to_numpy() if self.change == "retract" else np.ones(len(rows), np.int64)
        order = np.argsort(rows.column(SEQ).to_numpy(), kind="stable") if SEQ in rows.column_names else None
        places = np.arange(len(rows)) if order is None else order
        if keys is None:
            return _apart(places, diffs)
        codes = keys.dictionary_encode(null_encoding="encode").indices.to_numpy()
        if self.change == "append":
            kept = places if self.debezium else _last(places, codes)
            return np.full(len(kept), -1), kept
        return _paired(codes, diffs)

    def _messages(
        self, rows: pa.Table, keys: pa.Array | None, before: np.ndarray, after: np.ndarray, schema: pa.Schema
    ) -> pa.RecordBatch:
        at = np.where(after >= 0, after, before)
        found = pa.nulls(len(at), pa.binary()) if keys is None else keys.take(pa.array(at))
        arrays = [found, pa.array(self._values(rows, before, after), pa.binary())]
        if self.headers:
            arrays.append(_headers(rows.column(self.headers).take(pa.array(at))))
        if self.partitioning is not None:
            arrays.append(self.partitioning.of(rows.select(list(self.columns)).take(pa.array(at))))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _values(self, rows: pa.Table, before: np.ndarray, after: np.ndarray) -> Sequence[bytes | None]:
        columns = rows.select(list(self.columns))
        if self.debezium:
            records = [_records(columns, before), _records(columns, after)]
            return self.encoders.value.encode(pa.RecordBatch.from_arrays(records, names=["before", "after"]))
        there = after >= 0
        chosen = columns.take(pa.array(after[there])).combine_chunks()
        values: list[bytes | None] = []
        for batch in chosen.to_batches():
            values += self.encoders.value.encode(batch)
        left = iter(values)
        return [next(left) if each else None for each in there.tolist()]


def _at_once(rows: pa.Table) -> int:
    """Return how many rows are encoded at once: fewer where they are large, as an array holds 2 GB."""
    size: int = rows.get_total_buffer_size()
    return max(1, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE * len(rows) // max(1, size)))


def _apart(places: np.ndarray, diffs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a message for each row, as many as there are of it: those that go first."""
    places = places[np.argsort(diffs[places] > 0, kind="stable")]
    each = np.repeat(places, np.abs(diffs[places]))
    comes = diffs[each] > 0
    return np.where(comes, -1, each), np.where(comes, each, -1)


def _last(places: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the last place of each key, in the order of places."""
    _, first = np.unique(codes[places][::-1], return_index=True)
    return places[np.sort(len(places) - 1 - first)]


def _paired(codes: np.ndarray, diffs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return of each key the row that goes and the one that comes."""
    count = int(codes.max()) + 1
    before, after = np.full(count, -1), np.full(count, -1)
    goes, comes = np.flatnonzero(diffs < 0), np.flatnonzero(diffs > 0)
    before[codes[goes]] = goes
    after[codes[comes]] = comes
    return before, after


def _records(columns: pa.Table, places: np.ndarray) -> pa.StructArray:
    """Return the rows at these places as records; NULL where there is none."""
    there = places >= 0
    index = pa.array(np.where(there, places, 0), mask=~there)
    arrays = [column.combine_chunks().take(index) for column in columns.columns]
    return pa.StructArray.from_arrays(
        [each.chunk(0) if isinstance(each, pa.ChunkedArray) else each for each in arrays],
        fields=[pa.field(field.name, field.type) for field in columns.schema],
        mask=pa.array(~there),
    )


def _headers(column: pa.ChunkedArray) -> pa.Array:
    values = [
        None if each is None else [(entry["key"], _binary(entry["value"])) for entry in each]
        for each in column.to_pylist()
    ]
    return pa.array(values, _HEADERS)


def _binary(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
