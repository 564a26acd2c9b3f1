"""Open a REST catalog, plain or of S3 Tables, with pyiceberg. Requests have timeouts and use the present keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import requests
from pyiceberg import exceptions as iceberg
from pyiceberg.catalog import BOTOCORE_SESSION
from pyiceberg.catalog.rest import RestCatalog, TableResponse
from pyiceberg.catalog.rest.auth import AuthManager
from pyiceberg.table import Table
from requests import PreparedRequest, Response, Session
from requests.adapters import BaseAdapter

from sinkql.connector_api.options import reveal
from sinkql.connectors.iceberg.plan.options import CatalogConnection
from sinkql.connectors.iceberg.storage import (
    CATALOG_NAME,
    KEYS,
    TOKEN,
    TOKEN_EXPIRY,
    AskingFileIO,
    AskingFiles,
    Stores,
)
from sinkql.errors import SinkqlError
from sinkql.keywords import qualified_name
from sinkql.machine import clock
from sinkql.object_store.s3 import signing_session
from sinkql.object_store.store import ObjectStore

_TIMEOUT = (5.0, 30.0)
_TOKENS = "/v1/oauth/tokens"
_DELEGATION = "X-Iceberg-Access-Delegation"
_EXPIRY = "s3.session-token-expires-at-ms"
_OTHER_EXPIRY = "gcs.oauth2.token_expires_at"
"""The name of `TOKEN_EXPIRY` in BigLake's reference."""
_OF_STORES = ("s3.", "gcs.")
_LIFE_MS = 3_600_000
"""How long a token of Google is valid if it comes without an expiry time."""
_ANY_REGION = "us-east-1"
_SOON_MS = 300_000


def open_rest(name: str, options: CatalogConnection, secret: Callable[[str], str], stores: Stores) -> RestCatalog:
    """Return the catalog of connection `name`; raises as pyiceberg does, and SQ4212 if the token server fails."""
    if options.catalog_type == "s3tablesrest":
        return _open_s3_tables(name, options, stores)
    properties = {"uri": rest_url(options)}
    if options.warehouse:
        properties["warehouse"] = options.warehouse
    if options.credential is not None:
        properties["credential"] = reveal(options.credential, secret)
        properties["oauth2-server-uri"], properties["scope"] = token_access(options)
    if options.gcp_connection is not None and (project := stores.for_requests().properties().get("gcs.project-id")):
        properties["header.x-goog-user-project"] = project
    return _RestCatalog(name, properties, stores, options)


def rest_url(options: CatalogConnection) -> str:
    """Return the address of a REST catalog, without a slash at its end."""
    return (options.url or "").rstrip("/")


def token_access(options: CatalogConnection) -> tuple[str, str]:
    """Return the address of the token server of a REST catalog, and the scope to request."""
    return options.oauth2_server_url or rest_url(options) + _TOKENS, options.scope or "catalog"


# --- S3 Tables ---------------------------------------------------------------------------------------------------


def _open_s3_tables(name: str, options: CatalogConnection, stores: Stores) -> RestCatalog:
    signer, url = stores.for_requests(), options.url or ""
    region = s3_tables_region(url, signer)
    session = signing_session(signer, region)
    properties: dict[str, Any] = {
        "uri": s3_tables_url(url),
        "warehouse": s3_tables_warehouse(url, options.warehouse or "", region, lambda: account(session)),
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3tables",
        "rest.signing-region": region,
        BOTOCORE_SESSION: session,
        "s3.region": region,
    }
    return _RestCatalog(name, properties, stores, options)


def s3_tables_url(url: str) -> str:
    """Return the address of the catalog; on hosts of AWS it ends with /iceberg, which the URL may omit."""
    parts = urlsplit(url)
    bare = parts.path in ("", "/") and _is_aws(url)
    return f"{parts.scheme}://{parts.netloc}/iceberg" if bare else url.rstrip("/")


def s3_tables_region(url: str, signer: ObjectStore) -> str:
    """Return the region of S3 Tables: that in AWS's host name, else the connection's."""
    match = re.match(r"s3tables(?:-fips)?\.([a-z0-9-]+)\.", urlsplit(url).hostname or "")
    return match[1] if match and _is_aws(url) else signer.properties().get("s3.region", _ANY_REGION)


def s3_tables_warehouse(url: str, warehouse: str, region: str, account: Callable[[], tuple[str, str]]) -> str:
    """Return the catalog's name of the table bucket; on AWS it is the ARN, in the account of the keys."""
    if warehouse.startswith("arn:") or not _is_aws(url):
        return warehouse
    partition, number = account()
    return f"arn:{partition}:s3tables:{region}:{number}:bucket/{warehouse}"


def _is_aws(url: str) -> bool:
    return (urlsplit(url).hostname or "").endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws"))


def account(session: Any) -> tuple[str, str]:  # botocore has no types
    """Return the partition and the number of the account of the keys; the request needs no permission."""
    from botocore.config import Config

    patience = Config(connect_timeout=_TIMEOUT[0], read_timeout=_TIMEOUT[1])
    caller = session.create_client("sts", config=patience).get_caller_identity()
    return caller["Arn"].split(":")[1], caller["Account"]


# --- pyiceberg's catalog -----------------------------------------------------------------------------------------


