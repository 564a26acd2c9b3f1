"""CREATE CONNECTION … TO POSTGRES → where the database is, who connects, and how it is encrypted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sinkql import ast
from sinkql.connector_api.database_options import check_certificate, check_encryption, check_host, check_port
from sinkql.connector_api.options import bind, option_span
from sinkql.connector_api.planning import PlanningContext
from sinkql.connector_api.secret import secret_data
from sinkql.connectors.postgres.options import CONNECTION_OWNER, PostgresOptions
from sinkql.errors import SinkqlError

PLACE = ("DATABASE",)
"""What cannot change: a server may move, and is known by its system id then."""


def plan_connection(statement: ast.CreateConnection, planning: PlanningContext) -> Mapping[str, Any]:
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
    written, otherwise = statement.options, statement.kind_span
    check_host(written, options.host, otherwise)
    check_port(written, options.port, usual=5432, otherwise=otherwise)
    check_certificate(written, otherwise)
    check_encryption(written, options.ssl_mode, off="disable", on="verify_full, or require", otherwise=otherwise)
