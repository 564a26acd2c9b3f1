"""Requests that were accepted → a file that has them before they are answered, until the log has them.

A journal is a folder of segments, numbered without gaps. A segment is written by one process, the last that made one:
whoever opens a journal makes the next segment, and reads the earlier ones after that. Who wrote before has to find,
after each write and before it answers, that its own segment is there and the next one is not; so a request that was
answered is one that the process which took over has read. Segments go from the first on.

A segment is frames: a length, a checksum of what follows and one of these two, and msgpack. The first has the number
of the segment's first request, others batches of requests with the number of the first. A segment may end with the
beginning of a frame, and with zeros behind that, as a file system leaves them: that was never answered. Anything else
that is no frame is damaged, and what follows it is lost with it. Where others have taken requests meanwhile, a segment
begins `anew` with a later number: those before it count no more.

Where some are lost that others follow, a journal is not opened until it is mended: lost ones are then requests without
a body, which are no row, and all others have the numbers that they had.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from sinkql import codec
from sinkql.storage import failpoint, files

_HEAD = struct.Struct("<III")
_CHECKED = struct.Struct("<II")
_NAME = re.compile(r"(\d{10})\.journal")
_SEGMENT_BYTES = 16 << 20
_MOST_BYTES = 1 << 30


class LostRequestLogError(Exception):
    """Requests that were answered are not in the journal any more."""


class FencedRequestLogError(Exception):
    """Another process has gone on with the journal."""


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A request: when it came, in microseconds, its bodies, texts or bytes, each of which is a row, and its headers."""

    at: int
    bodies: list[Any]
    headers: list[Any] = []


class _Batch(msgspec.Struct, frozen=True, array_like=True):
    first: int
    requests: list[Request]


class _Head(msgspec.Struct, frozen=True):
    """What a segment begins with: the number before its first request."""

    first: int
    anew: bool = False


_HEADS = msgspec.msgpack.Decoder(_Head)
_BATCHES = msgspec.msgpack.Decoder(_Batch)


@dataclass(slots=True)
class RequestLog:
    """The journal of one source, open for one writer; `end` requests were ever accepted."""

    folder: Path
    end: int = 0
    floor: int = 0
    """Requests up to this number are not in the journal."""
    _number: int = 0
    _file: int = -1
    _size: int = 0
    _segments: dict[int, int] = field(default_factory=dict)
    """Of each segment before the present one the last request."""
    _encode: msgspec.msgpack.Encoder = field(default_factory=msgspec.msgpack.Encoder)

    @classmethod
    def open(cls, folder: Path) -> tuple[RequestLog, list[Request]]:
        """Take the journal over; return it, and the requests in it, of which the first is that after `floor`.

        Raises LostJournalError where some between are missing, FencedJournalError where another process is quicker, and
        OSError.
        """
        files.make_folder(folder)
        numbers = segments(folder)
        journal = cls(folder)
        journal._number = (numbers[-1] if numbers else 0) + 1
        try:
            journal._create()
            found = journal._recover(numbers)
            journal._begin()
        except BaseException:
            journal.close()
            raise
        return journal, found

    def _create(self) -> None:
        path = self.folder / f"{self._number:010}.journal"
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            raise FencedRequestLogError from None
        files.sync_folder(self.folder)
        self._size = 0

    def _recover(self, numbers: Sequence[int]) -> list[Request]:
        """Read earlier segments: each up to where the next one begins."""
        read = [(number, *_read(_path(self.folder, number))) for number in numbers]
        anew = max((place for place, (_, head, _) in enumerate(read) if head is not None and head.anew), default=0)
        began = [(number, head.first, requests) for number, head, requests in read[anew:] if head is not None]
        found: list[Request] = []
        self.floor = self.end = began[0][1] if began else 0
        for place, (number, first, requests) in enumerate(began):
            last = began[place + 1][1] if place + 1 < len(began) else first + len(requests)
            if first != self.end or last > first + len(requests):
                raise LostRequestLogError(f"request {min(self.end, first + len(requests)) + 1}")
            found += requests[: last - first]
            self.end = last
            self._segments[number] = last
        for place, (number, head, _) in enumerate(read):
            if head is None or place < anew:  # its process died before it answered anything
                self._segments[number] = self.floor
        return found

    def _begin(self, first: int | None = None) -> None:
        """Write the first frame: that of a segment that begins anew where its `first` request is said."""
        begun = {"first": self.end} if first is None else {"first": first, "anew": True}
        self._write(msgspec.msgpack.encode(begun))
        self._sync()

    def skip(self, number: int) -> None:
        """Go on after a later number than the last: the log has all requests up to there.

        Raises FencedJournalError, and OSError.
        """
        self._rotate(first=number)
        self.end = number
        self._segments = dict.fromkeys(self._segments, number)
        self.forget(number)

    def append(self, requests: Sequence[Request]) -> int:
        """Have requests durable, and return the number of the first.

        Raises FencedJournalError where they must not be answered, OSError where they may not be durable.
        """
        if self._size > _SEGMENT_BYTES:
            self._rotate()
        first = self.end
        self._write(self._encode.encode(_Batch(first, list(requests))))
        failpoint.point("journal-written")
        self._sync()
        failpoint.point("journal-synced")
        self.end += len(requests)
        return first + 1

    def _rotate(self, *, first: int | None = None) -> None:
        self._segments[self._number] = self.end
        os.close(self._file)
        self._file = -1
        self._number += 1
        self._create()
        self._begin(first)

    def _write(self, data: bytes) -> None:
        whole = memoryview(_framed(data))
        self._size += len(whole)
        while whole:
            whole = whole[os.write(self._file, whole) :]

    def _sync(self) -> None:
        os.fdatasync(self._file)
        # in this order: segments go from the first on
        if _path(self.folder, self._number + 1).exists() or not _path(self.folder, self._number).exists():
            raise FencedRequestLogError

    def forget(self, number: int) -> None:
        """Delete segments whose requests all are up to a number."""
        for segment, last in sorted(self._segments.items()):
            if last > number:
                break
            _path(self.folder, segment).unlink(missing_ok=True)
            del self._segments[segment]
            self.floor = max(self.floor, last)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def repair(folder: Path) -> None:
    """Have a journal of which requests are lost go on with those that are there. Raises as `RequestLog.open`, and
    OSError.

    Where it is broken off it can be begun again.
    """
    try:
        RequestLog.open(folder)[0].close()
    except LostRequestLogError:  # whoever wrote before finds that a segment was made, and answers nothing more
        _fill(folder)


