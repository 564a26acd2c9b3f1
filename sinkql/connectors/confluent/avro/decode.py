"""Debezium's messages in Avro → rows that change.

Messages of Avro → a row each, read by the schema that each was written with, whose id stands before it.
"""

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
from sinkql.connectors.confluent.avro.cursor import Walk, block_of
from sinkql.connectors.confluent.avro.resolution import Fit, Parsed, UnfitError, fit, parse
from sinkql.connectors.confluent.registry import Access, UnknownSchemaError, access_of, opened
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

_HEAD = 5
"""Bytes before a message that tell its schema: a zero, and the id, the greatest byte first."""
_LARGEST = 2**31 - 1024
Rows = np.ndarray


@dataclass(frozen=True)
class Writers:
    """Schemas that messages are written with: those of a registry, or one for all.

    `reader` is the text of the schema that the source was planned with, and the texts of those that it refers to.
    Without `wire` no id stands before a message. Values that are not records are those of a field `name`.
    """

    reader: tuple[str, ...]
    wire: bool
    name: str
    registry: Access | None = field(repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Writers, (self.reader, self.wire, self.name, self.registry)

    @staticmethod
    def of(options: Mapping[str, Any], context: Context) -> Writers:
        """Return those of planned options."""
        return Writers(
            (options["schema"], *options["references"]), options["wire"], options["name"], access_of(options, context)
        )

    @cached_property
    def schema(self) -> Parsed:
        """Return the reader's schema."""
        return parse(self.reader[0], self.reader[1:]).as_record(self.name)

    def groups(self, messages: Sequence[bytes], failures: Failures) -> Iterator[tuple[Rows, Parsed, Walk]]:
        """Yield messages of one schema each: their places, the schema, and a walk over them; note those of none.

        Raises WideError, and SQ426x where the registry does not answer.
        """
        block, starts, ends = block_of(messages, _HEAD if self.wire else 0)
        if ends[-1] > _LARGEST and len(messages) > 1:
            raise WideError
        if not self.wire:
            yield np.arange(len(messages)), self.schema, Walk(block, starts, ends)
            return
        begins = starts - _HEAD
        headed = (ends >= starts) & (block.bytes[begins] == 0)
        for row in np.flatnonzero(~headed).tolist():
            short = ends[row] < starts[row]
            failures[row] = "it is cut off before the id of its schema" if short else _no_magic(messages[row])
        ids = np.where(headed, block.view(">u4")[np.where(headed, begins + 1, 0)].astype(np.int64), -1)
        for id_ in np.unique(ids[headed]).tolist():
            rows = np.flatnonzero((ids == id_) & headed)
            try:
                yield rows, self._writer(id_), Walk(block, starts[rows], ends[rows])
            except ValueError as error:
                failures.update(dict.fromkeys(rows.tolist(), str(error)))

    def _writer(self, id_: int) -> Parsed:
        """Return the schema of an id; raises ValueError, and SQ426x."""
        if self.registry is None:
            return self.schema
        return _written(self.registry, id_, self.name)


def _no_magic(message: bytes) -> str:
    return f"it begins with the byte 0x{message[0]:02x}, and not with 0x00 and the id of its schema"


@lru_cache(maxsize=4096)
def _written(registry: Access, id_: int, name: str) -> Parsed:
    """Return the schema of an id, which is the same for ever."""
    try:
        found = opened(registry, os.getpid()).schema(id_)
    except UnknownSchemaError:
        raise ValueError(f"the registry has no schema {id_}") from None
    if found.kind != "AVRO":
        raise ValueError(f"schema {id_} is not one of Avro, but of {found.kind}")
    try:
        return parse(found.text, tuple(found.references.values())).as_record(name)
    except ValueError as error:
        raise ValueError(f"schema {id_} cannot be used: {error}") from None


@dataclass(frozen=True)
class AvroMessages:
    """Decode records by the names of their fields."""

    columns: tuple[physical.Column, ...]
    writers: Writers

    @cached_property
    def _fits(self) -> dict[int, tuple[Parsed, Fit]]:
        return {}

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroMessages, (self.columns, self.writers)

    def decode(self, messages: Sequence[bytes]) -> DecodedMessages:
        """Return a row for each message; raises WideError, and SQ426x where the registry does not answer."""
        failures: Failures = {}
        parts: list[Part] = []
        if messages:
            for rows, writer, walk in self.writers.groups(messages, failures):
                try:
                    found = self._fit(writer)
                except UnfitError as error:
                    failures.update(dict.fromkeys(rows.tolist(), str(error)))
                    continue
                arrays, own = found.read(walk, None)
                wrong = own | walk.finish()
                failures.update({int(rows[row]): why for row, why in wrong.items()})
                parts.append(Part(rows, arrays))
        return DecodedMessages(together(parts, len(messages), self.columns), failures)

    def _fit(self, writer: Parsed) -> Fit:
        found = self._fits.get(id(writer))
        if found is None or found[0] is not writer:
            found = self._fits[id(writer)] = writer, fit(writer, self.writers.schema, self.columns)
        return found[1]


@dataclass(frozen=True, slots=True)
class _Row:
    """A field that has a row: `null` is its branch without one, -1 where there always is one."""

    fit: Fit
    null: int


@dataclass(frozen=True, slots=True)
class _Envelope:
    """The fields of a message in the writer's order: a row, or what else is there."""

    fields: Mapping[str, _Row | Node]


@dataclass(frozen=True, slots=True)
class _Found:
    """What messages of one schema say: the kinds of changes, and rows with the places of their messages."""

    ops: list[str | None]
    rows: Mapping[str, tuple[Rows, list[pa.Array]]]


@dataclass(frozen=True)
class AvroChanges:
    """Decode changes; `key` names columns, which are those of `before` where the messages' own keys are not read."""

    columns: tuple[physical.Column, ...]
    key: tuple[str, ...]
    writers: Writers

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroChanges, (self.columns, self.key, self.writers)

    @cached_property
    def _envelopes(self) -> dict[int, tuple[Parsed, _Envelope]]:
        return {}

    def decode(self, keys: pa.RecordBatch | None, values: Sequence[bytes | None]) -> DecodedMessages:
        """Return the rows that messages tell, with `$diff`; raises WideError, and SQ426x without a registry."""
        failures: Failures = {}
        alive: list[Part] = []
        gone: list[Part] = []
        rowless = [place for place, value in enumerate(values) if value is None]
        given = np.array([place for place, value in enumerate(values) if value is not None], np.int64)
        messages = [value for value in values if value is not None]
        own: Failures = {}
        for rows, writer, walk in self.writers.groups(messages, own) if messages else ():
            places = given[rows]
            try:
                envelope = self._envelope(writer, before=keys is None)
            except UnfitError as error:
                failures.update(dict.fromkeys(places.tolist(), str(error)))
                continue
            found, wrong = _read(envelope, walk)
            self._sort(found, places, wrong, keys, alive, gone)
            rowless += [place for place, op in zip(places.tolist(), found.ops, strict=True) if op == OTHER]
            failures.update({int(places[row]): why for row, why in wrong.items()})
        failures.update({int(given[row]): why for row, why in own.items()})
        return changes(self.columns, self.key, alive, gone, failures, rowless)

    def _sort(
        self,
        found: _Found,
        places: Rows,
        wrong: Failures,
        keys: pa.RecordBatch | None,
        alive: list[Part],
        gone: list[Part],
    ) -> None:
        """Add the rows that are there, and the keys of those that are gone."""
        ops = np.array(found.ops, object)
        living = np.isin(ops, ALIVE)
        after, arrays = found.rows["after"]
        for row in np.flatnonzero(living & ~np.isin(np.arange(len(ops)), after)).tolist():
            wrong.setdefault(row, NO_ROW)
        alive.append(_chosen(places, after, arrays, living[after]))
        dead = np.flatnonzero(ops == GONE)
        if len(dead) and keys is not None:
            at = places[dead]
            gone.append(Part(at, [keys.column(name).take(pa.array(at)) for name in self.key]))
        elif len(dead):
            before, arrays = found.rows.get("before", (np.zeros(0, np.int64), []))
            for row in np.setdiff1d(dead, before).tolist():
                wrong.setdefault(row, NO_KEY)
            if len(before):
                gone.append(_chosen(places, before, arrays, ops[before] == GONE))
        for row in np.flatnonzero(~living & (ops != GONE) & (ops != OTHER)).tolist():
            wrong.setdefault(row, NO_TRUNCATE if ops[row] == EMPTIED else unknown(ops[row]))

    def _envelope(self, writer: Parsed, *, before: bool) -> _Envelope:
        found = self._envelopes.get(id(writer))
        if found is None or found[0] is not writer:
            found = self._envelopes[id(writer)] = writer, self._made(writer, before=before)
        return found[1]

    def _made(self, writer: Parsed, *, before: bool) -> _Envelope:
        """Return how a writer's messages are read; raises UnfitError."""
        reader = rows_of(self.writers.schema)
        known = {column.name: column for column in self.columns}
        wanted = {"after": self.columns, "before": tuple(known[name] for name in self.key)}
        fields: dict[str, _Row | Node] = {}
        try:
            rows_of(writer)
        except ValueError as error:
            raise UnfitError(str(error)) from None
        for writer_field in writer.schema["fields"]:
            name, type_ = writer_field["name"], writer_field["type"]
            if name == "after" or (name == "before" and before):
                rows = Parsed(writer.follow(type_), writer.names)
                if not rows.of_records:
                    raise UnfitError(f"its field {name} is not a record")
                null = type_.index("null") if isinstance(type_, list) else -1
                fields[name] = _Row(fit(rows, reader, wanted[name]), null)
            else:
                fields[name] = node_of(type_, writer.names)
        op = fields.get("op")
        if isinstance(op, Node) and not (pa.types.is_string(op.type) or pa.types.is_binary(op.type)):
            raise UnfitError("its field op is not a text")
        return _Envelope(fields)


def _read(envelope: _Envelope, walk: Walk) -> tuple[_Found, Failures]:
    """Read messages of one schema; return what they say, and why some are wrong."""
    ops: list[str | None] = []
    rows: dict[str, tuple[Rows, list[pa.Array]]] = {}
    failures: Failures = {}
    for name, part in envelope.fields.items():
        if isinstance(part, _Row):
            there = walk.rows(None) if part.null < 0 else np.flatnonzero(walk.branch(None, 2) != part.null)
            arrays, own = part.fit.read(walk, there)
            rows[name] = there, arrays
            if name == "after":
                failures |= {int(there[row]): why for row, why in own.items()}
            else:
                before = {int(there[row]): why for row, why in own.items()}
        elif name == "op":
            ops = [_text(each) for each in part.read(walk, None).cast(pa.binary()).to_pylist()]
        else:
            part.skip(walk, None)
        walk.after(name)
    if "op" not in envelope.fields:  # as sinks write it
        left = np.isin(walk.rows(None), rows["after"][0])
        ops = [ALIVE[0] if each else GONE for each in left.tolist()]
    for row, why in (before if "before" in rows else {}).items():
        if ops[row] == GONE:
            failures.setdefault(row, why)
    return _Found(ops, rows), failures | walk.finish()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _chosen(places: Rows, rows: Rows, arrays: Sequence[pa.Array], mask: np.ndarray) -> Part:
    if mask.all():
        return Part(places[rows], arrays)
    kept = pa.array(mask)
    return Part(places[rows[mask]], [array.filter(kept) for array in arrays])
