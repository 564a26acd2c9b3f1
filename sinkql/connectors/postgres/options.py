"""The options of CREATE CONNECTION … TO POSTGRES and CREATE SOURCE … FROM POSTGRES, as their dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sinkql import ast
from sinkql.connector_api.options import SecretOnly, SecretPart, option_field
from sinkql.logical import SecretText

CONNECTION_OWNER = "Postgres connections"
SOURCE_OWNER = "sources from Postgres"
TABLE_OWNER = "tables of Postgres sources"


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """The options of TO POSTGRES."""

    host: str = option_field("the server's name or address")
    database: str = option_field("the database that has the publication")
    user: SecretPart = option_field("a role with `LOGIN` and `REPLICATION` that may read the tables")
    port: int = option_field("the server's port", default=5432)
    password: SecretOnly | None = option_field("the role's password", default=None)
    ssl_mode: Literal["disable", "prefer", "require", "verify_ca", "verify_full"] = option_field(
        "prefer: encrypted where the server offers it; require: encrypted; verify_ca: and the server's certificate is "
        "checked; verify_full: and its host name",
        default="prefer",
    )
    ssl_certificate: SecretText | None = option_field(
        "the client's certificate as PEM text, with `SSL KEY`", default=None
    )
    ssl_key: SecretOnly | None = option_field("the key of the client's certificate as PEM text", default=None)
    ssl_certificate_authority: SecretText | None = option_field(
        "the certificates, as PEM text, that the server's is checked with", default=None
    )
    ssh_tunnel: ast.Name | None = option_field(
        "a connection to an SSH server that the database is reached through", default=None
    )
    aws_privatelink: ast.Name | None = option_field("not supported yet", default=None)


@dataclass(frozen=True, slots=True)
class PublicationOptions:
    """The options of FROM POSTGRES CONNECTION."""

    publication: str = option_field("the publication whose tables are read")
    text_columns: tuple[str, ...] = option_field("columns, as `schema.table.column`, that are read as text", default=())
    exclude_columns: tuple[str, ...] = option_field("columns, as `schema.table.column`, that are left out", default=())


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of WITH (…) of CREATE TABLE … FROM SOURCE."""

    text_columns: tuple[str, ...] = option_field("columns that are read as text", default=())
    exclude_columns: tuple[str, ...] = option_field("columns that are left out", default=())
