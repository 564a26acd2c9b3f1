"""Store accepted requests durably before they are answered, until the capture log has them.

A request log is a folder of segments, numbered without gaps. Only the process that created the last segment writes. A
process that opens a request log creates the next segment, and reads the earlier ones afterwards. The previous writer
checks, after each write and before it answers, that its segment exists and the next one does not. So every answered
request has been read by the new process. Segments are deleted from the first one on.

A segment is a list of frames: a length, a checksum of the data, a checksum of both, and msgpack. The first frame has
the number before the segment's first request; others have batches of requests with the number before the first of them.
A segment may end with the beginning of a frame and zeros, as a file system may leave it: its requests were never
answered. Other bytes that are no frame are damage, and all frames after them are lost. If the capture log holds later
requests than the segments, a new segment begins with a later number (`anew`), and the segments before it no longer
count.

If requests are lost and later ones exist, the request log cannot be opened until it is repaired. Repair replaces lost
requests by requests without bodies, which are no rows, and all others keep their numbers.

A request log is no `NumberedLog`: its last file grows with each request, so that one write and one sync store it.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from sinkql import codec
from sinkql.storage import failpoint, files
from sinkql.storage.numbered_log import FileNames, NumberedFiles

_HEAD = struct.Struct("<III")
_CHECKED = struct.Struct("<II")
_SEGMENT_NAMES = FileNames(10, ".journal")
_SEGMENT_BYTES = 16 << 20
_MOST_BYTES = 1 << 30


class LostRequestLogError(Exception):
    """The request log lacks requests that were answered."""


class FencedRequestLogError(Exception):
    """Another process has taken over the request log."""


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A request: its time in microseconds, its bodies, each a row as text or bytes, and its headers."""

    at: int
    bodies: list[Any]
    headers: list[Any] = []


class _Batch(msgspec.Struct, frozen=True, array_like=True):
    first: int
    requests: list[Request]


class _Head(msgspec.Struct, frozen=True):
    """The first frame of a segment: the number before its first request."""

    first: int
    anew: bool = False


_HEADS = msgspec.msgpack.Decoder(_Head)
_BATCHES = msgspec.msgpack.Decoder(_Batch)


