"""A real SSH server on a free port of this machine, with public-key authentication and port forwarding."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncssh

from support.patience import PATIENCE_S


@dataclass
class SshServer:
    """The server's port, its public key and the public keys that it accepts.

    All hosts of a `domain` resolve to this machine.
    """

    port: int = 0
    host_key: str = ""
    authorized: set[str] = field(default_factory=set)
    forwarded: list[tuple[str, int]] = field(default_factory=list)
    domain: str = ""
    connections: list[asyncssh.SSHServerConnection] = field(default_factory=list)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def authorize(self, line: str) -> None:
        """Accept only the public key in a line of authorized_keys."""
        self.authorized = {asyncssh.import_public_key(line).get_fingerprint()}

    def hang_up(self) -> None:
        """Close all connections."""
        for each in self.connections:
            self._loop.call_soon_threadsafe(each.abort)


class _Session(asyncssh.SSHServer):
    def __init__(self, of: SshServer) -> None:
        self._of = of

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._of.connections.append(conn)

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username == "tunnel" and key.get_fingerprint() in self._of.authorized

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> Any:
        self._of.forwarded.append((dest_host, dest_port))
        if self._of.domain and dest_host.endswith(f".{self._of.domain}"):
            return self._of.connections[-1].forward_connection("127.0.0.1", dest_port)
        return True


@contextmanager
def ssh_server(domain: str = "") -> Iterator[SshServer]:
    """Run a server until the block ends."""
    found = SshServer(domain=domain)
    loop = found._loop
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    key = asyncssh.generate_private_key("ssh-ed25519")
    found.host_key = key.export_public_key().decode().strip()

    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.create_server(lambda: _Session(found), "127.0.0.1", 0, server_host_keys=[key])

    async def close(server: asyncssh.SSHAcceptor) -> None:
        server.close()
        for each in found.connections:  # since 3.12, Python waits for them below
            each.abort()
        await server.wait_closed()

    server = asyncio.run_coroutine_threadsafe(listen(), loop).result(PATIENCE_S)
    found.port = server.get_port()
    try:
        yield found
    finally:
        asyncio.run_coroutine_threadsafe(close(server), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()