class _RestCatalog(AskingFiles, RestCatalog):
    """A REST catalog with a timeout for each request: pyiceberg sets none, and would wait forever.

    It requests keys to a table's files if the connection has ACCESS DELEGATION, or if no store has keys.
    """

    def __init__(self, name: str, properties: Mapping[str, Any], stores: Stores, options: CatalogConnection) -> None:
        self._connection = name
        self._files = stores.files
        self._google = stores.signer if options.gcp_connection is not None else None
        self._token_url = options.oauth2_server_url
        self._has_delegation = options.access_delegation is not None
        super().__init__(CATALOG_NAME, **properties)

    def _config_headers(self, session: Session) -> None:
        super()._config_headers(session)
        if self._files is not None and not self._has_delegation:
            session.headers.pop(_DELEGATION, None)  # else the catalog's keys would replace the connection's

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> AuthManager:
        if self._google is not None:
            return _GoogleAuth(self._google)
        limit(session)  # the next call fetches the first token
        try:
            return super()._create_legacy_oauth2_auth_manager(session)
        except iceberg.OAuthError:
            raise
        except (requests.RequestException, iceberg.RESTError) as error:
            if self._token_url is None:
                raise
            raise SinkqlError(
                "SQ4212",
                f'the token server of connection "{self._connection}" does not answer or returned no token',
                detail=f"{type(error).__name__}: {error}",
                hint="Check OAUTH2 SERVER URL in CREATE CONNECTION.",
                option="OAUTH2 SERVER URL",
            ) from error

    def _refresh_token(self) -> None:
        """Get a new token, with which pyiceberg sends a refused request again."""
        if self._google is not None:
            self._google.renew()
        else:
            super()._refresh_token()

    def _create_session(self) -> Session:
        session = super()._create_session()
        limit(session)  # again: SigV4 has mounted another adapter
        return session

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        table = super()._response_to_table(identifier_tuple, table_response)
        if self._files is not None and not self._has_delegation:
            return table
        location = table_response.metadata_location
        vended = _with_expiry(
            {
                **table_response.config,
                **self._resolve_storage_credentials(table_response.storage_credentials, location),
            }
        )
        if not any(name in vended for name in KEYS):
            if not self._has_delegation:
                return table
            raise SinkqlError(
                "SQ4210",
                f'the Iceberg catalog of connection "{self._connection}" returned no keys to the files of '
                f'table "{qualified_name(*identifier_tuple)}"',
                hint="Configure the catalog to vend keys, or leave out ACCESS DELEGATION."
                if self._google is not None
                else "Configure the catalog to vend keys. Or leave out ACCESS DELEGATION and add USING AWS CONNECTION "
                "to the sink.",
                option="ACCESS DELEGATION",
            )
        plain = self._files.properties() if self._files is not None else {}
        endpoint = {name: value for name, value in plain.items() if name not in KEYS}
        properties = {**self.properties, **table_response.metadata.properties, **endpoint, **vended}
        keys = _VendedKeys(lambda: self._request_keys(identifier_tuple), {**endpoint, **vended})
        table.io = AskingFileIO(properties, keys.properties)
        return table

    def _request_keys(self, identifier: tuple[str, ...]) -> Mapping[str, str]:
        io = self.load_table(identifier).io
        assert isinstance(io, AskingFileIO)
        return {name: value for name, value in io.properties.items() if name.startswith(_OF_STORES)}


class _GoogleAuth(AuthManager):
    """Adds the present token of Google to each request."""

    def __init__(self, signer: ObjectStore) -> None:
        self._signer = signer

    def auth_header(self) -> str:
        return f"Bearer {self._signer.properties()[TOKEN]}"


def _with_expiry(vended: Mapping[str, str]) -> Mapping[str, str]:
    """Return vended keys with the expiry of Google's token under PyIceberg's name."""
    if TOKEN not in vended:
        return vended
    end = vended.get(TOKEN_EXPIRY) or vended.get(_OTHER_EXPIRY) or str(now_ms() + _LIFE_MS)
    return {**vended, TOKEN_EXPIRY: end}


class _VendedKeys:
    """Keys that a catalog vended for one table, and requests again before they expire."""

    def __init__(self, request: Callable[[], Mapping[str, str]], vended: Mapping[str, str]) -> None:
        self._request = request
        self._renew_ms: int | None = None
        self._set(vended)

    def properties(self) -> Mapping[str, str]:
        if self._renew_ms is not None and now_ms() >= self._renew_ms:
            self._set(self._request())
        return self._properties

    def _set(self, vended: Mapping[str, str]) -> None:
        self._properties = vended
        end = vended.get(_EXPIRY) or vended.get(TOKEN_EXPIRY)
        now = now_ms()
        self._renew_ms = max(now + (int(end) - now) // 2, int(end) - _SOON_MS) if end else None


def now_ms() -> int:
    """Return the present time in ms since 1970."""
    return clock.time_ms()


def limit(session: Session) -> None:
    """Set a timeout for all requests of a session."""
    for prefix, adapter in list(session.adapters.items()):
        if not isinstance(adapter, _TimeoutAdapter):
            session.adapters[prefix] = _TimeoutAdapter(adapter)


class _TimeoutAdapter(BaseAdapter):
    """An adapter with a timeout around another one, which keeps its signing and retries.

    Without an answer it closes the pooled connections, which the server may have lost too.
    """

    def __init__(self, inner: BaseAdapter) -> None:
        super().__init__()
        self._inner = inner

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:  # the signature of requests
        options["timeout"] = options.get("timeout") or _TIMEOUT
        try:
            return self._inner.send(request, *args, **options)
        except (requests.ConnectionError, requests.Timeout):
            self._inner.close()  # the next request opens it again
            raise

    def close(self) -> None:
        self._inner.close()
