"""Keep the read positions of many messages of one Avro schema, and collect their errors.

No message is read past its end, and an invalid message does not affect other messages.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sinkql.decode.columnar import Block, Mask, Offsets

Rows = NDArray[np.intp] | None
"""The indexes of some messages in ascending order; None means all messages."""
Numbers = NDArray[np.int64]

CUT_OFF, LONG_NUMBER, BRANCH, SYMBOL, BOOLEAN, INTEGER, LENGTH, TRAILING, DIGITS = range(1, 10)
_REASONS = {
    CUT_OFF: "it is cut off",
    LONG_NUMBER: "it has a number of more than 64 bits",
    BRANCH: "it has an invalid branch of a union",
    SYMBOL: "it has an invalid symbol of an enum",
    BOOLEAN: "it has a boolean that is neither true nor false",
    INTEGER: "it has an int of more than 32 bits",
    LENGTH: "it has a value with a negative length",
    TRAILING: "it continues after its last value",
    DIGITS: "it has a decimal with too many digits",
}
_INT = 2**31
_LOW7, _LOW14, _LOW28 = (np.uint64(mask) for mask in (0x7F7F7F7F7F7F7F7F, 0x3FFF00003FFF, 0x0FFFFFFF))
_PAIRS, _QUADS = np.uint64(0x007F007F007F007F), np.uint64(0x00003FFF00003FFF)
_ENDS = np.uint64(0x8080808080808080)
_ONE = np.uint64(1)


class Cursor:
    """The positions in a block of messages, one for each message; reading a value advances them."""

    def __init__(self, block: Block, starts: Offsets, ends: Offsets) -> None:
        self.block = block
        self.at = starts.copy()
        self.ends = ends
        self.wrong = np.zeros(len(starts), np.uint8)
        self.texts: dict[int, str] = {}
        self._fields: dict[int, str] = {}
        self._field_count = 0

    def __len__(self) -> int:
        return len(self.at)

    def rows(self, rows: Rows) -> NDArray[np.intp]:
        """Return the indexes as an array, also for all messages."""
        return np.arange(len(self.at)) if rows is None else rows

    def fail(self, rows: Rows, bad: Mask, reason: int) -> None:
        """Record an error of some messages, unless they have an earlier one."""
        indexes = np.flatnonzero(bad)
        if len(indexes):
            failed = indexes if rows is None else rows[indexes]
            self.wrong[failed[self.wrong[failed] == 0]] = reason

    def fail_at(self, row: int, text: str) -> None:
        """Record an error of one message as a text, unless it has an earlier one."""
        if not self.wrong[row]:
            self.wrong[row] = 255
            self.texts[row] = text

    def end_field(self, field: str) -> None:
        """Check that no message ended in a field, and record that field for new errors."""
        self.fail(None, self.at > self.ends, CUT_OFF)
        if int(np.count_nonzero(self.wrong)) > self._field_count:
            new_rows = [row for row in np.flatnonzero(self.wrong).tolist() if row not in self._fields]
            self._fields.update(dict.fromkeys(new_rows, field))
            self._field_count = len(self._fields)

    def finish(self) -> dict[int, str]:
        """Return the errors of messages by their indexes."""
        self.fail(None, self.at != self.ends, TRAILING)
        errors = {}
        for row in np.flatnonzero(self.wrong).tolist():
            reason = self.texts.get(row) or _REASONS[int(self.wrong[row])]
            errors[row] = f'field "{self._fields[row]}": {reason}' if row in self._fields else reason
        return errors

    # --- reading -----------------------------------------------------------------------------------------------------

    def skip(self, rows: Rows, size: int | Numbers) -> Offsets:
        """Skip `size` bytes; return where they begin."""
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
        """Read a number in the encoding of int and long: seven bits per byte, lowest first, with zigzag signs."""
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
        """Read numbers of several bytes, given the position after the first byte; return the numbers and their ends.

        The seven bits of up to eight bytes are combined in one step.
        """
        eight = self.block.view("<u8")[np.minimum(at - 1, self.block.size)].astype(np.uint64)
        ends = ~eight & _ENDS
        last = ends & (~ends + _ONE)  # the lowest bit
        eight &= ((last << _ONE) - _ONE) & _LOW7  # 0 - 1 has all bits, if none of the eight bytes is the last
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
        """Read a 32-bit int."""
        value = self.number(rows)
        self.fail(rows, (value < -_INT) | (value >= _INT), INTEGER)
        return value.astype(np.int32)

    def with_length(self, rows: Rows) -> tuple[Offsets, Numbers]:
        """Read bytes that follow their length; return where they begin, and their number."""
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
        """Read `size` bytes; return where they begin, which is always inside the block."""
        at = self.skip(rows, size)
        ends = self.ends if rows is None else self.ends[rows]
        bad = at + size > ends
        if bad.any():
            self.fail(rows, bad, CUT_OFF)
            at = np.where(bad, 0, at)
        return at

    def branch(self, rows: Rows, count: int) -> Numbers:
        """Read the branch of a union, one of `count`."""
        branches = self.number(rows)
        bad = (branches < 0) | (branches >= count)
        self.fail(rows, bad, BRANCH)
        return branches


def block_of(messages: Sequence[bytes], skip: int) -> tuple[Block, Offsets, Offsets]:
    """Return the concatenated messages, their begins after the first `skip` bytes, and their ends."""
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    ends = np.cumsum(sizes)
    return Block(b"".join(messages)), ends - sizes + skip, ends
