"""Events that begin a MySQL transaction → its id and time; sets of ids → bytes, as replicas send them.

An id has a tag, or none. Events of those that have one are written as fields behind their numbers, whole numbers as so
many bytes as the ones at the end of the first byte say.

Sets of transactions ↔ positions: texts that sort as the server's commits do, and outlive a failover.

A MySQL set has each transaction's number, by the server that it came from: `uuid:1-5`. MariaDB has the last one of each
replication domain: `domain-server-number`. How many there are, or the sum of the numbers, grows with each commit; it
stands before the set in sixteen hexadecimal digits.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

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


_DIGITS = 16
_INTERVAL = re.compile(r"(\d+)(?:-(\d+))?")


class Transactions(Protocol):
    """A set of transactions that grows by what a server commits."""

    def add(self, id_: str) -> None:
        """Take in a transaction, by its id."""

    def contains(self, id_: str) -> bool:
        """Tell whether a transaction is in it."""

    def covers(self, other: Transactions) -> bool:
        """Tell whether all of another set are in it."""

    def text(self) -> str:
        """Return the set as the server writes it."""

    def position(self) -> str:
        """Return the set as a position."""


def set_of(position: str) -> str:
    """Return the server's text of a position."""
    return position[_DIGITS + 1 :].partition(";")[0]


def count_of(position: str) -> int:
    """Return how many transactions a position names."""
    return int(position[:_DIGITS] or "0", 16)


def since(position: str) -> str | None:
    """Return the text of the set from which on the log is read: before prepared transactions that were open there."""
    return position.partition(";")[2] or None


class DomainTransactions:
    """Transactions of a MariaDB server: in each domain all up to a number."""

    def __init__(self, text: str = "") -> None:
        self._last: dict[int, tuple[int, int]] = {}
        self._sum = 0
        for each in filter(None, text.replace("\n", "").split(",")):
            self.add(each.strip())

    def add(self, id_: str) -> None:
        domain, server, number = map(int, id_.split("-"))
        known = self._last.get(domain)
        if known is None or known[1] < number:
            self._sum += number - (known[1] if known else 0)
            self._last[domain] = server, number

    def contains(self, id_: str) -> bool:
        domain, _, number = map(int, id_.split("-"))
        known = self._last.get(domain)
        return known is not None and number <= known[1]

    def covers(self, other: Transactions) -> bool:
        assert isinstance(other, DomainTransactions)
        return all(self.contains(f"{domain}-{each[0]}-{each[1]}") for domain, each in other._last.items())

    def text(self) -> str:
        return ",".join(f"{domain}-{each[0]}-{each[1]}" for domain, each in sorted(self._last.items()))

    def position(self) -> str:
        return f"{self._sum:0{_DIGITS}x}:{self.text()}"


class NumberedTransactions:
    """Transactions of a MySQL server: intervals of numbers, by the server's id and tag that they came with."""

    def __init__(self, text: str = "") -> None:
        self._intervals: dict[str, list[list[int]]] = {}
        self._count = 0
        for part in filter(None, (each.strip() for each in text.replace("\n", "").split(","))):
            origin = ""
            uuid, *fields = part.split(":")
            for field in fields:
                found = _INTERVAL.fullmatch(field)
                if found is None:  # a tag, which the intervals after it have
                    origin = f"{uuid.lower()}:{field}"
                    continue
                first, last = int(found[1]), int(found[2] or found[1])
                self._add(origin or uuid.lower(), first, last)

    def _add(self, origin: str, first: int, last: int) -> None:
        """Take in an interval; most come right after the last one."""
        known = self._intervals.setdefault(origin, [])
        if known and known[-1][1] + 1 == first:
            known[-1][1] = last
            self._count += last - first + 1
            return
        merged: list[list[int]] = []
        for each in sorted([*known, [first, last]]):
            if merged and each[0] <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], each[1])
            else:
                merged.append(list(each))
        self._count += _size(merged) - _size(known)
        self._intervals[origin] = merged

    def add(self, id_: str) -> None:
        origin, _, number = id_.rpartition(":")
        self._add(origin, int(number), int(number))

    def contains(self, id_: str) -> bool:
        origin, _, number = id_.rpartition(":")
        wanted = int(number)
        return any(first <= wanted <= last for first, last in self._intervals.get(origin, ()))

    def covers(self, other: Transactions) -> bool:
        assert isinstance(other, NumberedTransactions)
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
        """Return the intervals by origin; both of their ends are in the set."""
        return self._intervals


def _size(intervals: Sequence[Sequence[int]]) -> int:
    return sum(last - first + 1 for first, last in intervals)


def transactions(position: str, *, mariadb: bool) -> Transactions:
    """Return the set that a position names."""
    text = set_of(position)
    return DomainTransactions(text) if mariadb else NumberedTransactions(text)
