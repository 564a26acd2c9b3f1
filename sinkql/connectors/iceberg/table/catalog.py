"""Options of an ICEBERG CATALOG connection → an open pyiceberg catalog with timeouts and access to its storage."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManager
from pyiceberg.catalog.sql import SqlCatalog
from requests import PreparedRequest, Response, Session
from requests.adapters import BaseAdapter
from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from sinkql import logical
from sinkql.connectors.iceberg.table.failure import explain
from sinkql.errors import SinkqlError
from sinkql.extension.plan import Access
from sinkql.extension.secret import reveal

CATALOG_NAME = "default"
"""The name of `sql` catalogs: readers must open the database under the same one."""

_TIMEOUT = (5.0, 60.0)
_TOKENS = "/v1/oauth/tokens"
_TABLES = "SELECT iceberg_type FROM iceberg_tables, iceberg_namespace_properties LIMIT 0"


def open_catalog(
    name: str, options: Mapping[str, Any], secret: Callable[[str], str], storage: Mapping[str, str] | None = None
) -> Catalog:
    """Return the catalog of connection `name`; `storage` are pyiceberg's S3 properties.

    Raises SQ42xx where the catalog does not answer or refuses, SQ43xx where its folder cannot be written.
    """
    try:
        match options["catalog_type"]:
            case "sql":
                return _open_sql(options, secret, storage or {})
            case "memory":
                return _open_memory(name)
            case _:
                return _open_rest(options, secret, storage or {})
    except Exception as error:
        raise explain(error, name) from error


def validate(connection: logical.Connection, access: Access) -> None:
    """Open the catalog and list its namespaces; raises SQ42xx or SQ43xx."""
    catalog = open_catalog(connection.name, connection.options, access.secret)
    try:
        catalog.list_namespaces()
    except Exception as error:
        raise explain(error, connection.name) from error
    finally:
        catalog.close()


def local_folder(location: str) -> Path | None:
    """Return the local folder of a location, None if it is elsewhere."""
    if location.startswith("file://"):
        return Path(location.removeprefix("file://"))
    return None if "://" in location else Path(location)


# --- sql and memory ---------------------------------------------------------------------------------------------


def _open_sql(options: Mapping[str, Any], secret: Callable[[str], str], storage: Mapping[str, str]) -> Catalog:
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
    properties = {"uri": url.render_as_string(hide_password=False), **storage}
    if warehouse:
        folder = local_folder(warehouse)
        if folder is not None:
            _check_name(folder.resolve())
            _make_folder(folder.resolve())
        # not `as_uri`: pyiceberg takes what comes after file:// as it is, blanks and percent signs too
        properties["warehouse"] = warehouse if folder is None else f"file://{folder.resolve()}"
    return SqlCatalog(CATALOG_NAME, **properties) if file is None else _FileCatalog(_file_engine(url), properties)


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
    return create_engine(url, poolclass=NullPool)


class _FileCatalog(SqlCatalog):
    """A catalog in an SQLite file; pyiceberg's own makes an engine and looks for its tables three times to open it."""

    def __init__(self, engine: Engine, properties: Mapping[str, str]) -> None:
        super(SqlCatalog, self).__init__(CATALOG_NAME, **properties)
        self.engine = engine
        self._init_catalog()

    def _init_catalog(self) -> None:
        try:
            with self.engine.connect() as connection:
                connection.exec_driver_sql(_TABLES)
            self._schema_version = "v1"
        except OperationalError:  # they are not there, or older ones are
            super()._init_catalog()


def _make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(13, "permission denied", str(folder))


def _check_name(folder: Path) -> None:
    # Locations of tables are URLs, of which readers take these for the end of the path.
    if {"#", "?"} & set(str(folder)):
        raise SinkqlError(
            "SQ4305", f'the warehouse folder "{folder}" has # or ? in its name', hint="Set another WAREHOUSE."
        )


class _MemoryCatalog(InMemoryCatalog):
    """A catalog that lives as long as the process: what it holds would be gone once it is closed."""

    def close(self) -> None:
        """Stay open."""


@cache
def _open_memory(name: str) -> Catalog:
    # One a process and connection: what the session creates, the job must find.
    return _MemoryCatalog(name, warehouse="file://" + tempfile.mkdtemp(prefix="sinkql-memory-"))


# --- rest --------------------------------------------------------------------------------------------------------


def _open_rest(options: Mapping[str, Any], secret: Callable[[str], str], storage: Mapping[str, str]) -> Catalog:
    url = options["url"].rstrip("/")
    properties = {"uri": url, **storage}
    if options.get("warehouse"):
        properties["warehouse"] = options["warehouse"]
    if "credential" in options:
        properties["credential"] = reveal(options["credential"], secret)
        properties["oauth2-server-uri"], properties["scope"] = token_access(options)
    return _PatientRestCatalog(CATALOG_NAME, **properties)


def token_access(options: Mapping[str, Any]) -> tuple[str, str]:
    """Return where tokens of a REST catalog come from, and the scope that they are asked for."""
    return options.get("oauth2_server_url") or options["url"].rstrip("/") + _TOKENS, options.get("scope") or "catalog"


class _PatientRestCatalog(RestCatalog):
    """A REST catalog whose every request has a timeout: pyiceberg sets none, and would wait for ever."""

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> AuthManager:
        _limit(session)  # the first token is fetched in here
        return super()._create_legacy_oauth2_auth_manager(session)

    def _create_session(self) -> Session:
        session = super()._create_session()
        _limit(session)  # again: SigV4 mounts its own adapter
        return session


def _limit(session: Session) -> None:
    for prefix, adapter in list(session.adapters.items()):
        if not isinstance(adapter, _TimeoutAdapter):
            session.adapters[prefix] = _TimeoutAdapter(adapter)


class _TimeoutAdapter(BaseAdapter):
    """Send through another adapter, so that its signing and retries stay."""

    def __init__(self, inner: BaseAdapter) -> None:
        super().__init__()
        self._inner = inner

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:  # the border of requests
        options["timeout"] = options.get("timeout") or _TIMEOUT
        return self._inner.send(request, *args, **options)

    def close(self) -> None:
        self._inner.close()
