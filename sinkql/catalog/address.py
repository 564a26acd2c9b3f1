"""What names a catalog → its address: a file, or a schema of a Postgres database."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qsl, quote, urlencode

from sinkql.errors import SinkqlError

FOLDER = ".sinkql"
"""The name of a project's folder, which holds its catalog."""
FILE = "catalog.db"
VARIABLE = "SINKQL_CATALOG"
"""The variable that names the catalog where nobody does."""
ANOTHER = f"name another catalog with --catalog or {VARIABLE}"
"""What may be done about a catalog that cannot be used."""
SCHEMA = "sinkql"
_SERVERS = ("postgresql+psycopg", "postgresql", "postgres")
_HOST = re.compile(r"(\[[0-9a-fA-F:.%]*\]|[^:\[\]]*)(:\d*)?")
_OURS = ("schema", "folder")
"""What of a URL is for SinkQL; libpq takes all else."""


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """A catalog in a Postgres database: `text` is the whole URL, `libpq` what of it is for libpq, `name` what is shown.

    `schema` is the schema of its tables, `folder` where this machine keeps what is not in the database.
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
    """Return the address that a file, a URL, a project's folder, or nothing names; raises SQ4113."""
    if named is None:
        named = os.environ.get(VARIABLE) or None
    if named is None:
        return Path.cwd() / FOLDER / FILE
    if isinstance(named, ServerUrl):
        return named
    if isinstance(named, str) and "://" in named:
        scheme, _, rest = named.partition("://")
        if scheme in _SERVERS:
            return _server(named)
        if scheme != "sqlite" or not rest.startswith("/") or rest == "/":
            raise _unsupported(f'catalogs at "{scheme}://" are not supported')
        return Path(rest[1:])
    found = Path(named)
    return found / FOLDER / FILE if found.is_dir() else found


def folder_of(address: Address) -> Path:
    """Return where this machine keeps what a catalog's items have beside it: tables, logs, the state of sinks."""
    return address.folder if isinstance(address, ServerUrl) else address.absolute().parent


def project_of(address: Address) -> Path:
    """Return the folder in which relative paths begin that a catalog's items have: the one that `.sinkql` lies in.

    A catalog's folder of another name is that folder itself. It is the same wherever a process works.
    """
    folder = folder_of(address)
    return folder.parent if folder.name == FOLDER else folder


def _server(text: str) -> ServerUrl:
    # not by urlsplit: whether it takes several hosts, with brackets around some, depends on the version of Python
    rest, sharp, _ = text.strip().partition("://")[2].partition("#")
    rest, _, asked = rest.partition("?")
    place, slash, path = rest.partition("/")
    try:
        query = parse_qsl(asked, keep_blank_values=True, strict_parsing=bool(asked))
    except ValueError:
        raise _invalid() from None
    mine = {name: value for name, value in query if name in _OURS}
    theirs = urlencode([each for each in query if each[0] not in _OURS], quote_via=quote)
    schema = mine.get("schema") or SCHEMA
    users, at, hosts = place.rpartition("@")
    if sharp or "@" in path or "[" in users or "]" in users or not all(map(_HOST.fullmatch, hosts.split(","))):
        raise _invalid()  # as by a sign in the password, which would be shown as part of something else
    shown = f"postgresql://{users.partition(':')[0]}{at}{hosts}{slash}{path}"
    return ServerUrl(
        text,
        f"postgresql://{place}{slash}{path}" + (f"?{theirs}" if theirs else ""),
        shown if schema == SCHEMA else f"{shown}?{urlencode({'schema': schema})}",
        schema,
        Path.cwd() / (mine.get("folder") or FOLDER),
    )


def _invalid() -> SinkqlError:
    return SinkqlError(
        "SQ4113",
        "the URL of the catalog is not valid",
        hint="Write it as postgresql+psycopg://user@host:5432/database, and signs in a password as in %40 for @; or "
        "have the password in PGPASSWORD.",
    )


def _unsupported(message: str) -> SinkqlError:
    return SinkqlError(
        "SQ4113",
        message,
        hint=f"Name a file in --catalog or {VARIABLE}, or write sqlite:///path/to/catalog.db or "
        "postgresql+psycopg://user@host/database.",
    )
