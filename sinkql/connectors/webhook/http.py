"""Bytes of one HTTP connection → requests to the doors, in order, and answers. h11 reads and writes the protocol."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import quote, unquote

import h11

from sinkql.connectors.webhook import port_connections
from sinkql.connectors.webhook.endpoint import Endpoint, Response

_HEAD_BYTES = 16 << 10
_IDLE_SECONDS = 75.0
_REQUEST_SECONDS = 60.0
_SLOWEST = 16 << 10
"""A request has so many seconds to come, and a second more for so many bytes of it: few who send a byte now and then
would otherwise have all connections."""
_LINGER_SECONDS = 2.0
_TURN = 40
"""So many parts of requests are taken of one connection before others have their turn."""
_SMALL, _FEW, _REST_SECONDS, _LONGEST_REST = 1024, 4, 0.01, 1.0
"""Who sends a request in more than a few small parts is read less and less often: the parts come together then."""
_NOT_FOUND = Response(HTTPStatus.NOT_FOUND, "there is no such source here")
_NOT_ALLOWED = Response(HTTPStatus.METHOD_NOT_ALLOWED, "requests are sent with POST")
_TOO_LONG = Response(HTTPStatus(413), "the body is too long")
_CODED = Response(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body is compressed, and is not to be")
_SLOW = Response(HTTPStatus.REQUEST_TIMEOUT, "the request came too slowly")
_CROWDED = Response(HTTPStatus.TOO_MANY_REQUESTS, "there are too many connections", 1)
_BUSY = Response(HTTPStatus.TOO_MANY_REQUESTS, "too much is sent at the same time", 1)
_FAILED = Response(HTTPStatus.INTERNAL_SERVER_ERROR, "the request could not be handled")

Find = Callable[[str], Endpoint | None]


class Connection(asyncio.Protocol):
    """One connection, a `PortConnection` of a crowd.

    Nothing more is read while a request waits for its answer and the next one is here, or while answers are not taken.
    """

    def __init__(self, find: Find, members: port_connections.PortConnections, said: bytes = b"") -> None:
        self._find = find
        self._said = said
        """What was read before it is served."""
        self._crowd = members
        self._loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)
        self._transport: asyncio.Transport
        self._headers: dict[str, bytes] = {}
        self._door: Endpoint | None = None
        self._verdict: Response | None = None
        """What the request is answered whatever is left of it."""
        self._body = bytearray()
        self._size = 0
        self.held = 0
        self._going = False
        self._full = False
        """Whether answers wait that the sender does not take."""
        self.seen_at = self._loop.time()
        self.is_waiting = False
        self._begun_at: float | None = None
        """When the first of a request came that is not here as a whole."""
        self._timer: asyncio.TimerHandle | None = None
        self._unfed = deque[memoryview]()
        self._parts = 0
        """How many small parts came of a request that is not here as a whole."""
        self._rest: asyncio.TimerHandle | None = None
        """While the connection is not read, since it sends little at a time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._crowd.enter(self)
        if self._crowd.gone:
            transport.abort()
            return
        self._timer = self._loop.call_later(min(_IDLE_SECONDS, _REQUEST_SECONDS), self._look)
        if self._said:
            self._loop.call_soon(self.data_received, self._said)  # reading has begun by then, and nothing has come

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.leave(self)
        self._drop()
        for each in (self._timer, self._rest):
            if each is not None:
                each.cancel()

    def _look(self) -> None:
        """Close a connection on which nothing has come for long, or a request that comes too slowly.

        One that waits for its answer is waited for.
        """
        now = self._loop.time()
        idle = self.seen_at + _IDLE_SECONDS - now
        left = idle
        if self._begun_at is not None:
            left = min(idle, self._begun_at + _REQUEST_SECONDS + self._size / _SLOWEST - now)
        if left > 0 or not (self._full or self._http.their_state is not h11.DONE):
            self._timer = self._loop.call_later(max(left, 1.0), self._look)
        elif idle <= 0 or self._full:
            self._transport.abort()
        else:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                self._send(_SLOW, close=True)
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self.seen_at = self._loop.time()
        if self._begun_at is None:
            self._begun_at, self._size = self.seen_at, 0
        self._unfed.append(memoryview(data))
        self._parts = self._parts + 1 if len(data) < _SMALL else 0
        if self._parts > _FEW:
            seconds = min(_LONGEST_REST, _REST_SECONDS * 2.0 ** min(self._parts - _FEW, 10))
            self._transport.pause_reading()
            self._rest = self._loop.call_later(seconds, self._rested)
        self._go_on()

    def _rested(self) -> None:
        self._rest = None
        if not self._going:
            self._go_on()

    def eof_received(self) -> None:
        self._unfed.append(memoryview(b""))
        self._go_on()

    def _feed(self) -> bool:
        """Give h11 some of what came, as it looks how long the head is only where it is not whole; False for none."""
        if not self._unfed:
            return False
        data = self._unfed.popleft()
        if len(data) > _HEAD_BYTES:
            self._unfed.appendleft(data[_HEAD_BYTES:])
        self._http.receive_data(bytes(data[:_HEAD_BYTES]))
        return True

    def _go_on(self) -> None:
        """Take what came of requests, up to the end of one that waits for its answer."""
        self._going, taken = True, 0
        try:
            while not self._transport.is_closing():
                taken += 1
                if taken > _TURN:
                    self._transport.pause_reading()
                    self._loop.call_soon(self._rested)
                    return
                event = h11.PAUSED if self._full else self._http.next_event()
                if event is h11.NEED_DATA and self._feed():
                    continue
                if event is h11.NEED_DATA and self._http.they_are_waiting_for_100_continue:
                    self._continue()
                elif event is h11.NEED_DATA:
                    if self._rest is None:
                        self._transport.resume_reading()
                    return
                elif event is h11.PAUSED:
                    self._transport.pause_reading()
                    return
                else:
                    self._take(event)
        except h11.RemoteProtocolError as error:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                self._send(Response(HTTPStatus(error.error_status_hint), "the request is not valid HTTP"), close=True)
            self._transport.close()
        finally:
            self._going = False

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if not self._going:
            self._go_on()

    def _continue(self) -> None:
        """Have the sender send the body, or refuse it at once."""
        if self._verdict is not None:
            self._send(self._verdict, close=True)
            self._transport.close()
        else:
            self._transport.write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")

    def _take(self, event: object) -> None:
        match event:
            case h11.Request():
                self._begin(event)
            case h11.Data():
                self._add(bytes(event.data))
            case h11.EndOfMessage():
                self._end()
            case h11.ConnectionClosed():
                self._transport.close()

    def _begin(self, request: h11.Request) -> None:
        self._drop()
        self._size = 0
        self._headers, twice = _headers(request)
        self._door = self._find(_path(request.target))
        self._verdict = None
        if self._crowd.is_full:
            self._verdict = _CROWDED
        elif self._door is None:
            self._verdict = _NOT_FOUND
        elif request.method != b"POST":
            self._verdict = _NOT_ALLOWED
        elif int(self._headers.get("content-length", b"0")) > self._door.max_body:
            self._refuse(_TOO_LONG)
        elif not self._door.reading.takes(self._headers.get("content-encoding", b"")):
            self._verdict = _CODED
        elif twice is not None:
            self._verdict = Response(HTTPStatus.UNAUTHORIZED, f"header {twice} is there more than once")

    def _add(self, data: bytes) -> None:
        self._size += len(data)
        if self._door is not None and self._size > self._door.max_body:
            self._refuse(_TOO_LONG)
        elif self._verdict is None:
            self._body += data
            self.held += len(data)
            self._crowd.bytes += len(data)
            if self._crowd.bytes - self.held > port_connections.MOST_BYTES:
                self._crowd.largest().close_idle()

    def close_idle(self) -> None:
        """Give up a body of which more is to come: too much comes at the same time."""
        self._refuse(_BUSY)

    def _drop(self) -> bytes:
        """Return what came of a body, and hold it no more."""
        found = bytes(self._body)
        self._body = bytearray()
        self._crowd.bytes -= self.held
        self.held = 0
        return found

    def _refuse(self, answer: Response) -> None:
        """Answer a request of which more is to come, and close: a little later, or the sender would not see it."""
        self._verdict = answer
        self._drop()
        if self._http.our_state is h11.SEND_RESPONSE:
            self._send(answer, close=True)
            self._loop.call_later(_LINGER_SECONDS, self._transport.close)

    def _end(self) -> None:
        self._begun_at, self._parts = None, 0
        self.is_waiting = True
        self._crowd.mark_active(self)
        if self._http.our_state is not h11.SEND_RESPONSE:
            self._transport.close()  # it was refused before its end
        elif self._verdict is not None or self._door is None:
            self._answer(self._verdict or _NOT_FOUND)
        else:
            try:
                self._door.accept(self._headers, self._drop(), self._answer)
            except Exception:
                self._answer(_FAILED)
                raise

    def _answer(self, answer: Response) -> None:
        """Answer the request, all of which has come, and go on to the next."""
        self.is_waiting = False
        if self._transport.is_closing():
            return
        self._send(answer)
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            if self._unfed or self._http.trailing_data[0]:
                self._begun_at, self._size = self._loop.time(), 0
            if not self._going:
                self._go_on()
        else:
            self._transport.close()

    def _send(self, answer: Response, *, close: bool = False) -> None:
        text = f"{answer.text}\n".encode() if answer.text else b""
        headers = [("content-length", str(len(text)))]
        if text:
            headers.append(("content-type", "text/plain; charset=utf-8"))
        if answer.after is not None:
            headers.append(("retry-after", str(answer.after)))
        if answer is _NOT_ALLOWED:
            headers.append(("allow", "POST"))
        if answer is _CODED:
            headers.append(("accept-encoding", "identity"))
        if close:
            headers.append(("connection", "close"))
        response = h11.Response(status_code=answer.status, headers=headers, reason=answer.status.phrase)
        events = (response, h11.Data(data=text), h11.EndOfMessage())
        self._transport.write(b"".join(self._http.send(each) or b"" for each in events))

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def shut(self) -> None:
        """Close the connection, which gets the answers that are on their way."""
        self._transport.close()


def _path(target: bytes) -> str:
    """Return the path of a request's target as `plan.path_of` has it, however it is quoted."""
    path = target.decode("ascii", "replace").partition("?")[0]
    return "/".join(quote(unquote(part), safe="") for part in path.split("/"))


def _headers(request: h11.Request) -> tuple[dict[str, bytes], str | None]:
    """Return the headers by their names in lower case, and the name of one that is there twice."""
    found: dict[str, bytes] = {}
    twice = None
    for name, value in request.headers:
        key = name.decode()
        if key in found:
            twice = twice or key
        found[key] = value
    return found, twice
