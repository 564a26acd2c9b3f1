"""Messages → Arrow rows: key, value and metadata in the columns of the source, and the messages that fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from sinkql import codec, physical
from sinkql.connector_api.stream import ChangeDecoder, Context, DecodedMessages, MessageDecoder, WideError
from sinkql.connector_api.types import arrow_type
from sinkql.decode.arrow_values import column_of
from sinkql.decode.text_column import WIDE, from_text
from sinkql.logical.type import TEXT, TIMESTAMP

_MOST_BYTES = 16 << 20
_DIFF = pa.field("$diff", pa.int64())
Headers = list[tuple[str, bytes | None]]
_HEADERS = methodcaller("headers")
"""Called so, the library's method is checked: it returns headers and leaves an error where one has no name."""
_UNREADABLE: Headers = [("\ufffd", None)]
Failed = tuple[Any, str]
"""A message, and why it has no row."""
Found = tuple[pa.RecordBatch, list[Failed], int]
"""Rows of messages, those that failed, and how many are no rows."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Decode messages of a source; picklable.

    `key` and `value` have the names of their columns, `metadata` what is in the others; `changes` decodes values in the
    place of `value` where these tell how rows change. `error` is the column that has why a value failed, where such
    values are no failures. Keys may come `with_schemas` beside them, as Kafka Connect writes them.
    """

    columns: tuple[physical.Column, ...]
    upsert: bool
    key: tuple[MessageDecoder, tuple[str, ...]] | None
    value: tuple[MessageDecoder, tuple[str, ...]] | None
    changes: ChangeDecoder | None
    metadata: tuple[tuple[str, Mapping[str, Any]], ...]
    error: str | None
    with_schemas: bool = False

    @classmethod
    def of(cls, read: physical.Read, context: Context) -> Rows:
        """Return what decodes the messages of a planned source."""
        options = read.options
        known = {column.name: column for column in read.columns}
        changes = options["envelope"] == "debezium"
        value = options["value"]
        names = tuple(value["columns"])
        decoding = context.messages[value["format"]]
        decoder = change_decoder = None
        if changes:
            assert decoding.changes is not None
            change_decoder = decoding.changes(value, [known[each] for each in names], read.key, context)
        else:
            decoder = (decoding.open(value, [known[each] for each in names], context), names)
        return cls(
            read.columns,
            read.change == "upsert",
            _key(options, known, context),
            decoder,
            change_decoder,
            tuple(options["include"].items()),
            options.get("error"),
            _with_schemas(options),
        )

    def decoded(self, messages: Sequence[Any], size: int) -> Iterator[Found]:
        """Yield the rows of messages in order, in parts where there is much in them, and what became of the others.

        `size` is that of their values together.
        """
        if len(messages) > 1 and size > _MOST_BYTES:
            yield from self._halves(messages)
            return
        try:
            found = self._at_once(messages)
        except WideError:
            if len(messages) == 1:  # a list in it is as wide as many messages
                yield self._at_once([])[0], [(messages[0], WIDE)], 0
                return
            yield from self._halves(messages)
            return
        yield found

    def _halves(self, messages: Sequence[Any]) -> Iterator[Found]:
        middle = len(messages) // 2
        for half in (messages[:middle], messages[middle:]):
            yield from self.decoded(half, sum(map(len, half)))

    def _at_once(self, messages: Sequence[Any]) -> Found:
        failures: dict[int, str] = {}
        arrays: dict[str, pa.Array] = {}
        rowless: Sequence[int] = ()
        keys = self._keys(messages, failures)
        if self.changes is not None:
            places, diffs, rowless = self._changed(messages, keys, arrays, failures)
        else:
            places, diffs = None, None
            self._valued(messages, arrays, failures)
            if keys is not None:
                arrays |= dict(zip(keys.schema.names, keys.columns, strict=True))
            if self.upsert:
                diffs = _alive(messages)
        for name, part in self.metadata:
            found = _metadata(part, messages, failures)
            arrays[name] = found if places is None else found.take(pa.array(places))
        rows = [arrays[column.name] for column in self.columns]
        fields = [pa.field(column.name, array.type) for column, array in zip(self.columns, rows, strict=True)]
        if self.upsert:
            rows, fields = [*rows, diffs], [*fields, _DIFF]
        batch = pa.RecordBatch.from_arrays(rows, schema=pa.schema(fields))
        failed = [(messages[place], failures[place]) for place in sorted(failures)]
        if failures:
            of_rows = np.arange(len(messages)) if places is None else places
            batch = batch.filter(pa.array(~np.isin(of_rows, list(failures))))
        return batch, failed, sum(place not in failures for place in rowless)

    def _keys(self, messages: Sequence[Any], failures: dict[int, str]) -> pa.RecordBatch | None:
        """Return the columns of the key; a message without one has NULLs, and fails where rows have keys."""
        if self.key is None:
            return None
        decoder, names = self.key
        raw = [message.key() for message in messages]
        if self.with_schemas:
            raw = [_payload(each) for each in raw]
        found = _some(decoder, raw, failures, prefix="key: ")
        if self.upsert and None in raw:
            for place, each in enumerate(raw):
                if each is None:
                    failures.setdefault(place, "the message has no key")
        return found.rename_columns(list(names))

    def _valued(self, messages: Sequence[Any], arrays: dict[str, pa.Array], failures: dict[int, str]) -> None:
        """Add the columns of the value, NULLs where there is none."""
        assert self.value is not None
        decoder, names = self.value
        raw = [message.value() for message in messages]
        own: dict[int, str] = {}
        found = _some(decoder, raw, own)
        arrays |= dict(zip(names, found.columns, strict=True))
        if not self.upsert and None in raw:
            required = [each.name for each in self.columns if each.name in names and not each.nullable]
            if required:
                empty = f'null value in column "{required[0]}", which is NOT NULL: the message has no value'
                own |= {place: empty for place, each in enumerate(raw) if each is None}
        if self.error is None:
            failures |= {place: why for place, why in own.items() if place not in failures}
            return
        type_ = arrow_type(next(column.type for column in self.columns if column.name == self.error))
        described = [{"description": own[place]} if place in own else None for place in range(len(raw))]
        arrays[self.error] = pa.array(described, type_)
        if own:
            right = np.ones(len(raw), bool)
            right[list(own)] = False
            for name in names:
                arrays[name] = _where(arrays[name], right)

    def _changed(
        self,
        messages: Sequence[Any],
        keys: pa.RecordBatch | None,
        arrays: dict[str, pa.Array],
        failures: dict[int, str],
    ) -> tuple[np.ndarray, pa.Array, Sequence[int]]:
        """Add the columns of rows that change; return the message of each, how it changes, and messages of no row."""
        assert self.changes is not None
        raw = [message.value() for message in messages]
        if failures:
            raw = [None if place in failures else each for place, each in enumerate(raw)]
        found = self.changes.decode(keys, raw)
        failures |= found.failures
        assert found.places is not None
        arrays |= dict(zip(found.batch.schema.names, found.batch.columns, strict=True))
        return found.places, arrays.pop("$diff"), found.rowless


