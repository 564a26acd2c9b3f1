"""Decode messages to Arrow rows with the source's columns of key, value and metadata, and collect failed messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from sinkql import codec, physical
from sinkql.connector_api.stream import ChangeDecoder, Context, DecodedMessages, MessageDecoder, WideError
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.kafka.options import Metadata, PartFormat, ReadOptions
from sinkql.decode.arrow_values import column_of
from sinkql.decode.text_column import WIDE, from_text
from sinkql.logical.type import TEXT, TIMESTAMP

_MOST_BYTES = 16 << 20
_DIFF = pa.field("$diff", pa.int64())
Headers = list[tuple[str, bytes | None]]
_HEADERS = methodcaller("headers")
"""A `methodcaller` notices the pending error that the library leaves when a header's name is invalid."""
_UNREADABLE: Headers = [("\ufffd", None)]
FailedMessage = tuple[Any, str]
"""A message, and the reason why it has no row."""
DecodedRows = tuple[pa.RecordBatch, list[FailedMessage], int]
"""The rows of messages, the failed messages, and the number of messages that stand for no row."""


@dataclass(frozen=True, slots=True)
class PartDecoder:
    """A decoder of keys or values, with the names of its columns."""

    decoder: MessageDecoder
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MessageRows:
    """A decoder of a source's messages; picklable.

    `value` decodes changes for ENVELOPE DEBEZIUM. `metadata` describes the columns that are not in keys or values.
    `error` is the column for decoding errors of values, which are then no failures. Keys may have schemas
    (`with_schemas`), as Kafka Connect writes them.
    """

    columns: tuple[physical.Column, ...]
    upsert: bool
    key: PartDecoder | None
    value: PartDecoder | ChangeDecoder
    metadata: tuple[tuple[str, Metadata], ...]
    error: str | None
    with_schemas: bool = False

    @classmethod
    def from_plan(cls, read: physical.Read, options: ReadOptions, context: Context) -> MessageRows:
        """Return the decoder of a planned source."""
        by_name = {column.name: column for column in read.columns}
        columns = [by_name[name] for name in options.value.columns]
        decoding = context.messages[options.value.format]
        value: PartDecoder | ChangeDecoder
        if options.envelope == "debezium":
            assert decoding.changes is not None
            value = decoding.changes(read.options["value"], columns, read.key, context)
        else:
            value = PartDecoder(decoding.open(read.options["value"], columns, context), options.value.columns)
        return cls(
            read.columns,
            read.change == "upsert",
            _key_decoder(read, options, context),
            value,
            tuple(options.include.items()),
            options.error,
            _may_have_schemas(options.key),
        )

    def decode(self, messages: Sequence[Any], size: int) -> Iterator[DecodedRows]:
        """Yield the rows of messages in order, in several parts if the messages are large.

        `size` is the total size of their values.
        """
        if len(messages) > 1 and size > _MOST_BYTES:
            yield from self._halves(messages)
            return
        try:
            decoded = self._decode_batch(messages)
        except WideError:
            if len(messages) == 1:  # a list in this message has as many items as fit into a batch
                yield self._decode_batch([])[0], [(messages[0], WIDE)], 0
                return
            yield from self._halves(messages)
            return
        yield decoded

    def _halves(self, messages: Sequence[Any]) -> Iterator[DecodedRows]:
        middle = len(messages) // 2
        for half in (messages[:middle], messages[middle:]):
            yield from self.decode(half, sum(map(len, half)))

    def _decode_batch(self, messages: Sequence[Any]) -> DecodedRows:
        failures: dict[int, str] = {}
        arrays: dict[str, pa.Array] = {}
        rowless: Sequence[int] = ()
        keys = self._decode_keys(messages, failures)
        if not isinstance(self.value, PartDecoder):
            indexes, diffs, rowless = _decode_changes(self.value, messages, keys, arrays, failures)
        else:
            indexes, diffs = None, None
            self._decode_values(self.value, messages, arrays, failures)
            if keys is not None:
                arrays |= dict(zip(keys.schema.names, keys.columns, strict=True))
            if self.upsert:
                diffs = _value_diffs(messages)
        for name, part in self.metadata:
            array = _metadata(part, messages, failures)
            arrays[name] = array if indexes is None else array.take(pa.array(indexes))
        rows = [arrays[column.name] for column in self.columns]
        fields = [pa.field(column.name, array.type) for column, array in zip(self.columns, rows, strict=True)]
        if self.upsert:
            rows, fields = [*rows, diffs], [*fields, _DIFF]
        batch = pa.RecordBatch.from_arrays(rows, schema=pa.schema(fields))
        failed = [(messages[index], failures[index]) for index in sorted(failures)]
        if failures:
            row_messages = np.arange(len(messages)) if indexes is None else indexes
            batch = batch.filter(pa.array(~np.isin(row_messages, list(failures))))
        return batch, failed, sum(index not in failures for index in rowless)

    def _decode_keys(self, messages: Sequence[Any], failures: dict[int, str]) -> pa.RecordBatch | None:
        """Return the columns of the key: NULLs for a message without a key, which fails if the rows have keys."""
        if self.key is None:
            return None
        decoder, names = self.key.decoder, self.key.names
        raw = [message.key() for message in messages]
        if self.with_schemas:
            raw = [_payload(key) for key in raw]
        batch = _decode_present(decoder, raw, failures, prefix="key: ")
        if self.upsert and None in raw:
            for index, key in enumerate(raw):
                if key is None:
                    failures.setdefault(index, "the message has no key")
        return batch.rename_columns(list(names))

    def _decode_values(
        self, value: PartDecoder, messages: Sequence[Any], arrays: dict[str, pa.Array], failures: dict[int, str]
    ) -> None:
        """Add the columns of the value: NULLs for a message without a value."""
        raw = [message.value() for message in messages]
        reasons: dict[int, str] = {}
        batch = _decode_present(value.decoder, raw, reasons)
        arrays |= dict(zip(value.names, batch.columns, strict=True))
        if not self.upsert and None in raw:
            required = [column.name for column in self.columns if column.name in value.names and not column.nullable]
            if required:
                empty = f'null value in column "{required[0]}", which is NOT NULL: the message has no value'
                reasons |= {index: empty for index, message in enumerate(raw) if message is None}
        if self.error is None:
            failures |= {index: reason for index, reason in reasons.items() if index not in failures}
            return
        type_ = arrow_type(next(column.type for column in self.columns if column.name == self.error))
        described = [{"description": reasons[index]} if index in reasons else None for index in range(len(raw))]
        arrays[self.error] = pa.array(described, type_)
        if reasons:
            right = np.ones(len(raw), bool)
            right[list(reasons)] = False
            for name in value.names:
                arrays[name] = _null_unless(arrays[name], right)


