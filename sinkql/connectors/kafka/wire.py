"""Messages of Kafka's protocol, where brokers name brokers → the same with other addresses."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

Address = tuple[str, int]
_API_VERSIONS, _METADATA, _COORDINATOR = 18, 3, 10
_NEWEST = {0: 9, 1: 15, _METADATA: 12, _COORDINATOR: 4}
"""The newest versions that a client may speak, by API: answers to later ones to Produce and Fetch name brokers too."""
_COMPACT_SINCE = {_METADATA: 9, _COORDINATOR: 3}
_HEADER = struct.Struct(">hhi")
_VERSIONS = struct.Struct(">hhh")


@dataclass(slots=True)
class Answers:
    """Tell for one connection which answers name brokers, or say what brokers speak: those to requests that ask so."""

    _asked: dict[int, tuple[int, int]] = field(default_factory=dict)

    def request(self, start: bytes) -> None:
        """Take the first eight bytes of a request."""
        api, version, correlation = _HEADER.unpack(start)
        if api in (_API_VERSIONS, *_COMPACT_SINCE):
            self._asked[correlation] = (api, version)

    def question(self, correlation: bytes) -> tuple[int, int] | None:
        """Return the API and the version of the request that an answer is to, if the answer is to be changed."""
        return self._asked.pop(int.from_bytes(correlation, "big", signed=True), None)


def named(question: tuple[int, int], answer: bytes) -> list[Address]:
    """Return the brokers that an answer names, without its correlation id."""
    return [] if question[0] == _API_VERSIONS else [address for _, _, address in _places(question, answer)]


def changed(question: tuple[int, int], answer: bytes, places: dict[Address, Address]) -> bytes:
    """Return an answer with other addresses, or with no version of an API that names brokers in places of its own."""
    api, version = question
    if api == _API_VERSIONS:
        return _bounded(version, answer)
    parts, at = [], 0
    for begin, end, address in _places(question, answer):
        host, port = places[address]
        length = _unsigned(len(host) + 1) if version >= _COMPACT_SINCE[api] else struct.pack(">h", len(host))
        parts += [answer[at:begin], length, host.encode(), struct.pack(">i", port)]
        at = end
    return b"".join([*parts, answer[at:]])


@dataclass(slots=True)
class _Cursor:
    """Read fields one after the other; `compact` are those of flexible versions."""

    data: bytes
    compact: bool
    at: int = 0

    def skip(self, count: int) -> None:
        self.at += count

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> str:
        length = self.unsigned() - 1 if self.compact else self.number(">h")
        begin, self.at = self.at, self.at + max(length, 0)
        return self.data[begin : self.at].decode()

    def count(self) -> int:
        return self.unsigned() - 1 if self.compact else self.number(">i")

    def tags(self) -> None:
        for _ in range(self.unsigned() if self.compact else 0):
            self.unsigned()
            self.skip(self.unsigned())


def _places(question: tuple[int, int], answer: bytes) -> Iterator[tuple[int, int, Address]]:
    """Yield where addresses of brokers begin and end, and the addresses."""
    api, version = question
    cursor = _Cursor(answer, version >= _COMPACT_SINCE[api])
    cursor.tags()  # of the header
    yield from (_of_metadata if api == _METADATA else _of_coordinators)(cursor, version)


def _of_metadata(cursor: _Cursor, version: int) -> Iterator[tuple[int, int, Address]]:
    cursor.skip(4 if version >= 3 else 0)  # how long to wait
    for _ in range(cursor.count()):
        cursor.skip(4)
        yield _address(cursor)
        if version >= 1:
            cursor.text()  # its rack
        cursor.tags()


def _of_coordinators(cursor: _Cursor, version: int) -> Iterator[tuple[int, int, Address]]:
    cursor.skip(4 if version >= 1 else 0)
    if version < 4:
        cursor.skip(2)
        if version >= 1:
            cursor.text()  # an error's
        cursor.skip(4)
        yield _address(cursor)
        return
    for _ in range(cursor.count()):
        cursor.text()
        cursor.skip(4)
        yield _address(cursor)
        cursor.skip(2)
        cursor.text()
        cursor.tags()


def _address(cursor: _Cursor) -> tuple[int, int, Address]:
    begin = cursor.at
    host = cursor.text()
    port = cursor.number(">i")
    return begin, cursor.at, (host, port)


def _bounded(version: int, answer: bytes) -> bytes:
    """Return what a broker says of the versions that it speaks, with none that is too new."""
    found = bytearray(answer)
    cursor = _Cursor(answer, compact=version >= 3)
    if cursor.number(">h"):
        return answer  # it does not know the version of the question
    for _ in range(cursor.count()):
        begin = cursor.at
        api, first, last = _VERSIONS.unpack_from(answer, begin)
        _VERSIONS.pack_into(found, begin, api, first, min(last, _NEWEST.get(api, last)))
        cursor.skip(_VERSIONS.size)
        cursor.tags()
    return bytes(found)


def _unsigned(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
