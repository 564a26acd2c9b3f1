"""The options of CREATE CONNECTION … TO MYSQL and CREATE SOURCE … FROM MYSQL, as their dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sinkql import ast
from sinkql.connector_api.options import SecretOnly, SecretPart, option_field
from sinkql.connector_api.source_options import CaptureOptions
from sinkql.logical import SecretText

CONNECTION_OWNER = "MySQL connections"
SOURCE_OWNER = "sources from MySQL"
TABLE_OWNER = "tables of MySQL sources"


@dataclass(frozen=True, slots=True)
class MySqlOptions:
    """The options of TO MYSQL."""

    host: str = option_field("the server's name or address")
    user: SecretPart = option_field("a user with `SELECT`, `REPLICATION SLAVE` and `REPLICATION CLIENT`")
    port: int = option_field("the server's port", default=3306)
    password: SecretOnly | None = option_field("the user's password", default=None)
    ssl_mode: Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"] = option_field(
        "preferred: encrypted where the server offers it; required: encrypted; verify_ca: and the server's certificate "
        "is checked; verify_identity: and its host name",
        default="preferred",
    )
    ssl_certificate: SecretText | None = option_field(
        "the client's certificate as PEM text, with `SSL KEY`", default=None
    )
    ssl_certificate_authority: SecretText | None = option_field(
        "the certificates, as PEM text, that the server's is checked with", default=None
    )
    ssl_key: SecretOnly | None = option_field("the key of the client's certificate as PEM text", default=None)
    ssh_tunnel: ast.Name | None = option_field(
        "a connection to an SSH server that the server is reached through", default=None
    )
    aws_privatelink: ast.Name | None = option_field("not supported yet", default=None)
    aws_connection: ast.Name | None = option_field("not supported yet", default=None)


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """The options of FROM MYSQL CONNECTION."""

    text_columns: tuple[str, ...] = option_field(
        "columns, as `database.table.column`, that are read as text", default=()
    )
    exclude_columns: tuple[str, ...] = option_field(
        "columns, as `database.table.column`, that are left out", default=()
    )
    ignore_columns: tuple[str, ...] = option_field("the same as `EXCLUDE COLUMNS`", default=())


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of WITH (…) of CREATE TABLE … FROM SOURCE."""

    text_columns: tuple[str, ...] = option_field("columns that are read as text", default=())
    exclude_columns: tuple[str, ...] = option_field("columns that are left out", default=())
    ignore_columns: tuple[str, ...] = option_field("the same as `EXCLUDE COLUMNS`", default=())


@dataclass(frozen=True, slots=True)
class SourceOptions(CaptureOptions):
    """The options of WITH (…) of CREATE SOURCE … FROM MYSQL."""

    ignore_cascades: bool = option_field(
        "read tables whose rows foreign keys change or delete, of which the server's log has nothing", default=False
    )
