"""What a join keeps of a side besides a multiset of rows: rows that only come, or how many rows a key has."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from sinkql.runtime.state.arrangement import Ints, MultisetRuns, grouped
from sinkql.runtime.state.run import ints, unsigned


class AppendedRuns(MultisetRuns):
    """Rows that only come, each for itself: `$p` (the key's `$h1`, sorted), `$h2`, then a payload."""

    __slots__ = ()
    grows: ClassVar[bool] = True

    def _merge_tables(self, tables: list[pa.Table], *, bottom: bool) -> pa.Table:
        return sorted_rows(pa.concat_tables(tables).combine_chunks())


class CountRuns(MultisetRuns):
    """How many rows each key has: `$p` (the upper half of its `$h1`, sorted), `$h2`, `$diff`."""

    __slots__ = ()

    def _merge_tables(self, tables: list[pa.Table], *, bottom: bool) -> pa.Table:
        return added_up(pa.concat_tables(tables).combine_chunks())


def sorted_rows(table: pa.Table) -> pa.Table:
    """Return rows in the order of their keys; equal keys keep their order."""
    return table.take(pa.array(_order(table))).combine_chunks()


def _order(table: pa.Table) -> Ints:
    return np.lexsort((ints(table.column("$h2")), unsigned(table.column("$p"))))


def added_up(table: pa.Table) -> pa.Table:
    """Return each key once, sorted, with the sum of its counts; zeros are left out."""
    order, starts = grouped(unsigned(table.column("$p")), ints(table.column("$h2")))
    if not len(starts):
        return table
    diff = np.add.reduceat(ints(table.column("$diff"))[order], starts)
    kept = table.take(pa.array(order[starts][diff != 0]))
    return kept.set_column(2, "$diff", pa.array(diff[diff != 0])).combine_chunks()
