"""Changes of an entry of a log, in order → the same, with values that rows had under other keys in the same entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    """A row so far: where it stands, and of columns that it lacks where the value stands, None where in no row.

    `origin` is the key under which a row from before has those.
    """

    place: int
    lacking: dict[int, int | None]
    origin: Key


def followed(rows: pa.Table, columns: Sequence[str], key: Sequence[str]) -> pa.Table:
    """Return the rows; those whose key was another one have what earlier rows of the old key have.

    What they still lack is that of the key in `$from`, from before the rows.
    """
    moved = pc.and_(pc.is_valid(rows.column("$hole")), pc.is_valid(rows.column("$from"))).to_numpy()
    if not moved.any():
        return rows
    found = _lineage(rows, key)
    places = {int(place): found[int(place)] for place in np.flatnonzero(moved)}
    for number, name in enumerate(columns):
        index = np.arange(len(rows))
        for place, known in places.items():
            value = known.lacking.get(number)
            if value is not None:
                index[place] = value
        taken = rows.column(name).take(pa.array(index))
        rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), taken)
    holes, origins = rows.column("$hole").to_pylist(), rows.column("$from").to_pylist()
    for place, known in places.items():
        holes[place] = _bits([number for number, value in known.lacking.items() if value is None])
        origins[place] = dict(zip(key, known.origin, strict=True))
    for name, values in (("$hole", holes), ("$from", origins)):
        field = rows.schema.field(name)
        rows = rows.set_column(rows.column_names.index(name), field, pa.array(values, field.type))
    return rows


def _lineage(rows: pa.Table, key: Sequence[str]) -> dict[int, _Known]:
    """Return what is known of each row that lacks values, by its place."""
    last: dict[Key, _Known] = {}
    found = {}
    keys = zip(*(rows.column(name).to_pylist() for name in key), strict=True)
    others = (rows.column(name).to_pylist() for name in ("$diff", "$hole", "$from"))
    for place, (own, diff, bits, before) in enumerate(zip(keys, *others, strict=True)):
        if diff < 0:
            continue  # a key that changes goes before its row comes again
        source = own if before is None else tuple(before[name] for name in key)
        holes = _numbers(bits)
        earlier = last.get(source) if holes else None
        if earlier is None:
            known = _Known(place, dict.fromkeys(holes), source)
        else:
            lacking = {number: earlier.lacking.get(number, earlier.place) for number in holes}
            known = _Known(place, lacking, earlier.origin)
        last[own] = known
        if holes:
            found[place] = known
    return found


def _numbers(bits: bytes | None) -> list[int]:
    if bits is None:
        return []
    found: list[int] = np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")).tolist()
    return found


def _bits(numbers: Sequence[int]) -> bytes | None:
    if not numbers:
        return None
    bits = np.zeros(max(numbers) + 1, np.uint8)
    bits[list(numbers)] = 1
    return np.packbits(bits, bitorder="little").tobytes()
