"""Resolve the name of a catalog to its address: a file, or a schema of a Postgres database."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qsl, quote, urlencode

from sinkql.errors import SinkqlError

FOLDER = ".sinkql"
"""The name of a project's folder with its catalog."""
FILE = "catalog.db"
VARIABLE = "SINKQL_CATALOG"
"""The variable that names the catalog if no option does."""
ANOTHER = f"name another catalog with --catalog or {VARIABLE}"
"""The end of hints for a catalog that cannot be used."""
SCHEMA = "sinkql"
_SERVERS = ("postgresql+psycopg", "postgresql", "postgres")
_HOST = re.compile(r"(\[[0-9a-fA-F:.%]*\]|[^:\[\]]*)(:\d*)?")
_OURS = ("schema", "folder")
"""The parameters of a URL for SinkQL; all others are for libpq."""


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """A catalog in a Postgres database.

    `text` is the complete URL, `libpq` the URL for libpq, and `name` the URL for messages. `schema` is the schema of
    its tables; `folder` is this machine's folder for data that is not in the database.
    """

    text: str = field(repr=False)
    libpq: str = field(repr=False)
    name: str
    schema: str
    folder: Path

    def __str__(self) -> str:
        return self.name


Address: TypeAlias = Path | ServerUrl


def address_of(named: str | Path | ServerUrl | None) -> Address:
    """Return the address of a catalog, named by a file, URL or project folder, or the default; raises SQ4113."""
    if named is None:
        named = os.environ.get(VARIABLE) or None
    if named is None:
        return Path.cwd() / FOLDER / FILE
    if isinstance(named, ServerUrl):
        return named
    if isinstance(named, str) and "://" in named:
        scheme, _, rest = named.partition("://")
        if scheme in _SERVERS:
            return _parse_server_url(named)
        if scheme != "sqlite" or not rest.startswith("/") or rest == "/":
            raise _unsupported_error(f'catalogs at "{scheme}://" are not supported')
        return Path(rest[1:])
    path = Path(named)
    return path / FOLDER / FILE if path.is_dir() else path


def folder_of(address: Address) -> Path:
    """Return this machine's folder for the tables, logs and sink state of a catalog."""
    return address.folder if isinstance(address, ServerUrl) else address.absolute().parent


def project_of(address: Address) -> Path:
    """Return the folder that relative paths of a catalog's items start from: the folder with `.sinkql`.

    If the catalog's folder has another name, it is that folder itself. The result does not depend on the working
    directory.
    """
    folder = folder_of(address)
    return folder.parent if folder.name == FOLDER else folder


def _parse_server_url(text: str) -> ServerUrl:
    # Not by urlsplit: its support of several hosts with brackets depends on the Python version.
    rest, sharp, _ = text.strip().partition("://")[2].partition("#")
    rest, _, parameters = rest.partition("?")
    place, slash, path = rest.partition("/")
    try:
        query = parse_qsl(parameters, keep_blank_values=True, strict_parsing=bool(parameters))
    except ValueError:
        raise _invalid_url_error() from None
    own_parameters = {name: value for name, value in query if name in _OURS}
    libpq_parameters = urlencode([parameter for parameter in query if parameter[0] not in _OURS], quote_via=quote)
    schema = own_parameters.get("schema") or SCHEMA
    users, at, hosts = place.rpartition("@")
    if sharp or "@" in path or "[" in users or "]" in users or not all(map(_HOST.fullmatch, hosts.split(","))):
        raise _invalid_url_error()  # a special character in the password would show parts of it elsewhere
    shown = f"postgresql://{users.partition(':')[0]}{at}{hosts}{slash}{path}"
    return ServerUrl(
        text,
        f"postgresql://{place}{slash}{path}" + (f"?{libpq_parameters}" if libpq_parameters else ""),
        shown if schema == SCHEMA else f"{shown}?{urlencode({'schema': schema})}",
        schema,
        Path.cwd() / (own_parameters.get("folder") or FOLDER),
    )


def _invalid_url_error() -> SinkqlError:
    return SinkqlError(
        "SQ4113",
        "the URL of the catalog is not valid",
        hint="Write postgresql+psycopg://user@host:5432/database, with %40 for @ in a password, or put the "
        "password into PGPASSWORD.",
    )


def _unsupported_error(message: str) -> SinkqlError:
    return SinkqlError(
        "SQ4113",
        message,
        hint=f"Name a file in --catalog or {VARIABLE}, or write sqlite:///path/to/catalog.db or "
        "postgresql+psycopg://user@host/database.",
    )
