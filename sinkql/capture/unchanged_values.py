"""Rows whose key changed, with holes → the values that rows of their old keys brought earlier in the same entry.

Whoever fills holes from rows of other keys has these as they were before the entry. A hole that the earlier row has too
is that of the row which the earlier one took its values from.

A sink may not have the row of an old key where a chunk was read after the change: then the server is asked, which has
the row under its new key, unless it moved on. Then it is the row's next change that the server is asked for.
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
    """Tell whether rows have holes for values of another key's row."""
    if "$from" not in part.rows.schema.names:
        return False
    return bool(_moved(part.rows).any())


def fill_unchanged(table: CapturedTable, parts: Sequence[TableRows]) -> list[TableRows]:
    """Return the rows of an entry with such holes filled; `$from` of those left is the key from before the entry."""
    if not any(map(has_unchanged_from_other_key, parts)):
        return list(parts)
    rows = pa.Table.from_batches([part.rows for part in parts]).combine_chunks()
    filling = _Filling(table)
    columns = rows.select([*table.key, "$diff", "$hole", "$from"]).to_pydict()
    for place, key in enumerate(zip(*(columns[name] for name in table.key), strict=True)):
        if columns["$diff"][place] == 1:
            filling.take(place, key, columns["$hole"], columns["$from"])
    for name, places in filling.places.items():
        indices = list(range(len(rows)))
        for place, source in places.items():
            indices[place] = source
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows.column(name).take(pa.array(indices)))
    for name in ("$hole", "$from"):
        field_ = rows.schema.field(name)
        rows = rows.set_column(rows.schema.get_field_index(name), field_, pa.array(columns[name], field_.type))
    errors = [error for part in parts for error in part.errors]
    return [TableRows(rows.combine_chunks().to_batches()[0], errors)]


@dataclass(slots=True)
class MissingKeys:
    """Keys of rows that a sink may lack since the server did not have them any more; each up to a position.

    At that position the row has another key, or is gone: a row that has the key then is known.
    """

    keys: dict[str, dict[_Key, Position]] = field(default_factory=dict)

    def of(self, table: str, after: Position) -> set[_Key]:
        """Return the keys of a table that changes after a position may be about."""
        found = {key: until for key, until in self.keys.pop(table, {}).items() if until > after}
        if found:
            self.keys[table] = found
        return set(found)

    def note(self, table: CapturedTable, rows: pa.RecordBatch, until: Position) -> None:
        """Take note of rows that still have holes after the server was asked."""
        for place in np.flatnonzero(_moved(rows)).tolist():
            key = tuple(rows.column(name)[place].as_py() for name in table.key)
            self.keys.setdefault(table.id, {})[key] = until


def keys_to_fetch(table: CapturedTable, rows: pa.RecordBatch, lacking: set[_Key] | None) -> list[int]:
    """Return the places of rows that the server is to be asked for: the last of their keys, with holes for values of
    another key's row; only where that is in `lacking`, unless it is None.
    """
    columns = rows.select([*table.key, "$from"]).to_pydict()
    moved = _moved(rows)
    last = {key: place for place, key in enumerate(zip(*(columns[name] for name in table.key), strict=True))}
    found = []
    for place in sorted(last.values()):
        if moved[place]:
            before = tuple(columns["$from"][place][name] for name in table.key)
            if lacking is None or before in lacking:
                found.append(place)
    return found


def with_rows_at(rows: pa.RecordBatch, places: Sequence[int], some: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with others at some places."""
    index = np.arange(len(rows))
    index[list(places)] = len(rows) + np.arange(len(some))
    return pa.concat_batches([rows, some.select(rows.schema.names)]).take(pa.array(index))


def _moved(rows: pa.RecordBatch) -> Mask:
    both = pc.and_(pc.is_valid(rows.column("$from")), pc.is_valid(rows.column("$hole")))
    return np.asarray(both.to_numpy(zero_copy_only=False), np.bool_)


@dataclass(slots=True)
class _Filling:
    """`known` are the last rows of keys so far: where the value of each column is, which are not known, and of which
    key they are from before the entry. `places` say of a column which rows take its value from which others.
    """

    table: CapturedTable
    known: dict[_Key, tuple[dict[str, int], frozenset[str], _Key]] = field(default_factory=dict)
    places: dict[str, dict[int, int]] = field(default_factory=dict)

    def take(self, place: int, key: _Key, holes: list[bytes | None], origins: list[dict[str, Any] | None]) -> None:
        """Take in the next row that is there, and write down what is known of its holes."""
        origin = origins[place]
        source = key if origin is None else tuple(origin[name] for name in self.table.key)
        missing, root = self._holes(holes[place]), source
        where = {each.name: place for each in self.table.columns if each.name not in missing}
        before = self.known.get(source)
        if missing and before is not None:
            theirs, lacking, root = before
            for name in missing - lacking:
                where[name] = self.places.setdefault(name, {})[place] = theirs[name]
            missing &= lacking
            holes[place] = self._bits(missing)
        moved = missing and (root != key or origin is not None)
        origins[place] = dict(zip(self.table.key, root, strict=True)) if moved else None
        self.known[key] = (where, missing, root if missing else key)

    def _holes(self, bits: bytes | None) -> frozenset[str]:
        number = int.from_bytes(bits or b"", "little")
        return frozenset(each.name for place, each in enumerate(self.table.columns) if number >> place & 1)

    def _bits(self, holes: frozenset[str]) -> bytes | None:
        number = sum(1 << place for place, each in enumerate(self.table.columns) if each.name in holes)
        return number.to_bytes((len(self.table.columns) + 7) // 8, "little") if holes else None
