"""The options of CREATE CONNECTION … TO MYSQL and CREATE SOURCE … FROM MYSQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sinkql import ast
from sinkql.connector_api.options import PlannedOptions, PlannedSecret, SecretOnly, SecretPart, option_field
from sinkql.connector_api.source_options import CaptureOptions
from sinkql.logical import SecretText

CONNECTION_OWNER = "MySQL connections"
SOURCE_OWNER = "sources from MySQL"
TABLE_OWNER = "tables of MySQL sources"


@dataclass(frozen=True, slots=True)
class MySqlOptions:
    """The options of TO MYSQL."""

    host: str = option_field("the name or address of the server")
    user: SecretPart = option_field("a user with `SELECT`, `REPLICATION SLAVE` and `REPLICATION CLIENT`")
    port: int = option_field("the port of the server", default=3306)
    password: SecretOnly | None = option_field("the password of the user", default=None)
    ssl_mode: Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"] = option_field(
        "how to encrypt: `verify_ca` also checks the certificate, `verify_identity` also the host name",
        default="preferred",
    )
    ssl_certificate: SecretText | None = option_field(
        "the client certificate in PEM, together with `SSL KEY`", default=None
    )
    ssl_certificate_authority: SecretText | None = option_field(
        "the PEM certificates of authorities that may sign the server's certificate", default=None
    )
    ssl_key: SecretOnly | None = option_field("the key of the client certificate, in PEM", default=None)
    ssh_tunnel: ast.Name | None = option_field("the SSH tunnel connection to reach the server", default=None)
    aws_privatelink: ast.Name | None = option_field("not supported yet", default=None)
    aws_connection: ast.Name | None = option_field("not supported yet", default=None)


@dataclass(frozen=True, slots=True)
class MySqlConnection(PlannedOptions):
    """The options of a planned connection. The field names are the keys in jobs."""

    host: str
    port: int
    user: PlannedSecret
    ssl_mode: str = "disabled"
    password: PlannedSecret | None = None
    ssl_certificate: PlannedSecret | None = None
    ssl_key: PlannedSecret | None = None
    ssl_certificate_authority: PlannedSecret | None = None

    @property
    def address(self) -> str:
        """The address of the server."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """The options of FROM MYSQL CONNECTION."""

    text_columns: tuple[str, ...] = option_field("columns to read as text, as `database.table.column`", default=())
    exclude_columns: tuple[str, ...] = option_field("columns to leave out, as `database.table.column`", default=())
    ignore_columns: tuple[str, ...] = option_field("the same as `EXCLUDE COLUMNS`", default=())


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of WITH (…) of CREATE TABLE … FROM SOURCE."""

    text_columns: tuple[str, ...] = option_field("columns to read as text", default=())
    exclude_columns: tuple[str, ...] = option_field("columns to leave out", default=())
    ignore_columns: tuple[str, ...] = option_field("the same as `EXCLUDE COLUMNS`", default=())


@dataclass(frozen=True, slots=True)
class SourceOptions(CaptureOptions):
    """The options of WITH (…) of CREATE SOURCE … FROM MYSQL."""

    ignore_cascades: bool = option_field(
        "read tables that foreign keys may change without an entry in the server's log", default=False
    )
