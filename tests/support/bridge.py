"""A network on this machine that gives each namespace an address and forwards ports to 127.0.0.1."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count

_LOCALHOST = "127.0.0.1"
_FIRST, _LAST = 2, 255
_BYTES = 1 << 16


@dataclass(slots=True)
class Bridge:
    """A network of 254 addresses; this machine has the first one."""

    name: str
    network: str
    _numbers: Iterator[int] = field(default_factory=lambda: count(_FIRST))

    @property
    def address(self) -> str:
        """Return the address of this machine."""
        return f"{self.network}.1"

    def join(self, pid: int) -> str:
        """Connect the network namespace of a process; return its address, which is never used twice."""
        number = next(self._numbers)
        assert number < _LAST, "the network has no free addresses"
        card, address = f"{self.name}-{number}", f"{self.network}.{number}"
        _ip("link", "add", card, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        _ip("link", "set", card, "master", self.name, "up")
        for inside in (
            ("link", "set", "lo", "up"),
            ("address", "add", f"{address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("route", "add", "default", "via", self.address),
        ):
            subprocess.run(["nsenter", "--target", str(pid), "--net", "ip", *inside], check=True)
        return address


@contextmanager
def bridge(*ports: int) -> Iterator[Bridge]:
    """Create a network until the block ends, and forward these ports of its address to 127.0.0.1."""
    number = os.getpid()
    found = Bridge(f"sinkql{number % 65536:x}", f"10.{64 + number // 256 % 128}.{number % 256}")
    _ip("link", "add", found.name, "type", "bridge")
    try:
        _ip("address", "add", f"{found.address}/24", "dev", found.name)
        _ip("link", "set", found.name, "up")
        with ExitStack() as stack:
            for port in ports:
                stack.enter_context(_forwarded(found.address, port))
            yield found
    finally:
        _ip("link", "delete", found.name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


@contextmanager
def _forwarded(address: str, port: int) -> Iterator[None]:
    with socket.create_server((address, port)) as server:
        threading.Thread(target=_accept, args=(server, port), daemon=True).start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)


def _accept(server: socket.socket, port: int) -> None:
    with suppress(OSError):
        while True:
            client, _ = server.accept()
            try:
                upstream = socket.create_connection((_LOCALHOST, port))
            except OSError:
                client.close()
                continue
            for source, target in ((client, upstream), (upstream, client)):
                threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_BYTES):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
