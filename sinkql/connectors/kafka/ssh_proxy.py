"""Reach brokers behind SSH servers by ports of this machine, one for each broker.

A Kafka client connects to the addresses that brokers advertise. So the proxy replaces these addresses in the brokers'
responses by ports of this machine, and opens a port when it first sees a broker. TLS ends in the proxy, which checks
the brokers' certificates by their real names. The ports listen on this machine only, and accept only connections of the
user that runs the process.

Three kinds of responses are changed: metadata and coordinators, which contain addresses, and supported versions, since
newer versions of Produce and Fetch contain addresses, too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import ssl
import struct
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from sinkql.connector_api import identity
from sinkql.connector_api.tunnel import log_in, unreachable_error
from sinkql.errors import SinkqlError

Address = tuple[str, int]
_API_VERSIONS, _METADATA, _COORDINATOR = 18, 3, 10
_NEWEST = {0: 9, 1: 15, _METADATA: 12, _COORDINATOR: 4}
"""The newest versions that a client may use, by API: newer responses to Produce and Fetch contain addresses, too."""
_COMPACT_SINCE = {_METADATA: 9, _COORDINATOR: 3}
_HEADER = struct.Struct(">hhi")
_VERSIONS = struct.Struct(">hhh")


@dataclass(slots=True)
class PendingRequests:
    """The requests of one connection whose responses the proxy changes, by correlation id."""

    _by_id: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, start: bytes) -> None:
        """Record a request by its first eight bytes."""
        api, version, correlation = _HEADER.unpack(start)
        if api in (_API_VERSIONS, *_COMPACT_SINCE):
            self._by_id[correlation] = (api, version)

    def pop(self, correlation: bytes) -> tuple[int, int] | None:
        """Return the API and the version of the request of a response; None if the response is not changed."""
        return self._by_id.pop(int.from_bytes(correlation, "big", signed=True), None)


def addresses_in(request: tuple[int, int], response: bytes) -> list[Address]:
    """Return the addresses of brokers in a response without its correlation id."""
    return [] if request[0] == _API_VERSIONS else [address for _, _, address in _find_addresses(request, response)]


def rewrite(request: tuple[int, int], response: bytes, replacements: dict[Address, Address]) -> bytes:
    """Return a response with replaced addresses, or with limited versions."""
    api, version = request
    if api == _API_VERSIONS:
        return _limit_versions(version, response)
    parts, at = [], 0
    for begin, end, address in _find_addresses(request, response):
        host, port = replacements[address]
        length = _encode_unsigned(len(host) + 1) if version >= _COMPACT_SINCE[api] else struct.pack(">h", len(host))
        parts += [response[at:begin], length, host.encode(), struct.pack(">i", port)]
        at = end
    return b"".join([*parts, response[at:]])


@dataclass(slots=True)
class _Cursor:
    """A reader of fields in sequence; `compact` for the encoding of flexible versions."""

    data: bytes
    compact: bool
    at: int = 0

    def skip(self, count: int) -> None:
        self.at += count

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> str:
        length = self.unsigned() - 1 if self.compact else self.number(">h")
        begin, self.at = self.at, self.at + max(length, 0)
        return self.data[begin : self.at].decode()

    def count(self) -> int:
        return self.unsigned() - 1 if self.compact else self.number(">i")

    def tags(self) -> None:
        for _ in range(self.unsigned() if self.compact else 0):
            self.unsigned()
            self.skip(self.unsigned())


def _find_addresses(request: tuple[int, int], response: bytes) -> Iterator[tuple[int, int, Address]]:
    """Yield the begin, the end and the value of each broker address."""
    api, version = request
    cursor = _Cursor(response, version >= _COMPACT_SINCE[api])
    cursor.tags()  # header tags
    yield from (_metadata_addresses if api == _METADATA else _coordinator_addresses)(cursor, version)


def _metadata_addresses(cursor: _Cursor, version: int) -> Iterator[tuple[int, int, Address]]:
    cursor.skip(4 if version >= 3 else 0)  # the throttle time
    for _ in range(cursor.count()):
        cursor.skip(4)
        yield _address(cursor)
        if version >= 1:
            cursor.text()  # the rack
        cursor.tags()


def _coordinator_addresses(cursor: _Cursor, version: int) -> Iterator[tuple[int, int, Address]]:
    cursor.skip(4 if version >= 1 else 0)
    if version < 4:
        cursor.skip(2)
        if version >= 1:
            cursor.text()  # the error message
        cursor.skip(4)
        yield _address(cursor)
        return
    for _ in range(cursor.count()):
        cursor.text()
        cursor.skip(4)
        yield _address(cursor)
        cursor.skip(2)
        cursor.text()
        cursor.tags()


def _address(cursor: _Cursor) -> tuple[int, int, Address]:
    begin = cursor.at
    host = cursor.text()
    port = cursor.number(">i")
    return begin, cursor.at, (host, port)


def _limit_versions(version: int, response: bytes) -> bytes:
    """Return a broker's response about its versions, without those above `_NEWEST`."""
    limited = bytearray(response)
    cursor = _Cursor(response, compact=version >= 3)
    if cursor.number(">h"):
        return response  # the broker does not support the version of this request
    for _ in range(cursor.count()):
        begin = cursor.at
        api, first, last = _VERSIONS.unpack_from(response, begin)
        _VERSIONS.pack_into(limited, begin, api, first, min(last, _NEWEST.get(api, last)))
        cursor.skip(_VERSIONS.size)
        cursor.tags()
    return bytes(limited)


