"""A planned SSH TUNNEL connection → a port of this machine that leads to a host behind an SSH server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from sinkql import logical, physical
from sinkql.connector_api.options import reveal
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connector_api.tunnel_keys import TunnelKeys
from sinkql.errors import SinkqlError

_TIMEOUT_S = 10
_KEEPALIVE_S = 15


OPTION = "ssh_tunnel"
"""Under which a planned connection names the one that it goes through, as `{"connection": name}`."""


def planned_tunnel(planned: logical.Connection, access: OutsideAccess) -> Mapping[str, Any] | None:
    """Return the options of the tunnel that a planned connection goes through; None where it goes through none."""
    through = planned.options.get(OPTION)
    return access.connection(through["connection"]).options if through is not None else None


def carried_tunnel(connection: physical.Connection) -> Mapping[str, Any] | None:
    """Return those of a connection as a job carries it."""
    through = connection.options.get(OPTION)
    return connection.through[through["connection"]].options if through is not None else None


class Tunnel:
    """Forward a port of 127.0.0.1 to a host and port as the SSH server reaches them, until it is closed.

    Without a host nothing is forwarded: it is only tried whether the server lets the user in. `options` are those of
    the planned connection. It has a thread of its own. Raises SQ4420 to SQ4423 where it cannot
    be opened.
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
        through = await log_in(options, secret)
        self._connection = through
        if host is None:
            return 0
        try:
            _, writer = await through.open_connection(host, port)
            writer.close()
            return await through.forward(host, port)
        except through.failures as error:
            raise unreached(options, host, port, error) from None

    def close(self) -> None:
        """Close the tunnel; what goes through it breaks."""
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
    """A connection to an SSH server that has let the user in, as the loop that made it uses it."""

    _ssh: Any
    failures: tuple[type[Exception], ...]

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return bool(self._ssh.is_closed())

    async def open_connection(self, host: str, port: int) -> tuple[Any, Any]:
        """Return a reader and a writer of bytes of a host and port; raises `failures`."""
        found: tuple[Any, Any] = await self._ssh.open_connection(host, port)
        return found

    async def forward(self, host: str, port: int) -> int:
        """Return a port of 127.0.0.1 that leads to a host and port."""
        listener = await self._ssh.forward_local_port("127.0.0.1", 0, host, port)
        return int(listener.get_port())

    async def close(self) -> None:
        """End it."""
        self._ssh.close()
        await self._ssh.wait_closed()


async def log_in(options: Mapping[str, Any], secret: Callable[[str], str]) -> Login:
    """Connect to the SSH server of a planned connection; raises SQ4420, SQ4421, SQ4423, SQ4424 and SQ4425."""
    ssh = _library()
    where, kept = _where(options), TunnelKeys.of(reveal(options["keys"], secret))
    keys = [ssh.import_private_key(text) for text in kept.keys]
    host_key = options.get("host_key", kept.host_key)
    trusted: Any = ([ssh.import_public_key(host_key)], [], []) if host_key is not None else None
    try:
        connection = await ssh.connect(
            options["host"], options["port"], username=options["user"], client_keys=keys, known_hosts=trusted,
            config=None, agent_path=None, connect_timeout=_TIMEOUT_S, keepalive_interval=_KEEPALIVE_S,
        )  # fmt: skip
    except ssh.PermissionDenied as error:
        raise SinkqlError(
            "SQ4421", f"the SSH server {where} takes none of the tunnel's keys", detail=str(error),
            hint="Put a key of SELECT public_key_1, public_key_2 FROM mz_ssh_tunnel_connections into the user's "
            "authorized_keys on that server.",
        ) from None  # fmt: skip
    except ssh.HostKeyNotVerifiable as error:
        raise await _other_key(options, str(error)) from None
    except (OSError, ssh.Error, TimeoutError) as error:
        if trusted is not None and isinstance(error, ssh.KeyExchangeFailed):  # it has no key of that type any more
            raise await _other_key(options, str(error)) from None
        raise SinkqlError(
            "SQ4420", f"the SSH server {where} does not answer", detail=str(error) or type(error).__name__,
            hint="Correct HOST and PORT of the SSH TUNNEL connection, or open the port in the firewall between.",
        ) from None  # fmt: skip
    return Login(connection, (ssh.Error, OSError))


async def _other_key(options: Mapping[str, Any], told: str) -> SinkqlError:
    """Return the error for a server that shows another key than the one that is trusted."""
    where = _where(options)
    if "host_key" in options:
        return SinkqlError(
            "SQ4423", f"the SSH server {where} has another key than HOST KEY", detail=told,
            hint="Ask who runs the server; correct HOST KEY if its key has changed.",
        )  # fmt: skip
    found = await _shown_key(options)
    return SinkqlError(
        "SQ4425",
        f"the SSH server {where} has another key than when the tunnel was first used: it may be another server",
        detail=told if found is None else f"Its key now is {found}",
        hint="Ask who runs the server. If its key has changed, run ALTER CONNECTION … SET (HOST KEY = '…'); with the "
        "new one.",
    )


def host_key_of(options: Mapping[str, Any]) -> str | None:
    """Return the key that an SSH server shows, as HOST KEY has it; None where none answers. Raises SQ4424."""
    _library()
    with ThreadPoolExecutor(1) as pool:  # whoever asks may be in a loop
        return pool.submit(lambda: asyncio.run(_shown_key(options))).result()


async def _shown_key(options: Mapping[str, Any]) -> str | None:
    ssh = _library()
    asked = ssh.get_server_host_key(options["host"], options["port"], config=None)
    try:
        found = await asyncio.wait_for(asked, _TIMEOUT_S)
    except (OSError, ssh.Error, TimeoutError):
        return None
    return None if found is None else " ".join(found.export_public_key().decode().split()[:2])


def unreached(options: Mapping[str, Any], host: str, port: int, error: Exception) -> SinkqlError:
    """Return the error for a host and port that an SSH server does not reach."""
    return SinkqlError(
        "SQ4422", f"the SSH server {_where(options)} does not reach {host}:{port}", detail=str(error),
        hint="Correct HOST and PORT of what is connected to: they are looked up from the SSH server.",
    )  # fmt: skip


def _where(options: Mapping[str, Any]) -> str:
    return f"{options['host']}:{options['port']}"


def _library() -> Any:
    try:
        import asyncssh
    except ImportError:
        raise SinkqlError(
            "SQ4424", "SSH tunnels need asyncssh, which is not installed", hint="Run pip install 'sinkql[ssh]'."
        ) from None
    return asyncssh
