"""Check the requests of one source, make them durable in groups, answer them, and hand them to the source's capture."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus

from sinkql.connectors.webhook.check_eval import CheckInput
from sinkql.connectors.webhook.request import BodyError, Reading
from sinkql.connectors.webhook.request_log import FencedRequestLogError, Request, RequestLog
from sinkql.machine import clock

_WAITING_BYTES = 16 << 20
_LARGE_BYTES = 32 << 10
"""The size of a body above which another thread checks and parses it, so that other requests need not wait."""
_BATCH_BYTES = 1 << 20
"""The most bytes of one group; requests that arrive while it is written form the next group."""
FULL_SECONDS = 10
CLOSED_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Response:
    """The answer to a request; a sender should retry `after` that number of seconds."""

    status: HTTPStatus
    text: str = ""
    after: int | None = None


ACCEPTED = Response(HTTPStatus.OK)
CLOSED = Response(HTTPStatus.SERVICE_UNAVAILABLE, "the source does not accept requests now", CLOSED_SECONDS)
_FULL = Response(HTTPStatus.TOO_MANY_REQUESTS, "the log of the source is full", FULL_SECONDS)
_FAILED = Response(HTTPStatus.INTERNAL_SERVER_ERROR, "the request could not be handled")
_CHECKED = Response(HTTPStatus.BAD_REQUEST, "the request does not pass the source's check")

Reply = Callable[[Response], None]
"""Answer one request; called by the thread that called `Endpoint.accept`, or through `Endpoint.post`."""


class LargeBodyReader:
    """A thread that handles requests with large bodies, up to a number of waiting bytes."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "bodies")
        self._lock = threading.Lock()
        self._bytes = 0

    def reserve(self, size: int) -> bool:
        """Count a body as waiting; return False if too many bytes wait already."""
        with self._lock:
            if self._bytes > _WAITING_BYTES:
                return False
            self._bytes += size
        return True

    def submit(self, size: int, handle: Callable[[], None]) -> None:
        """Handle a reserved body in the thread. Raise RuntimeError after `close`."""

        def handle_and_release() -> None:
            try:
                handle()
            finally:
                with self._lock:
                    self._bytes -= size

        self._executor.submit(handle_and_release)

    def close(self) -> None:
        """Handle the waiting bodies, and end the thread."""
        self._executor.shutdown(wait=True)


