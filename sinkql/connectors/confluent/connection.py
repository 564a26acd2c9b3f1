"""CREATE CONNECTION … TO CONFLUENT SCHEMA REGISTRY → its address, user and certificates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from sinkql import ast
from sinkql.errors import SinkqlError, Span
from sinkql.extension.options import SecretOnly, SecretPart, bind, described, option_span
from sinkql.extension.plan import Planning
from sinkql.extension.secret import secret_data
from sinkql.logical import SecretText

KIND = "CONFLUENT SCHEMA REGISTRY"
OWNER = "schema registry connections"


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """The options of TO CONFLUENT SCHEMA REGISTRY; USER and USERNAME are the same."""

    url: str = described("its address, as `https://host:8081`")
    user: SecretPart | None = described("who asks, where the registry wants to know; also `USERNAME`", default=None)
    username: SecretPart | None = described("the same as `USER`", default=None)
    password: SecretOnly | None = described("of the user", default=None)
    ssl_certificate: SecretText | None = described(
        "with `SSL KEY`: a certificate that shows who asks, in PEM", default=None
    )
    ssl_certificate_authority: SecretText | None = described(
        "the certificate in PEM of the authority that signed the registry's, where this machine does not trust it",
        default=None,
    )
    ssl_key: SecretOnly | None = described("the key of `SSL CERTIFICATE`, in PEM", default=None)
    ssh_tunnel: ast.Name | None = described("not supported yet", default=None)
    aws_privatelink: ast.Name | None = described("not supported yet", default=None)


def plan(statement: ast.CreateConnection, planning: Planning) -> Mapping[str, Any]:
    """Return the options of the connection, those that are not given left out; raises SQ2101 to SQ2106 and SQ2541 on.

    They are `url`, `user`, `password`, `ssl_certificate`, `ssl_certificate_authority` and `ssl_key`, secret texts all
    but the first.
    """
    options = bind(statement.options, RegistryOptions, owner=OWNER, span=statement.kind_span, secret=planning.secret)

    def at(name: str) -> Span:
        return option_span(statement.options, name, statement.kind_span)

    for name in ("SSH TUNNEL", "AWS PRIVATELINK"):
        if getattr(options, name.lower().replace(" ", "_")) is not None:
            message = f"{name} of schema registry connections is not supported yet"
            raise SinkqlError("SQ2988", message, at(name), hint=f"Leave out {name}.")
    if not _web_address(options.url):
        raise SinkqlError("SQ2527", f'invalid URL "{options.url}"', at("URL"), hint="Write URL = 'https://host:8081'.")
    if options.user is not None and options.username is not None:
        raise SinkqlError("SQ2541", "USER and USERNAME are the same option", at("USERNAME"), hint="Keep one of them.")
    user = options.user or options.username
    if options.password is not None and user is None:
        raise SinkqlError("SQ2542", "PASSWORD requires USER", at("PASSWORD"), hint="Add USER = '…'.")
    if (options.ssl_key is None) != (options.ssl_certificate is None):
        there, other = ("SSL KEY", "SSL CERTIFICATE") if options.ssl_key is not None else ("SSL CERTIFICATE", "SSL KEY")
        raise SinkqlError("SQ2542", f"{there} requires {other}", at(there), hint=f"Add {other} = SECRET name.")
    secrets = {
        "user": user,
        "password": options.password,
        "ssl_certificate": options.ssl_certificate,
        "ssl_certificate_authority": options.ssl_certificate_authority,
        "ssl_key": options.ssl_key,
    }
    given = {name: secret_data(text) for name, text in secrets.items() if text is not None}
    return {"url": options.url.rstrip("/"), **given}


def _web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        plain = not parts.query and not parts.fragment
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0 and plain
    except ValueError:
        return False
