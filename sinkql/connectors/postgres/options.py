"""The options of CREATE CONNECTION … TO POSTGRES and CREATE SOURCE … FROM POSTGRES, as their dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sinkql import ast
from sinkql.extension.options import SecretOnly, SecretPart, described
from sinkql.logical import SecretText

CONNECTION_OWNER = "Postgres connections"
SOURCE_OWNER = "sources from Postgres"
TABLE_OWNER = "tables of Postgres sources"


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """The options of TO POSTGRES."""

    host: str = described("the name or address of the server")
    database: str = described("the database with the publication")
    user: SecretPart = described("a role with `LOGIN` and `REPLICATION` that may read the tables")
    port: int = described("the port of the server", default=5432)
    password: SecretOnly | None = described("the password of the role", default=None)
    ssl_mode: Literal["disable", "prefer", "require", "verify_ca", "verify_full"] = described(
        "how to encrypt: `verify_ca` also checks the certificate, `verify_full` also the host name",
        default="prefer",
    )
    ssl_certificate: SecretText | None = described(
        "the client certificate in PEM, together with `SSL KEY`", default=None
    )
    ssl_key: SecretOnly | None = described("the key of the client certificate, in PEM", default=None)
    ssl_certificate_authority: SecretText | None = described(
        "the PEM certificates of authorities that may sign the server's certificate", default=None
    )
    ssh_tunnel: ast.Name | None = described("the SSH tunnel connection to reach the server", default=None)
    aws_privatelink: ast.Name | None = described("not supported yet", default=None)


@dataclass(frozen=True, slots=True)
class PublicationOptions:
    """The options of FROM POSTGRES CONNECTION."""

    publication: str = described("the publication with the tables")
    text_columns: tuple[str, ...] = described("columns to read as text, as `schema.table.column`", default=())
    exclude_columns: tuple[str, ...] = described("columns to leave out, as `schema.table.column`", default=())


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of WITH (…) of CREATE TABLE … FROM SOURCE."""

    text_columns: tuple[str, ...] = described("columns to read as text", default=())
    exclude_columns: tuple[str, ...] = described("columns to leave out", default=())
