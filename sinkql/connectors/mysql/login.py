"""Restrict how a user's password is sent at the login to a MySQL server.

The server chooses the authentication plugin, and an impostor at its address may choose one too. Without TLS, SinkQL
sends nothing from which the password can be computed, not even encrypted with a key from the server. Over TLS without a
verified certificate, it does not use plugins that send the password itself. Only caching_sha2_password and
sha256_password may send it there, as in MySQL's own client. Only a verified certificate protects against a man in the
middle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymysql.connections

from sinkql.errors import SinkqlError

_CLEAR = ("mysql_clear_password", "dialog", "mysql_old_password")
"""Plugins that send the password itself, or something from which it is easily computed."""


class GuardedConnection(pymysql.connections.Connection):  # type: ignore[misc]  # PyMySQL publishes no types
    """A connection that refuses to send its password in unsafe ways.

    `verified` is whether the server's certificate is checked. `refused` makes the error of a refused plugin.
    """

    verified = False
    refused: Callable[[str, bool], SinkqlError] | None = None
    _key: bytes | None = None

    @property
    def server_public_key(self) -> bytes | None:
        """Return the key that encrypts the password without TLS."""
        return self._key

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        """Refuse any key that the server sends."""
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
    """Return a factory of errors for plugins that connection `name` refuses."""

    def refusal(plugin: str, encrypted: bool) -> SinkqlError:
        asks = "encrypted with a key that it sends" if encrypted else "in clear text"
        return SinkqlError(
            "SQ4471",
            f'MySQL server {where} asks for the password of connection "{name}" {asks}, as an impostor could',
            detail=f"It asks by the authentication plugin {plugin}. The password was not sent.",
            hint="Add SSL MODE = 'required' to the connection."
            if encrypted
            else "Add SSL MODE = 'verify_identity' with SSL CERTIFICATE AUTHORITY, or let the user authenticate by "
            "caching_sha2_password or ed25519. If the server does not use this plugin, an impostor answers at HOST.",
        )

    return refusal
