"""URLs of new catalogs, each in its schema of a Postgres server."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from sinkql.catalog.address import ServerUrl, address_of
from support.postgres import Postgres

_numbers = count(1)


def server_url(
    server: Postgres, folder: Path, *, user: str = "postgres", database: str = "postgres", port: int | None = None
) -> str:
    """Return the URL of a new catalog and its folder; `port` is the port of a pooler."""
    place = f"{user}@127.0.0.1:{port or server.port}/{database}"
    return f"postgresql+psycopg://{place}?schema=c{next(_numbers)}&folder={folder}"


def server_address(server: Postgres, folder: Path, *, port: int | None = None) -> ServerUrl:
    """Return the address of a new catalog and its folder."""
    found = address_of(server_url(server, folder, port=port))
    assert isinstance(found, ServerUrl)
    return found