def _key(
    options: Mapping[str, Any], known: Mapping[str, physical.Column], context: Context
) -> tuple[MessageDecoder, tuple[str, ...]] | None:
    if "key" not in options:
        return None
    key = options["key"]
    names = tuple(key["columns"])
    return context.messages[key["format"]].open(key, [known[each] for each in names], context), names


class _WithSchema(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    schema: msgspec.Raw
    payload: msgspec.Raw


_with_schema = codec.decoder(_WithSchema)


def _with_schemas(options: Mapping[str, Any]) -> bool:
    """Tell whether keys are objects of columns of which none could be the schema, or what it is the schema of."""
    key = options.get("key", {})
    return key.get("whole") is False and not {"schema", "payload"} & set(key["columns"])


def _payload(key: bytes | None) -> bytes | None:
    """Return a key without its schema."""
    if key is None or b'"payload"' not in key:
        return key
    try:
        return bytes(_with_schema.decode(key).payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return key


def _some(
    decoder: MessageDecoder, raw: Sequence[bytes | None], failures: dict[int, str], *, prefix: str = ""
) -> pa.RecordBatch:
    """Decode those that are there; the others have NULLs."""
    there = [each for each in raw if each is not None]
    found: DecodedMessages = decoder.decode(there)
    batch = found.batch
    places: Sequence[int] | np.ndarray
    if len(there) == len(raw):
        places = range(len(raw))
    else:
        places = np.fromiter((place for place, each in enumerate(raw) if each is not None), np.int64, len(there))
        taken = np.zeros(len(raw), np.int64)
        taken[places] = np.arange(len(there))
        missing = np.ones(len(raw), bool)
        missing[places] = False
        batch = batch.take(pa.array(taken, mask=missing))
    for place, why in found.failures.items():
        failures.setdefault(int(places[place]), prefix + why)
    return batch


def _alive(messages: Sequence[Any]) -> pa.Array:
    """Return 1 for messages with a value, -1 for tombstones."""
    return pa.array(np.fromiter((-1 if each.value() is None else 1 for each in messages), np.int64, len(messages)))


def _where(array: pa.Array, right: np.ndarray) -> pa.Array:
    return array.take(pa.array(np.arange(len(array)), mask=~right))


def _metadata(wanted: Mapping[str, Any], messages: Sequence[Any], failures: dict[int, str]) -> pa.Array:
    count = len(messages)
    match wanted["part"]:
        case "partition":
            return pa.array(np.fromiter((each.partition() for each in messages), np.int32, count))
        case "offset":
            return pa.array(np.fromiter((each.offset() for each in messages), np.int64, count))
        case "timestamp":
            return _times(messages, failures)
        case "headers":
            type_ = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            return pa.array(_headers(messages, failures), type_)
        case _:
            return _header(wanted, messages, failures)


def _times(messages: Sequence[Any], failures: dict[int, str]) -> pa.Array:
    """Return when messages were made, as who made them says in milliseconds: it may have counted something else."""
    times = [each.timestamp() for each in messages]
    millis = pa.array([at if kind else None for kind, at in times], pa.int64())
    own: dict[int, str] = {}
    found = column_of(millis.view(pa.timestamp("ms")), TIMESTAMP, own)
    for place, why in own.items():
        failures.setdefault(place, f"timestamp {times[place][1]}: {why}")
    return found


def headers_of(message: Any) -> Headers:
    """Return the headers of a message; raises ValueError where the client library does not read their names."""
    try:
        found: Headers = _HEADERS(message) or []
    except SystemError:
        found = _UNREADABLE
        message.set_headers(found)  # what the library has now may not be touched
    if found is _UNREADABLE:
        raise ValueError("the name of a header is not UTF-8")
    return found


def _headers(messages: Sequence[Any], failures: dict[int, str]) -> list[Headers]:
    found = []
    for place, message in enumerate(messages):
        try:
            found.append(headers_of(message))
        except ValueError as error:
            failures.setdefault(place, str(error))
            found.append([])
    return found


def _header(wanted: Mapping[str, Any], messages: Sequence[Any], failures: dict[int, str]) -> pa.Array:
    """Return the last header of a name; as text, unless it is wanted as it is."""
    name = wanted["name"]
    headers = _headers(messages, failures)
    found = [next((value for key, value in reversed(each) if key == name), None) for each in headers]
    if wanted["binary"]:
        return pa.array(found, pa.binary())
    texts: list[str | None] = []
    for place, value in enumerate(found):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            failures.setdefault(place, f'header "{name}": it is not UTF-8')
            texts.append(None)
    own: dict[int, str] = {}
    array = from_text(pa.array(texts, pa.string()), TEXT, own)
    for place, why in own.items():
        failures.setdefault(place, f'header "{name}": {why}')
    return array
