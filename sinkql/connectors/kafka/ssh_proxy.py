"""Brokers behind SSH servers → ports of this machine, one a broker.

A client goes on to where brokers say that they are. So a proxy puts ports of its own in the place of the addresses in
what they say, and opens those ports when it first hears of a broker. TLS ends in the proxy, which checks the brokers'
certificates by their own names; its ports are on this machine alone, and let nobody in but whose process it is.

Messages of Kafka's protocol, where brokers name brokers → the same with other addresses.
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
from sinkql.connector_api.tunnel import log_in, unreached
from sinkql.errors import SinkqlError

Address = tuple[str, int]
_API_VERSIONS, _METADATA, _COORDINATOR = 18, 3, 10
_NEWEST = {0: 9, 1: 15, _METADATA: 12, _COORDINATOR: 4}
"""The newest versions that a client may speak, by API: answers to later ones to Produce and Fetch name brokers too."""
_COMPACT_SINCE = {_METADATA: 9, _COORDINATOR: 3}
_HEADER = struct.Struct(">hhi")
_VERSIONS = struct.Struct(">hhh")


@dataclass(slots=True)
class Answers:
    """Tell for one connection which answers name brokers, or say what brokers speak: those to requests that ask so."""

    _asked: dict[int, tuple[int, int]] = field(default_factory=dict)

    def request(self, start: bytes) -> None:
        """Take the first eight bytes of a request."""
        api, version, correlation = _HEADER.unpack(start)
        if api in (_API_VERSIONS, *_COMPACT_SINCE):
            self._asked[correlation] = (api, version)

    def question(self, correlation: bytes) -> tuple[int, int] | None:
        """Return the API and the version of the request that an answer is to, if the answer is to be changed."""
        return self._asked.pop(int.from_bytes(correlation, "big", signed=True), None)


def named(question: tuple[int, int], answer: bytes) -> list[Address]:
    """Return the brokers that an answer names, without its correlation id."""
    return [] if question[0] == _API_VERSIONS else [address for _, _, address in _places(question, answer)]


def changed(question: tuple[int, int], answer: bytes, places: dict[Address, Address]) -> bytes:
    """Return an answer with other addresses, or with no version of an API that names brokers in places of its own."""
    api, version = question
    if api == _API_VERSIONS:
        return _bounded(version, answer)
    parts, at = [], 0
    for begin, end, address in _places(question, answer):
        host, port = places[address]
        length = _unsigned(len(host) + 1) if version >= _COMPACT_SINCE[api] else struct.pack(">h", len(host))
        parts += [answer[at:begin], length, host.encode(), struct.pack(">i", port)]
        at = end
    return b"".join([*parts, answer[at:]])


@dataclass(slots=True)
class _Cursor:
    """Read fields one after the other; `compact` are those of flexible versions."""

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


def _places(question: tuple[int, int], answer: bytes) -> Iterator[tuple[int, int, Address]]:
    """Yield where addresses of brokers begin and end, and the addresses."""
    api, version = question
    cursor = _Cursor(answer, version >= _COMPACT_SINCE[api])
    cursor.tags()  # of the header
    yield from (_of_metadata if api == _METADATA else _of_coordinators)(cursor, version)


def _of_metadata(cursor: _Cursor, version: int) -> Iterator[tuple[int, int, Address]]:
    cursor.skip(4 if version >= 3 else 0)  # how long to wait
    for _ in range(cursor.count()):
        cursor.skip(4)
        yield _address(cursor)
        if version >= 1:
            cursor.text()  # its rack
        cursor.tags()


def _of_coordinators(cursor: _Cursor, version: int) -> Iterator[tuple[int, int, Address]]:
    cursor.skip(4 if version >= 1 else 0)
    if version < 4:
        cursor.skip(2)
        if version >= 1:
            cursor.text()  # an error's
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


def _bounded(version: int, answer: bytes) -> bytes:
    """Return what a broker says of the versions that it speaks, with none that is too new."""
    found = bytearray(answer)
    cursor = _Cursor(answer, compact=version >= 3)
    if cursor.number(">h"):
        return answer  # it does not know the version of the question
    for _ in range(cursor.count()):
        begin = cursor.at
        api, first, last = _VERSIONS.unpack_from(answer, begin)
        _VERSIONS.pack_into(found, begin, api, first, min(last, _NEWEST.get(api, last)))
        cursor.skip(_VERSIONS.size)
        cursor.tags()
    return bytes(found)


def _unsigned(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


T = TypeVar("T")
_LOGGER = logging.getLogger(__name__)
_PART = 1 << 16
_TIMEOUT_S = 15.0
_LEAST_S = 0.5
"""How long a connection stays open at least, whatever became of the one to the broker."""
_HERE = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Tls:
    """What brokers' certificates are checked by, and what is shown to them, in PEM."""

    authority: str | None
    certificate: str | None
    key: str | None = field(repr=False)

    def context(self) -> ssl.SSLContext:
        """Return it as Python takes it; raises ssl.SSLError and ValueError, whose texts begin with what is wrong."""
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
    """The SSH tunnel by which a broker is reached, with its keys; the one without an address is for all others."""

    broker: Address | None
    tunnel: str
    text: str = field(repr=False)

    @property
    def options(self) -> Mapping[str, Any]:
        """Those of the tunnel, from JSON."""
        found: Mapping[str, Any] = json.loads(self.text)
        return found


