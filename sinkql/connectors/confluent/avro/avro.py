"""Messages of Avro → a row each, read by the schema that each was written with, whose id stands before it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from sinkql import physical
from sinkql.connector_api.stream import Context, DecodedMessages, WideError
from sinkql.connectors.confluent.avro.cursor import Walk, block_of
from sinkql.connectors.confluent.avro.resolution import Fit, Parsed, UnfitError, fit, parse
from sinkql.connectors.confluent.registry import Access, UnknownSchemaError, access_of, opened
from sinkql.decode.change import Part, together
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
