"""SSH tunnels: connections to servers through which SinkQL reaches others. `sinkql.connector_api.tunnel` opens them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sinkql import ast, logical
from sinkql.connector_api.database_options import check_host, check_port
from sinkql.connector_api.options import bind, option_field, option_span
from sinkql.connector_api.planning import ConnectionKind, Connector, Keys, OutsideAccess, PlanningContext
from sinkql.connector_api.tunnel_keys import TunnelKeys
from sinkql.errors import Notice, SinkqlError

OWNER = "SSH tunnels"
_ABOUT = """\
Each connection has two key pairs. SinkQL stores the private keys as secrets. Add one of the public keys to the user's
`authorized_keys` on the server: `SELECT public_key_1, public_key_2 FROM mz_ssh_tunnel_connections` shows them. `ALTER
CONNECTION name ROTATE KEYS` replaces the first pair by the second and creates a new second pair. Add the new public
key to the server before you remove the old one. Tunnels need `pip install 'sinkql[ssh]'`."""


@dataclass(frozen=True, slots=True)
class TunnelOptions:
    """The options of TO SSH TUNNEL."""

    host: str = option_field("the name or address of the SSH server")
    user: str = option_field("the user name on the SSH server")
    port: int = option_field("the port of the SSH server", default=22)
    host_key: str | None = option_field(
        "the server's public key; without it, SinkQL trusts the key of the first connection",
        default=None,
    )


def plan(statement: ast.CreateConnection, planning: PlanningContext) -> Mapping[str, Any]:
    """Return the server's address and a reference to the secret with the private keys: the connection's name."""
    options = bind(statement.options, TunnelOptions, owner=OWNER, span=statement.kind_span, secret=planning.secret)
    if options.host_key is not None and len(options.host_key.split()) < _PARTS:
        raise SinkqlError(
            "SQ2554",
            "HOST KEY is a line of a type and a key",
            option_span(statement.options, "HOST KEY", statement.kind_span),
            hint="Write HOST KEY = 'ssh-ed25519 AAAA…', as ssh-keyscan shows it without the host.",
        )
    check_host(statement.options, options.host, statement.kind_span)
    check_port(statement.options, options.port, usual=22, otherwise=statement.kind_span)
    if options.host_key is None:
        planning.notice(
            Notice(
                "SQ2556",
                "without HOST KEY the tunnel trusts the first server that answers at HOST, and no other server later",
                statement.kind_span,
                hint="Add HOST KEY = 'ssh-ed25519 AAAA…', as ssh-keyscan shows it. Verify that it is the server's key.",
            )
        )
    full_name = planning.catalog.locate(statement.name)
    host_key = {} if options.host_key is None else {"host_key": options.host_key}
    return {
        "host": options.host,
        "port": options.port,
        "user": options.user,
        "keys": {"secret_text": [{"secret": full_name}]},
        **host_key,
    }


_PARTS = 2


def make_keys(stored: str | None) -> Keys:
    """Create two key pairs; if keys are `stored`, use their second pair and create one new pair."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    def new_private_key() -> str:
        private = Ed25519PrivateKey.generate()
        return private.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()).decode()

    def public(text: str) -> str:
        key = form.load_ssh_private_key(text.encode(), None).public_key()
        return f"{key.public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH).decode()} sinkql"

    before = None if stored is None else TunnelKeys.parse(stored)
    privates = (new_private_key() if before is None else before.keys[1], new_private_key())
    current = TunnelKeys(privates, None if before is None else before.host_key)
    return Keys({"public_keys": [public(key) for key in privates]}, current.text())


def pin(options: Mapping[str, Any], stored: str) -> str | None:
    """Return the stored keys with the key that the server shows now.

    None if a host key is stored or configured, or the server shows none.
    """
    from sinkql.connector_api.tunnel import host_key_of

    keys = TunnelKeys.parse(stored)
    if "host_key" in options or keys.host_key is not None:
        return None
    host_key = host_key_of(options)
    return None if host_key is None else replace(keys, host_key=host_key).text()


def _validate(planned: logical.Connection, access: OutsideAccess) -> None:
    """Log in and disconnect. Raise SQ442x if that fails."""
    from sinkql.connector_api.tunnel import Tunnel

    Tunnel(planned.options, access.secret, None, 0).close()


connector = Connector(
    "ssh",
    connections=(
        ConnectionKind(
            "SSH TUNNEL",
            plan,
            TunnelOptions,
            OWNER,
            validate=_validate,
            validates_unasked=False,
            keys=make_keys,
            pin=pin,
            about=_ABOUT,
        ),
    ),
)
