"""Options of an ICEBERG CATALOG connection → an open pyiceberg catalog; those of types `sql` and `memory` in here."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.pool import NullPool

from sinkql import durable, logical
from sinkql.connectors.iceberg.storage.access import CATALOG_NAME, Stores, stores_of
from sinkql.connectors.iceberg.storage.local import local_folder
from sinkql.connectors.iceberg.table.failure import explain
from sinkql.connectors.iceberg.table.rest import open_rest
from sinkql.connectors.iceberg.table.sql import FileCatalog, KnowingCatalog, MemoryCatalog
from sinkql.errors import SinkqlError
from sinkql.extension.boto import no_boto3
from sinkql.extension.plan import Access
from sinkql.extension.secret import reveal
from sinkql.extension.signing import CATALOGS


def open_catalog(
    name: str, options: Mapping[str, Any], secret: Callable[[str], str], stores: Stores | None = None
) -> Catalog:
    """Return the catalog of connection `name`, whose files are reached with the keys of `stores`.

    Raises SQ42xx where the catalog does not answer or refuses, SQ43xx where its folder cannot be written.
    """
    try:
        match options["catalog_type"]:
            case "sql":
                return _open_sql(options, secret)
            case "memory":
                return _open_memory(name)
            case "glue":
                return _open_glue(options, stores or Stores())
            case "hive":
                return _open_hive(name, options, stores or Stores())
            case _:
                return open_rest(name, options, secret, stores or Stores())
    except Exception as error:
        raise explain(error, name) from error


def validate(connection: logical.Connection, access: Access) -> None:
    """Open the catalog and list its namespaces; raises SQ42xx or SQ43xx, and says which option causes it."""
    options = connection.options
    try:
        stores = stores_of(options, access.store, None)
        catalog = open_catalog(connection.name, options, access.secret, stores)
        try:
            catalog.list_namespaces()
        finally:
            catalog.close()
    except Exception as error:
        found = explain(error, connection.name)
        for name, option in (("aws_connection", "AWS CONNECTION"), ("gcp_connection", "GCP CONNECTION")):
            if name in options and found.option not in ("URL", "WAREHOUSE", "ACCESS DELEGATION"):
                found.option = option
        raise found from error


# --- sql and memory ---------------------------------------------------------------------------------------------


def _open_glue(options: Mapping[str, Any], stores: Stores) -> Catalog:
    try:
        from sinkql.connectors.iceberg.table.glue import open_glue  # it needs an extra
    except ModuleNotFoundError:
        raise no_boto3(CATALOGS) from None
    return open_glue(options, stores)


def _open_hive(name: str, options: Mapping[str, Any], stores: Stores) -> Catalog:
    try:
        from sinkql.connectors.iceberg.table.hive import open_hive  # it needs an extra
    except ModuleNotFoundError:
        raise SinkqlError(
            "SQ4214",
            "catalogs of type hive need the Python package thrift, which is not installed",
            hint="Run pip install 'sinkql[hive]'.",
            option="CATALOG TYPE",
        ) from None
    return open_hive(name, options, stores)


def _open_sql(options: Mapping[str, Any], secret: Callable[[str], str]) -> Catalog:
    url = make_url(options["url"])
    if "credential" in options:
        url = _with_credential(url, reveal(options["credential"], secret))
    file = _sqlite_file(url)
    if file is not None:
        _make_folder(file.parent)
        url = url.set(database=str(file))
    if url.get_backend_name() == "sqlite" and "timeout" not in url.query:
        url = url.update_query_dict({"timeout": "30"})
    warehouse = options.get("warehouse")
    properties = {"uri": url.render_as_string(hide_password=False)}
    if warehouse:
        folder = local_folder(warehouse)
        if folder is not None:
            _check_name(folder.resolve())
            _make_folder(folder.resolve())
        # not `as_uri`: pyiceberg takes what comes after file:// as it is, blanks and percent signs too
        properties["warehouse"] = warehouse if folder is None else f"file://{folder.resolve()}"
    return KnowingCatalog(CATALOG_NAME, **properties) if file is None else FileCatalog(_file_engine(url), properties)


def _with_credential(url: URL, credential: str) -> URL:
    """Return the URL with `user:password`, or with a password where it names the user."""
    if url.username:
        return url.set(password=credential)
    user, _, password = credential.partition(":")
    return url.set(username=user, password=password)


def _sqlite_file(url: URL) -> Path | None:
    """Return the file of an SQLite database; None for other databases, one in memory, and SQLite's own file: URLs."""
    name = url.database
    if url.get_backend_name() != "sqlite" or not name or name == ":memory:" or name.startswith("file:"):
        return None
    return Path(name).resolve()


@cache
def _file_engine(url: URL) -> Engine:
    # One a process and file, since it keeps the statements that it compiled: that takes longer than running them. It
    # keeps no connection, so it always reads the file that is there now, and forks inherit nothing of it.
    engine = create_engine(url, poolclass=NullPool)
    event.listen(engine, "connect", _durably)
    return engine


def _durably(connection: sqlite3.Connection, record: object) -> None:
    # the level above SQLite's default: a commit stays after the power failed, also one that a journal's removal ends
    connection.execute("PRAGMA synchronous = EXTRA")


def _make_folder(folder: Path) -> None:
    durable.make_folder(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(13, "permission denied", str(folder))


def _check_name(folder: Path) -> None:
    # Locations of tables are URLs, of which readers take these for the end of the path.
    if {"#", "?"} & set(str(folder)):
        raise SinkqlError(
            "SQ4305", f'the warehouse folder "{folder}" has # or ? in its name', hint="Set another WAREHOUSE."
        )


@cache
def _open_memory(name: str) -> Catalog:
    # One a process and connection: what the session creates, the job must find.
    return MemoryCatalog(name, warehouse="file://" + tempfile.mkdtemp(prefix="sinkql-memory-"))
