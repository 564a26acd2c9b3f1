"""Add the hashes that identify keys, and rows of a key, to the rows of a task's input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from sinkql.hash_key import HashKey
from sinkql.lowering.join_input import SIDE, SidesPreparation
from sinkql.lowering.task_input import Hash, TaskInput
from sinkql.row_hash import Hashes, hash_rows
from sinkql.runtime.state.run import ints


def with_row_hashes(preparation: TaskInput, rows: pa.Table, hash_key: HashKey) -> pa.Table:
    """Return rows with the hashes of `preparation` instead of the engine's."""
    if isinstance(preparation, SidesPreparation):
        return _replaced(rows, _of_sides(preparation, rows, hash_key))
    return _replaced(rows, dict(_hashes(preparation.hashes, rows, hash_key)))


def _hashes(wanted: Sequence[Hash], rows: pa.Table, hash_key: HashKey) -> Iterator[tuple[str, Hashes]]:
    by_names: dict[tuple[int, tuple[str, ...]], tuple[Hashes, Hashes]] = {}
    for hash_ in wanted:
        names = tuple(value.name for value in hash_.values)
        both = by_names.get((hash_.domain, names))
        if both is None:
            columns = [rows.column(name) for name in names]
            both = hash_rows(hash_key, columns, domain=hash_.domain, count=rows.num_rows)
            by_names[hash_.domain, names] = both
        yield hash_.name, both[hash_.half]


def _of_sides(preparation: SidesPreparation, rows: pa.Table, hash_key: HashKey) -> dict[str, Hashes]:
    """Return the hashes of rows of several sides; a row that never matches is a separate key."""
    which, unmatched = ints(rows.column(SIDE)), preparation.unmatched
    hashes = {name: np.zeros(rows.num_rows, np.uint64) for name in ("$h1", "$h2", "$r")}
    for side in preparation.sides:
        mine = which % unmatched == side.number
        if not mine.any():
            continue
        side_hashes = dict(_hashes(side.hashes, rows if mine.all() else rows.filter(pa.array(mine)), hash_key))
        side_hashes["$h1"] = np.where(which[mine] >= unmatched, side_hashes["$r"], side_hashes["$h1"])
        for name, values in side_hashes.items():
            hashes[name][mine] = values
    return hashes


def _replaced(rows: pa.Table, hashes: Mapping[str, Hashes]) -> pa.Table:
    for name, values in hashes.items():
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, pa.array(values.view(np.int64)))
    return rows
