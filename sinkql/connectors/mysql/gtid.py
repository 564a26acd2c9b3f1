"""Decode transaction ids (GTIDs) and sets of them, and convert sets to positions and to bytes for the server.

An id may have a tag. Events of tagged ids are written as numbered fields. The number of trailing 1 bits in a number's
first byte is the number of its further bytes.

Positions are texts that sort as the server's commits do, and stay valid after a failover. A MySQL set has the numbers
of transactions by the server that they came from: `uuid:1-5`. A MariaDB set has the last transaction of each
replication domain: `domain-server-number`. A position begins with sixteen hexadecimal digits that grow with each
commit: the number of transactions, or the sum of their numbers. The set follows.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

_HEADER = 19
_FLAGS, _UUID, _NUMBER, _TAG, _LAST_COMMITTED, _SEQUENCE, _COMMITTED_AT = range(7)
_TAGGED = 1


def read_gtid(raw: bytes, start: int) -> tuple[str, int]:
    """Return the id and time in microseconds of a transaction; servers before 8.0 log only seconds."""
    at = start + _HEADER
    number = int.from_bytes(raw[at + 17 : at + 25], "little", signed=True)
    size = int.from_bytes(raw[start + 9 : start + 13], "little")
    micros = _event_seconds(raw, start) * 1_000_000
    if size >= _HEADER + 49 and raw[at + 25] == 2:
        micros = int.from_bytes(raw[at + 42 : at + 49], "little") & ((1 << 55) - 1)
    return f"{uuid.UUID(bytes=raw[at + 1 : at + 17])}:{number}", micros


def read_tagged_gtid(raw: bytes, start: int, end: int) -> tuple[str, int]:
    """Return the id and time of a transaction whose id has a tag; raise ValueError for an unknown layout."""
    reader = _Fields(raw, start + _HEADER, end)
    version, _, _ = (
        reader.number(),
        reader.number(),
        reader.number(),
    )  # the version, the size, and the last required field
    if version != 1:
        raise ValueError(f"the transaction has the unknown format version {version}")
    fields: dict[int, Any] = {_COMMITTED_AT: _event_seconds(raw, start) * 1_000_000}
    while not reader.done():
        field = reader.number()
        if field not in _READ:
            break  # later fields are not needed
        fields[field] = _READ[field](reader)
    tag = fields.get(_TAG, b"").decode()
    id_ = f"{uuid.UUID(bytes=fields[_UUID])}:{f'{tag}:' if tag else ''}{fields[_NUMBER]}"
    return id_, fields[_COMMITTED_AT]


def _event_seconds(raw: bytes, start: int) -> int:
    return int.from_bytes(raw[start : start + 4], "little")


class _Fields:
    """A cursor over the bytes of fields."""

    def __init__(self, raw: bytes, at: int, end: int) -> None:
        self._raw, self._at, self._end = raw, at, end

    def done(self) -> bool:
        return self._at >= self._end

    def bytes(self, count: int) -> bytes:
        data = self._raw[self._at : self._at + count]
        self._at += count
        if self._at > self._end:
            raise ValueError("the id of a transaction is truncated")
        return data

    def number(self) -> int:
        first = self.bytes(1)[0]
        more = (~first & (first + 1)).bit_length() - 1  # its trailing ones
        if more == 8:
            return int.from_bytes(self.bytes(8), "little")
        return int.from_bytes(bytes((first,)) + self.bytes(more), "little") >> more + 1

    def signed(self) -> int:
        number = self.number()
        return number >> 1 ^ -(number & 1)


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
    """Encode a set of transactions for the server; the ends of intervals are exclusive.

    Servers before 8.3 know no tags, so a set without tags is encoded in the old form.
    """
    intervals = position.intervals()
    some = any(":" in origin for origin in intervals)
    count = len(intervals)
    parts = [struct.pack("<Q", _TAGGED << 56 | count << 8 | _TAGGED if some else count)]
    for origin, ranges in intervals.items():
        server, _, tag = origin.partition(":")
        parts.append(uuid.UUID(server).bytes)
        if some:
            parts.append(bytes((len(tag) << 1,)) + tag.encode())
        parts.append(struct.pack("<Q", len(ranges)))
        parts += [struct.pack("<QQ", first, last + 1) for first, last in ranges]
    return b"".join(parts)


class ReadTransaction(msgspec.Struct, frozen=True, array_like=True):
    """A transaction that was read: the positions before and after it, its id, its time, and its server."""

    before: str
    after: str
    id: str
    at: int
    server: str = ""

    @property
    def end(self) -> str:
        """The position after the transaction."""
        return self.after


_DIGITS = 16
_INTERVAL = re.compile(r"(\d+)(?:-(\d+))?")


class Transactions(Protocol):
    """A set of transactions that grows as the server commits."""

    def add(self, id_: str) -> None:
        """Add a transaction by its id."""

    def contains(self, id_: str) -> bool:
        """Return whether the set contains a transaction."""

    def covers(self, position: str) -> bool:
        """Return whether the set contains all transactions of a position."""

    def text(self) -> str:
        """Return the set as the server writes it."""

    def position(self) -> str:
        """Return the set as a position."""


def set_text(position: str) -> str:
    """Return the server's text of a position."""
    return position[_DIGITS + 1 :].partition(";")[0]


