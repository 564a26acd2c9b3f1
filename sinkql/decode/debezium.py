"""Decode Debezium's messages in JSON, with or without their schema, to changes of rows of declared columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, cast

import msgspec
import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import DecodedMessages
from sinkql.decode.debezium_value import DEFAULT, ColumnValues, Encoding, decoded_as
from sinkql.decode.messages import (
    ALIVE,
    EMPTIED,
    GONE,
    NO_KEY,
    NO_ROW,
    NO_TRUNCATE,
    OTHER,
    Part,
    changes,
    unknown,
)  # fmt: skip
from sinkql.decode.text_column import Failures

_MOST_SCHEMAS = 64
_PART = 1024
"""The messages whose values are decoded and converted while they are in the processor's cache."""
_PAYLOAD = attrgetter("payload")


@dataclass(frozen=True)
class JsonChanges:
    """Decode changes. `key` names the columns of a deleted row; they come from `before` if keys are not read."""

    columns: tuple[physical.Column, ...]
    key: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonChanges, (self.columns, self.key)

    @cached_property
    def _row(self) -> type:
        """Return the type of rows, whose fields are named by column numbers."""
        return _row_of(self.columns, range(len(self.columns)))

    @cached_property
    def _key_row(self) -> type:
        """Return the type of deleted rows: only members of the key are decoded, and other columns are NULL."""
        return _row_of(self.columns, [place for place, column in enumerate(self.columns) if column.name in self.key])

    @cached_property
    def _getters(self) -> tuple[Callable[[Any], Any], ...]:
        return tuple(attrgetter(f"f{place}") for place in range(len(self.columns)))

    @cached_property
    def _payload(self) -> type:
        return msgspec.defstruct("Change", self._change_fields, gc=False)

    @property
    def _change_fields(self) -> list[Any]:
        return [
            ("before", msgspec.Raw, msgspec.Raw(b"")),
            ("after", self._row | None | msgspec.UnsetType, msgspec.UNSET),
            ("op", str | None, None),
        ]

    @cached_property
    def _decode(self) -> Callable[[bytes], Any]:
        whole = [
            *self._change_fields,
            ("payload", self._payload | None | msgspec.UnsetType, msgspec.UNSET),
            ("schema", msgspec.Raw, msgspec.Raw(b"null")),
        ]
        return msgspec.json.Decoder(msgspec.defstruct("Message", whole, gc=False)).decode

    @cached_property
    def _decode_payload(self) -> Callable[[bytes], Any]:
        return msgspec.json.Decoder(self._payload | None).decode

    @cached_property
    def _decode_key(self) -> Callable[[Any], Any]:
        return msgspec.json.Decoder(self._key_row | None).decode

    @cached_property
    def _schemas(self) -> _Schemas:
        return _Schemas()

    def decode(self, keys: pa.RecordBatch | None, values: Sequence[bytes | None]) -> DecodedMessages:
        """Return the changes of messages as rows with `$diff`; raise WideError."""
        failures: Failures = {}
        places: Sequence[int] = range(len(values))
        rowless: list[int] = []
        if None in values:
            rowless = [place for place, value in enumerate(values) if value is None]
            places = [place for place, value in enumerate(values) if value is not None]
        present = cast("Sequence[bytes]", [values[place] for place in places] if rowless else values)
        groups: dict[int, _Rows] = {}
        for begin in range(0, len(present), _PART):
            part = slice(begin, begin + _PART)
            for encodings, change_places, changed in self._changes(places[part], present[part], failures):
                group = groups.get(id(encodings))
                if group is None:
                    group = groups[id(encodings)] = _Rows(self.columns, encodings)
                self._add(group, change_places, changed, failures, rowless, is_keyed=keys is not None)
        parts = [self._part(group, keys, failures) for group in groups.values()]
        deleted = [place for group in groups.values() for place in group.deleted_places]
        return changes(self.columns, self.key, parts, (), failures, rowless, deleted)

    def _changes(
        self, places: Sequence[int], values: Sequence[bytes], failures: Failures
    ) -> Iterator[tuple[Mapping[str, Encoding], Sequence[int], Sequence[Any]]]:
        """Yield the changes in messages by the encoding of their values, with their places; None has no row."""
        enveloped = self._schemas.payloads(values)
        payloads = None
        if enveloped is not None:
            with suppress(*_ERRORS):  # their texts are about the payload, and not about the message
                payloads = list(map(self._decode_payload, enveloped[1]))
        if enveloped is not None and payloads is not None:
            yield enveloped[0], places, payloads
            return
        places, messages = self._messages(places, values, failures)
        if list(map(_PAYLOAD, messages)).count(msgspec.UNSET) == len(messages):
            yield _NO_ENCODINGS, places, messages
            return
        groups: dict[int, tuple[Mapping[str, Encoding], list[int], list[Any]]] = {}
        for place, message in zip(places, messages, strict=True):
            encodings, change = _NO_ENCODINGS, message
            if message.payload is not msgspec.UNSET:
                encodings, change = self._schemas.encodings(bytes(message.schema)), message.payload
            _, group_places, group = groups.setdefault(id(encodings), (encodings, [], []))
            group_places.append(place)
            group.append(change)
        yield from groups.values()

    def _messages(
        self, places: Sequence[int], values: Sequence[bytes], failures: Failures
    ) -> tuple[Sequence[int], list[Any]]:
        """Return the messages that can be decoded, with their places."""
        with suppress(*_ERRORS):
            return places, list(map(self._decode, values))
        decoded_places, messages = [], []
        for place, value in zip(places, values, strict=True):
            try:
                messages.append(self._decode(value))
                decoded_places.append(place)
            except _ERRORS as error:
                failures[place] = self._reason(error)
        return decoded_places, messages

    def _add(
        self,
        group: _Rows,
        places: Sequence[int],
        changed: Sequence[Any],
        failures: Failures,
        rowless: list[int],
        *,
        is_keyed: bool,
    ) -> None:
        """Add the rows of changes to a group; a deleted row has only its key, or nothing if messages have keys."""
        rows: list[Any] = []
        row_places: list[int] = []
        for place, change in zip(places, changed, strict=True):
            if change is not None and change.op in ALIVE and (row := change.after):
                pass
            else:
                try:
                    row, exists = self._unusual(change, is_keyed=is_keyed)
                except _ERRORS as error:
                    failures[place] = self._reason(error)
                    continue
                if row is None:
                    rowless.append(place)
                    continue
                if not exists:
                    group.deleted_places.append(place)
            rows.append(row)
            row_places.append(place)
        group.places += row_places
        for values, getter in zip(group.values, self._getters, strict=True):
            values.add(list(map(getter, rows)))

    def _unusual(self, change: Any, *, is_keyed: bool) -> tuple[Any, bool]:
        """Return a row, and whether it exists; None for a change without a row. Raise ValueError."""
        if change is None or change.op == OTHER:
            return None, False
        op, after, before = change.op, change.after, bytes(change.before)
        if op is None and after is not msgspec.UNSET and before:  # the form that sinks write
            if after is not None:
                return after, True
            op = GONE
        if op in ALIVE:
            raise ValueError(NO_ROW)
        if op != GONE:
            raise ValueError(NO_TRUNCATE if op == EMPTIED else unknown(op))
        row = self._key_row() if is_keyed else self._decode_key(before or b"null")
        if row is None:
            raise ValueError(NO_KEY)
        return row, False

    def _part(self, group: _Rows, keys: pa.RecordBatch | None, failures: Failures) -> Part:
        """Return the columns of rows; a deleted row is NULL outside of its key."""
        places = np.array(group.places, np.int64)
        is_deleted = np.isin(places, group.deleted_places)
        arrays = []
        for column, values in zip(self.columns, group.values, strict=True):
            column_failures: Failures = {}
            array = values.array(group.encodings.get(column.name, DEFAULT), column_failures)
            for row, message in column_failures.items():
                failures.setdefault(group.places[row], f'column "{column.name}": {message}')
            is_required = ~is_deleted
            if column.name in self.key:
                if keys is None:
                    is_required[:] = True
                elif group.deleted_places:
                    array = _replaced(array, is_deleted, keys.column(column.name).take(pa.array(places)))
            if not column.nullable and array.null_count:
                is_missing = array.is_null().to_numpy(zero_copy_only=False) & is_required
                for place in places[is_missing].tolist():
                    failures.setdefault(place, f'null value in column "{column.name}", which is NOT NULL')
            arrays.append(array)
        return Part(places, arrays)

    def _reason(self, error: Exception) -> str:
        """Return why a message fails, with the names and types of columns."""
        if isinstance(error, RecursionError):
            return "it is nested too deeply"
        if isinstance(error, UnicodeDecodeError):
            return f"invalid UTF-8: 0x{error.object[error.start]:02x}"
        if not isinstance(error, msgspec.MsgspecError):
            return str(error)
        message, _, path = str(error).partition(" - at `$")
        name = path.rstrip("`").rpartition(".")[2]
        column = next((column for column in self.columns if column.name == name), None)
        if column is None or "got " not in message:
            why = message.removeprefix("JSON is malformed: ")
            return f"it is not a message of Debezium: {why[0].lower()}{why[1:]}"
        return f'column "{name}": expected {column.type}, got {message.rpartition("got ")[2].strip("`")}'


