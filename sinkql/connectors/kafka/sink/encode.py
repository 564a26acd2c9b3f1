"""Rows → messages of JSON, TEXT and BYTES; a `MessageEncoder` each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.types import parse_type
from sinkql.connectors.kafka.sink.fragments import objects, texts


@dataclass(frozen=True, slots=True)
class JsonRows:
    """An object a row, whose members are the columns in their order."""

    columns: tuple[physical.Column, ...]

    def encode(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        """Return the object of each row."""
        names, types = [each.name for each in self.columns], [parse_type(each.type) for each in self.columns]
        found = objects(names, types, [rows.column(name) for name in names])
        return _bytes(found)


@dataclass(frozen=True, slots=True)
class TextRows:
    """The text of a row's one column."""

    column: physical.Column
    null: bytes | None

    def encode(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        """Return the text of each row, and what stands for NULL."""
        found = _bytes(texts(rows.column(self.column.name), parse_type(self.column.type)))
        return [self.null if each is None else each for each in found]


@dataclass(frozen=True, slots=True)
class BytesRows:
    """The bytes of a row's one column."""

    column: physical.Column
    null: bytes | None

    def encode(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        """Return the bytes of each row, and what stands for NULL."""
        return [self.null if each is None else each for each in rows.column(self.column.name).to_pylist()]


def _bytes(found: pa.StringArray) -> Sequence[bytes | None]:
    encoded: Sequence[bytes | None] = found.cast(pa.binary()).to_pylist()
    return encoded
