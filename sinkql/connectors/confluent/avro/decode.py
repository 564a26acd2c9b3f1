"""Decode Avro messages to rows, and Debezium's messages to changes, with the schema of each message's writer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.stream import Context, DecodedMessages, WideError
from sinkql.connectors.confluent.avro.column_reader import Node, node_of
from sinkql.connectors.confluent.avro.columns import rows_of
from sinkql.connectors.confluent.avro.cursor import Cursor, block_of
from sinkql.connectors.confluent.avro.resolution import Parsed, Resolution, SchemaMismatchError, parse, resolve
from sinkql.connectors.confluent.options import AvroReadOptions
from sinkql.connectors.confluent.registry import Access, UnknownSchemaError, access_of, open_registry
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
    together,
    unknown,
)
from sinkql.decode.text_column import Failures

_HEADER = 5
"""The size of the header: a zero byte and the big-endian id of a schema."""
_LARGEST = 2**31 - 1024
Rows = np.ndarray


@dataclass(frozen=True)
class WriterSchemas:
    """The schemas of messages: schemas in a registry, or one for all messages.

    `reader` has the text of the schema that the source was planned with, and the texts of its references. Without
    `wire`, messages have no header. Values that are not records become records with a field `name`.
    """

    reader: tuple[str, ...]
    wire: bool
    name: str
    registry: Access | None = field(repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return WriterSchemas, (self.reader, self.wire, self.name, self.registry)

    @staticmethod
    def from_plan(options: Mapping[str, Any], context: Context) -> WriterSchemas:
        """Return the schemas of planned options."""
        planned = AvroReadOptions.from_plan(options)
        registry = access_of(planned.tuning, context)
        return WriterSchemas((planned.schema, *planned.references), planned.wire, planned.name, registry)

    @cached_property
    def schema(self) -> Parsed:
        """The reader's schema."""
        return parse(self.reader[0], self.reader[1:]).as_record(self.name)

    def groups(self, messages: Sequence[bytes], failures: Failures) -> Iterator[tuple[Rows, Parsed, Cursor]]:
        """Yield groups of messages with one schema: their indexes, the schema, and a cursor over them.

        Messages without a valid schema are added to `failures`. Raise WideError, or SQ426x without an answer.
        """
        block, starts, ends = block_of(messages, _HEADER if self.wire else 0)
        if ends[-1] > _LARGEST and len(messages) > 1:
            raise WideError
        if not self.wire:
            yield np.arange(len(messages)), self.schema, Cursor(block, starts, ends)
            return
        begins = starts - _HEADER
        has_header = (ends >= starts) & (block.bytes[begins] == 0)
        for row in np.flatnonzero(~has_header).tolist():
            short = ends[row] < starts[row]
            failures[row] = "it is cut off before the id of its schema" if short else _invalid_header(messages[row])
        ids = np.where(has_header, block.view(">u4")[np.where(has_header, begins + 1, 0)].astype(np.int64), -1)
        for id_ in np.unique(ids[has_header]).tolist():
            rows = np.flatnonzero((ids == id_) & has_header)
            try:
                yield rows, self._writer(id_), Cursor(block, starts[rows], ends[rows])
            except ValueError as error:
                failures.update(dict.fromkeys(rows.tolist(), str(error)))

    def _writer(self, id_: int) -> Parsed:
        """Return the schema of an id. Raise ValueError or SQ426x."""
        if self.registry is None:
            return self.schema
        return _schema_of_id(self.registry, id_, self.name)


def _invalid_header(message: bytes) -> str:
    return f"it begins with the byte 0x{message[0]:02x} instead of 0x00 and the id of its schema"


@lru_cache(maxsize=4096)
def _schema_of_id(registry: Access, id_: int, name: str) -> Parsed:
    """Return the schema of an id, which never changes."""
    try:
        schema = open_registry(registry, os.getpid()).schema(id_)
    except UnknownSchemaError:
        raise ValueError(f"the registry has no schema {id_}") from None
    if schema.kind != "AVRO":
        raise ValueError(f"schema {id_} has the format {schema.kind}, not AVRO")
    try:
        return parse(schema.text, tuple(schema.references.values())).as_record(name)
    except ValueError as error:
        raise ValueError(f"schema {id_} is invalid: {error}") from None


