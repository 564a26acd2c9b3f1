"""MySQL: declared, not supported yet."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql import ast
from sinkql.extension.options import SecretOnly, SecretPart
from sinkql.extension.plan import Connector, Later
from sinkql.logical import SecretText


@dataclass(frozen=True, slots=True)
class MySqlOptions:
    """The options of TO MYSQL."""

    host: str
    user: SecretPart
    port: int = 3306
    password: SecretOnly | None = None
    ssl_mode: str | None = None
    ssl_certificate: SecretText | None = None
    ssl_certificate_authority: SecretText | None = None
    ssl_key: SecretOnly | None = None
    ssh_tunnel: ast.Name | None = None
    aws_privatelink: ast.Name | None = None
    aws_connection: ast.Name | None = None


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """The options of FROM MYSQL CONNECTION."""

    text_columns: tuple[str, ...] = ()
    exclude_columns: tuple[str, ...] = ()
    ignore_columns: tuple[str, ...] = ()


connector = Connector(
    "mysql", later=(Later("CONNECTION", "MYSQL", MySqlOptions), Later("SOURCE", "MYSQL", ColumnOptions))
)