class AcceptedRequests:
    """The queue of durable requests, which the capture of the source empties."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: deque[tuple[int, Request, int]] = deque()
        self._any = threading.Event()
        self._many = threading.Event()
        self._has_ended = False

    def add(self, requests: Sequence[tuple[int, Request, int]], *, many: bool = False) -> None:
        """Add requests with their numbers and sizes; with `many`, `take` does not wait for more."""
        with self._lock:
            self._requests += requests
            if many:
                self._many.set()
            if self._requests:
                self._any.set()

    def end(self) -> None:
        """Stop waiting: from now on, `take` returns immediately."""
        with self._lock:
            self._has_ended = True
            self._any.set()

    def take(
        self, seconds: float, *, to: int | None, most: int, is_open: Callable[[], bool]
    ) -> list[tuple[int, Request, int]]:
        """Remove and return requests of at most `most` bytes, up to the number `to`; wait if the queue is empty.

        While the endpoint `is_open`, a few requests wait for more: rows are cheap by the thousand.
        """
        until = clock.monotonic() + seconds
        if clock.wait(self._any, seconds) and is_open():
            clock.wait(self._many, until - clock.monotonic())
        taken_requests: list[tuple[int, Request, int]] = []
        size = 0
        with self._lock:
            while self._requests and size < most and (to is None or self._requests[0][0] <= to):
                request = self._requests.popleft()
                taken_requests.append(request)
                size += request[2]
            self._many.clear()
            if not self._requests and not self._has_ended:
                self._any.clear()
        return taken_requests


@dataclass(slots=True)
class Endpoint:
    """The endpoint of one source: it accepts requests to `path` while it is open. `check` decides which requests pass.

    Any thread calls `accept`. A thread writes the waiting requests to the request log, group by group.
    """

    path: str
    reading: Reading
    check: Callable[[CheckInput], bool]
    max_body: int
    request_log: RequestLog
    post: Callable[[Callable[[], None]], None] = field(default=lambda call: call())
    """Call a function in the thread that serves connections."""
    failure: Exception | None = None
    """The error that closed the endpoint. Requests without an answer may or may not be durable."""
    _open: bool = True
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _waiting: list[tuple[Request, int, Reply]] = field(default_factory=list)
    _bytes: int = 0
    _accepted: AcceptedRequests = field(default_factory=AcceptedRequests)
    _large_bodies: LargeBodyReader = field(default_factory=LargeBodyReader)
    _writing: Future[None] | None = None
    _writer: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "journal"))

    def accept(self, headers: Mapping[str, bytes], body: bytes, reply: Reply) -> None:
        """Answer one request, now or later: with 200 once it is durable."""
        if not self._open:
            reply(CLOSED)
        elif len(body) <= _LARGE_BYTES:
            self._handle(headers, body, reply)
        else:
            self._handle_large(headers, body, reply)

    def _handle_large(self, headers: Mapping[str, bytes], body: bytes, reply: Reply) -> None:
        if not self._large_bodies.reserve(len(body)):
            reply(_FULL)
            return

        def handle() -> None:
            try:
                self._handle(headers, body, lambda response: self.post(lambda: reply(response)))
            except Exception:
                self.post(lambda: reply(_FAILED))
                raise

        try:
            self._large_bodies.submit(len(body), handle)
        except RuntimeError:  # the endpoint was closed since
            reply(CLOSED)

    def _handle(self, headers: Mapping[str, bytes], body: bytes, reply: Reply) -> None:
        if not self.check(CheckInput(headers, body)):
            reply(_CHECKED)
            return
        try:
            request = self.reading.request(clock.time_ns() // 1000, headers, body)
        except BodyError as error:
            reply(Response(HTTPStatus.BAD_REQUEST, str(error)))
            return
        if not request.bodies:
            reply(ACCEPTED)  # an empty text has no documents
            return
        size = len(body) + 100
        with self._lock:
            open_, full = self._open, self._bytes > _WAITING_BYTES
            if open_ and not full:
                self._bytes += size
                self._waiting.append((request, size, reply))
                if self._writing is None:
                    self._writing = self._writer.submit(self._write)
        if full or not open_:
            reply(_FULL if full else CLOSED)

    def _write(self) -> None:
        """Write a group of waiting requests, and schedule the next group."""
        with self._lock:
            batch = self._next_batch()
        self._write_batch(batch)
        with self._lock:
            self._writing = self._writer.submit(self._write) if self._waiting else None

    def _next_batch(self) -> list[tuple[Request, int, Reply]]:
        total, count = 0, 0
        for _, size, _ in self._waiting:
            total, count = total + size, count + 1
            if total > _BATCH_BYTES:
                break
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    def _write_batch(self, batch: Sequence[tuple[Request, int, Reply]]) -> None:
        response = CLOSED
        try:
            if self.failure is None:
                first = self.request_log.append([request for request, _, _ in batch])
                numbered = [(first + index, request, size) for index, (request, size, _) in enumerate(batch)]
                with self._lock:
                    many = self._bytes > _BATCH_BYTES
                self._accepted.add(numbered, many=many)
                response = ACCEPTED
        except (OSError, FencedRequestLogError) as error:
            self.failure, self._open = error, False
            self._accepted.end()

        def answer() -> None:
            for _, _, reply in batch:
                reply(response)

        self.post(answer)

    def reopen(self, requests: Sequence[tuple[int, Request]]) -> None:
        """Queue requests that an earlier endpoint accepted, with their numbers. Call it before `accept`."""
        self._accepted.add([(number, request, 0) for number, request in requests])

    def accepted(self, seconds: float, *, to: int | None, most: int) -> list[tuple[int, Request]]:
        """Wait for accepted requests, and return them with their numbers; see `AcceptedRequests.take`."""
        requests = self._accepted.take(seconds, to=to, most=most, is_open=lambda: self._open)
        with self._lock:
            self._bytes -= sum(size for _, _, size in requests)
        return [(number, request) for number, request, _ in requests]

    def end(self) -> int:
        """Return the number of the last request that was answered."""
        with self._lock:
            return self.request_log.end

    def forget(self, number: int) -> None:
        """Delete requests up to a number from the request log."""
        self._writer.submit(self.request_log.forget, number)

    def close(self) -> None:
        """Stop accepting requests, and answer the waiting ones."""
        with self._lock:
            self._open = False
        self._large_bodies.close()
        while (writing := self._writing) is not None:
            writing.result()
        self._writer.shutdown(wait=True)
        self.request_log.close()