@dataclass(slots=True)
class RequestLog:
    """The request log of one source, open for one writer; `end` requests were accepted in total."""

    folder: Path
    end: int = 0
    floor: int = 0
    """The request log lacks requests up to this number."""
    _number: int = 0
    _file: int = -1
    _size: int = 0
    _last_requests: dict[int, int] = field(default_factory=dict)
    """The last request of each earlier segment."""
    _encode: msgspec.msgpack.Encoder = field(default_factory=msgspec.msgpack.Encoder)

    @classmethod
    def open(cls, folder: Path) -> tuple[RequestLog, list[Request]]:
        """Open the request log for writing, and return it with its requests; the first one follows `floor`.

        Fences the previous writer. Raises LostRequestLogError if requests in between are missing, FencedRequestLogError
        if another process was faster, and OSError.
        """
        files.make_folder(folder)
        numbers = segments(folder)
        log = cls(folder)
        log._number = (numbers[-1] if numbers else 0) + 1
        try:
            log._create()
            requests = log._recover(numbers)
            log._begin()
        except BaseException:
            log.close()
            raise
        return log, requests

    def _create(self) -> None:
        path = _path(self.folder, self._number)
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError:
            raise FencedRequestLogError from None
        files.sync_folder(self.folder)
        self._size = 0

    def _recover(self, numbers: Sequence[int]) -> list[Request]:
        """Read the earlier segments, each up to the beginning of the next one."""
        read = [(number, *_read(_path(self.folder, number))) for number in numbers]
        newest = max((index for index, (_, head, _) in enumerate(read) if head is not None and head.anew), default=0)
        began = [(number, head.first, requests) for number, head, requests in read[newest:] if head is not None]
        recovered: list[Request] = []
        self.floor = self.end = began[0][1] if began else 0
        for index, (number, first, requests) in enumerate(began):
            last = began[index + 1][1] if index + 1 < len(began) else first + len(requests)
            if first != self.end or last > first + len(requests):
                raise LostRequestLogError(f"request {min(self.end, first + len(requests)) + 1}")
            recovered += requests[: last - first]
            self.end = last
            self._last_requests[number] = last
        for index, (number, head, _) in enumerate(read):
            if head is None or index < newest:  # its process died before it answered a request
                self._last_requests[number] = self.floor
        return recovered

    def _begin(self, first: int | None = None) -> None:
        """Write the first frame; with `first`, that of a segment that starts at a later number."""
        begun = {"first": self.end} if first is None else {"first": first, "anew": True}
        self._write(msgspec.msgpack.encode(begun))
        self._sync()

    def skip(self, number: int) -> None:
        """Continue after a later number, up to which the capture log has all requests.

        Raises FencedRequestLogError and OSError.
        """
        self._rotate(first=number)
        self.end = number
        self._last_requests = dict.fromkeys(self._last_requests, number)
        self.forget(number)

    def append(self, requests: Sequence[Request]) -> int:
        """Write requests durably, and return the number of the first one.

        Raises FencedRequestLogError if they must not be answered, OSError if they may not be durable.
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
        self._last_requests[self._number] = self.end
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
        # in this order, since segments are deleted from the first one on
        if _path(self.folder, self._number + 1).exists() or not _path(self.folder, self._number).exists():
            raise FencedRequestLogError

    def forget(self, number: int) -> None:
        """Delete segments whose requests all have numbers up to `number`."""
        for segment, last in sorted(self._last_requests.items()):
            if last > number:
                break
            _path(self.folder, segment).unlink(missing_ok=True)
            del self._last_requests[segment]
            self.floor = max(self.floor, last)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def repair(folder: Path) -> None:
    """Repair a request log that lost requests, so that it continues with the remaining ones.

    Raises the errors of `RequestLog.open`, and OSError. A repair that was interrupted can be repeated.
    """
    try:
        RequestLog.open(folder)[0].close()
    except LostRequestLogError:  # the previous writer finds the new segment, and stops answering
        _replace_lost(folder)


def _replace_lost(folder: Path) -> None:
    read = [(path, *_salvaged(path)) for path in (_path(folder, number) for number in segments(folder))]
    begun = max((index for index, (_, restarts, _) in enumerate(read) if restarts), default=0)
    for index, (path, _, batches) in enumerate(read):
        if not batches or index < begun:
            files.write_atomic(path, b"")
    left = [(path, batches) for path, _, batches in read[begun:] if batches]
    for index, (path, batches) in enumerate(left):
        first, requests = batches[0].first, list[Request]()
        following = left[index + 1][1][0].first if index + 1 < len(left) else 0
        for batch in (*batches, _Batch(following, [])):
            requests += [_LOST] * (batch.first - first - len(requests))
            requests += batch.requests
        head = msgspec.msgpack.encode({"first": first})
        files.write_atomic(path, _framed(head) + _framed(msgspec.msgpack.encode(_Batch(first, requests))))


_LOST = Request(0, [])


def _salvaged(path: Path) -> tuple[bool, list[_Batch]]:
    """Return whether a segment starts at a later number, and its readable batches; its head becomes an empty batch."""
    data, at, restarts, batches = path.read_bytes(), 0, False, list[_Batch]()
    while (size := _size(data, at)) is not None:
        frame = _frame(data, at)
        if frame is not None:
            content = msgspec.msgpack.decode(frame)
            if isinstance(content, dict):
                head = codec.convert(content, _Head)
                restarts |= head.anew
                batches.append(_Batch(head.first, []))
            else:
                batches.append(codec.convert(content, _Batch))
        at += size
    return restarts, batches


def _framed(data: bytes) -> bytes:
    checked = _CHECKED.pack(len(data), zlib.crc32(data))
    return checked + zlib.crc32(checked).to_bytes(4, "little") + data


def segments(folder: Path) -> list[int]:
    """Return the numbers of the segments in order."""
    return NumberedFiles(folder, _SEGMENT_NAMES).numbers()


def _path(folder: Path, number: int) -> Path:
    return NumberedFiles(folder, _SEGMENT_NAMES).path(number)


def _read(path: Path) -> tuple[_Head | None, list[Request]]:
    """Return the head of a segment, None if it is missing, and its requests."""
    frames = _frames(path.read_bytes())
    beginning = next(frames, None)
    if beginning is None:
        return None, []
    head = _HEADS.decode(beginning)
    first = head.first
    requests: list[Request] = []
    for frame in frames:
        batch = _BATCHES.decode(frame)
        if batch.first != first + len(requests):
            raise LostRequestLogError(f"request {first + len(requests) + 1}")
        requests += batch.requests
    return head, requests


def _frames(data: bytes) -> Iterator[bytes]:
    """Yield whole frames; raise LostRequestLogError if the rest is not the beginning of a frame."""
    at = 0
    while (frame := _frame(data, at)) is not None:
        yield frame
        at += _HEAD.size + len(frame)
    if not _is_beginning(data, at):
        raise LostRequestLogError(f"the requests at byte {at}")


def _is_beginning(data: bytes, at: int) -> bool:
    """Return whether the rest of a segment is the beginning of a frame, followed only by zeros."""
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
    """Return the length of the frame at an offset; None if no frame begins there."""
    if at + _HEAD.size > len(data):
        return None
    size, _, checksum = _HEAD.unpack_from(data, at)
    sound = zlib.crc32(data[at : at + _CHECKED.size]) == checksum and 0 < size <= _MOST_BYTES
    return _HEAD.size + int(size) if sound else None