@dataclass(frozen=True)
class AvroMessages:
    """A decoder of records, whose fields match the columns by name."""

    columns: tuple[physical.Column, ...]
    writers: WriterSchemas

    @cached_property
    def _resolutions(self) -> dict[int, tuple[Parsed, Resolution]]:
        return {}

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroMessages, (self.columns, self.writers)

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return a row for each message. Raise WideError, or SQ426x if the registry does not answer."""
        failures: Failures = {}
        parts: list[Part] = []
        if messages:
            for rows, writer, cursor in self.writers.groups(messages, failures):
                try:
                    resolution = self._resolution(writer)
                except SchemaMismatchError as error:
                    failures.update(dict.fromkeys(rows.tolist(), str(error)))
                    continue
                arrays, value_errors = resolution.read(cursor, None)
                errors = value_errors | cursor.finish()
                failures.update({int(rows[row]): reason for row, reason in errors.items()})
                parts.append(Part(rows, arrays))
        return DecodedMessages(together(parts, len(messages), self.columns), failures)

    def _resolution(self, writer: Parsed) -> Resolution:
        cached = self._resolutions.get(id(writer))
        if cached is None or cached[0] is not writer:
            cached = self._resolutions[id(writer)] = writer, resolve(writer, self.writers.schema, self.columns)
        return cached[1]


@dataclass(frozen=True, slots=True)
class _Row:
    """A field with a row; `null` is the branch without a row, -1 if the field always has one."""

    resolution: Resolution
    null: int


@dataclass(frozen=True, slots=True)
class _Envelope:
    """The fields of a change in the writer's order: rows, and readers of all other fields."""

    fields: Mapping[str, _Row | Node]


@dataclass(frozen=True, slots=True)
class _Changes:
    """The changes in messages of one schema: their operations, and the rows with the indexes of their messages."""

    ops: list[str | None]
    rows: Mapping[str, tuple[Rows, list[pa.Array]]]


