"""Open or upgrade the database at an address."""

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
    """Open a catalog's database; raise SQ4115 if `existing` is set and it does not exist, else as its kind does."""
    if isinstance(address, ServerUrl):
        return open_server(address, layout, existing=existing)
    if existing and not address.exists():
        raise missing(f'catalog file "{address}" does not exist')
    return Database(address, layout)


def open_server(url: ServerUrl, layout: Layout, *, existing: bool = False) -> ServerDatabase:
    """Open a catalog in Postgres; raise SQ4155 if psycopg is missing, and as `ServerDatabase` does."""
    try:
        from sinkql.catalog.postgres.database import ServerDatabase  # psycopg loads only for a server
    except ImportError as error:
        raise SinkqlError(
            "SQ4155",
            "a catalog in Postgres needs the package psycopg",
            detail=str(error),
            hint="Run pip install 'psycopg[binary]'.",
        ) from error
    return ServerDatabase(url, layout, existing=existing)


def upgrade(address: Address, layout: Layout) -> int:
    """Upgrade an existing catalog and return its previous version. Raises like `open_store`."""
    if isinstance(address, ServerUrl):
        return open_server(address, layout, existing=True).previous_version
    if not address.exists():
        raise missing(f'catalog file "{address}" does not exist')
    before = version_of(address)
    Database(address, layout)
    return before


def missing(message: str) -> NoCatalogError:
    """Return the error for a catalog that does not exist."""
    hint = f"Run the command in the folder of the pipeline, or name its catalog with --catalog or {VARIABLE}."
    return NoCatalogError("SQ4115", message, hint=hint)
