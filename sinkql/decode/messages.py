"""Decode messages of JSON, CSV, text or bytes to one row each, and collect the messages that fail.

Messages that hold the present row or its deletion become rows with `$diff`, for every format of changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import md5
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql import physical
from sinkql.connector_api.stream import DecodedMessages
from sinkql.connector_api.types import arrow_type
from sinkql.decode.csv import CsvRows
from sinkql.decode.csv_records import Records
from sinkql.decode.json_lines import JsonDecoder
from sinkql.decode.text_column import Failures, from_text


@dataclass(frozen=True)
class JsonMessages:
    """Decode objects by the names of their members; `whole` reads each value into one jsonb column."""

    columns: tuple[physical.Column, ...]
    whole: bool

    @cached_property
    def _decoder(self) -> JsonDecoder:
        return JsonDecoder(self.columns, whole=self.whole)

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonMessages, (self.columns, self.whole)

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return a row for each message; raise WideError."""
        return DecodedMessages(*self._decoder.rows(_records(messages)))


@dataclass(frozen=True)
class CsvMessages:
    """Decode records with fields by position; a line end behind a record is ignored."""

    options: Mapping[str, Any]
    columns: tuple[physical.Column, ...]

    @cached_property
    def _decoder(self) -> CsvRows:
        return CsvRows.of(self.options, self.columns)

    def __reduce__(self) -> tuple[Any, ...]:
        return CsvMessages, (self.options, self.columns)

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return a row for each message; raise WideError."""
        return DecodedMessages(*self._decoder.rows(_records([_line(message) for message in messages])))


@dataclass(frozen=True, slots=True)
class TextMessages:
    """Decode each message as the text of the only column, of any type."""

    column: physical.Column

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return a row for each message; raise WideError."""
        failures: Failures = {}
        raw = pa.array(messages, pa.binary())
        try:
            texts = raw.cast(pa.string())
        except pa.ArrowInvalid:
            texts = pa.array([_text(message, place, failures) for place, message in enumerate(messages)], pa.string())
        array = from_text(texts, self.column.type, failures)
        return DecodedMessages(pa.record_batch([array], names=[self.column.name]), failures)


@dataclass(frozen=True, slots=True)
class BytesMessages:
    """Read each message unchanged into the only column, of type bytea."""

    column: physical.Column

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return a row for each message."""
        return DecodedMessages(pa.record_batch([pa.array(messages, pa.binary())], names=[self.column.name]), {})


def _records(messages: Sequence[bytes]) -> Records:
    """Return messages as consecutive records with a newline between them."""
    ends = np.cumsum(np.fromiter(map(len, messages), np.int64, len(messages)) + 1) - 1
    begins = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    return Records(b"\n".join(messages), begins, ends, 1, b"\n")


def _line(message: bytes) -> bytes:
    return message.removesuffix(b"\n").removesuffix(b"\r") if message.endswith(b"\n") else message


def _text(message: bytes, place: int, failures: Failures) -> str | None:
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        failures[place] = f"invalid UTF-8: 0x{message[error.start]:02x} at byte {error.start + 1}"
        return None


Places = np.ndarray

ALIVE, GONE, EMPTIED, OTHER = ("c", "r", "u"), "d", "t", "m"
"""Debezium's kinds of changes: created, read in a snapshot, and updated; deleted; truncated; a message."""
PLACEHOLDER = "__debezium_unavailable_value"
"""The text in place of an unchanged value that the server did not send."""
UNSENT = "its value was not sent; the table needs REPLICA IDENTITY FULL"
NO_ROW = "it has no row after the change"
NO_KEY = "it deletes a row, but does not name it: its field before is null"
NO_TRUNCATE = (
    "the table was truncated, which no row can express; exclude truncations in Debezium "
    "(skipped.operations = t), or create the source WITH (ON ERROR = SKIP)"
)


def unknown(op: str | None) -> str:
    """Return why a message with an unknown kind of change fails."""
    return "it is not a message of Debezium: it has no field op" if op is None else f'it has the change "{op[:20]}"'


@dataclass(frozen=True, slots=True)
class Part:
    """Columns of some messages, with the places of these messages."""

    places: Places
    arrays: Sequence[pa.Array]