def _encode_unsigned(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)
_PART = 1 << 16
_TIMEOUT_S = 15.0
_LEAST_S = 0.5
"""The minimum time that a connection stays open, even if the broker cannot be reached."""
_LOCALHOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Tls:
    """The authority for the brokers' certificates, and the client certificate with its key, in PEM."""

    authority: str | None
    certificate: str | None
    key: str | None = field(repr=False)

    def context(self) -> ssl.SSLContext:
        """Return the SSL context. Raise ValueError whose text begins with the library's name of the invalid option."""
        context = ssl.create_default_context()
        if self.authority is not None:
            try:
                context.load_verify_locations(cadata=self.authority)
            except (ssl.SSLError, ValueError) as error:
                raise ValueError(f"ssl.ca: {error}") from None
        if self.certificate is not None and self.key is not None:
            try:
                identity.load_certificate(context, self.certificate, self.key)
            except (ssl.SSLError, ValueError) as error:
                raise ValueError(f"ssl.certificate: {error}") from None
        return context


@dataclass(frozen=True, slots=True)
class Route:
    """The SSH tunnel of a broker, with its keys; a route without a broker is for all other brokers."""

    broker: Address | None
    tunnel: str
    text: str = field(repr=False)

    @property
    def options(self) -> Mapping[str, Any]:
        """The planned options of the tunnel."""
        options: Mapping[str, Any] = json.loads(self.text)
        return options


@dataclass(frozen=True, slots=True)
class Routes:
    """The configured brokers of a connection, and the tunnels; a broker without a tunnel is reached directly."""

    brokers: tuple[Address, ...]
    tunnels: tuple[Route, ...]
    tls: Tls | None

    def of(self, broker: Address) -> Route | None:
        """Return the route of a broker; None if it has no tunnel."""
        by_broker = {route.broker: route for route in self.tunnels}
        return by_broker.get(broker) or by_broker.get(None)


