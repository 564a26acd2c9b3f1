"""Sets of transactions ↔ positions: texts that sort as the server's commits do, and outlive a failover.

A MySQL set has each transaction's number, by the server that it came from: `uuid:1-5`. MariaDB has the last one of each
replication domain: `domain-server-number`. How many there are, or the sum of the numbers, grows with each commit; it
stands before the set in sixteen hexadecimal digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

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