def _fill(folder: Path) -> None:
    read = [(path, *_salvaged(path)) for path in (_path(folder, number) for number in segments(folder))]
    begun = max((place for place, (_, anew, _) in enumerate(read) if anew), default=0)
    for place, (path, _, found) in enumerate(read):
        if not found or place < begun:
            files.write_atomic(path, b"")
    left = [(path, found) for path, _, found in read[begun:] if found]
    for place, (path, found) in enumerate(left):
        first, requests = found[0].first, list[Request]()
        following = left[place + 1][1][0].first if place + 1 < len(left) else 0
        for batch in (*found, _Batch(following, [])):
            requests += [_LOST] * (batch.first - first - len(requests))
            requests += batch.requests
        head = msgspec.msgpack.encode({"first": first})
        files.write_atomic(path, _framed(head) + _framed(msgspec.msgpack.encode(_Batch(first, requests))))


_LOST = Request(0, [])


def _salvaged(path: Path) -> tuple[bool, list[_Batch]]:
    """Return whether a segment begins anew, and what can be read of it; its beginning is a batch without requests."""
    data, at, anew, found = path.read_bytes(), 0, False, list[_Batch]()
    while (size := _size(data, at)) is not None:
        frame = _frame(data, at)
        if frame is not None:
            known = msgspec.msgpack.decode(frame)
            if isinstance(known, dict):
                head = codec.convert(known, _Head)
                anew |= head.anew
                found.append(_Batch(head.first, []))
            else:
                found.append(codec.convert(known, _Batch))
        at += size
    return anew, found


def _framed(data: bytes) -> bytes:
    checked = _CHECKED.pack(len(data), zlib.crc32(data))
    return checked + zlib.crc32(checked).to_bytes(4, "little") + data


def segments(folder: Path) -> list[int]:
    """Return the numbers of a journal's segments, in order."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:010}.journal"


def _read(path: Path) -> tuple[_Head | None, list[Request]]:
    """Return what a segment begins with, None where it has no beginning, and its requests."""
    frames = _frames(path.read_bytes())
    beginning = next(frames, None)
    if beginning is None:
        return None, []
    head = _HEADS.decode(beginning)
    first = head.first
    found: list[Request] = []
    for frame in frames:
        batch = _BATCHES.decode(frame)
        if batch.first != first + len(found):
            raise LostRequestLogError(f"request {first + len(found) + 1}")
        found += batch.requests
    return head, found


def _frames(data: bytes) -> Iterator[bytes]:
    """Yield whole frames; raises LostJournalError where something follows that is not the beginning of one."""
    at = 0
    while (frame := _frame(data, at)) is not None:
        yield frame
        at += _HEAD.size + len(frame)
    if not _begun(data, at):
        raise LostRequestLogError(f"the requests at byte {at}")


def _begun(data: bytes, at: int) -> bool:
    """Tell whether what is not a whole frame is the beginning of one, with nothing behind it but zeros."""
    size = _size(data, at)
    if size is None:
        return len(data[at:].rstrip(b"\0")) < _HEAD.size
    return at + size > len(data) or (at + size == len(data) and data.endswith(b"\0"))


def _frame(data: bytes, at: int) -> bytes | None:
    size = _size(data, at)
    if size is None or at + size > len(data):
        return None
    body = data[at + _HEAD.size : at + size]
    return body if zlib.crc32(body) == _HEAD.unpack_from(data, at)[1] else None


def _size(data: bytes, at: int) -> int | None:
    """Return how long the frame at some place is, None where none begins."""
    if at + _HEAD.size > len(data):
        return None
    size, _, checksum = _HEAD.unpack_from(data, at)
    sound = zlib.crc32(data[at : at + _CHECKED.size]) == checksum and 0 < size <= _MOST_BYTES
    return _HEAD.size + int(size) if sound else None
