"""Accept the connections of one port, and count them from that moment, TLS handshakes included.

A connection stays a bare socket until it sends the head of a request, so that a silent connection costs little.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial

from sinkql.connectors.webhook.port_connections import PortConnections
from sinkql.machine import clock

_BACKLOG = 2048
"""The queue of the port. If it is full, senders retry after a second. The system may have a smaller limit."""
_HANDSHAKE_SECONDS = 10.0
_NO_FILES_SECONDS = 0.2
"""The pause in accepting connections when the process has no free file descriptor."""
_TURN = 128
"""Connections accepted before open ones are served. A small number would let a sender that reconnects constantly keep
other connections in the queue.
"""
_SILENT_SECONDS = 60.0
"""The time after which a connection without any bytes is closed. One with a part of a head is served soon, and then
times out.
"""
_LOOK_SECONDS = 10.0
_MOST_HEAD = 4 << 10
"""The size of a partial head at which the connection is served."""


class FirstBytes(Enum):
    """The state of the first bytes: too few to serve the connection, a head of a request, or the end."""

    LITTLE, HEAD, END = range(3)


class AcceptedConnection:
    """A connection that was accepted and is not served yet; a `PortConnection`."""

    is_waiting = False
    held = 0

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.seen_at = clock.monotonic()
        self.received = b""
        """The bytes received, which are no complete head."""
        self.stop_reading: Callable[[], object] | None = None
        """Stop waiting for bytes of the bare socket; called before it is closed or served."""

    def abort(self) -> None:
        """Close the connection, or end its TLS handshake."""
        if self.stop_reading is not None:
            self.stop_reading()
            self.socket.close()
        else:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)

    shut = close_idle = abort


class Acceptor:
    """Accept the connections of one address and port, and serve each with a protocol.

    `serve` creates the protocol from the bytes that were already read.
    """

    def __init__(
        self, connections: PortConnections, serve: Callable[[bytes], asyncio.Protocol], context: ssl.SSLContext | None
    ) -> None:
        self._connections = connections
        self._serve = serve
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[object, asyncio.TimerHandle] = {}

    async def open(self, address: str, port: int) -> None:
        """Listen; raise OSError."""
        addresses = await self._loop.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, address_and_port in dict.fromkeys((info[0], info[4]) for info in addresses):
                opened = socket.create_server(address_and_port, family=family, backlog=_BACKLOG)
                opened.setblocking(False)
                self._sockets.append(opened)
        except OSError:
            self.close()
            raise
        for listening in self._sockets:
            self._listen(listening)
        self._check_silent()

    def close(self) -> None:
        """Stop listening, and cancel handshakes."""
        for task in list(self._tasks):
            task.cancel()
        for timer in self._timers.values():
            timer.cancel()
        for listening in self._sockets:
            self._loop.remove_reader(listening)  # before its number is used again
            listening.close()

    def _listen(self, listening: socket.socket) -> None:
        self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accept queued connections, at most one turn; the event loop calls again if more are queued."""
        for _ in range(_TURN):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, ConnectionError):  # the queue is empty, or a sender has left
                return
            except OSError:  # too many open files
                self._loop.remove_reader(listening)
                self._timers[listening] = self._loop.call_later(_NO_FILES_SECONDS, self._listen, listening)
                return
            accepted.setblocking(False)
            arrival = AcceptedConnection(accepted)
            first_bytes = self._read_first_bytes(arrival)
            if (first_bytes is FirstBytes.END and not arrival.received) or not self._connections.evict_one():
                accepted.close()
                continue
            self._connections.arrive(arrival)
            if first_bytes is not FirstBytes.LITTLE:
                self._begin_serving(arrival)
            else:
                number = accepted.fileno()
                self._loop.add_reader(number, self._on_readable, arrival)
                arrival.stop_reading = partial(self._loop.remove_reader, number)

    def _on_readable(self, arrival: AcceptedConnection) -> None:
        """Serve a connection that has sent a head; close it if it ended without a byte."""
        first_bytes = self._read_first_bytes(arrival)
        if first_bytes is FirstBytes.END and not arrival.received:
            self._connections.leave(arrival)
            arrival.abort()
        elif first_bytes is not FirstBytes.LITTLE:
            self._begin_serving(arrival)

    def _read_first_bytes(self, arrival: AcceptedConnection) -> FirstBytes:
        try:
            if self._context is not None:  # the handshake reads all bytes
                return FirstBytes.HEAD if arrival.socket.recv(1, socket.MSG_PEEK) else FirstBytes.END
            data = arrival.socket.recv(_MOST_HEAD)
        except BlockingIOError:
            return FirstBytes.LITTLE
        except OSError:
            return FirstBytes.END
        arrival.received += data
        if not data:
            return FirstBytes.END
        return FirstBytes.LITTLE if _is_part(arrival.received) else FirstBytes.HEAD

    def _begin_serving(self, arrival: AcceptedConnection) -> None:
        if arrival.stop_reading is not None:
            arrival.stop_reading()
            arrival.stop_reading = None
        self._connections.begin(arrival)
        task = self._loop.create_task(self._serve_connection(arrival))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve_connection(self, arrival: AcceptedConnection) -> None:
        patience = {"ssl_handshake_timeout": _HANDSHAKE_SECONDS} if self._context is not None else {}
        try:
            serve = partial(self._serve, arrival.received)
            await self._loop.connect_accepted_socket(serve, arrival.socket, ssl=self._context, **patience)
        except (TimeoutError, OSError):  # an SSLError is an OSError
            arrival.socket.close()
        except asyncio.CancelledError:
            arrival.socket.close()
            raise
        finally:
            self._connections.leave(arrival)

    def _check_silent(self) -> None:
        """Close connections that were silent for long, and serve those with a part of a head; repeat later."""
        now = clock.monotonic()
        for arrival in list(self._connections.silent):
            assert isinstance(arrival, AcceptedConnection)
            if arrival.received and arrival.seen_at < now - _LOOK_SECONDS:
                self._begin_serving(arrival)
            elif arrival.seen_at < now - _SILENT_SECONDS:
                self._connections.leave(arrival)
                arrival.abort()
        self._timers[self] = self._loop.call_later(_LOOK_SECONDS, self._check_silent)


def _is_part(data: bytes) -> bool:
    """Return whether this is a part of a head; bytes that cannot begin a head are left to the HTTP parser."""
    is_whole = b"\r\n\r\n" in data or b"\n\n" in data
    return len(data) < _MOST_HEAD and data[:1].isalpha() and not is_whole