def together(parts: Sequence[Part], count: int, columns: Sequence[physical.Column]) -> pa.RecordBatch:
    """Return the rows of parts by place; a place without a row is all NULL."""
    names = [column.name for column in columns]
    if len(parts) == 1 and len(parts[0].places) == count:
        return pa.record_batch(list(parts[0].arrays), names=names)
    order = np.full(count, -1)
    placed = np.concatenate([part.places for part in parts]) if parts else np.zeros(0, np.int64)
    order[placed] = np.arange(len(placed))
    indices = pa.array(np.maximum(order, 0), mask=order < 0)
    arrays = []
    for number, column in enumerate(columns):
        chunks = [part.arrays[number] for part in parts] or [pa.nulls(0, arrow_type(column.type))]
        arrays.append(pa.concat_arrays(chunks).take(indices))
    return pa.record_batch(arrays, names=names)


def changes(
    columns: Sequence[physical.Column],
    key: Sequence[str],
    alive: Sequence[Part],
    deleted: Sequence[Part],
    failures: Mapping[int, str],
    rowless: Sequence[int],
    deleted_places: Sequence[int] = (),
) -> DecodedMessages:
    """Return rows in the order of their messages, without failed ones.

    The parts of `alive` have all columns; the parts of `deleted` have only the key columns, in the key's order. Rows of
    `alive` at `deleted_places` are deleted, too. A row with a value that was not sent fails.
    """
    failures = {**dict(_unsent(columns, alive)), **failures}
    places = np.concatenate([np.zeros(0, np.int64), *(part.places for part in (*alive, *deleted))])
    diffs = np.ones(len(places), np.int64)
    diffs[sum(len(part.places) for part in alive) :] = -1
    if len(deleted_places):
        diffs[np.isin(places, deleted_places)] = -1
    order: Places | None = None
    if failures or deleted or len(alive) != 1:
        by_place = np.argsort(places, kind="stable")
        order = by_place[~np.isin(places[by_place], list(failures))] if failures else by_place
    arrays = []
    for place, column in enumerate(columns):
        chunks = [part.arrays[place] for part in alive]
        key_index = list(key).index(column.name) if column.name in key else None
        chunks += [
            pa.nulls(len(part.places), arrow_type(column.type)) if key_index is None else part.arrays[key_index]
            for part in deleted
        ]
        array = pa.concat_arrays(chunks) if chunks else pa.nulls(0, arrow_type(column.type))
        arrays.append(array if order is None else array.take(pa.array(order)))
    if order is not None:
        places, diffs = places[order], diffs[order]
    names = [*(column.name for column in columns), "$diff"]
    return DecodedMessages(pa.record_batch([*arrays, pa.array(diffs)], names=names), failures, places, rowless)


def _unsent(columns: Sequence[physical.Column], alive: Sequence[Part]) -> Iterator[tuple[int, str]]:
    """Yield the places of rows with a value that was not sent, and why they fail."""
    for part in alive:
        for column, array in zip(columns, part.arrays, strict=True):
            for row in placeholders(array):
                yield int(part.places[row]), f'column "{column.name}": {UNSENT}'


def placeholders(values: pa.Array) -> list[int]:
    """Return the rows that have a placeholder: as a text, as its bytes, or as an array."""
    type_ = values.type
    if not pa.types.is_list(type_):
        placeholder = (
            PLACEHOLDER if pa.types.is_string(type_) else PLACEHOLDER.encode() if pa.types.is_binary(type_) else None
        )
        return [] if placeholder is None else _rows(pc.equal(values, pa.scalar(placeholder, type_)))
    rows_of_placeholders = []
    for items in _arrays(type_.value_type):
        rows = _rows(pc.equal(pc.list_value_length(values), len(items)))
        if rows:
            first = pc.list_element(values.take(pa.array(rows)), 0)
            alike = _rows(pc.equal(first, pa.scalar(items[0], type_.value_type)))
            rows_of_placeholders += [rows[place] for place in alike if values[rows[place]].as_py() == items]
    return rows_of_placeholders


def _arrays(type_: pa.DataType) -> list[list[Any]]:
    """Return the placeholders of arrays with elements of a type."""
    placeholder = PLACEHOLDER.encode()
    if pa.types.is_string(type_):
        uuid = UUID(bytes=md5(placeholder, usedforsecurity=False).digest(), version=3)
        return [[PLACEHOLDER], [str(uuid)]]
    if pa.types.is_binary(type_):
        return [[placeholder]]
    return [list(placeholder)] if pa.types.is_integer(type_) else []


def _rows(mask: pa.Array) -> list[int]:
    if not mask.true_count:
        return []
    rows: list[int] = np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False)).tolist()
    return rows