_NO_ENCODINGS: Mapping[str, Encoding] = {}
_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError)


class _Rows:
    """The rows with one encoding of values by column, with the places of their messages."""

    def __init__(self, columns: Sequence[physical.Column], encodings: Mapping[str, Encoding]) -> None:
        self.encodings = encodings
        self.places: list[int] = []
        self.deleted_places: list[int] = []
        self.values = [ColumnValues(column.type) for column in columns]


@dataclass(slots=True)
class _Schemas:
    """The encodings of schemas; the messages of a table repeat their schema byte by byte."""

    _by_schema: dict[bytes, Mapping[str, Encoding]] = field(default_factory=dict)
    _head: bytes = b""
    _last: Mapping[str, Encoding] = field(default_factory=dict)

    def encodings(self, schema: bytes) -> Mapping[str, Encoding]:
        """Return the encodings of the fields of rows."""
        encodings = self._by_schema.get(schema)
        if encodings is None:
            if len(self._by_schema) >= _MOST_SCHEMAS:
                self._by_schema.clear()
            encodings = self._by_schema[schema] = _read_schema(schema)
        if encodings is not self._last:
            self._head, self._last = b'{"schema":%b,"payload":' % schema, encodings
        return encodings

    def payloads(self, values: Sequence[bytes]) -> tuple[Mapping[str, Encoding], list[bytes]] | None:
        """Return the payloads of messages that all have the last schema and no other member; else None.

        A message that has one may be invalid nevertheless, and its payload is then invalid, too.
        """
        head = self._head
        if not head or not all(value.startswith(head) and value.endswith(b"}") for value in values):
            return None
        begin = len(head)
        return self._last, [value[begin:-1] for value in values]


def _replaced(array: pa.Array, mask: np.ndarray, others: pa.Array) -> pa.Array:
    """Return an array with the values of another one where the mask is True."""
    indexes = np.arange(len(array)) + np.where(mask, len(array), 0)
    return pa.concat_arrays([array, others]).take(pa.array(indexes))


def _row_of(columns: Sequence[physical.Column], places: Sequence[int]) -> type:
    """Return a type with fields for some columns; the others are attributes that are None."""
    fields = [(f"f{place}", decoded_as(columns[place].type), None) for place in places]
    names = {f"f{place}": columns[place].name for place in places}
    others = {f"f{place}": None for place in range(len(columns)) if f"f{place}" not in names}
    return msgspec.defstruct("Row", fields, namespace=others, rename=names, gc=False)


def _read_schema(text: bytes) -> Mapping[str, Encoding]:
    """Return the encodings of the fields of `after`; none if the schema is not Debezium's."""
    try:
        fields = msgspec.json.decode(text)["fields"]
        rows = next(field for field in fields if field.get("field") == "after")["fields"]
        return {field["field"]: Encoding.from_field(field) for field in rows}
    except (KeyError, TypeError, AttributeError, StopIteration):
        return {}
