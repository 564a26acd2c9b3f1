"""Options of a REST catalog, plain or of S3 Tables → pyiceberg's, patient, and with keys that are asked for."""

from __future__ import annotations

import re
import time
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
from sinkql.object_store.s3 import signing_session
from sinkql.object_store.store import ObjectStore

_TIMEOUT = (5.0, 30.0)
_TOKENS = "/v1/oauth/tokens"
_DELEGATION = "X-Iceberg-Access-Delegation"
_EXPIRY = "s3.session-token-expires-at-ms"
_OTHER_EXPIRY = "gcs.oauth2.token_expires_at"
"""What BigLake's reference calls `TOKEN_EXPIRY`."""
_OF_STORES = ("s3.", "gcs.")
_LIFE_MS = 3_600_000
"""How long a token of Google's is valid that comes without its end."""
_ANY_REGION = "us-east-1"
_SOON_MS = 300_000


def open_rest(name: str, options: Mapping[str, Any], secret: Callable[[str], str], stores: Stores) -> RestCatalog:
    """Return the catalog of connection `name`; raises what pyiceberg raises, and SQ4212 for its server of tokens."""
    if options["catalog_type"] == "s3tablesrest":
        return _open_s3_tables(name, options, stores)
    properties = {"uri": options["url"].rstrip("/")}
    if options.get("warehouse"):
        properties["warehouse"] = options["warehouse"]
    if "credential" in options:
        properties["credential"] = reveal(options["credential"], secret)
        properties["oauth2-server-uri"], properties["scope"] = token_access(options)
    if "gcp_connection" in options and (project := _signer(stores).properties().get("gcs.project-id")):
        properties["header.x-goog-user-project"] = project
    return _RestCatalog(name, properties, stores, options)


def token_access(options: Mapping[str, Any]) -> tuple[str, str]:
    """Return where tokens of a REST catalog come from, and the scope that they are asked for."""
    return options.get("oauth2_server_url") or options["url"].rstrip("/") + _TOKENS, options.get("scope") or "catalog"


def _signer(stores: Stores) -> ObjectStore:
    assert stores.signer is not None
    return stores.signer


# --- S3 Tables ---------------------------------------------------------------------------------------------------


def _open_s3_tables(name: str, options: Mapping[str, Any], stores: Stores) -> RestCatalog:
    signer = _signer(stores)
    region = s3_tables_region(options["url"], signer)
    session = signing_session(signer, region)
    properties: dict[str, Any] = {
        "uri": s3_tables_url(options["url"]),
        "warehouse": s3_tables_warehouse(options, region, lambda: account(session)),
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3tables",
        "rest.signing-region": region,
        BOTOCORE_SESSION: session,
        "s3.region": region,
    }
    return _RestCatalog(name, properties, stores, options)


def s3_tables_url(url: str) -> str:
    """Return the address of the catalog: on AWS's own hosts it is below /iceberg, which may be left out."""
    parts = urlsplit(url)
    bare = parts.path in ("", "/") and _of_aws(url)
    return f"{parts.scheme}://{parts.netloc}/iceberg" if bare else url.rstrip("/")


def s3_tables_region(url: str, signer: ObjectStore) -> str:
    """Return the region of S3 Tables: that of AWS's host, else the connection's."""
    found = re.match(r"s3tables(?:-fips)?\.([a-z0-9-]+)\.", urlsplit(url).hostname or "")
    return found[1] if found and _of_aws(url) else signer.properties().get("s3.region", _ANY_REGION)


def s3_tables_warehouse(options: Mapping[str, Any], region: str, account: Callable[[], tuple[str, str]]) -> str:
    """Return the table bucket as the catalog names it: AWS by its ARN, in the account whose keys these are."""
    warehouse: str = options["warehouse"]
    if warehouse.startswith("arn:") or not _of_aws(options["url"]):
        return warehouse
    partition, number = account()
    return f"arn:{partition}:s3tables:{region}:{number}:bucket/{warehouse}"


def _of_aws(url: str) -> bool:
    return (urlsplit(url).hostname or "").endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws"))


def account(session: Any) -> tuple[str, str]:  # botocore has no types
    """Return the partition and the number of the account that keys belong to; every one may ask that."""
    import boto3
    from botocore.config import Config

    patience = Config(connect_timeout=_TIMEOUT[0], read_timeout=_TIMEOUT[1])
    caller = boto3.session.Session(botocore_session=session).client("sts", config=patience).get_caller_identity()
    return caller["Arn"].split(":")[1], caller["Account"]


# --- pyiceberg's catalog -----------------------------------------------------------------------------------------


