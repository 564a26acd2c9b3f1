"""End a wait for a server that has lost the connection without closing it.

A proxy or firewall between may answer TCP keepalives for the server. So after some silence, SinkQL asks the server over
a new connection whether it still works on the request, and otherwise shuts the old connection down.
`GuardedConnection` is a psycopg connection that does so.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import psycopg

from sinkql.machine import clock

SILENCE_S = 20.0
"""The time without a byte after which the server is asked, and between two questions."""
_LOOK_S = 1.0
_LAST_DATA_RECEIVED = slice(52, 56)
"""The bytes of Linux's `struct tcp_info` with the milliseconds since the last data."""


@dataclass(eq=False, slots=True)
class ResponseWatch:
    """A context manager that shuts a connection down if nothing is received for long and the server is not `alive`.

    `fileno` returns the socket. `alive` returns whether the server works on the request; it may raise. Contexts of one
    object may be nested but not overlap.
    """

    fileno: Callable[[], int]
    alive: Callable[[], bool]
    _depth: int = 0
    _asked_at: float = 0.0
    _due_at: float = 0.0
    _asking: bool = field(default=False)

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self._asked_at = clock.monotonic()
            _WATCH.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            _WATCH.discard(self)

    def is_due(self) -> bool:
        """Return whether it is time for a `probe`."""
        if self._asking or clock.monotonic() - self._asked_at < SILENCE_S:
            return False
        self._due_at = clock.monotonic()
        with suppress(OSError, ValueError):
            if _silence(self.fileno()) < SILENCE_S:
                return False
        self._asking = True
        return True

    def probe(self) -> None:
        """Ask the server, and shut the connection down if it does not work on the request.

        Not if the response has been received since the probe was due: the server may have sent it just before.
        """
        block = self._asked_at
        try:
            alive = self.alive()
        except Exception:  # any failure: the server did not confirm the request
            alive = False
        if not alive:
            clock.sleep(_LOOK_S)
            with suppress(OSError, ValueError):
                alive = _silence(self.fileno()) < clock.monotonic() - self._due_at + SILENCE_S / 2
        if not alive and block == self._asked_at:
            _WATCH.shut(self)
        if block == self._asked_at:
            self._asked_at = clock.monotonic()
        self._asking = False


def _silence(fileno: int) -> float:
    """Return the seconds since a socket received data; infinity if the system does not know."""
    if not hasattr(socket, "TCP_INFO"):
        return float("inf")
    with socket.socket(fileno=os.dup(fileno)) as connection:
        if connection.family == socket.AF_UNIX:
            return float("inf")
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int.from_bytes(info[_LAST_DATA_RECEIVED], sys.byteorder) / 1000


class _Watch:
    """The watches that wait now, and the thread that checks them while there are any."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Reset to no watch and no thread, for example in a forked process, which has no threads."""
        self._lock = threading.Lock()
        self._waiting: set[ResponseWatch] = set()
        self._runs = False

    def add(self, watch: ResponseWatch) -> None:
        with self._lock:
            self._waiting.add(watch)
            runs, self._runs = self._runs, True
        if not runs:
            threading.Thread(target=self._run, name="silence", daemon=True).start()

    def discard(self, watch: ResponseWatch) -> None:
        with self._lock:
            self._waiting.discard(watch)

    def shut(self, watch: ResponseWatch) -> None:
        """Shut the connection down if it still waits; never raises."""
        with self._lock, suppress(OSError, ValueError):
            if watch in self._waiting:
                with socket.socket(fileno=os.dup(watch.fileno())) as connection:
                    connection.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        idle = 0
        while True:
            clock.sleep(_LOOK_S)
            with self._lock:
                waiting = list(self._waiting)
                idle = 0 if waiting else idle + 1
                if idle > 10:
                    self._runs = False
                    return
            for watch in waiting:
                if watch.is_due():
                    threading.Thread(target=watch.probe, name="silence probe", daemon=True).start()


_WATCH = _Watch()
os.register_at_fork(after_in_child=_WATCH.renew)


_WORKS = """
SELECT coalesce(state = 'active', true) AND coalesce(wait_event_type, '') NOT IN ('Client', 'Activity')
FROM pg_catalog.pg_stat_activity WHERE pid = %s
"""
"""A process that waits for its client has finished the request."""


class GuardedConnection(psycopg.Connection[Any]):
    """A connection whose waits end if the server has lost it. Set `silence` after opening it."""

    silence: ResponseWatch | None = None

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:  # psycopg's types are private
        with self.silence or nullcontext():
            return super().wait(gen, *args, **options)


def backend_pid(connection: psycopg.Connection[Any]) -> int | None:
    """Return the id of the connection's process on the server; None behind a connection pooler."""
    ((pid,),) = connection.execute("SELECT pg_catalog.pg_backend_pid()").fetchall()
    return int(pid) if pid == connection.info.backend_pid else None


def is_backend_active(connection: psycopg.Connection[Any], session: int | None) -> bool:
    """Return whether the server works on the request of a session; `connection` is another connection."""
    row = connection.execute(_WORKS, [session]).fetchone()
    return session is None or (row is not None and bool(row[0]))
