"""Check the options of CREATE CONNECTION … TO CONFLUENT SCHEMA REGISTRY: address, user and certificates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from sinkql import ast
from sinkql.connector_api.options import SecretOnly, SecretPart, bind, option_field, option_span, secret_data
from sinkql.connector_api.planning import PlanningContext
from sinkql.errors import SinkqlError, Span
from sinkql.logical import SecretText

KIND = "CONFLUENT SCHEMA REGISTRY"
OWNER = "schema registry connections"


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """The options of TO CONFLUENT SCHEMA REGISTRY."""

    url: str = option_field("the address of the registry, as `https://host:8081`")
    user: SecretPart | None = option_field("the user name, if the registry requires authentication", default=None)
    password: SecretOnly | None = option_field("the password of the user", default=None)
    ssl_certificate: SecretText | None = option_field(
        "the client certificate in PEM, together with `SSL KEY`", default=None
    )
    ssl_certificate_authority: SecretText | None = option_field(
        "the PEM certificate of the authority, if this machine does not trust it",
        default=None,
    )
    ssl_key: SecretOnly | None = option_field("the key of the client certificate, in PEM", default=None)
    ssh_tunnel: ast.Name | None = option_field("the SSH tunnel connection to reach the registry", default=None)
    aws_privatelink: ast.Name | None = option_field("not supported yet", default=None)


def plan(statement: ast.CreateConnection, planning: PlanningContext) -> Mapping[str, Any]:
    """Return the planned options (`options.RegistryConnection`). Raise SQ2101 to SQ2106, SQ2527, SQ2542 or SQ2988."""
    options = bind(statement.options, RegistryOptions, owner=OWNER, span=statement.kind_span, secret=planning.secret)

    def span_of(name: str) -> Span:
        return option_span(statement.options, name, statement.kind_span)

    if options.aws_privatelink is not None:
        message = "AWS PRIVATELINK of schema registry connections is not supported yet"
        raise SinkqlError("SQ2988", message, span_of("AWS PRIVATELINK"), hint="Leave out AWS PRIVATELINK.")
    if not _web_address(options.url):
        raise SinkqlError(
            "SQ2527", f'invalid URL "{options.url}"', span_of("URL"), hint="Write URL = 'https://host:8081'."
        )
    if options.password is not None and options.user is None:
        raise SinkqlError("SQ2542", "PASSWORD requires USER", span_of("PASSWORD"), hint="Add USER = '…'.")
    if (options.ssl_key is None) != (options.ssl_certificate is None):
        present, absent = (
            ("SSL KEY", "SSL CERTIFICATE") if options.ssl_key is not None else ("SSL CERTIFICATE", "SSL KEY")
        )
        raise SinkqlError(
            "SQ2542", f"{present} requires {absent}", span_of(present), hint=f"Add {absent} = SECRET name."
        )
    secrets = {
        "user": options.user,
        "password": options.password,
        "ssl_certificate": options.ssl_certificate,
        "ssl_certificate_authority": options.ssl_certificate_authority,
        "ssl_key": options.ssl_key,
    }
    secret_options = {name: secret_data(text) for name, text in secrets.items() if text is not None}
    planned: dict[str, Any] = {"url": options.url.rstrip("/"), **secret_options}
    if options.ssh_tunnel is not None:
        planned["ssh_tunnel"] = {"connection": planning.connection(options.ssh_tunnel, "SSH TUNNEL").name}
    return planned


def _web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        plain = not parts.query and not parts.fragment
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0 and plain
    except ValueError:
        return False
