"""Open the pyiceberg catalog of an ICEBERG CATALOG connection; types `sql` and `memory` are in this module."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote

from pyiceberg.catalog import Catalog
from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.pool import NullPool

from sinkql import logical
from sinkql.connector_api.options import reveal
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connectors.iceberg.plan.options import CatalogConnection
from sinkql.connectors.iceberg.storage import CATALOG_NAME, Stores, local_folder, stores_of
from sinkql.connectors.iceberg.table.failure import catalog_error
from sinkql.connectors.iceberg.table.rest_catalog import open_rest
from sinkql.connectors.iceberg.table.sql_catalog import CachingCatalog, FileCatalog, MemoryCatalog
from sinkql.errors import SinkqlError
from sinkql.object_store.s3 import CATALOGS, boto3_missing
from sinkql.storage import files

_FILE_PARAMETERS = (
    *("passfile", "sslcert", "sslcrl", "sslcrldir", "sslkey", "sslrootcert"),  # of libpq
    *("ssl_ca", "ssl_capath", "ssl_cert", "ssl_key"),  # of drivers of MySQL
)


class Outside(Protocol):
    """The values of secrets and the locations of paths, for opening a catalog."""

    @property
    def secret(self) -> Callable[[str], str]:
        """Return a function from a secret's full name to its value."""

    def path(self, option: str) -> Path:
        """Return the location of a path in an option."""


def open_catalog(name: str, options: Mapping[str, Any], outside: Outside, stores: Stores | None = None) -> Catalog:
    """Return the catalog of connection `name`; the keys of `stores` open its files.

    Raises SQ42xx if the catalog does not answer or refuses, SQ43xx if its folder is not writable.
    """
    connection = CatalogConnection.from_plan(options)
    try:
        match connection.catalog_type:
            case "sql":
                return _open_sql(connection, outside)
            case "memory":
                return _open_memory(name)
            case "glue":
                return _open_glue(connection, stores or Stores())
            case "hive":
                return _open_hive(name, connection, stores or Stores())
            case _:
                return open_rest(name, connection, outside.secret, stores or Stores())
    except Exception as error:
        raise catalog_error(error, name) from error


def validate(connection: logical.Connection, access: OutsideAccess) -> None:
    """Open the catalog and list its namespaces; raises SQ42xx or SQ43xx with the option that causes it."""
    options = connection.options
    try:
        stores = stores_of(options, access.store, None)
        catalog = open_catalog(connection.name, options, access, stores)
        try:
            catalog.list_namespaces()
        finally:
            catalog.close()
    except Exception as error:
        coded = catalog_error(error, connection.name)
        for name, option in (("aws_connection", "AWS CONNECTION"), ("gcp_connection", "GCP CONNECTION")):
            if name in options and coded.option not in ("URL", "WAREHOUSE", "ACCESS DELEGATION"):
                coded.option = option
        raise coded from error


def _open_glue(options: CatalogConnection, stores: Stores) -> Catalog:
    try:
        from sinkql.connectors.iceberg.table.glue_catalog import open_glue  # it requires an extra
    except ModuleNotFoundError:
        raise boto3_missing(CATALOGS) from None
    return open_glue(options, stores)


def _open_hive(name: str, options: CatalogConnection, stores: Stores) -> Catalog:
    try:
        from sinkql.connectors.iceberg.table.hive_catalog import open_hive  # it requires an extra
    except ModuleNotFoundError:
        raise SinkqlError(
            "SQ4214",
            "catalogs of type hive require the Python package thrift, which is not installed",
            hint="Run pip install 'sinkql[hive]'.",
            option="CATALOG TYPE",
        ) from None
    return open_hive(name, options, stores)


# --- sql and memory ---------------------------------------------------------------------------------------------


def _open_sql(options: CatalogConnection, outside: Outside) -> Catalog:
    url = located_url(make_url(options.url or ""), outside.path)
    if options.credential is not None:
        url = _with_credential(url, reveal(options.credential, outside.secret))
    file = _sqlite_file(url)
    if file is not None:
        _make_folder(file.parent)
        url = url.set(database=str(file))
    if url.get_backend_name() == "sqlite" and "timeout" not in url.query:
        url = url.update_query_dict({"timeout": "30"})
    properties = {"uri": url.render_as_string(hide_password=False)}
    if options.warehouse:
        folder = local_folder(options.warehouse)
        path = None if folder is None else outside.path(str(folder)).resolve()
        if path is not None:
            _check_name(path)
            _make_folder(path)
        # not `as_uri`: pyiceberg decodes nothing after file://, neither blanks nor percent signs
        properties["warehouse"] = options.warehouse if path is None else f"file://{path}"
    return CachingCatalog(CATALOG_NAME, **properties) if file is None else FileCatalog(_file_engine(url), properties)


def located_url(url: URL, path: Callable[[str], Path]) -> URL:
    """Return a database's URL with absolute paths of the SQLite file and of files in its parameters."""
    files = {
        name: str(path(value))
        for name, value in url.query.items()
        if name in _FILE_PARAMETERS and isinstance(value, str) and value not in ("", "system")
    }
    url = url.update_query_dict(files) if files else url
    name = url.database
    if url.get_backend_name() != "sqlite" or not name or name == ":memory:":
        return url
    if not name.startswith("file:"):
        return url.set(database=str(path(name)))
    if name.startswith(("file:/", "file::memory:")) or url.query.get("mode") == "memory":
        return url
    return url.set(database=f"file:{quote(str(path(unquote(name.removeprefix('file:')))))}")


def _with_credential(url: URL, credential: str) -> URL:
    """Return the URL with `user:password`, or only with the password if the URL has a user."""
    if url.username:
        return url.set(password=credential)
    user, _, password = credential.partition(":")
    return url.set(username=user, password=password)


def _sqlite_file(url: URL) -> Path | None:
    """Return the file of an SQLite database; None for other databases, for memory, and for SQLite's file: URLs."""
    name = url.database
    if url.get_backend_name() != "sqlite" or not name or name == ":memory:" or name.startswith("file:"):
        return None
    return Path(name).resolve()


@cache
def _file_engine(url: URL) -> Engine:
    # One for each process and file, because it caches compiled statements: compiling takes longer than running them.
    # It keeps no connections, so it always reads the present file, and a fork inherits none.
    engine = create_engine(url, poolclass=NullPool)
    event.listen(engine, "connect", _make_durable)
    return engine


def _make_durable(connection: sqlite3.Connection, record: object) -> None:
    # one level above SQLite's default: commits survive a power failure, even if deleting the journal ends them
    connection.execute("PRAGMA synchronous = EXTRA")


def _make_folder(folder: Path) -> None:
    files.make_folder(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(13, "permission denied", str(folder))


def _check_name(folder: Path) -> None:
    # Locations of tables are URLs, in which readers end the path at these characters.
    if {"#", "?"} & set(str(folder)):
        raise SinkqlError(
            "SQ4305", f'the warehouse folder "{folder}" has # or ? in its name', hint="Set a different WAREHOUSE."
        )


@cache
def _open_memory(name: str) -> Catalog:
    # One for each process and connection, so that the job finds the tables that the session creates.
    return MemoryCatalog(name, warehouse="file://" + tempfile.mkdtemp(prefix="sinkql-memory-"))
