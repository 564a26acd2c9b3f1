"""How a user logs in at a MySQL server → what of the password the server gets.

A server says how it wants the password, and whoever answers at an address may say so. Without TLS nobody gets what the
password is found from, not even encrypted with a key of his own; with TLS whose certificate is not checked nobody gets
the password itself by plugins made for that. Through such TLS caching_sha2_password and sha256_password do send it, as
MySQL's own client does: only a certificate that is checked protects from one who stands between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymysql.connections

from sinkql.errors import SinkqlError

_CLEAR = ("mysql_clear_password", "dialog", "mysql_old_password")
"""Ways in which the server gets the password itself, or what it is soon found from."""


class GuardedConnection(pymysql.connections.Connection):  # type: ignore[misc]  # PyMySQL publishes no types
    """A connection that does not give its password in each way that a stranger may ask for.

    `verified` tells that the server's certificate is checked, `refused` makes the error of a way that is not taken.
    """

    verified = False
    refused: Callable[[str, bool], SinkqlError] | None = None
    _key: bytes | None = None

    @property
    def server_public_key(self) -> bytes | None:
        """Return the key that the password is encrypted with where there is no TLS."""
        return self._key

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        """Take no key that the server sends."""
        if key is not None:
            self._refuse(self._auth_plugin_name or "sha256_password", encrypted=True)
        self._key = key

    def _process_auth(self, plugin_name: bytes, *rest: Any) -> Any:
        name = plugin_name.decode("ascii", "replace")
        if name in _CLEAR and not (self.verified and self._secure):
            self._refuse(name, encrypted=False)
        return super()._process_auth(plugin_name, *rest)

    def _refuse(self, plugin: str, *, encrypted: bool) -> None:
        assert self.refused is not None
        raise self.refused(plugin, encrypted)


def login_refused_error(name: str, where: str) -> Callable[[str, bool], SinkqlError]:
    """Return what makes the error of a way to log in that connection `name` does not take."""

    def made(plugin: str, encrypted: bool) -> SinkqlError:
        asks = "to be encrypted with a key that it sends" if encrypted else "itself"
        return SinkqlError(
            "SQ4471",
            f'MySQL server {where} wants the password of connection "{name}" {asks}, which could be anybody\'s wish',
            detail=f"It asks for it by the authentication plugin {plugin}; nothing was sent.",
            hint="Add SSL MODE = 'required' to the connection."
            if encrypted
            else "Add SSL MODE = 'verify_identity' with SSL CERTIFICATE AUTHORITY, or have the user log in by "
            "caching_sha2_password or ed25519. If the server should not ask for that, somebody else answers at HOST.",
        )

    return made
