"""Listen on the ports of a process, each for the endpoints of several sources; one thread serves all of them."""

from __future__ import annotations

import asyncio
import ssl
import threading
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
from sinkql.machine import clock

_PATIENCE_SECONDS = 10.0
_LEFT_SECONDS = 150.0
"""How long requests of a source without a capture get 503, if its port stays open. This is longer than a capture waits
before it retries.
"""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The address of a source; HTTPS if it has a certificate and its key as PEM text."""

    address: str
    port: int
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)

    @property
    def named(self) -> str:
        """Return the address as messages show it."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@dataclass(slots=True)
class _Port:
    """An open port with its endpoints by path; the path of a closed endpoint is `reserved_until` a time."""

    address: ListenAddress
    acceptor: Acceptor
    connections: PortConnections
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    reserved_until: dict[str, float] = field(default_factory=dict)

    def find(self, path: str) -> Endpoint | None:
        if clock.monotonic() > self.reserved_until.get(path, float("inf")):
            del self.reserved_until[path], self.endpoints[path]
        return self.endpoints.get(path)

    def close(self) -> None:
        """Close the port and its connections."""
        self.acceptor.close()
        self.connections.is_closed = True
        for connection in list(self.connections.members):
            connection.shut()


class WebhookServers:
    """The ports of a process; a context manager that closes all of them."""

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
            self._run(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_PATIENCE_SECONDS)
        self._loop.close()

    def open(self, address: ListenAddress, endpoint: Endpoint) -> None:
        """Route the requests at an address to an endpoint; raise SQ4480 and SQ4481."""
        self._run(self._open(address, endpoint))

    def leave(self, address: ListenAddress, endpoint: Endpoint) -> None:
        """Note that an endpoint is closed: for a while its requests get 503, not 404, since another may follow."""
        port = self._ports.get((address.address, address.port))
        if port is not None and port.endpoints.get(endpoint.path) is endpoint:
            port.reserved_until[endpoint.path] = clock.monotonic() + _LEFT_SECONDS

    def keep(self, address: str, port: int, path: str) -> None:
        """Extend that time for the source of a path whose endpoint is closed."""
        open_port = self._ports.get((address, port))
        if open_port is not None and path in open_port.reserved_until:
            open_port.reserved_until[path] = clock.monotonic() + _LEFT_SECONDS

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop.run_forever, name="webhooks", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_SECONDS)

    async def _open(self, address: ListenAddress, endpoint: Endpoint) -> None:
        port = self._ports.get((address.address, address.port))
        if (
            port is not None
            and port.address != address
            and not port.endpoints.keys() - port.reserved_until.keys() - {endpoint.path}
        ):
            self._ports.pop((address.address, address.port)).close()  # no other source uses it
            port = None
        if port is None:
            port = self._ports[address.address, address.port] = await self._listen(address)
        if port.address != address:
            raise SinkqlError(
                "SQ4481",
                f"another source listens on {address.named} with another certificate, or without one",
                hint="Run ALTER SOURCE … SET (PORT = 6877), or use the same SSL CERTIFICATE and SSL KEY for both.",
            )
        self._remove_elsewhere(endpoint.path, port)
        endpoint.post = self._post
        port.endpoints[endpoint.path] = endpoint
        port.reserved_until.pop(endpoint.path, None)

    def _remove_elsewhere(self, path: str, to: _Port) -> None:
        """Remove a source from the other ports where it listened, and close ports without sources."""
        for where, port in list(self._ports.items()):
            if port is to or path not in port.reserved_until:
                continue
            del port.reserved_until[path], port.endpoints[path]
            if not port.endpoints:
                self._ports.pop(where).close()

    def _post(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call)

    async def _listen(self, address: ListenAddress) -> _Port:
        connections = PortConnections()
        ports: list[_Port] = []
        try:
            acceptor = Acceptor(
                connections, lambda received: Connection(ports[0].find, connections, received), _context(address)
            )
            await acceptor.open(address.address, address.port)
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
                f"cannot listen on {address.named}: {(error.strerror or str(error)).lower()}",
                hint="Another process may listen there. Stop it, or run ALTER SOURCE … SET (PORT = 6877).",
            ) from error
        ports.append(_Port(address, acceptor, connections))
        return ports[0]

    async def _close(self) -> None:
        for port in self._ports.values():
            port.close()
        self._ports.clear()
        await asyncio.sleep(0)


def _context(address: ListenAddress) -> ssl.SSLContext | None:
    if not address.key:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_certificate(context, address.certificate, address.key)
    return context
