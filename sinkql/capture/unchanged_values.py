"""Rows whose key changed, with unchanged values → the same rows with values of earlier rows of the entry.

The server leaves a value out of an update if it did not change. `$hole` marks such columns of a row, and `$from` is the
key whose row has the values. Readers fill them from rows of other entries, as these rows were before the entry. If an
earlier row of the same entry lacks the value too, `$from` becomes the key from which that row takes it.

A sink may lack the row of the old key if a chunk was read after the change. Then the server is asked, which has the row
under its new key unless the key changed again. In that case the server is asked at the row's next change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connector_api.cdc import CapturedTable, Position, TableRows
from sinkql.decode.columnar import Mask

_Key = tuple[Any, ...]


def has_unchanged_from_other_key(part: TableRows) -> bool:
    """Return whether rows lack values that another key's row has."""
    if "$from" not in part.rows.schema.names:
        return False
    return bool(_lacks_values(part.rows).any())


def fill_unchanged(table: CapturedTable, parts: Sequence[TableRows]) -> list[TableRows]:
    """Fill the unchanged values of an entry's rows.

    In rows still incomplete, `$from` is the key before the entry.
    """
    if not any(map(has_unchanged_from_other_key, parts)):
        return list(parts)
    rows = pa.Table.from_batches([part.rows for part in parts]).combine_chunks()
    lookup = _ValueLookup(table)
    columns = rows.select([*table.key, "$diff", "$hole", "$from"]).to_pydict()
    for row, key in enumerate(zip(*(columns[name] for name in table.key), strict=True)):
        if columns["$diff"][row] == 1:
            lookup.add(row, key, columns["$hole"], columns["$from"])
    for name, sources in lookup.sources.items():
        indices = list(range(len(rows)))
        for row, source in sources.items():
            indices[row] = source
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows.column(name).take(pa.array(indices)))
    for name in ("$hole", "$from"):
        field_ = rows.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field_, pa.array(columns[name], field_.type))
    errors = [error for part in parts for error in part.errors]
    return [TableRows(rows.combine_chunks().to_batches()[0], errors)]


@dataclass(slots=True)
class MissingKeys:
    """Keys of rows that sinks may lack, as the server no longer had them when it was asked; each up to a position.

    At that position the row has another key or is deleted, so sinks have any later row with the key.
    """

    keys: dict[str, dict[_Key, Position]] = field(default_factory=dict)

    def keys_after(self, table: str, position: Position) -> set[_Key]:
        """Return the missing keys of a table that changes after a position may concern."""
        keys = {key: until for key, until in self.keys.pop(table, {}).items() if until > position}
        if keys:
            self.keys[table] = keys
        return set(keys)

    def add(self, table: CapturedTable, rows: pa.RecordBatch, until: Position) -> None:
        """Add the keys of rows that still lack values after the server was asked."""
        for row in np.flatnonzero(_lacks_values(rows)).tolist():
            key = tuple(rows.column(name)[row].as_py() for name in table.key)
            self.keys.setdefault(table.id, {})[key] = until


def keys_to_fetch(table: CapturedTable, rows: pa.RecordBatch, missing: set[_Key] | None) -> list[int]:
    """Return the indices of rows whose values the server must supply.

    They are the last rows of keys that lack values, and whose old key is in `missing` if it is not None.
    """
    columns = rows.select([*table.key, "$from"]).to_pydict()
    lacks_values = _lacks_values(rows)
    last = {key: row for row, key in enumerate(zip(*(columns[name] for name in table.key), strict=True))}
    indices = []
    for row in sorted(last.values()):
        if lacks_values[row]:
            old_key = tuple(columns["$from"][row][name] for name in table.key)
            if missing is None or old_key in missing:
                indices.append(row)
    return indices


def with_rows_at(rows: pa.RecordBatch, indices: Sequence[int], replacements: pa.RecordBatch) -> pa.RecordBatch:
    """Replace the rows at some indices."""
    index = np.arange(len(rows))
    index[list(indices)] = len(rows) + np.arange(len(replacements))
    return pa.concat_batches([rows, replacements.select(rows.schema.names)]).take(pa.array(index))


def _lacks_values(rows: pa.RecordBatch) -> Mask:
    """Return which rows lack values of another key's row."""
    both = pc.and_(pc.is_valid(rows.column("$from")), pc.is_valid(rows.column("$hole")))
    return np.asarray(both.to_numpy(zero_copy_only=False), np.bool_)


@dataclass(slots=True)
class _ValueLookup:
    """The last row of each key so far, and the rows that supply values.

    `last_rows` has for each key: the row of each column's value, the columns that lack one, and the key from before
    the entry that has these. `sources` has for each column: the row that lacks a value → the row that has it.
    """

    table: CapturedTable
    last_rows: dict[_Key, tuple[dict[str, int], frozenset[str], _Key]] = field(default_factory=dict)
    sources: dict[str, dict[int, int]] = field(default_factory=dict)

    def add(self, row: int, key: _Key, holes: list[bytes | None], origins: list[dict[str, Any] | None]) -> None:
        """Add the next row; update the columns that it lacks in `holes`, and `origins`."""
        origin = origins[row]
        source = key if origin is None else tuple(origin[name] for name in self.table.key)
        missing, root = self._names(holes[row]), source
        rows_by_column = {column.name: row for column in self.table.columns if column.name not in missing}
        earlier = self.last_rows.get(source)
        if missing and earlier is not None:
            earlier_rows, earlier_missing, root = earlier
            for name in missing - earlier_missing:
                rows_by_column[name] = self.sources.setdefault(name, {})[row] = earlier_rows[name]
            missing &= earlier_missing
            holes[row] = self._bits(missing)
        has_other_key = missing and (root != key or origin is not None)
        origins[row] = dict(zip(self.table.key, root, strict=True)) if has_other_key else None
        self.last_rows[key] = (rows_by_column, missing, root if missing else key)

    def _names(self, bits: bytes | None) -> frozenset[str]:
        """Return the columns of a `$hole` bit set."""
        number = int.from_bytes(bits or b"", "little")
        return frozenset(column.name for index, column in enumerate(self.table.columns) if number >> index & 1)

    def _bits(self, names: frozenset[str]) -> bytes | None:
        """Return the `$hole` bit set of columns."""
        number = sum(1 << index for index, column in enumerate(self.table.columns) if column.name in names)
        return number.to_bytes((len(self.table.columns) + 7) // 8, "little") if names else None
