"""Open an SSH tunnel: a port of this machine that leads to a host behind an SSH server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import msgspec

from sinkql import codec, logical, physical
from sinkql.connector_api.options import reveal
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connector_api.tunnel_keys import TunnelKeys
from sinkql.errors import SinkqlError

_TIMEOUT_S = 10
_KEEPALIVE_S = 15
OPTION = "ssh_tunnel"
"""The option of a planned connection that names its SSH TUNNEL connection, as `{"connection": name}`."""


class SshServer(msgspec.Struct, frozen=True):
    """The planned options of an SSH TUNNEL connection. `keys` is the secret with `TunnelKeys`."""

    host: str
    port: int
    user: str
    keys: dict[str, Any]
    host_key: str | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> SshServer:
        """Return the planned options as a typed value."""
        return codec.convert(options, cls)

    @property
    def address(self) -> str:
        """Return the host and port, for messages."""
        return f"{self.host}:{self.port}"


class _TunnelReference(msgspec.Struct, frozen=True):
    connection: str


def planned_tunnel(planned: logical.Connection, access: OutsideAccess) -> Mapping[str, Any] | None:
    """Return the options of the tunnel that a planned connection uses; None if it uses none."""
    name = _tunnel_name(planned.options)
    return access.connection(name).options if name is not None else None


def carried_tunnel(connection: physical.Connection) -> Mapping[str, Any] | None:
    """Return the options of the tunnel that a connection of a job uses; None if it uses none."""
    name = _tunnel_name(connection.options)
    return connection.through[name].options if name is not None else None


def _tunnel_name(options: Mapping[str, Any]) -> str | None:
    reference = options.get(OPTION)
    return codec.convert(reference, _TunnelReference).connection if reference is not None else None


class Tunnel:
    """A forwarded port of 127.0.0.1 that leads to a host and port behind an SSH server, until it is closed.

    `options` are the options of the planned SSH TUNNEL connection. Without a host, only the login is tested. A separate
    thread runs the tunnel. Raises SQ4420 to SQ4423 if the tunnel cannot be opened.
    """

    def __init__(self, options: Mapping[str, Any], secret: Callable[[str], str], host: str | None, port: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ssh tunnel", daemon=True)
        self._thread.start()
        self._connection: Login | None = None
        try:
            opened = asyncio.run_coroutine_threadsafe(self._open(options, secret, host, port), self._loop)
            self.port: int = opened.result()
        except BaseException:
            self.close()
            raise

    async def _open(self, options: Mapping[str, Any], secret: Callable[[str], str], host: str | None, port: int) -> int:
        login = await log_in(options, secret)
        self._connection = login
        if host is None:
            return 0
        try:
            _, writer = await login.open_connection(host, port)
            writer.close()
            return await login.forward(host, port)
        except login.failures as error:
            raise unreachable_error(options, host, port, error) from None

    def close(self) -> None:
        """Close the tunnel and all connections through it."""
        if self._loop.is_closed():
            return
        if self._connection is not None:
            asyncio.run_coroutine_threadsafe(self._connection.close(), self._loop).result(_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Tunnel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Login:
    """A connection to an SSH server after the login; only the event loop that created it may use it."""

    _ssh: Any
    failures: tuple[type[Exception], ...]

    @property
    def closed(self) -> bool:
        """Return whether the connection has ended."""
        return bool(self._ssh.is_closed())

    async def open_connection(self, host: str, port: int) -> tuple[Any, Any]:
        """Return a reader and a writer of bytes for a host and port; raises `failures`."""
        streams: tuple[Any, Any] = await self._ssh.open_connection(host, port)
        return streams

    async def forward(self, host: str, port: int) -> int:
        """Return a port of 127.0.0.1 that leads to a host and port."""
        listener = await self._ssh.forward_local_port("127.0.0.1", 0, host, port)
        return int(listener.get_port())

    async def close(self) -> None:
        """Close the connection."""
        self._ssh.close()
        await self._ssh.wait_closed()


async def log_in(options: Mapping[str, Any], secret: Callable[[str], str]) -> Login:
    """Log in to the SSH server of a planned connection; raises SQ4420, SQ4421, SQ4423, SQ4424 and SQ4425."""
    ssh = _library()
    server = SshServer.from_options(options)
    stored = TunnelKeys.parse(reveal(server.keys, secret))
    keys = [ssh.import_private_key(text) for text in stored.keys]
    host_key = server.host_key if server.host_key is not None else stored.host_key
    trusted: Any = ([ssh.import_public_key(host_key)], [], []) if host_key is not None else None
    try:
        connection = await ssh.connect(
            server.host, server.port, username=server.user, client_keys=keys, known_hosts=trusted,
            config=None, agent_path=None, connect_timeout=_TIMEOUT_S, keepalive_interval=_KEEPALIVE_S,
        )  # fmt: skip
    except ssh.PermissionDenied as error:
        raise SinkqlError(
            "SQ4421", f"the SSH server {server.address} accepts none of the tunnel's keys", detail=str(error),
            hint="Add a key of SELECT public_key_1, public_key_2 FROM mz_ssh_tunnel_connections to the user's "
            "authorized_keys on that server.",
        ) from None  # fmt: skip
    except ssh.HostKeyNotVerifiable as error:
        raise await _other_key_error(server, str(error)) from None
    except (OSError, ssh.Error, TimeoutError) as error:
        if trusted is not None and isinstance(error, ssh.KeyExchangeFailed):  # the server has no key of that type now
            raise await _other_key_error(server, str(error)) from None
        raise SinkqlError(
            "SQ4420", f"the SSH server {server.address} does not answer", detail=str(error) or type(error).__name__,
            hint="Correct HOST and PORT of the SSH TUNNEL connection, or open the port in the firewall.",
        ) from None  # fmt: skip
    return Login(connection, (ssh.Error, OSError))


async def _other_key_error(server: SshServer, reason: str) -> SinkqlError:
    """Return the error for a server whose key is not the trusted one."""
    if server.host_key is not None:
        return SinkqlError(
            "SQ4423", f"the SSH server {server.address} has another key than HOST KEY", detail=reason,
            hint="Ask the administrator of the server. If its key has changed, correct HOST KEY.",
        )  # fmt: skip
    present_key = await _fetch_host_key(server)
    return SinkqlError(
        "SQ4425",
        f"the SSH server {server.address} has another key than at the first use of the tunnel: it may be another "
        "server",
        detail=reason if present_key is None else f"Its present key is {present_key}",
        hint="Ask the administrator of the server. If its key has changed, run ALTER CONNECTION … SET (HOST KEY = "
        "'…'); with the new key.",
    )


def host_key_of(options: Mapping[str, Any]) -> str | None:
    """Return the key of an SSH server in the form of HOST KEY; None if it does not answer. Raises SQ4424."""
    _library()
    server = SshServer.from_options(options)
    with ThreadPoolExecutor(1) as pool:  # the caller may be in an event loop
        return pool.submit(lambda: asyncio.run(_fetch_host_key(server))).result()


async def _fetch_host_key(server: SshServer) -> str | None:
    ssh = _library()
    request = ssh.get_server_host_key(server.host, server.port, config=None)
    try:
        key = await asyncio.wait_for(request, _TIMEOUT_S)
    except (OSError, ssh.Error, TimeoutError):
        return None
    return None if key is None else " ".join(key.export_public_key().decode().split()[:2])


def unreachable_error(options: Mapping[str, Any], host: str, port: int, error: Exception) -> SinkqlError:
    """Return the error for a host and port that an SSH server does not reach."""
    return SinkqlError(
        "SQ4422", f"the SSH server {SshServer.from_options(options).address} does not reach {host}:{port}",
        detail=str(error), hint="Correct HOST and PORT of the target: the SSH server resolves them.",
    )  # fmt: skip


def _library() -> Any:
    try:
        import asyncssh
    except ImportError:
        raise SinkqlError(
            "SQ4424", "SSH tunnels need asyncssh, which is not installed", hint="Run pip install 'sinkql[ssh]'."
        ) from None
    return asyncssh