@dataclass(frozen=True)
class AvroChanges:
    """A decoder of Debezium's changes; `key` has the names of the key columns.

    Without message keys, the key of a deleted row is read from `before`.
    """

    columns: tuple[physical.Column, ...]
    key: tuple[str, ...]
    writers: WriterSchemas

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroChanges, (self.columns, self.key, self.writers)

    @cached_property
    def _envelopes(self) -> dict[int, tuple[Parsed, _Envelope]]:
        return {}

    def decode(self, keys: pa.RecordBatch | None, values: Sequence[bytes | None]) -> DecodedMessages:
        """Return the changed rows with `$diff`. Raise WideError, or SQ426x if the registry does not answer."""
        failures: Failures = {}
        alive: list[Part] = []
        deleted: list[Part] = []
        rowless = [index for index, value in enumerate(values) if value is None]
        indexes = np.array([index for index, value in enumerate(values) if value is not None], np.int64)
        messages = [value for value in values if value is not None]
        header_errors: Failures = {}
        for rows, writer, cursor in self.writers.groups(messages, header_errors) if messages else ():
            message_indexes = indexes[rows]
            try:
                envelope = self._envelope(writer, before=keys is None)
            except SchemaMismatchError as error:
                failures.update(dict.fromkeys(message_indexes.tolist(), str(error)))
                continue
            decoded, errors = _read(envelope, cursor)
            self._sort(decoded, message_indexes, errors, keys, alive, deleted)
            rowless += [index for index, op in zip(message_indexes.tolist(), decoded.ops, strict=True) if op == OTHER]
            failures.update({int(message_indexes[row]): reason for row, reason in errors.items()})
        failures.update({int(indexes[row]): reason for row, reason in header_errors.items()})
        return changes(self.columns, self.key, alive, deleted, failures, rowless)

    def _sort(
        self,
        decoded: _Changes,
        indexes: Rows,
        errors: Failures,
        keys: pa.RecordBatch | None,
        alive: list[Part],
        deleted: list[Part],
    ) -> None:
        """Add the rows that exist and the keys of deleted rows; add invalid messages to `errors`."""
        ops = np.array(decoded.ops, object)
        living = np.isin(ops, ALIVE)
        after, arrays = decoded.rows["after"]
        for row in np.flatnonzero(living & ~np.isin(np.arange(len(ops)), after)).tolist():
            errors.setdefault(row, NO_ROW)
        alive.append(_selected(indexes, after, arrays, living[after]))
        deleted_rows = np.flatnonzero(ops == GONE)
        if len(deleted_rows) and keys is not None:
            deleted_indexes = indexes[deleted_rows]
            deleted.append(
                Part(deleted_indexes, [keys.column(name).take(pa.array(deleted_indexes)) for name in self.key])
            )
        elif len(deleted_rows):
            before, arrays = decoded.rows.get("before", (np.zeros(0, np.int64), []))
            for row in np.setdiff1d(deleted_rows, before).tolist():
                errors.setdefault(row, NO_KEY)
            if len(before):
                deleted.append(_selected(indexes, before, arrays, ops[before] == GONE))
        for row in np.flatnonzero(~living & (ops != GONE) & (ops != OTHER)).tolist():
            errors.setdefault(row, NO_TRUNCATE if ops[row] == EMPTIED else unknown(ops[row]))

    def _envelope(self, writer: Parsed, *, before: bool) -> _Envelope:
        cached = self._envelopes.get(id(writer))
        if cached is None or cached[0] is not writer:
            cached = self._envelopes[id(writer)] = writer, self._open_envelope(writer, before=before)
        return cached[1]

    def _open_envelope(self, writer: Parsed, *, before: bool) -> _Envelope:
        """Return the readers of a writer's messages. Raise SchemaMismatchError."""
        reader = rows_of(self.writers.schema)
        by_name = {column.name: column for column in self.columns}
        wanted = {"after": self.columns, "before": tuple(by_name[name] for name in self.key)}
        fields: dict[str, _Row | Node] = {}
        try:
            rows_of(writer)
        except ValueError as error:
            raise SchemaMismatchError(str(error)) from None
        for writer_field in writer.schema["fields"]:
            name, type_ = writer_field["name"], writer_field["type"]
            if name == "after" or (name == "before" and before):
                rows = Parsed(writer.follow(type_), writer.names)
                if not rows.is_record:
                    raise SchemaMismatchError(f"its field {name} is not a record")
                null = type_.index("null") if isinstance(type_, list) else -1
                fields[name] = _Row(resolve(rows, reader, wanted[name]), null)
            else:
                fields[name] = node_of(type_, writer.names)
        op = fields.get("op")
        if isinstance(op, Node) and not (pa.types.is_string(op.type) or pa.types.is_binary(op.type)):
            raise SchemaMismatchError("its field op is not a text")
        return _Envelope(fields)


def _read(envelope: _Envelope, cursor: Cursor) -> tuple[_Changes, Failures]:
    """Read messages of one schema; return their changes, and the errors by message."""
    ops: list[str | None] = []
    rows: dict[str, tuple[Rows, list[pa.Array]]] = {}
    failures: Failures = {}
    for name, part in envelope.fields.items():
        if isinstance(part, _Row):
            present = cursor.rows(None) if part.null < 0 else np.flatnonzero(cursor.branch(None, 2) != part.null)
            arrays, row_errors = part.resolution.read(cursor, present)
            rows[name] = present, arrays
            if name == "after":
                failures |= {int(present[row]): reason for row, reason in row_errors.items()}
            else:
                before = {int(present[row]): reason for row, reason in row_errors.items()}
        elif name == "op":
            ops = [_text(value) for value in part.read(cursor, None).cast(pa.binary()).to_pylist()]
        else:
            part.skip(cursor, None)
        cursor.end_field(name)
    if "op" not in envelope.fields:  # messages of a sink
        has_row = np.isin(cursor.rows(None), rows["after"][0])
        ops = [ALIVE[0] if is_present else GONE for is_present in has_row.tolist()]
    for row, reason in (before if "before" in rows else {}).items():
        if ops[row] == GONE:
            failures.setdefault(row, reason)
    return _Changes(ops, rows), failures | cursor.finish()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _selected(indexes: Rows, rows: Rows, arrays: Sequence[pa.Array], mask: np.ndarray) -> Part:
    if mask.all():
        return Part(indexes[rows], arrays)
    arrow_mask = pa.array(mask)
    return Part(indexes[rows[mask]], [array.filter(arrow_mask) for array in arrays])
