"""Messages, each of which is one record of JSON, CSV, text or bytes → a row each, and those that do not decode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import DecodedMessages
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