class Proxy:
    """The ports of one connection's brokers, served in a background thread."""

    def __init__(self, routes: Routes) -> None:
        """Open the ports of the configured brokers. Raise ValueError for invalid certificates."""
        self._routes = routes
        self._tls = routes.tls.context() if routes.tls is not None else None
        self._ports: dict[Address, Address] = {}
        self._brokers: dict[Address, Address] = {}
        self._servers: list[asyncio.Server] = []
        self._tunnels: dict[str, asyncio.Task[Any]] = {}
        self._errors: dict[Address, SinkqlError] = {}
        self._opening = asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_log_failure)
        threading.Thread(target=self._loop.run_forever, name="kafka proxy", daemon=True).start()
        self._run(self._open_ports(routes.brokers))

    @property
    def bootstrap(self) -> str:
        """The ports of the configured brokers, as the client library expects them."""
        return ",".join(f"{host}:{port}" for host, port in map(self._ports.__getitem__, self._routes.brokers))

    def broker(self, address: Address) -> Address:
        """Return the broker behind a port of this machine."""
        return self._brokers.get(address, address)

    def connection_error(self) -> SinkqlError | None:
        """Return the error of a broker whose last connection attempt failed; None if all succeeded."""
        return next(iter(self._errors.values()), None)

    def reach(self, broker: Address) -> None:
        """Connect to a broker and disconnect. Raise SQ442x or OSError."""
        self._run(self._try(broker))

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _open_ports(self, brokers: tuple[Address, ...] | list[Address]) -> Mapping[Address, Any]:
        """Open the ports of brokers that have none, and return the ports of all brokers."""
        async with self._opening:
            for broker in brokers:
                if broker not in self._ports:
                    self._ports[broker] = await self._listen(broker)
                    self._brokers[self._ports[broker]] = broker
        return self._ports

    async def _listen(self, broker: Address) -> Address:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                if _is_own_user(writer):
                    began = self._loop.time()
                    await self._serve(broker, reader, writer)
                    # the client would reconnect immediately: it sees an established connection
                    await asyncio.sleep(began + _LEAST_S - self._loop.time())
            finally:
                writer.close()

        server = await asyncio.start_server(serve, _LOCALHOST, 0)
        self._servers.append(server)
        return _LOCALHOST, server.sockets[0].getsockname()[1]

    async def _serve(self, broker: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            connection = await asyncio.wait_for(self._connect(broker), _TIMEOUT_S)
        except SinkqlError as error:
            self._errors[broker] = error
            return
        except OSError as error:
            self._errors[broker] = _failure(broker, error)
            return
        self._errors.pop(broker, None)
        pending = PendingRequests()
        pumps = (
            asyncio.ensure_future(_pump_requests(reader, connection[1], pending)),
            asyncio.ensure_future(self._pump_responses(connection[0], writer, pending)),
        )
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            connection[1].close()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump_responses(self, reader: Any, writer: Any, pending: PendingRequests) -> None:
        """Copy a broker's responses to the client, with ports of this machine instead of the brokers' addresses."""
        while True:
            start = await reader.readexactly(8)
            left = int.from_bytes(start[:4], "big") - 4
            request = pending.pop(start[4:])
            if request is None:
                writer.write(start)
                await _copy(reader, writer, left)
                continue
            response = await reader.readexactly(left)
            ports = await self._open_ports(addresses_in(request, response))
            response = rewrite(request, response, dict(ports))
            writer.write((len(response) + 4).to_bytes(4, "big") + start[4:] + response)
            await writer.drain()

    async def _try(self, broker: Address) -> None:
        _, writer = await asyncio.wait_for(self._connect(broker), _TIMEOUT_S)
        writer.close()

    async def _connect(self, broker: Address) -> tuple[Any, Any]:
        """Return the streams of a connection to a broker. Raise SQ442x or OSError."""
        host, port = broker
        route = self._routes.of(broker)
        if route is None:
            return await asyncio.open_connection(
                host, port, ssl=self._tls, server_hostname=host if self._tls is not None else None
            )
        tunnel = await self._open_tunnel(route)
        try:
            streams: tuple[Any, Any] = await tunnel.open_connection(host, port)
        except tunnel.failures as error:
            if tunnel.closed:
                self._tunnels.pop(route.tunnel, None)
            raise unreachable_error(route.options, host, port, error) from None
        return streams if self._tls is None else await _start_tls(streams, self._tls, host)

    async def _open_tunnel(self, route: Route) -> Any:
        """Return the connection to an SSH server, and open it again if it was closed."""
        task = self._tunnels.get(route.tunnel)
        if task is None or (task.done() and (task.exception() is not None or task.result().closed)):
            task = self._loop.create_task(log_in(route.options, lambda name: name))
            self._tunnels[route.tunnel] = task
        return await asyncio.shield(task)


@lru_cache(maxsize=64)
def _proxy(routes: Routes, process: int) -> Proxy:
    return Proxy(routes)


def proxy_of(routes: Routes) -> Proxy:
    """Return the proxy of a connection in this process."""
    return _proxy(routes, os.getpid())


def _log_failure(loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """Log an exception that no task awaits, for example while the process ends: the client retries."""
    _LOGGER.debug("connection ended", exc_info=context.get("exception"))


async def _pump_requests(reader: Any, writer: Any, pending: PendingRequests) -> None:
    while True:
        start = await reader.readexactly(12)
        pending.add(start[4:])
        writer.write(start)
        await _copy(reader, writer, int.from_bytes(start[:4], "big") - 8)


async def _copy(reader: Any, writer: Any, left: int) -> None:
    while left > 0:
        part = await reader.read(min(left, _PART))
        if not part:
            raise EOFError
        writer.write(part)
        left -= len(part)
        await writer.drain()
    await writer.drain()


async def _start_tls(plain: tuple[Any, Any], context: ssl.SSLContext, host: str) -> tuple[Any, Any]:
    """Return the streams of a TLS connection over other streams; asyncio needs a pair of sockets for that."""
    near, far = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=far)

    async def pump(source: Any, target: Any) -> None:
        with suppress(Exception):  # either end may close at any time; then this function closes its peer
            while part := await source.read(_PART):
                target.write(part)
                await target.drain()
        target.close()

    pumps = [asyncio.ensure_future(pump(plain[0], writer)), asyncio.ensure_future(pump(reader, plain[1]))]
    try:
        secured = await asyncio.open_connection(sock=near, ssl=context, server_hostname=host)
    except BaseException:
        for task in pumps:
            task.cancel()
        writer.close()
        plain[1].close()
        raise
    _PUMPS.update(pumps)
    for task in pumps:
        task.add_done_callback(_PUMPS.discard)
    return secured


_PUMPS: set[asyncio.Future[None]] = set()
"""References to running tasks: a loop holds only weak ones."""


def _is_own_user(writer: asyncio.StreamWriter) -> bool:
    """Return whether a connection belongs to this user; True if the system does not show its owner."""
    local, remote = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
    wanted = [_hexadecimal(*remote), _hexadecimal(*local)]
    with suppress(OSError):
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1:3] == wanted:
                return int(fields[7]) == os.getuid()
    return True


def _hexadecimal(host: str, port: int) -> str:
    return f"{int.from_bytes(socket.inet_aton(host), 'little'):08X}:{port:04X}"


def _failure(broker: Address, error: OSError) -> SinkqlError:
    """Return the error for a broker that cannot be reached; a broker without TLS resets the connection."""
    address, text = f"{broker[0]}:{broker[1]}", str(error) or type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError):
        return SinkqlError(
            "SQ4272",
            f"the certificate of broker {address} is not trusted",
            detail=text,
            hint="Add SSL CERTIFICATE AUTHORITY = SECRET name with the PEM certificate of the issuing authority.",
        )
    if isinstance(error, ssl.SSLError | ConnectionResetError):
        return SinkqlError(
            "SQ4273",
            f"TLS with broker {address} failed",
            detail=text,
            hint="Write SECURITY PROTOCOL = 'PLAINTEXT' or 'SASL_PLAINTEXT', or specify the broker's TLS port.",
        )
    return SinkqlError(
        "SQ4270",
        f"broker {address} does not answer",
        detail=text,
        hint="Check BROKER in CREATE CONNECTION, and check that Kafka is running.",
    )
