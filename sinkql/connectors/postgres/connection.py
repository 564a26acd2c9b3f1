"""CREATE CONNECTION … TO POSTGRES → where the database is, who connects, and how it is encrypted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sinkql import ast
from sinkql.connectors.postgres.options import CONNECTION_OWNER, PostgresOptions
from sinkql.errors import SinkqlError
from sinkql.extension.options import bind, option_span
from sinkql.extension.plan import Planning
from sinkql.extension.secret import secret_data

PLACE = ("DATABASE",)
"""What cannot change: a server may move, and is known by its system id then."""
_MOST_PORT = 65535


def plan_connection(statement: ast.CreateConnection, planning: Planning) -> Mapping[str, Any]:
    """Return host, port, database, who connects, and how it is encrypted; raises SQ2550 to SQ2553."""
    options = bind(
        statement.options, PostgresOptions, owner=CONNECTION_OWNER, span=statement.kind_span, secret=planning.secret
    )
    _check(statement, options)
    texts = {
        "user": options.user,
        "password": options.password,
        "ssl_certificate": options.ssl_certificate,
        "ssl_key": options.ssl_key,
        "ssl_certificate_authority": options.ssl_certificate_authority,
    }
    planned: dict[str, Any] = {"host": options.host, "port": options.port, "database": options.database}
    planned |= {name: secret_data(text) for name, text in texts.items() if text is not None}
    planned["ssl_mode"] = options.ssl_mode
    if options.ssh_tunnel is not None:
        planned["ssh_tunnel"] = {"connection": planning.connection(options.ssh_tunnel, "SSH TUNNEL").name}
    return planned


def _check(statement: ast.CreateConnection, options: PostgresOptions) -> None:
    if options.aws_privatelink is not None:
        raise SinkqlError(
            "SQ2903",
            "AWS PRIVATELINK of Postgres connections is not supported yet",
            option_span(statement.options, "AWS PRIVATELINK", statement.kind_span),
            hint="Leave it out, and write the address of the endpoint as HOST.",
        )
    if not 1 <= options.port <= _MOST_PORT:
        raise SinkqlError(
            "SQ2550",
            f"{options.port} is not a port",
            option_span(statement.options, "PORT", statement.kind_span),
            hint="Write PORT = 5432.",
        )
    if (options.ssl_certificate is None) != (options.ssl_key is None):
        given, absent = ("SSL CERTIFICATE", "SSL KEY = SECRET name")
        if options.ssl_key is not None:
            given, absent = ("SSL KEY", "SSL CERTIFICATE = '…'")
        raise SinkqlError(
            "SQ2551",
            f"{given} requires {absent.partition(' =')[0]}",
            option_span(statement.options, given, statement.kind_span),
            hint=f"Add {absent}.",
        )
    verifies = options.ssl_mode in ("verify_ca", "verify_full")
    if verifies and options.ssl_certificate_authority is None:
        raise SinkqlError(
            "SQ2552",
            f"SSL MODE {options.ssl_mode} requires SSL CERTIFICATE AUTHORITY",
            option_span(statement.options, "SSL MODE", statement.kind_span),
            hint="Add SSL CERTIFICATE AUTHORITY = SECRET name, the certificate that signed the server's.",
        )
    unused = next((name for name in _OF_SSL if any(each.name == name for each in statement.options)), None)
    if options.ssl_mode == "disable" and unused is not None:
        raise SinkqlError(
            "SQ2553",
            f"{unused} is not used without SSL",
            option_span(statement.options, unused, statement.kind_span),
            hint="Add SSL MODE = verify_full, or require.",
        )


_OF_SSL = ("SSL CERTIFICATE", "SSL KEY", "SSL CERTIFICATE AUTHORITY")
