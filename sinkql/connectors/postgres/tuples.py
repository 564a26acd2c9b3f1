"""Tuples of one table in a block, all at once → where each column's values stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sinkql.connectors.postgres.column import Places
from sinkql.decode.columnar import Block, Mask, Offsets

NULL, UNCHANGED, TEXT, BINARY = b"nutb"


@dataclass(slots=True)
class Cells:
    """One column of tuples: the kind of each value, where it stands, and whether it is there (None: all are)."""

    kinds: NDArray[np.uint8]
    starts: Offsets
    lengths: Offsets
    sent: Mask | None

    def places(self, block: Block) -> Places:
        """Return where the values stand."""
        return Places(block, self.starts, self.lengths, self.sent)

    def taken(self, which: Offsets | Mask) -> Cells:
        """Return those of some of the tuples, in their order."""
        sent = None if self.sent is None else self.sent[which]
        return Cells(self.kinds[which], self.starts[which], self.lengths[which], sent)

    def fill(self, where: Offsets, other: Cells, which: Offsets) -> None:
        """Have some of the values be those of another column of tuples, each of which stands before its own."""
        self.kinds[where], self.lengths[where] = other.kinds[which], other.lengths[which]
        self.starts[where] = other.starts[which]
        sent = np.ones(len(self.starts), bool) if self.sent is None else self.sent
        sent[where] = True if other.sent is None else other.sent[which]
        self.sent = None if sent.all() else sent


class GarbledError(Exception):
    """What was received is not what the protocol says."""


def walk(block: Block, starts: Offsets, widths: Sequence[int]) -> tuple[list[Cells], Offsets]:
    """Return the columns of the tuples that begin at `starts`, and where each tuple ends.

    `widths` says how many bytes the binary form of each column has, 0 where that differs.
    """
    if (block.i2[starts] != len(widths)).any():
        raise GarbledError("a row has not as many columns as its table")
    at = starts + 2
    found = []
    for width in widths:
        kinds = block.bytes[at]
        if width and (kinds == BINARY).all():
            cells = Cells(kinds, at + 5, np.broadcast_to(np.int64(width), len(at)), None)
        else:
            cells = _cells(block, at, kinds)
        at = cells.starts + cells.lengths
        found.append(cells)
    return found, at


def _cells(block: Block, at: Offsets, kinds: NDArray[np.uint8]) -> Cells:
    sent = (kinds == TEXT) | (kinds == BINARY)
    if sent.all():
        return Cells(kinds, at + 5, block.i4[at + 1].astype(np.int64), None)
    if not (sent | (kinds == NULL) | (kinds == UNCHANGED)).all():
        raise GarbledError("a value is of no kind that is known")
    lengths = np.where(sent, block.i4[at + 1], 0).astype(np.int64)
    return Cells(kinds, np.where(sent, at + 5, at + 1), lengths, sent)


def is_binary(cells: Cells) -> bool:
    """Tell whether values are in binary, and not texts; raises GarbledError for some of both."""
    binary = bool((cells.kinds == BINARY).any())
    if binary and (cells.kinds == TEXT).any():
        raise GarbledError("a column has values in binary and as text")
    return binary


WIDTHS = {16: 1, 20: 8, 21: 2, 23: 4, 26: 4, 700: 4, 701: 8, 1082: 4, 1083: 8, 1114: 8, 1184: 8, 1186: 16, 2950: 16}
"""How many bytes the binary forms of types have whose values all have as many."""
