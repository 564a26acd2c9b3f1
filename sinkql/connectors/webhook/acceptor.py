"""A port → its connections, counted from the moment that they are accepted, TLS handshakes included.

A connection is a bare socket until a head of a request is there: one that says little or nothing costs next to nothing.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial

from sinkql.connectors.webhook.port_connections import PortConnections

_BACKLOG = 2048
"""Where the queue of the port is full a sender's next try comes a second later. The system may have a smaller bound."""
_HANDSHAKE_SECONDS = 10.0
_NO_FILES_SECONDS = 0.2
"""Where the process has no file left for a connection, the next is accepted so much later."""
_TURN = 128
"""So many are accepted before those that are here have their turn: with few, one who comes again and again would keep
others waiting in the queue."""
_SILENT_SECONDS = 60.0
"""A connection is closed on which so long after it was accepted nothing has come; one with a part of a head is served
soon, and told that it is slow."""
_LOOK_SECONDS = 10.0
_MOST_HEAD = 4 << 10
"""Whoever has sent so much is served, too."""


class FirstBytes(Enum):
    """What has come on a connection: too little to serve it, a head of a request, or its end."""

    LITTLE, HEAD, END = range(3)


class AcceptedConnection:
    """A connection that was accepted, until it is served; a `PortConnection` of its crowd."""

    is_waiting = False
    held = 0

    def __init__(self, taken: socket.socket) -> None:
        self.socket = taken
        self.seen_at = time.monotonic()
        self.said = b""
        """What came, which is no whole head of a request."""
        self.leave: Callable[[], object] | None = None
        """What to call before a bare socket is closed, or served."""

    def abort(self) -> None:
        """Close it; whoever shakes its hand meets the end."""
        if self.leave is not None:
            self.leave()
            self.socket.close()
        else:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)

    shut = close_idle = abort


class Acceptor:
    """Accept the connections of one address and port, and have each served by a protocol.

    `serve` makes it, and gets what was read already.
    """

    def __init__(
        self, crowd: PortConnections, serve: Callable[[bytes], asyncio.Protocol], context: ssl.SSLContext | None
    ) -> None:
        self._crowd = crowd
        self._serve = serve
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[object, asyncio.TimerHandle] = {}

    async def open(self, address: str, port: int) -> None:
        """Listen; raises OSError."""
        found = await self._loop.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, place in dict.fromkeys((each[0], each[4]) for each in found):
                opened = socket.create_server(place, family=family, backlog=_BACKLOG)
                opened.setblocking(False)
                self._sockets.append(opened)
        except OSError:
            self.close()
            raise
        for each in self._sockets:
            self._listen(each)
        self._look()

    def close(self) -> None:
        """Listen no more, and break off handshakes."""
        for task in list(self._tasks):
            task.cancel()
        for timer in self._timers.values():
            timer.cancel()
        for each in self._sockets:
            self._loop.remove_reader(each)  # before another file has its number
            each.close()

    def _listen(self, listening: socket.socket) -> None:
        self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accept those that are in the queue; the loop comes again where there are more than have a turn."""
        for _ in range(_TURN):
            try:
                taken, _ = listening.accept()
            except (BlockingIOError, ConnectionError):  # no more are there, or one has gone again
                return
            except OSError:  # too many files are open
                self._loop.remove_reader(listening)
                self._timers[listening] = self._loop.call_later(_NO_FILES_SECONDS, self._listen, listening)
                return
            taken.setblocking(False)
            arrival = AcceptedConnection(taken)
            heard = self._hear(arrival)
            if (heard is FirstBytes.END and not arrival.said) or not self._crowd.evict_one():
                taken.close()
                continue
            self._crowd.arrive(arrival)
            if heard is not FirstBytes.LITTLE:
                self._begin(arrival)
            else:
                number = taken.fileno()
                self._loop.add_reader(number, self._wake, arrival)
                arrival.leave = partial(self._loop.remove_reader, number)

    def _wake(self, arrival: AcceptedConnection) -> None:
        """Have a connection served that has said a head, or close it where it has ended without a word."""
        heard = self._hear(arrival)
        if heard is FirstBytes.END and not arrival.said:
            self._crowd.leave(arrival)
            arrival.abort()
        elif heard is not FirstBytes.LITTLE:
            self._begin(arrival)

    def _hear(self, arrival: AcceptedConnection) -> FirstBytes:
        try:
            if self._context is not None:  # whoever shakes hands reads all of it
                return FirstBytes.HEAD if arrival.socket.recv(1, socket.MSG_PEEK) else FirstBytes.END
            came = arrival.socket.recv(_MOST_HEAD)
        except BlockingIOError:
            return FirstBytes.LITTLE
        except OSError:
            return FirstBytes.END
        arrival.said += came
        if not came:
            return FirstBytes.END
        return FirstBytes.LITTLE if _is_part(arrival.said) else FirstBytes.HEAD

    def _begin(self, arrival: AcceptedConnection) -> None:
        if arrival.leave is not None:
            arrival.leave()
            arrival.leave = None
        self._crowd.begin(arrival)
        task = self._loop.create_task(self._take(arrival))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, arrival: AcceptedConnection) -> None:
        patience = {"ssl_handshake_timeout": _HANDSHAKE_SECONDS} if self._context is not None else {}
        try:
            serve = partial(self._serve, arrival.said)
            await self._loop.connect_accepted_socket(serve, arrival.socket, ssl=self._context, **patience)
        except (TimeoutError, OSError):  # an SSLError is one: no TLS, no certificate in common, no patience
            arrival.socket.close()
        except asyncio.CancelledError:
            arrival.socket.close()
            raise
        finally:
            self._crowd.leave(arrival)

    def _look(self) -> None:
        """Close connections that have said nothing for long, now and then, and serve those with a part of a head."""
        now = time.monotonic()
        for each in list(self._crowd.silent):
            assert isinstance(each, AcceptedConnection)
            if each.said and each.seen_at < now - _LOOK_SECONDS:
                self._begin(each)
            elif each.seen_at < now - _SILENT_SECONDS:
                self._crowd.leave(each)
                each.abort()
        self._timers[self] = self._loop.call_later(_LOOK_SECONDS, self._look)


def _is_part(said: bytes) -> bool:
    """Tell whether this is a part of a head; what cannot be one is for the parser of HTTP."""
    whole = b"\r\n\r\n" in said or b"\n\n" in said
    return len(said) < _MOST_HEAD and said[:1].isalpha() and not whole
