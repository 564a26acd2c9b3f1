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
    known: dict[tuple[int, tuple[str, ...]], tuple[Hashes, Hashes]] = {}
    for each in wanted:
        names = tuple(value.name for value in each.values)
        both = known.get((each.domain, names))
        if both is None:
            columns = [rows.column(name) for name in names]
            both = hash_rows(hash_key, columns, domain=each.domain, count=rows.num_rows)
            known[each.domain, names] = both
        yield each.name, both[each.half]


def _of_sides(preparation: SidesPreparation, rows: pa.Table, hash_key: HashKey) -> dict[str, Hashes]:
    """Return the hashes of rows of several sides; a row that never matches is a separate key."""
    which, unmatched = ints(rows.column(SIDE)), preparation.unmatched
    found = {name: np.zeros(rows.num_rows, np.uint64) for name in ("$h1", "$h2", "$r")}
    for side in preparation.sides:
        mine = which % unmatched == side.number
        if not mine.any():
            continue
        own = dict(_hashes(side.hashes, rows if mine.all() else rows.filter(pa.array(mine)), hash_key))
        own["$h1"] = np.where(which[mine] >= unmatched, own["$r"], own["$h1"])
        for name, values in own.items():
            found[name][mine] = values
    return found


def _replaced(rows: pa.Table, hashes: Mapping[str, Hashes]) -> pa.Table:
    for name, each in hashes.items():
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, pa.array(each.view(np.int64)))
    return rows
