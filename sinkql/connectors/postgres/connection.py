"""The options of connections, sources and tables, and the planning of CREATE CONNECTION … TO POSTGRES."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sinkql import ast
from sinkql.connector_api.database_options import check_certificate, check_encryption, check_host, check_port
from sinkql.connector_api.options import (
    PlannedOptions,
    PlannedSecret,
    SecretOnly,
    SecretPart,
    bind,
    option_field,
    option_span,
    secret_data,
)
from sinkql.connector_api.planning import PlanningContext
from sinkql.errors import SinkqlError
from sinkql.logical import SecretText

PLACE = ("DATABASE",)
"""The options that cannot change. A server may move: its system identifier proves that it is the same."""


def plan_connection(statement: ast.CreateConnection, planning: PlanningContext) -> Mapping[str, Any]:
    """Return the planned options of a connection; raise SQ2550 to SQ2553."""
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
            hint="Leave it out, and use the address of the endpoint as HOST.",
        )
    written, otherwise = statement.options, statement.kind_span
    check_host(written, options.host, otherwise)
    check_port(written, options.port, usual=5432, otherwise=otherwise)
    check_certificate(written, otherwise)
    check_encryption(written, options.ssl_mode, off="disable", on="verify_full, or require", otherwise=otherwise)


@dataclass(frozen=True, slots=True)
class PostgresConnection(PlannedOptions):
    """The options of a planned connection. The field names are the keys in jobs."""

    host: str
    port: int
    database: str
    user: PlannedSecret
    ssl_mode: str
    password: PlannedSecret | None = None
    ssl_certificate: PlannedSecret | None = None
    ssl_key: PlannedSecret | None = None
    ssl_certificate_authority: PlannedSecret | None = None


CONNECTION_OWNER = "Postgres connections"
SOURCE_OWNER = "sources from Postgres"
TABLE_OWNER = "tables of Postgres sources"


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """The options of TO POSTGRES."""

    host: str = option_field("the name or address of the server")
    database: str = option_field("the database with the publication")
    user: SecretPart = option_field("a role with `LOGIN` and `REPLICATION` that may read the tables")
    port: int = option_field("the port of the server", default=5432)
    password: SecretOnly | None = option_field("the password of the role", default=None)
    ssl_mode: Literal["disable", "prefer", "require", "verify_ca", "verify_full"] = option_field(
        "how to encrypt: `verify_ca` also checks the certificate, `verify_full` also the host name",
        default="prefer",
    )
    ssl_certificate: SecretText | None = option_field(
        "the client certificate in PEM, together with `SSL KEY`", default=None
    )
    ssl_key: SecretOnly | None = option_field("the key of the client certificate, in PEM", default=None)
    ssl_certificate_authority: SecretText | None = option_field(
        "the PEM certificates of authorities that may sign the server's certificate", default=None
    )
    ssh_tunnel: ast.Name | None = option_field("the SSH tunnel connection to reach the server", default=None)
    aws_privatelink: ast.Name | None = option_field("not supported yet", default=None)


@dataclass(frozen=True, slots=True)
class PublicationOptions:
    """The options of FROM POSTGRES CONNECTION."""

    publication: str = option_field("the publication with the tables")
    text_columns: tuple[str, ...] = option_field("columns to read as text, as `schema.table.column`", default=())
    exclude_columns: tuple[str, ...] = option_field("columns to leave out, as `schema.table.column`", default=())


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of WITH (…) of CREATE TABLE … FROM SOURCE."""

    text_columns: tuple[str, ...] = option_field("columns to read as text", default=())
    exclude_columns: tuple[str, ...] = option_field("columns to leave out", default=())
