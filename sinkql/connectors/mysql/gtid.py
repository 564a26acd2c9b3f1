"""Events that begin a MySQL transaction → its id and time; sets of ids → bytes, as replicas send them.

An id has a tag, or none. Events of those that have one are written as fields behind their numbers, whole numbers as so
many bytes as the ones at the end of the first byte say.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from sinkql.connectors.mysql.position import NumberedTransactions

_HEADER = 19
_FLAGS, _UUID, _NUMBER, _TAG, _LAST_COMMITTED, _SEQUENCE, _COMMITTED_AT = range(7)
_TAGGED = 1


def numbered(raw: bytes, start: int) -> tuple[str, int]:
    """Return id and time of a transaction in microseconds; servers before 8.0 know seconds only."""
    at = start + _HEADER
    number = int.from_bytes(raw[at + 17 : at + 25], "little", signed=True)
    size = int.from_bytes(raw[start + 9 : start + 13], "little")
    micros = _seconds(raw, start) * 1_000_000
    if size >= _HEADER + 49 and raw[at + 25] == 2:
        micros = int.from_bytes(raw[at + 42 : at + 49], "little") & ((1 << 55) - 1)
    return f"{uuid.UUID(bytes=raw[at + 1 : at + 17])}:{number}", micros


def tagged(raw: bytes, start: int, end: int) -> tuple[str, int]:
    """Return id and time of a transaction whose id has a tag; raises ValueError where it is not as servers write it."""
    reader = _Fields(raw, start + _HEADER, end)
    version, _, _ = reader.number(), reader.number(), reader.number()  # how long it is, and what must be known of it
    if version != 1:
        raise ValueError(f"the transaction is written in version {version}, which is unknown")
    found: dict[int, Any] = {_COMMITTED_AT: _seconds(raw, start) * 1_000_000}
    while not reader.done():
        field = reader.number()
        if field not in _READ:
            break  # what is behind them is of no concern
        found[field] = _READ[field](reader)
    tag = found.get(_TAG, b"").decode()
    id_ = f"{uuid.UUID(bytes=found[_UUID])}:{f'{tag}:' if tag else ''}{found[_NUMBER]}"
    return id_, found[_COMMITTED_AT]


def _seconds(raw: bytes, start: int) -> int:
    return int.from_bytes(raw[start : start + 4], "little")


class _Fields:
    """Bytes of fields, and how far they are read."""

    def __init__(self, raw: bytes, at: int, end: int) -> None:
        self._raw, self._at, self._end = raw, at, end

    def done(self) -> bool:
        return self._at >= self._end

    def bytes(self, count: int) -> bytes:
        found = self._raw[self._at : self._at + count]
        self._at += count
        if self._at > self._end:
            raise ValueError("the id of a transaction is cut")
        return found

    def number(self) -> int:
        first = self.bytes(1)[0]
        more = (~first & (first + 1)).bit_length() - 1  # ones at its end
        if more == 8:
            return int.from_bytes(self.bytes(8), "little")
        return int.from_bytes(bytes((first,)) + self.bytes(more), "little") >> more + 1

    def signed(self) -> int:
        found = self.number()
        return found >> 1 ^ -(found & 1)


_READ: Mapping[int, Callable[[_Fields], Any]] = {
    _FLAGS: _Fields.number,
    _UUID: lambda reader: bytes(reader.number() for _ in range(16)),
    _NUMBER: _Fields.signed,
    _TAG: lambda reader: reader.bytes(reader.number()),
    _LAST_COMMITTED: _Fields.signed,
    _SEQUENCE: _Fields.signed,
    _COMMITTED_AT: _Fields.number,
}


def set_bytes(position: NumberedTransactions) -> bytes:
    """Return a set of transactions as replicas send it; the ends of intervals are not in it.

    Servers before 8.3 know no tags, and no other form than that without them.
    """
    intervals = position.intervals()
    some = any(":" in origin for origin in intervals)
    count = len(intervals)
    parts = [struct.pack("<Q", _TAGGED << 56 | count << 8 | _TAGGED if some else count)]
    for origin, each in intervals.items():
        server, _, tag = origin.partition(":")
        parts.append(uuid.UUID(server).bytes)
        if some:
            parts.append(bytes((len(tag) << 1,)) + tag.encode())
        parts.append(struct.pack("<Q", len(each)))
        parts += [struct.pack("<QQ", first, last + 1) for first, last in each]
    return b"".join(parts)
