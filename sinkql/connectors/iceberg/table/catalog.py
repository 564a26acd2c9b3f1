"""Options of an ICEBERG CATALOG connection → an open pyiceberg catalog; those of types `sql` and `memory` in here."""

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
from sinkql.connectors.iceberg.storage import CATALOG_NAME, Stores, local_folder, stores_of
from sinkql.connectors.iceberg.table.failure import explain
from sinkql.connectors.iceberg.table.rest_catalog import open_rest
from sinkql.connectors.iceberg.table.sql_catalog import FileCatalog, KnowingCatalog, MemoryCatalog
from sinkql.errors import SinkqlError
from sinkql.object_store.s3 import CATALOGS, boto3_missing
from sinkql.storage import files

_FILE_PARAMETERS = (
    *("passfile", "sslcert", "sslcrl", "sslcrldir", "sslkey", "sslrootcert"),  # of libpq
    *("ssl_ca", "ssl_capath", "ssl_cert", "ssl_key"),  # of drivers of MySQL
)


class Outside(Protocol):
    """What a catalog is opened with: values of secrets, and where the paths of options are."""

    @property
    def secret(self) -> Callable[[str], str]:
        """Return what gives a secret's value by its full name."""

    def path(self, option: str) -> Path:
        """Return where the path is that an option has."""


def open_catalog(name: str, options: Mapping[str, Any], outside: Outside, stores: Stores | None = None) -> Catalog:
    """Return the catalog of connection `name`, whose files are reached with the keys of `stores`.

    Raises SQ42xx where the catalog does not answer or refuses, SQ43xx where its folder cannot be written.
    """
    try:
        match options["catalog_type"]:
            case "sql":
                return _open_sql(options, outside)
            case "memory":
                return _open_memory(name)
            case "glue":
                return _open_glue(options, stores or Stores())
            case "hive":
                return _open_hive(name, options, stores or Stores())
            case _:
                return open_rest(name, options, outside.secret, stores or Stores())
    except Exception as error:
        raise explain(error, name) from error


def validate(connection: logical.Connection, access: OutsideAccess) -> None:
    """Open the catalog and list its namespaces; raises SQ42xx or SQ43xx, and says which option causes it."""
    options = connection.options
    try:
        stores = stores_of(options, access.store, None)
        catalog = open_catalog(connection.name, options, access, stores)
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
        from sinkql.connectors.iceberg.table.glue_catalog import open_glue  # it needs an extra
    except ModuleNotFoundError:
        raise boto3_missing(CATALOGS) from None
    return open_glue(options, stores)


def _open_hive(name: str, options: Mapping[str, Any], stores: Stores) -> Catalog:
    try:
        from sinkql.connectors.iceberg.table.hive_catalog import open_hive  # it needs an extra
    except ModuleNotFoundError:
        raise SinkqlError(
            "SQ4214",
            "catalogs of type hive need the Python package thrift, which is not installed",
            hint="Run pip install 'sinkql[hive]'.",
            option="CATALOG TYPE",
        ) from None
    return open_hive(name, options, stores)


def _open_sql(options: Mapping[str, Any], outside: Outside) -> Catalog:
    url = located_url(make_url(options["url"]), outside.path)
    if "credential" in options:
        url = _with_credential(url, reveal(options["credential"], outside.secret))
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
        place = None if folder is None else outside.path(str(folder)).resolve()
        if place is not None:
            _check_name(place)
            _make_folder(place)
        # not `as_uri`: pyiceberg takes what comes after file:// as it is, blanks and percent signs too
        properties["warehouse"] = warehouse if place is None else f"file://{place}"
    return KnowingCatalog(CATALOG_NAME, **properties) if file is None else FileCatalog(_file_engine(url), properties)


def located_url(url: URL, path: Callable[[str], Path]) -> URL:
    """Return a database's URL with whole paths: of an SQLite file, and of the files that its parameters name."""
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
    files.make_folder(folder)
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
