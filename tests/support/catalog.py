"""Places of catalogs: a file, or a schema of its own in a Postgres server."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from sinkql.catalog.address import ServerUrl, address_of
from support.postgres import Postgres

_numbers = count(1)


def server_url(
    server: Postgres, folder: Path, *, user: str = "postgres", database: str = "postgres", port: int | None = None
) -> str:
    """Return the URL of a catalog that nobody has yet, with its folder there; `port` is that of a pooler."""
    place = f"{user}@127.0.0.1:{port or server.port}/{database}"
    return f"postgresql+psycopg://{place}?schema=c{next(_numbers)}&folder={folder}"


def server_address(server: Postgres, folder: Path, *, port: int | None = None) -> ServerUrl:
    """Return the same as an address."""
    found = address_of(server_url(server, folder, port=port))
    assert isinstance(found, ServerUrl)
    return found
