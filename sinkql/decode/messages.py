"""Messages, each of which is one record of JSON, CSV, text or bytes → a row each, and those that do not decode.

Messages that say what a row is now, or that it is gone → rows with `$diff`, for every format of such messages.
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
    """Decode objects by the names of their members; `whole` puts each value into one jsonb column."""

    columns: tuple[physical.Column, ...]
    whole: bool

    @cached_property
    def _decoder(self) -> JsonDecoder:
        return JsonDecoder(self.columns, whole=self.whole)

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonMessages, (self.columns, self.whole)

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return a row for each message; raises WideError."""
        return DecodedMessages(*self._decoder.rows(_records(messages)))


@dataclass(frozen=True)
class CsvMessages:
    """Decode records by the places of their fields; a line's end behind a record is no part of it."""

    options: Mapping[str, Any]
    columns: tuple[physical.Column, ...]

    @cached_property
    def _decoder(self) -> CsvRows:
        return CsvRows.of(self.options, self.columns)

    def __reduce__(self) -> tuple[Any, ...]:
        return CsvMessages, (self.options, self.columns)

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return a row for each message; raises WideError."""
        return DecodedMessages(*self._decoder.rows(_records([_line(each) for each in messages])))


@dataclass(frozen=True, slots=True)
class TextMessages:
    """Decode each message as the text of the one column, whatever its type."""

    column: physical.Column

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return a row for each message; raises WideError."""
        failures: Failures = {}
        raw = pa.array(messages, pa.binary())
        try:
            texts = raw.cast(pa.string())
        except pa.ArrowInvalid:
            texts = pa.array([_text(each, place, failures) for place, each in enumerate(messages)], pa.string())
        array = from_text(texts, self.column.type, failures)
        return DecodedMessages(pa.record_batch([array], names=[self.column.name]), failures)


@dataclass(frozen=True, slots=True)
class BytesMessages:
    """Have each message as it is in the one column, of type bytea."""

    column: physical.Column

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return a row for each message."""
        return DecodedMessages(pa.record_batch([pa.array(messages, pa.binary())], names=[self.column.name]), {})


def _records(messages: Sequence[bytes]) -> Records:
    """Return messages as records that lie one behind the other, with a newline between them."""
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
"""What Debezium calls changes: made, read in a snapshot, and updated; deleted; a table emptied; a message."""
PLACEHOLDER = "__debezium_unavailable_value"
"""What stands for a long value that did not change, and that the server did not send."""
UNSENT = "its value was not sent; the table needs REPLICA IDENTITY FULL"
NO_ROW = "it has no row after the change"
NO_KEY = "it says that a row is gone, and not which one: its field before is null"
NO_TRUNCATE = (
    "it says that the table was emptied, which no row can say; leave such messages out where they are made "
    "(skipped.operations = t), or create the source WITH (ON ERROR = SKIP)"
)


def unknown(op: str | None) -> str:
    """Return why a message with another kind of change fails."""
    return "it is not one of Debezium: it has no field op" if op is None else f'it has the change "{op[:20]}"'


@dataclass(frozen=True, slots=True)
class Part:
    """Columns of some messages, by the places of these."""

    places: Places
    arrays: Sequence[pa.Array]


def together(parts: Sequence[Part], count: int, columns: Sequence[physical.Column]) -> pa.RecordBatch:
    """Return the rows of parts in their places; where no part has one, it is all NULL."""
    names = [each.name for each in columns]
    if len(parts) == 1 and len(parts[0].places) == count:
        return pa.record_batch(list(parts[0].arrays), names=names)
    order = np.full(count, -1)
    placed = np.concatenate([part.places for part in parts]) if parts else np.zeros(0, np.int64)
    order[placed] = np.arange(len(placed))
    taken = pa.array(np.maximum(order, 0), mask=order < 0)
    arrays = []
    for place, column in enumerate(columns):
        chunks = [part.arrays[place] for part in parts] or [pa.nulls(0, arrow_type(column.type))]
        arrays.append(pa.concat_arrays(chunks).take(taken))
    return pa.record_batch(arrays, names=names)


def changes(
    columns: Sequence[physical.Column],
    key: Sequence[str],
    alive: Sequence[Part],
    gone: Sequence[Part],
    failures: Mapping[int, str],
    rowless: Sequence[int],
) -> DecodedMessages:
    """Return rows in the order of their messages, without those that failed.

    The parts of `alive` have all columns, those of `gone` the ones of the key alone, in its order. A row with a value
    that was not sent fails.
    """
    failures = {**dict(_unsent(columns, alive)), **failures}
    places = np.concatenate([np.zeros(0, np.int64), *(part.places for part in (*alive, *gone))])
    diffs = np.ones(len(places), np.int64)
    diffs[sum(len(part.places) for part in alive) :] = -1
    sorted_: Places = np.argsort(places, kind="stable")
    order = None if len(alive) == 1 and not gone else sorted_
    if failures:
        order = sorted_[~np.isin(places[sorted_], list(failures))]
    arrays = []
    for place, column in enumerate(columns):
        chunks = [part.arrays[place] for part in alive]
        held = list(key).index(column.name) if column.name in key else None
        chunks += [
            pa.nulls(len(part.places), arrow_type(column.type)) if held is None else part.arrays[held] for part in gone
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
            for row in _placeholders(array):
                yield int(part.places[row]), f'column "{column.name}": {UNSENT}'


def _placeholders(values: pa.Array) -> list[int]:
    """Return the rows that have a placeholder: as a text, as its bytes, or in an array of them."""
    type_ = values.type
    if not pa.types.is_list(type_):
        told = PLACEHOLDER if pa.types.is_string(type_) else PLACEHOLDER.encode() if pa.types.is_binary(type_) else None
        return [] if told is None else _rows(pc.equal(values, pa.scalar(told, type_)))
    found = []
    for items in _arrays(type_.value_type):
        rows = _rows(pc.equal(pc.list_value_length(values), len(items)))
        if rows:
            first = pc.list_element(values.take(pa.array(rows)), 0)
            alike = _rows(pc.equal(first, pa.scalar(items[0], type_.value_type)))
            found += [rows[place] for place in alike if values[rows[place]].as_py() == items]
    return found


def _arrays(type_: pa.DataType) -> list[list[Any]]:
    """Return what arrays of a type may have in the place of their elements."""
    told = PLACEHOLDER.encode()
    if pa.types.is_string(type_):
        uuid = UUID(bytes=md5(told, usedforsecurity=False).digest(), version=3)
        return [[PLACEHOLDER], [str(uuid)]]
    if pa.types.is_binary(type_):
        return [[told]]
    return [list(told)] if pa.types.is_integer(type_) else []


def _rows(mask: pa.Array) -> list[int]:
    if not mask.true_count:
        return []
    found: list[int] = np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False)).tolist()
    return found
