"""SQL Server: declared, not supported yet."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql import ast
from sinkql.connector_api.options import SecretOnly, SecretPart
from sinkql.connector_api.planning import Connector, UnsupportedKind
from sinkql.logical import SecretText


@dataclass(frozen=True, slots=True)
class SqlServerOptions:
    """The options of TO SQL SERVER."""

    host: str
    database: str
    user: SecretPart
    password: SecretOnly
    port: int = 1433
    ssl_mode: str | None = None
    ssl_certificate_authority: SecretText | None = None
    ssh_tunnel: ast.Name | None = None
    aws_privatelink: ast.Name | None = None


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """The options of FROM SQL SERVER CONNECTION."""

    text_columns: tuple[str, ...] = ()
    exclude_columns: tuple[str, ...] = ()


connector = Connector(
    "sql_server",
    later=(
        UnsupportedKind("CONNECTION", "SQL SERVER", SqlServerOptions),
        UnsupportedKind("SOURCE", "SQL SERVER", ColumnOptions),
    ),
)
