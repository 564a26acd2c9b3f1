"""The key of an upsert sink's table: its columns, and its text for messages."""

from __future__ import annotations

import msgspec
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table


class KeyColumn(msgspec.Struct, frozen=True):
    """A key column of the table; a change of its type changes the hashes."""

    name: str
    id: int
    type: str


def key_schema(schema: Schema, key: tuple[str, ...]) -> Schema:
    """Return the key columns of a table's schema, as a schema."""
    return Schema(*(field for field in schema.fields if field.name in key))


def key_columns(table: Table, key: tuple[str, ...]) -> tuple[KeyColumn, ...]:
    """Return the key columns of the table, for `Index.load` and `rebuild`."""
    fields = {field.name: field for field in table.schema().fields}
    return tuple(KeyColumn(name, fields[name].field_id, str(fields[name].field_type)) for name in key)


def key_text(keys: pa.Table, row: int) -> str:
    """Return a row's key for a message: `(id = 7, name = 'x')`."""
    values = keys.slice(row, 1).to_pylist()[0]
    return "(" + ", ".join(f"{name} = {value!r}" for name, value in values.items()) + ")"