@dataclass(frozen=True, slots=True)
class Routes:
    """How brokers are reached: those that are written, and those that they name. Others are reached directly."""

    written: tuple[Address, ...]
    tunnels: tuple[Route, ...]
    tls: Tls | None

    def of(self, broker: Address) -> Route | None:
        """Return the tunnel of a broker."""
        by_broker = {route.broker: route for route in self.tunnels}
        return by_broker.get(broker) or by_broker.get(None)


class Proxy:
    """Hold the ports of one connection's brokers, in a thread of its own."""

    def __init__(self, routes: Routes) -> None:
        """Open the ports of the brokers that are written; raises ssl.SSLError and ValueError for certificates."""
        self._routes = routes
        self._tls = routes.tls.context() if routes.tls is not None else None
        self._ports: dict[Address, Address] = {}
        self._brokers: dict[Address, Address] = {}
        self._servers: list[asyncio.Server] = []
        self._tunnels: dict[str, asyncio.Task[Any]] = {}
        self._troubles: dict[Address, SinkqlError] = {}
        self._opening = asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_note)
        threading.Thread(target=self._loop.run_forever, name="kafka proxy", daemon=True).start()
        self._run(self._opened(routes.written))

    @property
    def bootstrap(self) -> str:
        """Where the brokers that are written are reached on this machine."""
        return ",".join(f"{host}:{port}" for host, port in map(self._ports.__getitem__, self._routes.written))

    def broker(self, place: Address) -> Address:
        """Return the broker behind a port of this machine."""
        return self._brokers.get(place, place)

    def trouble(self) -> SinkqlError | None:
        """Return why a broker could not be reached when that was last tried; None where all could."""
        return next(iter(self._troubles.values()), None)

    def reach(self, broker: Address) -> None:
        """Connect to a broker, and leave; raises SQ442x and OSError."""
        self._run(self._tried(broker))

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result()

    async def _opened(self, brokers: tuple[Address, ...] | list[Address]) -> Mapping[Address, Any]:
        """Open the ports of brokers that have none, and return those of all."""
        async with self._opening:
            for broker in brokers:
                if broker not in self._ports:
                    self._ports[broker] = await self._listen(broker)
                    self._brokers[self._ports[broker]] = broker
        return self._ports

    async def _listen(self, broker: Address) -> Address:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                if _ours(writer):
                    began = self._loop.time()
                    await self._serve(broker, reader, writer)
                    # the client comes again at once: a connection was made, as it sees it
                    await asyncio.sleep(began + _LEAST_S - self._loop.time())
            finally:
                writer.close()

        server = await asyncio.start_server(serve, _HERE, 0)
        self._servers.append(server)
        return _HERE, server.sockets[0].getsockname()[1]

    async def _serve(self, broker: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.wait_for(self._connected(broker), _TIMEOUT_S)
        except SinkqlError as error:
            self._troubles[broker] = error
            return
        except OSError as error:
            self._troubles[broker] = _failure(broker, error)
            return
        self._troubles.pop(broker, None)
        answers = Answers()
        ways = (
            asyncio.ensure_future(_requests(reader, there[1], answers)),
            asyncio.ensure_future(self._answers(there[0], writer, answers)),
        )
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            there[1].close()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _answers(self, reader: Any, writer: Any, answers: Answers) -> None:
        """Give the client what a broker says, with ports of this machine in the place of addresses."""
        while True:
            start = await reader.readexactly(8)
            left = int.from_bytes(start[:4], "big") - 4
            question = answers.question(start[4:])
            if question is None:
                writer.write(start)
                await _passed(reader, writer, left)
                continue
            answer = await reader.readexactly(left)
            places = await self._opened(named(question, answer))
            answer = changed(question, answer, dict(places))
            writer.write((len(answer) + 4).to_bytes(4, "big") + start[4:] + answer)
            await writer.drain()

    async def _tried(self, broker: Address) -> None:
        _, writer = await asyncio.wait_for(self._connected(broker), _TIMEOUT_S)
        writer.close()

    async def _connected(self, broker: Address) -> tuple[Any, Any]:
        """Return a connection to a broker; raises SQ442x and OSError."""
        host, port = broker
        route = self._routes.of(broker)
        if route is None:
            return await asyncio.open_connection(
                host, port, ssl=self._tls, server_hostname=host if self._tls is not None else None
            )
        through = await self._through(route)
        try:
            found: tuple[Any, Any] = await through.open_connection(host, port)
        except through.failures as error:
            if through.closed:
                self._tunnels.pop(route.tunnel, None)
            raise unreached(route.options, host, port, error) from None
        return found if self._tls is None else await _secured(found, self._tls, host)

    async def _through(self, route: Route) -> Any:
        """Return the connection to an SSH server, opened again where it has ended."""
        task = self._tunnels.get(route.tunnel)
        if task is None or (task.done() and (task.exception() is not None or task.result().closed)):
            task = self._loop.create_task(log_in(route.options, lambda name: name))
            self._tunnels[route.tunnel] = task
        return await asyncio.shield(task)


@lru_cache(maxsize=64)
def _proxy(routes: Routes, process: int) -> Proxy:
    return Proxy(routes)


def proxy_of(routes: Routes) -> Proxy:
    """Return the one of a connection in this process."""
    return _proxy(routes, os.getpid())


def _note(loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """Log what nobody waits for, as it comes while the process ends: its client tries again."""
    _LOGGER.debug("connection ended", exc_info=context.get("exception"))


async def _requests(reader: Any, writer: Any, answers: Answers) -> None:
    while True:
        start = await reader.readexactly(12)
        answers.request(start[4:])
        writer.write(start)
        await _passed(reader, writer, int.from_bytes(start[:4], "big") - 8)


async def _passed(reader: Any, writer: Any, left: int) -> None:
    while left > 0:
        part = await reader.read(min(left, _PART))
        if not part:
            raise EOFError
        writer.write(part)
        left -= len(part)
        await writer.drain()
    await writer.drain()


async def _secured(plain: tuple[Any, Any], context: ssl.SSLContext, host: str) -> tuple[Any, Any]:
    """Return a connection with TLS over one without, which asyncio speaks with sockets alone."""
    near, far = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=far)

    async def pump(source: Any, target: Any) -> None:
        with suppress(Exception):  # either end may go at any time; the other one is told so
            while part := await source.read(_PART):
                target.write(part)
                await target.drain()
        target.close()

    pumps = [asyncio.ensure_future(pump(plain[0], writer)), asyncio.ensure_future(pump(reader, plain[1]))]
    try:
        found = await asyncio.open_connection(sock=near, ssl=context, server_hostname=host)
    except BaseException:
        for each in pumps:
            each.cancel()
        writer.close()
        plain[1].close()
        raise
    _PUMPS.update(pumps)
    for each in pumps:
        each.add_done_callback(_PUMPS.discard)
    return found


_PUMPS: set[asyncio.Future[None]] = set()
"""Held here, since a loop forgets tasks that nobody holds."""


def _ours(writer: asyncio.StreamWriter) -> bool:
    """Tell whether a connection comes from this user; any does where the system does not say whose it is."""
    here, there = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
    wanted = [_hexadecimal(*there), _hexadecimal(*here)]
    with suppress(OSError):
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1:3] == wanted:
                return int(fields[7]) == os.getuid()
    return True


def _hexadecimal(host: str, port: int) -> str:
    return f"{int.from_bytes(socket.inet_aton(host), 'little'):08X}:{port:04X}"


def _failure(broker: Address, error: OSError) -> SinkqlError:
    """Return why TLS with a broker, or the way to one without a tunnel, fails; who speaks no TLS hangs up."""
    where, text = f"{broker[0]}:{broker[1]}", str(error) or type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError):
        return SinkqlError(
            "SQ4272",
            f"the certificate of broker {where} is not trusted",
            detail=text,
            hint="Add SSL CERTIFICATE AUTHORITY = SECRET name, with the certificate in PEM of who signed it.",
        )
    if isinstance(error, ssl.SSLError | ConnectionResetError):
        return SinkqlError(
            "SQ4273",
            f"TLS with broker {where} fails",
            detail=text,
            hint="Write SECURITY PROTOCOL = 'PLAINTEXT' or 'SASL_PLAINTEXT', or give the port where it speaks TLS.",
        )
    return SinkqlError(
        "SQ4270",
        f"broker {where} does not answer",
        detail=text,
        hint="Check BROKER in CREATE CONNECTION, and that Kafka runs.",
    )
