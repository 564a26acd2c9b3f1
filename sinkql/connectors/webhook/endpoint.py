"""One source's requests: let in or refused, made durable together, and answered; then handed to its capture."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus

from sinkql.connectors.webhook.check_eval import CheckInput
from sinkql.connectors.webhook.request import BodyError, Reading
from sinkql.connectors.webhook.request_log import FencedRequestLogError, Request, RequestLog

_WAITING_BYTES = 16 << 20
_LARGE_BYTES = 32 << 10
"""A body that is longer is judged and read beside the thread that answers, which others wait for."""
_BATCH_BYTES = 1 << 20
"""So much is made durable at once; what comes meanwhile goes with the next."""
FULL_SECONDS = 10
CLOSED_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Response:
    """What a request is answered; a sender is to come back `after` so many seconds."""

    status: HTTPStatus
    text: str = ""
    after: int | None = None


ACCEPTED = Response(HTTPStatus.OK)
CLOSED = Response(HTTPStatus.SERVICE_UNAVAILABLE, "the source does not take requests now", CLOSED_SECONDS)
_FULL = Response(HTTPStatus.TOO_MANY_REQUESTS, "the log of the source is full", FULL_SECONDS)
_FAILED = Response(HTTPStatus.INTERNAL_SERVER_ERROR, "the request could not be handled")
_CHECKED = Response(HTTPStatus.BAD_REQUEST, "the request does not pass the source's check")

Reply = Callable[[Response], None]
"""Answers one request; is called where `Door.take` was, or where `Door.post` has it called."""


@dataclass(slots=True)
class Endpoint:
    """Take the requests that go to `path`, as long as it is open. `judge` tells who is let in."""

    path: str
    reading: Reading
    judge: Callable[[CheckInput], bool]
    max_body: int
    journal: RequestLog
    post: Callable[[Callable[[], None]], None] = field(default=lambda call: call())
    """Calls a function where requests are taken."""
    failure: Exception | None = None
    """What ended it: requests that were not answered may be durable, or not."""
    _open: bool = True
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _came: threading.Event = field(default_factory=threading.Event)
    _many: threading.Event = field(default_factory=threading.Event)
    _coming: list[tuple[Request, int, Reply]] = field(default_factory=list)
    _accepted: deque[tuple[int, Request, int]] = field(default_factory=deque)
    _bytes: int = 0
    _reading_bytes: int = 0
    _reader: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "bodies"))
    _writing: Future[None] | None = None
    _writer: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "journal"))

    def accept(self, headers: Mapping[str, bytes], body: bytes, reply: Reply) -> None:
        """Have one request answered, sooner or later: with 200 once it is durable."""
        if not self._open:
            reply(CLOSED)
        elif len(body) <= _LARGE_BYTES:
            self._take(headers, body, reply)
        else:
            self._take_beside(headers, body, reply)

    def _take_beside(self, headers: Mapping[str, bytes], body: bytes, reply: Reply) -> None:
        size = len(body)
        with self._lock:
            full = self._reading_bytes > _WAITING_BYTES
            if not full:
                self._reading_bytes += size
        if full:
            reply(_FULL)
            return

        def take() -> None:
            try:
                self._take(headers, body, lambda answer: self.post(lambda: reply(answer)))
            except Exception:
                self.post(lambda: reply(_FAILED))
                raise
            finally:
                with self._lock:
                    self._reading_bytes -= size

        try:
            self._reader.submit(take)
        except RuntimeError:  # it is closed by now
            reply(CLOSED)

    def _take(self, headers: Mapping[str, bytes], body: bytes, reply: Reply) -> None:
        if not self.judge(CheckInput(headers, body)):
            reply(_CHECKED)
            return
        try:
            request = self.reading.request(time.time_ns() // 1000, headers, body)
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
                self._coming.append((request, size, reply))
                if self._writing is None:
                    self._writing = self._writer.submit(self._write)
        if full or not open_:
            reply(_FULL if full else CLOSED)

    def _write(self) -> None:
        """Make durable what came so far, and have the same done with what came meanwhile."""
        with self._lock:
            batch = self._next()
        self._accept(batch)
        with self._lock:
            self._writing = self._writer.submit(self._write) if self._coming else None

    def _next(self) -> list[tuple[Request, int, Reply]]:
        size, count = 0, 0
        for _, each, _ in self._coming:
            size, count = size + each, count + 1
            if size > _BATCH_BYTES:
                break
        batch, self._coming = self._coming[:count], self._coming[count:]
        return batch

    def _accept(self, batch: Sequence[tuple[Request, int, Reply]]) -> None:
        answer = CLOSED
        try:
            if self.failure is None:
                first = self.journal.append([request for request, _, _ in batch])
                with self._lock:
                    self._accepted += [(first + place, each[0], each[1]) for place, each in enumerate(batch)]
                    if self._bytes > _BATCH_BYTES:
                        self._many.set()
                self._came.set()
                answer = ACCEPTED
        except (OSError, FencedRequestLogError) as error:
            self.failure, self._open = error, False
            self._came.set()

        def tell() -> None:
            for _, _, reply in batch:
                reply(answer)

        self.post(tell)

    def reopen(self, requests: Sequence[tuple[int, Request]]) -> None:
        """Hand on requests that were accepted before, with their numbers; called before any comes."""
        for number, request in requests:
            self._accepted.append((number, request, 0))
        if requests:
            self._came.set()

    def accepted(self, seconds: float, *, to: int | None, most: int) -> list[tuple[int, Request]]:
        """Wait for requests that were accepted, and return them with their numbers: at most `most` bytes, none past
        the number `to`.

        Where some are there, others are waited for as long as there are few: rows are cheap by the thousand.
        """
        until = time.monotonic() + seconds
        if self._came.wait(seconds) and self._open:
            self._many.wait(until - time.monotonic())
        found: list[tuple[int, Request]] = []
        taken = 0
        with self._lock:
            while self._accepted and taken < most and (to is None or self._accepted[0][0] <= to):
                number, request, size = self._accepted.popleft()
                found.append((number, request))
                taken += size
            self._bytes -= taken
            self._many.clear()
            if not self._accepted and self.failure is None:
                self._came.clear()
        return found

    def end(self) -> int:
        """Return the number of the last request that was answered."""
        with self._lock:
            return self.journal.end

    def forget(self, number: int) -> None:
        """Let the journal forget requests up to a number."""
        self._writer.submit(self.journal.forget, number)

    def close(self) -> None:
        """Take no more requests, and answer those that came."""
        with self._lock:
            self._open = False
        self._reader.shutdown(wait=True)
        while (writing := self._writing) is not None:
            writing.result()
        self._writer.shutdown(wait=True)
        self.journal.close()
