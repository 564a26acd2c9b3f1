"""A planned SSH TUNNEL connection → a port of this machine that leads to a host behind an SSH server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from sinkql.errors import SinkqlError
from sinkql.extension.secret import reveal

_TIMEOUT_S = 10
_KEEPALIVE_S = 15


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
        self._connection: Any = None
        try:
            opened = asyncio.run_coroutine_threadsafe(self._open(options, secret, host, port), self._loop)
            self.port: int = opened.result()
        except BaseException:
            self.close()
            raise

    async def _open(self, options: Mapping[str, Any], secret: Callable[[str], str], host: str | None, port: int) -> int:
        ssh = _library()
        where = f"{options['host']}:{options['port']}"
        keys = [ssh.import_private_key(text) for text in json.loads(reveal(options["keys"], secret))]
        trusted: Any = ([ssh.import_public_key(options["host_key"])], [], []) if "host_key" in options else None
        try:
            self._connection = await ssh.connect(
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
            raise SinkqlError(
                "SQ4423", f"the SSH server {where} has another key than HOST KEY", detail=str(error),
                hint="Ask who runs the server; correct HOST KEY if its key has changed.",
            ) from None  # fmt: skip
        except (OSError, ssh.Error, TimeoutError) as error:
            raise SinkqlError(
                "SQ4420", f"the SSH server {where} does not answer", detail=str(error) or type(error).__name__,
                hint="Correct HOST and PORT of the SSH TUNNEL connection, or open the port in the firewall between.",
            ) from None  # fmt: skip
        if host is None:
            return 0
        try:
            _, writer = await self._connection.open_connection(host, port)
            writer.close()
            listener = await self._connection.forward_local_port("127.0.0.1", 0, host, port)
        except ssh.Error as error:
            raise SinkqlError(
                "SQ4422", f"the SSH server {where} does not reach {host}:{port}", detail=str(error),
                hint="Correct HOST and PORT of what is connected to: they are looked up from the SSH server.",
            ) from None  # fmt: skip
        return int(listener.get_port())

    def close(self) -> None:
        """Close the tunnel; what goes through it breaks."""
        if self._loop.is_closed():
            return
        if self._connection is not None:
            asyncio.run_coroutine_threadsafe(_closed(self._connection), self._loop).result(_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Tunnel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _closed(connection: Any) -> None:
    connection.close()
    await connection.wait_closed()


def _library() -> Any:
    try:
        import asyncssh
    except ImportError:
        raise SinkqlError(
            "SQ4424", "SSH tunnels need asyncssh, which is not installed", hint="Run pip install 'sinkql[ssh]'."
        ) from None
    return asyncssh
