"""Messages of one Avro schema, all at once: where each is read next, and which of them are wrong and why.

A message is never read beyond its end, and one that is wrong does no harm to others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sinkql.decode.columnar import Block, Mask, Offsets

Rows = NDArray[np.intp] | None
"""The places of some messages, in order; None is all."""
Numbers = NDArray[np.int64]

CUT_OFF, LONG_NUMBER, BRANCH, SYMBOL, BOOLEAN, INTEGER, LENGTH, TRAILING, DIGITS = range(1, 10)
_WHY = {
    CUT_OFF: "it is cut off",
    LONG_NUMBER: "it has a number of more than 64 bits",
    BRANCH: "it has a value of no type of its union",
    SYMBOL: "it has a value of no symbol of its enum",
    BOOLEAN: "it has a boolean that is neither true nor false",
    INTEGER: "it has an int of more than 32 bits",
    LENGTH: "it has a value of a negative length",
    TRAILING: "it goes on behind its last value",
    DIGITS: "it has a decimal of more digits than fit",
}
_INT = 2**31
_LOW7, _LOW14, _LOW28 = (np.uint64(each) for each in (0x7F7F7F7F7F7F7F7F, 0x3FFF00003FFF, 0x0FFFFFFF))
_PAIRS, _QUADS = np.uint64(0x007F007F007F007F), np.uint64(0x00003FFF00003FFF)
_ENDS = np.uint64(0x8080808080808080)
_ONE = np.uint64(1)


class Walk:
    """Places in a block, one a message, that move on as values are read."""

    def __init__(self, block: Block, starts: Offsets, ends: Offsets) -> None:
        self.block = block
        self.at = starts.copy()
        self.ends = ends
        self.wrong = np.zeros(len(starts), np.uint8)
        self.texts: dict[int, str] = {}
        self._fields: dict[int, str] = {}
        self._told = 0

    def __len__(self) -> int:
        return len(self.at)

    def rows(self, rows: Rows) -> NDArray[np.intp]:
        """Return places, also of all."""
        return np.arange(len(self.at)) if rows is None else rows

    def fail(self, rows: Rows, bad: Mask, why: int) -> None:
        """Take note that some of these messages are wrong, unless they were before."""
        found = np.flatnonzero(bad)
        if len(found):
            places = found if rows is None else rows[found]
            self.wrong[places[self.wrong[places] == 0]] = why

    def fail_at(self, row: int, text: str) -> None:
        """Take note that a message is wrong, in words."""
        if not self.wrong[row]:
            self.wrong[row] = 255
            self.texts[row] = text

    def after(self, field: str) -> None:
        """Check that no message ended within a field of its record."""
        self.fail(None, self.at > self.ends, CUT_OFF)
        if int(np.count_nonzero(self.wrong)) > self._told:
            found = [row for row in np.flatnonzero(self.wrong).tolist() if row not in self._fields]
            self._fields.update(dict.fromkeys(found, field))
            self._told = len(self._fields)

    def finish(self) -> dict[int, str]:
        """Return why messages are wrong, by their places."""
        self.fail(None, self.at != self.ends, TRAILING)
        found = {}
        for row in np.flatnonzero(self.wrong).tolist():
            why = self.texts.get(row) or _WHY[int(self.wrong[row])]
            found[row] = f'field "{self._fields[row]}": {why}' if row in self._fields else why
        return found

    # --- reading -----------------------------------------------------------------------------------------------------

    def skip(self, rows: Rows, size: int | Numbers) -> Offsets:
        """Move on by so many bytes; return where they begin."""
        if rows is None:
            at = self.at
            self.at = at + size
            return at
        at = self.at[rows]
        self.at[rows] = at + size
        return at

    def byte(self, rows: Rows) -> NDArray[np.uint8]:
        """Read a byte."""
        return self.block.bytes.take(self.skip(rows, 1), mode="clip")

    def number(self, rows: Rows) -> Numbers:
        """Read a number as ints and longs are written, less than seven bits a byte and the sign last."""
        at = self.at if rows is None else self.at[rows]
        first = self.block.bytes.take(at, mode="clip")
        value = first.astype(np.uint64)
        at = at + 1
        more = np.flatnonzero(first & 0x80)
        if len(more) == len(first):
            value, at = self._long(rows, at)
        elif len(more):
            value[more], at[more] = self._long(more if rows is None else rows[more], at[more])
        if rows is None:
            self.at = at
        else:
            self.at[rows] = at
        signed: Numbers = ((value >> _ONE) ^ (~(value & _ONE) + _ONE)).view(np.int64)
        return signed

    def _long(self, rows: Rows, at: Offsets) -> tuple[NDArray[np.uint64], Offsets]:
        """Read numbers of several bytes, behind the first of them; return what they are, and where they end.

        Up to eight bytes are put together at once, the seven bits of each.
        """
        eight = self.block.view("<u8")[np.minimum(at - 1, self.block.size)].astype(np.uint64)
        ends = ~eight & _ENDS
        last = ends & (~ends + _ONE)  # the lowest bit
        eight &= ((last << _ONE) - _ONE) & _LOW7  # all bits where no byte of the eight is the last: 0 - 1
        eight = (eight & _PAIRS) | ((eight >> _ONE) & ~_PAIRS & np.uint64(0x3F803F803F803F80))
        eight = (eight & _QUADS) | ((eight >> np.uint64(2)) & np.uint64(0x0FFFC0000FFFC000))
        value = (eight & _LOW28) | ((eight >> np.uint64(4)) & np.uint64(0x00FFFFFFF0000000))
        after = at + (np.bitwise_count(last - _ONE).astype(np.int64) >> 3)
        longer = np.flatnonzero(last == 0)
        if len(longer):
            after[longer] = at[longer] + 7
            shift = np.uint64(56)
            for most in (0xFF, 1):
                byte = self.block.bytes.take(after[longer], mode="clip")
                bits = byte & 0x7F
                value[longer] |= bits.astype(np.uint64) << shift
                after[longer] += 1
                bad = byte > most
                if most == 1 and bad.any():
                    self.fail(
                        longer[bad] if rows is None else rows[longer[bad]], np.ones(int(bad.sum()), bool), LONG_NUMBER
                    )
                longer = longer[byte >= 0x80]
                shift += np.uint64(7)
        return value, after

    def integer(self, rows: Rows) -> NDArray[np.int32]:
        """Read an int, of 32 bits."""
        value = self.number(rows)
        self.fail(rows, (value < -_INT) | (value >= _INT), INTEGER)
        return value.astype(np.int32)

    def lengthy(self, rows: Rows) -> tuple[Offsets, Numbers]:
        """Read bytes with their length before them; return where they begin, and how many they are."""
        size = self.number(rows)
        ends = self.ends if rows is None else self.ends[rows]
        room = ends - (self.at if rows is None else self.at[rows])
        bad = (size < 0) | (size > room)
        if bad.any():
            self.fail(rows, size < 0, LENGTH)
            self.fail(rows, bad, CUT_OFF)
            size[bad] = 0
            return np.minimum(self.skip(rows, size), ends), size
        return self.skip(rows, size), size

    def sized(self, rows: Rows, size: int) -> Offsets:
        """Read so many bytes; return where they begin, which is in the block."""
        at = self.skip(rows, size)
        ends = self.ends if rows is None else self.ends[rows]
        bad = at + size > ends
        if bad.any():
            self.fail(rows, bad, CUT_OFF)
            at = np.where(bad, 0, at)
        return at

    def branch(self, rows: Rows, count: int) -> Numbers:
        """Read which type of a union a value has."""
        found = self.number(rows)
        bad = (found < 0) | (found >= count)
        self.fail(rows, bad, BRANCH)
        return found


def block_of(messages: Sequence[bytes], skip: int) -> tuple[Block, Offsets, Offsets]:
    """Return messages one behind the other, where each begins after its first `skip` bytes, and where it ends."""
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(sizes)
    return Block(b"".join(messages)), ends - sizes + skip, ends