class _RestCatalog(AskingFiles, RestCatalog):
    """A REST catalog whose every request has a timeout: pyiceberg sets none, and would wait for ever.

    It asks for keys to a table's files where the connection says so, or where there are no others.
    """

    def __init__(self, name: str, properties: Mapping[str, Any], stores: Stores, options: Mapping[str, Any]) -> None:
        self._connection = name
        self._files = stores.files
        self._google = stores.signer if "gcp_connection" in options else None
        self._tokens: str | None = options.get("oauth2_server_url")
        self._delegated = "access_delegation" in options
        super().__init__(CATALOG_NAME, **properties)

    def _config_headers(self, session: Session) -> None:
        super()._config_headers(session)
        if self._files is not None and not self._delegated:
            session.headers.pop(_DELEGATION, None)  # or the catalog's keys would stand in for those that were named

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> AuthManager:
        if self._google is not None:
            return _Google(self._google)
        limit(session)  # the first token is fetched in here
        try:
            return super()._create_legacy_oauth2_auth_manager(session)
        except iceberg.OAuthError:
            raise
        except (requests.RequestException, iceberg.RESTError) as error:
            if self._tokens is None:
                raise
            raise SinkqlError(
                "SQ4212",
                f'the server that gives tokens for connection "{self._connection}" does not answer, or gives none',
                detail=f"{type(error).__name__}: {error}",
                hint="Check OAUTH2 SERVER URL in CREATE CONNECTION.",
                option="OAUTH2 SERVER URL",
            ) from error

    def _refresh_token(self) -> None:
        """Have the request that was refused be sent again with another token."""
        if self._google is not None:
            self._google.renew()
        else:
            super()._refresh_token()

    def _create_session(self) -> Session:
        session = super()._create_session()
        limit(session)  # again: SigV4 mounts its own adapter
        return session

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        table = super()._response_to_table(identifier_tuple, table_response)
        if self._files is not None and not self._delegated:
            return table
        location = table_response.metadata_location
        given = _with_expiry(
            {
                **table_response.config,
                **self._resolve_storage_credentials(table_response.storage_credentials, location),
            }
        )
        if not any(each in given for each in KEYS):
            if not self._delegated:
                return table
            raise SinkqlError(
                "SQ4210",
                f'the Iceberg catalog of connection "{self._connection}" gives no keys to the files of '
                f'table "{qualified_name(*identifier_tuple)}"',
                hint="Let the catalog give keys, or leave out ACCESS DELEGATION."
                if self._google is not None
                else "Let the catalog give keys, or leave out ACCESS DELEGATION and add USING AWS CONNECTION to the "
                "sink.",
                option="ACCESS DELEGATION",
            )
        plain = self._files.properties() if self._files is not None else {}
        place = {each: value for each, value in plain.items() if each not in KEYS}
        mine = {**self.properties, **table_response.metadata.properties, **place, **given}
        vended = _Vended(lambda: self._asked(identifier_tuple), {**place, **given})
        table.io = AskingFileIO(mine, vended.properties)
        return table

    def _asked(self, identifier: tuple[str, ...]) -> Mapping[str, str]:
        io = self.load_table(identifier).io
        assert isinstance(io, AskingFileIO)
        return {name: value for name, value in io.properties.items() if name.startswith(_OF_STORES)}


class _Google(AuthManager):
    """Give requests the token that is valid when they are sent."""

    def __init__(self, signer: ObjectStore) -> None:
        self._signer = signer

    def auth_header(self) -> str:
        return f"Bearer {self._signer.properties()[TOKEN]}"


def _with_expiry(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return what a catalog gave, with the end of a token of Google's under the name that PyIceberg knows."""
    if TOKEN not in given:
        return given
    end = given.get(TOKEN_EXPIRY) or given.get(_OTHER_EXPIRY) or str(now_ms() + _LIFE_MS)
    return {**given, TOKEN_EXPIRY: end}


class _Vended:
    """Keys that a catalog gave for one table, asked for again before they run out."""

    def __init__(self, ask: Callable[[], Mapping[str, str]], given: Mapping[str, str]) -> None:
        self._ask = ask
        self._take(given)

    def properties(self) -> Mapping[str, str]:
        if self._renew_ms is not None and now_ms() >= self._renew_ms:
            self._take(self._ask())
        return self._given

    def _take(self, given: Mapping[str, str]) -> None:
        self._given = given
        end = given.get(_EXPIRY) or given.get(TOKEN_EXPIRY)
        now = now_ms()
        self._renew_ms = max(now + (int(end) - now) // 2, int(end) - _SOON_MS) if end else None


def now_ms() -> int:
    """Return the time in ms since 1970."""
    return time.time_ns() // 1_000_000


def limit(session: Session) -> None:
    """Give every request of a session a timeout."""
    for prefix, adapter in list(session.adapters.items()):
        if not isinstance(adapter, _TimeoutAdapter):
            session.adapters[prefix] = _TimeoutAdapter(adapter)


class _TimeoutAdapter(BaseAdapter):
    """Send through another adapter, so that its signing and retries stay.

    Where there is no answer, connections that are kept are closed: the server may have lost them as well.
    """

    def __init__(self, inner: BaseAdapter) -> None:
        super().__init__()
        self._inner = inner

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:  # the border of requests
        options["timeout"] = options.get("timeout") or _TIMEOUT
        try:
            return self._inner.send(request, *args, **options)
        except (requests.ConnectionError, requests.Timeout):
            self._inner.close()  # it is opened again by the next request
            raise

    def close(self) -> None:
        self._inner.close()
