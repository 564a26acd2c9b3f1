"""SSH tunnels: connections to servers that others are reached through. `sinkql.connector_api.tunnel` opens them."""

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
Two pairs of keys are made with the connection; the private ones are kept as secrets are. Put one of the public ones,
which `SELECT public_key_1, public_key_2 FROM mz_ssh_tunnel_connections` shows, into the user's `authorized_keys` on the
server. `ALTER CONNECTION name ROTATE KEYS` puts the second pair in the place of the first, and makes another second
one: put that on the server before the first is taken away. It needs `pip install 'sinkql[ssh]'`."""


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
    """Return where the server is, and the name of what the private keys are kept under: the connection itself."""
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
                "without HOST KEY the tunnel trusts whoever answers at HOST at first, and no other server later",
                statement.kind_span,
                hint="Add HOST KEY = 'ssh-ed25519 AAAA…', which ssh-keyscan shows, once you know it for the server's.",
            )
        )
    own = planning.catalog.locate(statement.name)
    keyed = {} if options.host_key is None else {"host_key": options.host_key}
    return {
        "host": options.host,
        "port": options.port,
        "user": options.user,
        "keys": {"secret_text": [{"secret": own}]},
        **keyed,
    }


_PARTS = 2


def make_keys(kept: str | None) -> Keys:
    """Make two pairs of keys, or of those that are `kept` the second and a new one."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    def made() -> str:
        private = Ed25519PrivateKey.generate()
        return private.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()).decode()

    def public(text: str) -> str:
        key = form.load_ssh_private_key(text.encode(), None).public_key()
        return f"{key.public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH).decode()} sinkql"

    before = None if kept is None else TunnelKeys.of(kept)
    privates = (made() if before is None else before.keys[1], made())
    now = TunnelKeys(privates, None if before is None else before.host_key)
    return Keys({"public_keys": [public(each) for each in privates]}, now.text())


def pin(options: Mapping[str, Any], kept: str) -> str | None:
    """Return what is kept with the key that the server shows now; None where a key is known, or it shows none."""
    from sinkql.connector_api.tunnel import host_key_of

    known = TunnelKeys.of(kept)
    if "host_key" in options or known.host_key is not None:
        return None
    found = host_key_of(options)
    return None if found is None else replace(known, host_key=found).text()


def _validate(planned: logical.Connection, access: OutsideAccess) -> None:
    """Log in, and leave; raises SQ442…."""
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
