"""Postgres: declared, not supported yet."""

from __future__ import annotations

from dataclasses import dataclass

from sinkql import ast
from sinkql.extension.options import SecretOnly, SecretPart
from sinkql.extension.plan import Connector, Later
from sinkql.logical import SecretText


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """The options of TO POSTGRES."""

    host: str
    database: str
    user: SecretPart
    port: int = 5432
    password: SecretOnly | None = None
    ssl_mode: str | None = None
    ssl_certificate: SecretText | None = None
    ssl_certificate_authority: SecretText | None = None
    ssl_key: SecretOnly | None = None
    ssh_tunnel: ast.Name | None = None
    aws_privatelink: ast.Name | None = None


@dataclass(frozen=True, slots=True)
class PublicationOptions:
    """The options of FROM POSTGRES CONNECTION."""

    publication: str
    text_columns: tuple[str, ...] = ()
    exclude_columns: tuple[str, ...] = ()


connector = Connector(
    "postgres",
    later=(
        Later("CONNECTION", "POSTGRES", PostgresOptions),
        Later("SOURCE", "POSTGRES", PublicationOptions),
    ),
)
