"""A port → its connections, counted from the moment that they are accepted, TLS handshakes included."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from sinkql.connectors.webhook.crowd import Crowd

_BACKLOG = 512
_HANDSHAKE_SECONDS = 10.0
_NO_FILES_SECONDS = 0.2
"""Where the process has no file left for a connection, the next is accepted so much later."""

_TURN = 16
"""So many are accepted before those that are here have their turn: with one at a time, few who come again and again
would keep others waiting at the port."""


class Handshake:
    """A connection that was accepted, until it is served; a `Member` of its crowd."""

    waiting = False

    def __init__(self, taken: socket.socket) -> None:
        self._socket = taken
        self.held = 0
        self.seen_at = 0.0

    def abort(self) -> None:
        """Close it; whoever shakes its hand meets the end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    shut = make_way = abort


class Acceptor:
    """Accept the connections of one address and port, and have each served by a protocol that `serve` makes."""

    def __init__(self, crowd: Crowd, serve: Callable[[], asyncio.Protocol], context: ssl.SSLContext | None) -> None:
        self._crowd = crowd
        self._serve = serve
        self._context = context
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, address: str, port: int) -> None:
        """Listen; raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, place in dict.fromkeys((each[0], each[4]) for each in found):
                opened = socket.create_server(place, family=family, backlog=_BACKLOG)
                opened.setblocking(False)
                self._sockets.append(opened)
        except OSError:
            self.close()
            raise
        for each in self._sockets:
            self._begin(self._accept(each))

    def close(self) -> None:
        """Listen no more, and break off handshakes."""
        for task in list(self._tasks):
            task.cancel()
        for each in self._sockets:
            asyncio.get_running_loop().remove_reader(each)  # before another file has its number
            each.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        loop, taken_now = asyncio.get_running_loop(), 0
        while True:
            try:
                taken, _ = await loop.sock_accept(listening)
            except OSError:  # too many files are open, or the sender has gone again
                await asyncio.sleep(_NO_FILES_SECONDS)
                continue
            if self._crowd.make_room():
                shaking = Handshake(taken)
                self._crowd.enter(shaking)
                self._crowd.arriving += 1
                self._begin(self._take(taken, shaking))
            else:
                taken.close()
            taken_now += 1
            if taken_now % _TURN == 0:
                await asyncio.sleep(0)  # those that are here have their turn

    async def _take(self, taken: socket.socket, shaking: Handshake) -> None:
        patience = {"ssl_handshake_timeout": _HANDSHAKE_SECONDS} if self._context is not None else {}
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(self._serve, taken, ssl=self._context, **patience)
        except (TimeoutError, OSError):  # an SSLError is one: no TLS, no certificate in common, no patience
            taken.close()
        except asyncio.CancelledError:
            taken.close()
            raise
        finally:
            self._crowd.arriving -= 1
            self._crowd.leave(shaking)
