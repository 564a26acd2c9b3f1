"""A TCP proxy in front of a server of this machine, which can drop, delay or reset connections."""

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
    """A proxy whose port forwards to a server's port.

    A lost connection stays lost after `open`, as if a router had forgotten it: neither end learns of it.
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
        """Accept connections, at this address of the machine if there is one."""
        self.host = host or self.host
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((self.host, self.port))
        self._listener.listen(128)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def open(self) -> None:
        """Forward new connections."""
        self._state, self.late_s = "open", 0.0

    def mute(self) -> None:
        """Accept connections but never answer; existing ones receive nothing more."""
        self._state = "mute"
        self._lose()

    def reset(self) -> None:
        """Reset all existing and new connections."""
        self._state = "reset"
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for each in pairs:
            each.reset()

    def late(self, seconds: float) -> None:
        """Delay each answer by this time."""
        self.late_s = seconds

    def leave(self) -> None:
        """Stop listening; existing connections receive nothing more."""
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
        """Stop listening, and close all connections."""
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
    """Record each answer to the check whether the server still works on a request; return the growing list."""
    found: ResponseWatch = connection.silence
    said, alive = list[bool](), found.alive

    def ask() -> bool:
        said.append(alive())
        return said[-1]

    found.alive = ask
    return said


@contextmanager
def front(upstream: int, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[Front]:
    """Forward a port of this machine until the block ends; port 0 stands for a free one."""
    found = Front(port, upstream, host)
    found.listen()
    try:
        yield found
    finally:
        found.close()