def count_transactions(position: str) -> int:
    """Return the number of transactions in a position."""
    return int(position[:_DIGITS] or "0", 16)


def scan_start(position: str) -> str | None:
    """Return the text of the set before the oldest open prepared transaction, from which the log is scanned."""
    return position.partition(";")[2] or None


class DomainTransactions:
    """The transactions of a MariaDB server: in each domain, all up to a number."""

    def __init__(self, text: str = "") -> None:
        self._last: dict[int, tuple[int, int]] = {}
        self._sum = 0
        for id_ in filter(None, text.replace("\n", "").split(",")):
            self.add(id_.strip())

    def add(self, id_: str) -> None:
        domain, server, number = map(int, id_.split("-"))
        last = self._last.get(domain)
        if last is None or last[1] < number:
            self._sum += number - (last[1] if last else 0)
            self._last[domain] = server, number

    def contains(self, id_: str) -> bool:
        domain, _, number = map(int, id_.split("-"))
        last = self._last.get(domain)
        return last is not None and number <= last[1]

    def covers(self, position: str) -> bool:
        other = DomainTransactions(set_text(position))
        return all(self.contains(f"{domain}-{last[0]}-{last[1]}") for domain, last in other._last.items())

    def text(self) -> str:
        return ",".join(f"{domain}-{last[0]}-{last[1]}" for domain, last in sorted(self._last.items()))

    def position(self) -> str:
        return f"{self._sum:0{_DIGITS}x}:{self.text()}"


class NumberedTransactions:
    """The transactions of a MySQL server: intervals of numbers, by the id and tag of the originating server."""

    def __init__(self, text: str = "") -> None:
        self._intervals: dict[str, list[list[int]]] = {}
        self._count = 0
        for part in filter(None, (field.strip() for field in text.replace("\n", "").split(","))):
            origin = ""
            uuid, *fields = part.split(":")
            for field in fields:
                interval = _INTERVAL.fullmatch(field)
                if interval is None:  # a tag, which applies to the following intervals
                    origin = f"{uuid.lower()}:{field}"
                    continue
                first, last = int(interval[1]), int(interval[2] or interval[1])
                self._add(origin or uuid.lower(), first, last)

    def _add(self, origin: str, first: int, last: int) -> None:
        """Add an interval; usually it extends the last one."""
        intervals = self._intervals.setdefault(origin, [])
        if intervals and intervals[-1][1] + 1 == first:
            intervals[-1][1] = last
            self._count += last - first + 1
            return
        merged: list[list[int]] = []
        for interval in sorted([*intervals, [first, last]]):
            if merged and interval[0] <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], interval[1])
            else:
                merged.append(list(interval))
        self._count += _count_numbers(merged) - _count_numbers(intervals)
        self._intervals[origin] = merged

    def add(self, id_: str) -> None:
        origin, _, number = id_.rpartition(":")
        self._add(origin, int(number), int(number))

    def contains(self, id_: str) -> bool:
        origin, _, number = id_.rpartition(":")
        wanted = int(number)
        return any(first <= wanted <= last for first, last in self._intervals.get(origin, ()))

    def covers(self, position: str) -> bool:
        other = NumberedTransactions(set_text(position))
        return all(
            any(first <= low and high <= last for first, last in self._intervals.get(origin, ()))
            for origin, intervals in other._intervals.items()
            for low, high in intervals
        )

    def text(self) -> str:
        return ",".join(
            ":".join((origin, *(f"{first}-{last}" if last > first else str(first) for first, last in intervals)))
            for origin, intervals in sorted(self._intervals.items())
        )

    def position(self) -> str:
        return f"{self._count:0{_DIGITS}x}:{self.text()}"

    def intervals(self) -> Mapping[str, Sequence[Sequence[int]]]:
        """Return the intervals by origin; both ends are inclusive."""
        return self._intervals


def _count_numbers(intervals: Sequence[Sequence[int]]) -> int:
    return sum(last - first + 1 for first, last in intervals)


def read_position(position: str, *, mariadb: bool) -> Transactions:
    """Return the set in a position."""
    text = set_text(position)
    return DomainTransactions(text) if mariadb else NumberedTransactions(text)
