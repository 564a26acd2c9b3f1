"""What stands between SinkQL and a server of this machine, and may lose it: every connection goes through it."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from sinkql.connector_api.dead_connection import ResponseWatch

_BYTES = 1 << 16
_RESET = struct.pack("ii", 1, 0)


@dataclass
class Front:
    """A port that leads to a server's.

    Connections of before stay lost when it is `open` again, as those that a router has forgotten: nothing tells their
    ends so.
    """

    port: int
    upstream: int
    host: str = "127.0.0.1"
    late_s: float = 0.0
    _state: str = "open"
    _listener: socket.socket | None = None
    _pairs: list[_Pair] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def listen(self, host: str | None = None) -> None:
        """Take connections, at another address of this machine if it is given."""
        self.host = host or self.host
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((self.host, self.port))
        self._listener.listen(128)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def open(self) -> None:
        """Let connections through that come from now on."""
        self._state, self.late_s = "open", 0.0

    def mute(self) -> None:
        """Take connections, and never answer; those that are there get nothing more."""
        self._state = "mute"
        self._lose()

    def reset(self) -> None:
        """Break connections, and each one that comes."""
        self._state = "reset"
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for each in pairs:
            each.reset()

    def late(self, seconds: float) -> None:
        """Have each answer come so many seconds later."""
        self.late_s = seconds

    def leave(self) -> None:
        """Listen no longer; connections that are there get nothing more."""
        self._lose()
        self._stop()

    def _stop(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _lose(self) -> None:
        with self._lock:
            for each in self._pairs:
                each.lost = True

    def close(self) -> None:
        """End it, and all connections."""
        self._stop()
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for each in pairs:
            each.close()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                pair = _Pair(self, client, lost=self._state == "mute")
                if self._state == "reset":
                    pair.reset()
                    continue
                with self._lock:
                    self._pairs.append(pair)
                if not pair.lost:
                    threading.Thread(target=pair.begin, daemon=True).start()


@dataclass(eq=False)
class _Pair:
    front: Front
    client: socket.socket
    lost: bool
    server: socket.socket | None = None

    def begin(self) -> None:
        try:
            self.server = socket.create_connection(("127.0.0.1", self.front.upstream))
        except OSError:
            self.reset()
            return
        threading.Thread(target=self._copy, args=(self.client, self.server, False), daemon=True).start()
        self._copy(self.server, self.client, True)

    def _copy(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_BYTES):
                if answers and self.front.late_s:
                    time.sleep(self.front.late_s)
                if self.lost:
                    return
                target.sendall(data)
        if not self.lost:
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        for each in (self.client, self.server):
            if each is not None:
                with suppress(OSError):
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    each.shutdown(socket.SHUT_RD)
                with suppress(OSError):
                    each.close()

    def close(self) -> None:
        for each in (self.client, self.server):
            if each is not None:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()


def noting(connection: Any) -> list[bool]:
    """Return what a server will say, each time that it is asked whether it works on what a connection wants."""
    found: ResponseWatch = connection.silence
    said, alive = list[bool](), found.alive

    def ask() -> bool:
        said.append(alive())
        return said[-1]

    found.alive = ask
    return said


@contextmanager
def front(upstream: int, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[Front]:
    """Stand before a port of this machine until the block ends, at a free port if none is given."""
    found = Front(port, upstream, host)
    found.listen()
    try:
        yield found
    finally:
        found.close()