def _decode_changes(
    decoder: ChangeDecoder,
    messages: Sequence[Any],
    keys: pa.RecordBatch | None,
    arrays: dict[str, pa.Array],
    failures: dict[int, str],
) -> tuple[np.ndarray, pa.Array, Sequence[int]]:
    """Add the columns of changed rows. Return each row's message index and diff, and the messages without rows."""
    raw = [message.value() for message in messages]
    if failures:
        raw = [None if index in failures else value for index, value in enumerate(raw)]
    decoded = decoder.decode(keys, raw)
    failures |= decoded.failures
    assert decoded.places is not None
    arrays |= dict(zip(decoded.batch.schema.names, decoded.batch.columns, strict=True))
    return decoded.places, arrays.pop("$diff"), decoded.rowless


def _key_decoder(read: physical.Read, options: ReadOptions, context: Context) -> PartDecoder | None:
    key = options.key
    if key is None:
        return None
    by_name = {column.name: column for column in read.columns}
    columns = [by_name[name] for name in key.columns]
    return PartDecoder(context.messages[key.format].open(read.options["key"], columns, context), key.columns)


class _WithSchema(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    schema: msgspec.Raw
    payload: msgspec.Raw


_with_schema = codec.decoder(_WithSchema)


def _may_have_schemas(key: PartFormat | None) -> bool:
    """Return whether keys are JSON objects that may have a schema: no column is named as one of its members."""
    return key is not None and key.whole is False and not {"schema", "payload"} & set(key.columns)


def _payload(key: bytes | None) -> bytes | None:
    """Return a key without its schema, if it has one."""
    if key is None or b'"payload"' not in key:
        return key
    try:
        return bytes(_with_schema.decode(key).payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return key


def _decode_present(
    decoder: MessageDecoder, raw: Sequence[bytes | None], failures: dict[int, str], *, prefix: str = ""
) -> pa.RecordBatch:
    """Decode the values that exist; missing values become NULLs."""
    present = [value for value in raw if value is not None]
    decoded: DecodedMessages = decoder.decode(present)
    batch = decoded.batch
    indexes: Sequence[int] | np.ndarray
    if len(present) == len(raw):
        indexes = range(len(raw))
    else:
        indexes = np.fromiter((index for index, value in enumerate(raw) if value is not None), np.int64, len(present))
        sources = np.zeros(len(raw), np.int64)
        sources[indexes] = np.arange(len(present))
        missing = np.ones(len(raw), bool)
        missing[indexes] = False
        batch = batch.take(pa.array(sources, mask=missing))
    for index, reason in decoded.failures.items():
        failures.setdefault(int(indexes[index]), prefix + reason)
    return batch


def _value_diffs(messages: Sequence[Any]) -> pa.Array:
    """Return 1 for a message with a value, and -1 for a tombstone."""
    return pa.array(
        np.fromiter((-1 if message.value() is None else 1 for message in messages), np.int64, len(messages))
    )


def _null_unless(array: pa.Array, right: np.ndarray) -> pa.Array:
    return array.take(pa.array(np.arange(len(array)), mask=~right))


def _metadata(wanted: Metadata, messages: Sequence[Any], failures: dict[int, str]) -> pa.Array:
    count = len(messages)
    match wanted.part:
        case "partition":
            return pa.array(np.fromiter((message.partition() for message in messages), np.int32, count))
        case "offset":
            return pa.array(np.fromiter((message.offset() for message in messages), np.int64, count))
        case "timestamp":
            return _times(messages, failures)
        case "headers":
            type_ = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            return pa.array(_headers(messages, failures), type_)
        case _:
            return _header(wanted, messages, failures)


def _times(messages: Sequence[Any], failures: dict[int, str]) -> pa.Array:
    """Return the times of messages; a producer may have set a number that is not in milliseconds."""
    times = [message.timestamp() for message in messages]
    millis = pa.array([at if kind else None for kind, at in times], pa.int64())
    reasons: dict[int, str] = {}
    array = column_of(millis.view(pa.timestamp("ms")), TIMESTAMP, reasons)
    for index, reason in reasons.items():
        failures.setdefault(index, f"timestamp {times[index][1]}: {reason}")
    return array


def headers_of(message: Any) -> Headers:
    """Return the headers of a message. Raise ValueError if the client library cannot read their names."""
    try:
        headers: Headers = _HEADERS(message) or []
    except SystemError:
        headers = _UNREADABLE
        message.set_headers(headers)  # the library's present value must not be used again
    if headers is _UNREADABLE:
        raise ValueError("the name of a header is not UTF-8")
    return headers


def _headers(messages: Sequence[Any], failures: dict[int, str]) -> list[Headers]:
    headers = []
    for index, message in enumerate(messages):
        try:
            headers.append(headers_of(message))
        except ValueError as error:
            failures.setdefault(index, str(error))
            headers.append([])
    return headers


def _header(wanted: Metadata, messages: Sequence[Any], failures: dict[int, str]) -> pa.Array:
    """Return the last header with a name, as text or as bytes."""
    name = wanted.name
    headers = _headers(messages, failures)
    values = [next((value for key, value in reversed(pairs) if key == name), None) for pairs in headers]
    if wanted.binary:
        return pa.array(values, pa.binary())
    texts: list[str | None] = []
    for index, value in enumerate(values):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            failures.setdefault(index, f'header "{name}": it is not UTF-8')
            texts.append(None)
    reasons: dict[int, str] = {}
    array = from_text(pa.array(texts, pa.string()), TEXT, reasons)
    for index, reason in reasons.items():
        failures.setdefault(index, f'header "{name}": {reason}')
    return array
