"""An address → the open database there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sinkql.catalog.address import VARIABLE, Address, ServerUrl
from sinkql.catalog.sqlite.database import Database
from sinkql.catalog.sqlite.private_file import version_of
from sinkql.catalog.sqlite.schema import Layout
from sinkql.catalog.store import Store
from sinkql.errors import NoCatalogError, SinkqlError

if TYPE_CHECKING:
    from sinkql.catalog.postgres.database import ServerDatabase


def open_store(address: Address, layout: Layout, *, existing: bool = False) -> Store:
    """Open a catalog's database; raises as the one of its kind does, and SQ4115 where it should be there and is not."""
    if isinstance(address, ServerUrl):
        return open_server(address, layout, existing=existing)
    if existing and not address.exists():
        raise missing(f'catalog file "{address}" does not exist')
    return Database(address, layout)


def open_server(url: ServerUrl, layout: Layout, *, existing: bool = False) -> ServerDatabase:
    """Open a catalog in Postgres; raises as opening does, and SQ4155 without psycopg."""
    try:
        from sinkql.catalog.postgres.database import ServerDatabase  # psycopg loads only where there is a server
    except ImportError as error:
        raise SinkqlError(
            "SQ4155",
            "a catalog in Postgres needs the package psycopg",
            detail=str(error),
            hint="Run pip install 'psycopg[binary]'.",
        ) from error
    return ServerDatabase(url, layout, existing=existing)


def upgrade(address: Address, layout: Layout) -> int:
    """Bring a catalog that is there up to date, and return the version that it had; raises as `open_store` does."""
    if isinstance(address, ServerUrl):
        return open_server(address, layout, existing=True).found
    if not address.exists():
        raise missing(f'catalog file "{address}" does not exist')
    before = version_of(address)
    Database(address, layout)
    return before


def missing(message: str) -> NoCatalogError:
    """Return the error for a catalog that is not there."""
    hint = f"Run it in the folder where the pipeline was created, or name its catalog with --catalog or {VARIABLE}."
    return NoCatalogError("SQ4115", message, hint=hint)
