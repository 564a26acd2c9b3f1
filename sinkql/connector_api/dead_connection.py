"""A call that waits for a server → its end, where the server has lost the connection and never says so.

A machine between that keeps a connection open answers TCP's own questions for the server. So where nothing has come for
a while, the server is asked over a new connection whether it still works on what this one wants.

A connection of psycopg → one that is broken off where its server has lost it without a word.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import psycopg

SILENCE_S = 20.0
"""After how long without a byte the server is asked, and as long after that again."""
_LOOK_S = 1.0
_LAST_DATA_RECEIVED = slice(52, 56)
"""Where Linux's `struct tcp_info` has the milliseconds since the last data."""


@dataclass(eq=False, slots=True)
class ResponseWatch:
    """Shut a connection down in whose block nothing comes for long, unless the server is `alive`.

    `fileno` gives the socket. `alive` returns whether the server works on what was asked; it may raise. Blocks of one
    object do not overlap, but for one within another.
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
            self._asked_at = time.monotonic()
            _WATCH.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            _WATCH.discard(self)

    def is_due(self) -> bool:
        """Return whether the server is to be asked now, as `probe` does."""
        if self._asking or time.monotonic() - self._asked_at < SILENCE_S:
            return False
        self._due_at = time.monotonic()
        with suppress(OSError, ValueError):
            if _unheard(self.fileno()) < SILENCE_S:
                return False
        self._asking = True
        return True

    def probe(self) -> None:
        """Ask the server, and shut the connection down where it does not work on what was asked.

        Not where the answer has come since that was due: the server may have given it just before it was asked.
        """
        block = self._asked_at
        try:
            alive = self.alive()
        except Exception:  # whatever it is, the server has not said yes
            alive = False
        if not alive:
            time.sleep(_LOOK_S)
            with suppress(OSError, ValueError):
                alive = _unheard(self.fileno()) < time.monotonic() - self._due_at + SILENCE_S / 2
        if not alive and block == self._asked_at:
            _WATCH.shut(self)
        if block == self._asked_at:
            self._asked_at = time.monotonic()
        self._asking = False


def _unheard(fileno: int) -> float:
    """Return the seconds since something came on a socket; for ever where the system does not say."""
    if not hasattr(socket, "TCP_INFO"):
        return float("inf")
    with socket.socket(fileno=os.dup(fileno)) as found:
        if found.family == socket.AF_UNIX:
            return float("inf")
        told = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int.from_bytes(told[_LAST_DATA_RECEIVED], sys.byteorder) / 1000


class _Watch:
    """The blocks that wait now, and one thread that looks after them while there are some."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin with nothing, as in a fork, which has none of the threads."""
        self._lock = threading.Lock()
        self._waiting: set[ResponseWatch] = set()
        self._runs = False

    def add(self, silence: ResponseWatch) -> None:
        with self._lock:
            self._waiting.add(silence)
            runs, self._runs = self._runs, True
        if not runs:
            threading.Thread(target=self._run, name="silence", daemon=True).start()

    def discard(self, silence: ResponseWatch) -> None:
        with self._lock:
            self._waiting.discard(silence)

    def shut(self, silence: ResponseWatch) -> None:
        """Shut the connection down, unless the block is over; raises nothing."""
        with self._lock, suppress(OSError, ValueError):
            if silence in self._waiting:
                with socket.socket(fileno=os.dup(silence.fileno())) as found:
                    found.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        idle = 0
        while True:
            time.sleep(_LOOK_S)
            with self._lock:
                waiting = list(self._waiting)
                idle = 0 if waiting else idle + 1
                if idle > 10:
                    self._runs = False
                    return
            for each in waiting:
                if each.is_due():
                    threading.Thread(target=each.probe, name="silence probe", daemon=True).start()


_WATCH = _Watch()
os.register_at_fork(after_in_child=_WATCH.renew)


_WORKS = """
SELECT coalesce(state = 'active', true) AND coalesce(wait_event_type, '') NOT IN ('Client', 'Activity')
FROM pg_catalog.pg_stat_activity WHERE pid = %s
"""
"""A process that waits for its client has done what it got; one that waits for others has nothing to send."""


class GuardedConnection(psycopg.Connection[Any]):
    """A connection whose waits for the server end where that has lost it; `silence` is set once it is open."""

    silence: ResponseWatch | None = None

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:  # psycopg's types are its own
        with self.silence or nullcontext():
            return super().wait(gen, *args, **options)


def backend_pid(connection: psycopg.Connection[Any]) -> int | None:
    """Return the number of the connection's process on the server; None where a pooler is between."""
    row = connection.execute("SELECT pg_catalog.pg_backend_pid()").fetchone()
    assert row is not None
    return row[0] if row[0] == connection.info.backend_pid else None


def is_backend_active(connection: psycopg.Connection[Any], session: int | None) -> bool:
    """Ask the server over another connection whether it works on what a session has asked for."""
    row = connection.execute(_WORKS, [session]).fetchone()
    return session is None or (row is not None and bool(row[0]))
