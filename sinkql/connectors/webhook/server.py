"""Ports that a process listens on, each for the doors of several sources; all are served by one thread."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sinkql.connector_api.identity import load_certificate
from sinkql.connectors.webhook.acceptor import Acceptor
from sinkql.connectors.webhook.endpoint import Endpoint
from sinkql.connectors.webhook.http import Connection
from sinkql.connectors.webhook.port_connections import PortConnections
from sinkql.errors import SinkqlError

_PATIENCE_SECONDS = 10.0
_LEFT_SECONDS = 150.0
"""For so long requests of a source that is not captured now are told to come again, where others are: longer than a
capture waits before it tries again.
"""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where a source listens: with a certificate and its key as PEM text, HTTPS."""

    address: str
    port: int
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)

    @property
    def named(self) -> str:
        """Return it as a message has it."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@dataclass(slots=True)
class _Port:
    """A port that is listened on, the doors behind it by their paths, and since when each is left."""

    place: ListenAddress
    acceptor: Acceptor
    crowd: PortConnections
    doors: dict[str, Endpoint] = field(default_factory=dict)
    left: dict[str, float] = field(default_factory=dict)

    def find(self, path: str) -> Endpoint | None:
        if time.monotonic() > self.left.get(path, float("inf")):
            del self.left[path], self.doors[path]
        return self.doors.get(path)

    def close(self) -> None:
        """Close it, and its connections."""
        self.acceptor.close()
        self.crowd.gone = True
        for each in list(self.crowd.members):
            each.shut()


class WebhookServers:
    """Listen for sources; a context, whose end closes all ports."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._ports: dict[tuple[str, int], _Port] = {}
        self._thread: threading.Thread | None = None

    def __enter__(self) -> WebhookServers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all ports, and end the thread."""
        if self._thread is not None:
            self._do(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_PATIENCE_SECONDS)
        self._loop.close()

    def open(self, place: ListenAddress, door: Endpoint) -> None:
        """Have requests at a place go through a door; raises SQ4480 and SQ4481."""
        self._do(self._open(place, door))

    def leave(self, place: ListenAddress, door: Endpoint) -> None:
        """Say that a door is closed: where another takes its place soon, nobody is told that there is none."""
        port = self._ports.get((place.address, place.port))
        if port is not None and port.doors.get(door.path) is door:
            port.left[door.path] = time.monotonic() + _LEFT_SECONDS

    def keep(self, address: str, port: int, path: str) -> None:
        """Say that the source of a path whose door is closed is still to come back."""
        found = self._ports.get((address, port))
        if found is not None and path in found.left:
            found.left[path] = time.monotonic() + _LEFT_SECONDS

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop.run_forever, name="webhooks", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_SECONDS)

    async def _open(self, place: ListenAddress, door: Endpoint) -> None:
        port = self._ports.get((place.address, place.port))
        if port is not None and port.place != place and not port.doors.keys() - port.left.keys() - {door.path}:
            self._ports.pop((place.address, place.port)).close()  # nobody else is there
            port = None
        if port is None:
            port = self._ports[place.address, place.port] = await self._listen(place)
        if port.place != place:
            raise SinkqlError(
                "SQ4481",
                f"another source listens on {place.named} with another certificate, or without one",
                hint="Run ALTER SOURCE … SET (PORT = 6877), or give both the same SSL CERTIFICATE and SSL KEY.",
            )
        self._move(door.path, port)
        door.post = self._post
        port.doors[door.path] = door
        port.left.pop(door.path, None)

    def _move(self, path: str, to: _Port) -> None:
        """Close the ports where only a source was that listens elsewhere now; on others there is none of it."""
        for where, port in list(self._ports.items()):
            if port is to or path not in port.left:
                continue
            del port.left[path], port.doors[path]
            if not port.doors:
                self._ports.pop(where).close()

    def _post(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # all ports are closed by now
            self._loop.call_soon_threadsafe(call)

    async def _listen(self, place: ListenAddress) -> _Port:
        crowd = PortConnections()
        ports: list[_Port] = []
        try:
            acceptor = Acceptor(crowd, lambda said: Connection(ports[0].find, crowd, said), _context(place))
            await acceptor.open(place.address, place.port)
        except ssl.SSLError as error:
            raise SinkqlError(
                "SQ4482",
                "the certificate or the key of the source cannot be used",
                detail=error.reason or "",
                hint="SSL CERTIFICATE and SSL KEY are PEM texts of one pair, the key without a password.",
            ) from None
        except OSError as error:
            raise SinkqlError(
                "SQ4480",
                f"{place.named} cannot be listened on: {(error.strerror or str(error)).lower()}",
                hint="Another process may listen there. Stop it, or run ALTER SOURCE … SET (PORT = 6877).",
            ) from error
        ports.append(_Port(place, acceptor, crowd))
        return ports[0]

    async def _close(self) -> None:
        for port in self._ports.values():
            port.close()
        self._ports.clear()
        await asyncio.sleep(0)


def _context(place: ListenAddress) -> ssl.SSLContext | None:
    if not place.key:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_certificate(context, place.certificate, place.key)
    return context
