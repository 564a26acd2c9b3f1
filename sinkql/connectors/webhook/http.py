"""Parse the requests of one HTTP connection with h11, pass them to endpoints in order, and write the answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus

import h11

from sinkql.connectors.webhook import port_connections
from sinkql.connectors.webhook.endpoint import Endpoint, Response
from sinkql.connectors.webhook.received_request import ReceivedRequest, RequestPace, headers_of, path_of_target

_HEAD_BYTES = 16 << 10
_IDLE_SECONDS = 75.0
_REQUEST_SECONDS = 60.0
"""How long a request may take, without the time for its body."""
_LINGER_SECONDS = 2.0
_TURN = 40
"""The number of events of one connection before other connections have their turn."""
_NOT_FOUND = Response(HTTPStatus.NOT_FOUND, "no source listens at this path")
_NOT_ALLOWED = Response(HTTPStatus.METHOD_NOT_ALLOWED, "requests are sent with POST")
_TOO_LONG = Response(HTTPStatus(413), "the body is too long")
_CODED = Response(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must not be compressed")
_SLOW = Response(HTTPStatus.REQUEST_TIMEOUT, "the request came too slowly")
_CROWDED = Response(HTTPStatus.TOO_MANY_REQUESTS, "there are too many connections", 1)
_BUSY = Response(HTTPStatus.TOO_MANY_REQUESTS, "too much is sent at the same time", 1)
_FAILED = Response(HTTPStatus.INTERNAL_SERVER_ERROR, "the request could not be handled")

Find = Callable[[str], Endpoint | None]
"""Find the endpoint of a path."""


class Connection(asyncio.Protocol):
    """One HTTP connection, a `PortConnection`; `received` was read before it was created.

    The connection does not read while a received request waits for its answer and the next one has begun, or while the
    sender does not read answers.
    """

    def __init__(self, find: Find, members: port_connections.PortConnections, received: bytes = b"") -> None:
        self._find = find
        self._received = received
        self._members = members
        self._loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)
        self._transport: asyncio.Transport
        self._request = ReceivedRequest()
        self._pace = RequestPace()
        self._is_parsing = False
        self._is_full = False
        """Whether answers wait that the sender does not read."""
        self.seen_at = self._loop.time()
        self.is_waiting = False
        self._timer: asyncio.TimerHandle | None = None
        self._unparsed = deque[memoryview]()
        self._rest: asyncio.TimerHandle | None = None
        """The end of a rest, during which the connection is not read."""

    @property
    def held(self) -> int:
        """Return the bytes of the body that is being received."""
        return len(self._request.body)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._members.enter(self)
        if self._members.is_closed:
            transport.abort()
            return
        self._timer = self._loop.call_later(min(_IDLE_SECONDS, _REQUEST_SECONDS), self._check_time)
        if self._received:
            self._loop.call_soon(self.data_received, self._received)  # by then the transport reads, but has no data

    def connection_lost(self, exc: Exception | None) -> None:
        self._members.leave(self)
        self._drop_body()
        for timer in (self._timer, self._rest):
            if timer is not None:
                timer.cancel()

    def _check_time(self) -> None:
        """Close an idle connection, and a connection whose request is too slow and does not wait for its answer."""
        now = self._loop.time()
        idle = self.seen_at + _IDLE_SECONDS - now
        deadline = self._pace.deadline(_REQUEST_SECONDS)
        left = idle if deadline is None else min(idle, deadline - now)
        if left > 0 or not (self._is_full or self._http.their_state is not h11.DONE):
            self._timer = self._loop.call_later(max(left, 1.0), self._check_time)
        elif idle <= 0 or self._is_full:
            self._transport.abort()
        else:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                self._send(_SLOW, close=True)
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self.seen_at = self._loop.time()
        self._pace.begin(self.seen_at)
        self._unparsed.append(memoryview(data))
        seconds = self._pace.rest_seconds(len(data))
        if seconds is not None:
            self._transport.pause_reading()
            self._rest = self._loop.call_later(seconds, self._resume)
        self._parse()

    def _resume(self) -> None:
        self._rest = None
        if not self._is_parsing:
            self._parse()

    def eof_received(self) -> None:
        self._unparsed.append(memoryview(b""))
        self._parse()

    def _feed(self) -> bool:
        """Pass some of the data to h11; return False without data.

        h11 checks the length of a head only while the head is incomplete. It gets at most one such length at a time.
        """
        if not self._unparsed:
            return False
        data = self._unparsed.popleft()
        if len(data) > _HEAD_BYTES:
            self._unparsed.appendleft(data[_HEAD_BYTES:])
        self._http.receive_data(bytes(data[:_HEAD_BYTES]))
        return True

    def _parse(self) -> None:
        """Handle the received data up to the end of a request that waits for its answer."""
        self._is_parsing, count = True, 0
        try:
            while not self._transport.is_closing():
                count += 1
                if count > _TURN:
                    self._transport.pause_reading()
                    self._loop.call_soon(self._resume)
                    return
                event = h11.PAUSED if self._is_full else self._http.next_event()
                if event is h11.NEED_DATA and self._feed():
                    continue
                if event is h11.NEED_DATA and self._http.they_are_waiting_for_100_continue:
                    self._send_continue()
                elif event is h11.NEED_DATA:
                    if self._rest is None:
                        self._transport.resume_reading()
                    return
                elif event is h11.PAUSED:
                    self._transport.pause_reading()
                    return
                else:
                    self._handle(event)
        except h11.RemoteProtocolError as error:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                self._send(Response(HTTPStatus(error.error_status_hint), "the request is not valid HTTP"), close=True)
            self._transport.close()
        finally:
            self._is_parsing = False

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if not self._is_parsing:
            self._parse()

    def _send_continue(self) -> None:
        """Ask the sender for the body, or refuse it immediately."""
        if self._request.refusal is not None:
            self._send(self._request.refusal, close=True)
            self._transport.close()
        else:
            self._transport.write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")

    def _handle(self, event: object) -> None:
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
        self._drop_body()
        self._pace.size = 0
        headers, duplicate = headers_of(request)
        endpoint = self._find(path_of_target(request.target))
        self._request = ReceivedRequest(headers, endpoint)
        if self._members.is_full:
            self._request.refusal = _CROWDED
        elif endpoint is None:
            self._request.refusal = _NOT_FOUND
        elif request.method != b"POST":
            self._request.refusal = _NOT_ALLOWED
        elif int(headers.get("content-length", b"0")) > endpoint.max_body:
            self._refuse(_TOO_LONG)
        elif not endpoint.reading.is_readable(headers.get("content-encoding", b"")):
            self._request.refusal = _CODED
        elif duplicate is not None:
            self._request.refusal = Response(HTTPStatus.UNAUTHORIZED, f"header {duplicate} is there more than once")

    def _add(self, data: bytes) -> None:
        self._pace.size += len(data)
        endpoint = self._request.endpoint
        if endpoint is not None and self._pace.size > endpoint.max_body:
            self._refuse(_TOO_LONG)
        elif self._request.refusal is None:
            self._request.body += data
            self._members.bytes += len(data)
            if self._members.bytes - self.held > port_connections.MOST_BYTES:
                self._members.largest().close_idle()

    def close_idle(self) -> None:
        """Refuse the request that is being received, since the connections hold too many bytes."""
        self._refuse(_BUSY)

    def _drop_body(self) -> bytes:
        """Return the received part of the body, and release it."""
        body = self._request.take_body()
        self._members.bytes -= len(body)
        return body

    def _refuse(self, response: Response) -> None:
        """Answer a request whose body is still arriving, and close after a delay so that the sender sees the answer."""
        self._request.refusal = response
        self._drop_body()
        if self._http.our_state is h11.SEND_RESPONSE:
            self._send(response, close=True)
            self._loop.call_later(_LINGER_SECONDS, self._transport.close)

    def _end(self) -> None:
        self._pace.end()
        self.is_waiting = True
        self._members.mark_active(self)
        request = self._request
        if self._http.our_state is not h11.SEND_RESPONSE:
            self._transport.close()  # it was refused before its end
        elif request.refusal is not None or request.endpoint is None:
            self._answer(request.refusal or _NOT_FOUND)
        else:
            try:
                request.endpoint.accept(request.headers, self._drop_body(), self._answer)
            except Exception:
                self._answer(_FAILED)
                raise

    def _answer(self, response: Response) -> None:
        """Answer the complete request, and continue with the next one."""
        self.is_waiting = False
        if self._transport.is_closing():
            return
        self._send(response)
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            if self._unparsed or self._http.trailing_data[0]:
                self._pace.restart(self._loop.time())
            if not self._is_parsing:
                self._parse()
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
        self._transport.write(b"".join(self._http.send(event) or b"" for event in events))

    def abort(self) -> None:
        """Close the connection immediately."""
        self._transport.abort()

    def shut(self) -> None:
        """Close the connection after pending answers were sent."""
        self._transport.close()
