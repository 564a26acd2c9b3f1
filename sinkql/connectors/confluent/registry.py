"""Read schemas from a schema registry by id and by subject, and register schemas, over HTTP."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from sinkql import codec, logical
from sinkql.connector_api import identity
from sinkql.connector_api.options import reveal
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connector_api.stream import Context
from sinkql.connector_api.tunnel import OPTION, Tunnel, planned_tunnel
from sinkql.connectors.confluent.options import ReadTuning, RegistryConnection
from sinkql.errors import SinkqlError

if TYPE_CHECKING:
    import httpx

Access = tuple[str, tuple[tuple[str, str], ...]]
"""The name of a registry connection, and its options with the values of secrets; hashable."""
_T = TypeVar("_T")
_PATIENCE_S = 10.0
_TRIES = 3
_UNTRUSTED = "certificate verify failed"
_NO_TLS = ("WRONG_VERSION_NUMBER", "wrong version number", "record layer failure", "RECORD_LAYER_FAILURE")
_MOST_REFERENCES = 1000


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema in a registry: its text, its kind (AVRO, PROTOBUF or JSON), and the texts of referenced schemas by name.

    Each referenced schema comes after the schemas that it refers to.
    """

    id: int
    kind: str
    text: str
    references: Mapping[str, str]


class UnknownSchemaError(Exception):
    """The registry has no schema with this id, subject or version."""


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _SchemaResponse(msgspec.Struct):
    """A registry's response with a schema; the id is missing in a response to a request by id."""

    schema: str
    id: int = 0
    schemaType: str = "AVRO"  # noqa: N815  # as the registry spells it
    references: list[_Reference] = []


_SCHEMA = codec.decoder(_SchemaResponse)


class _RegisterResponse(msgspec.Struct):
    """A registry's response to the registration of a schema."""

    id: int


_REGISTERED = codec.decoder(_RegisterResponse)
_ANY = codec.decoder(dict[str, Any])
_SUBJECTS = codec.decoder(list[str])


class Registry:
    """A client of one registry. The schema of an id never changes, so the client requests it once."""

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        secret: Callable[[str], str],
        tunnel: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the client of the connection `name`; `tunnel` has the options of its SSH tunnel.

        Raise SQ4264 for invalid certificates, and SQ442x if the tunnel fails.
        """
        self._name = name
        self._schemas: dict[int, Schema] = {}
        planned = RegistryConnection.from_plan(options)
        url, base_url = urlsplit(planned.url), planned.url
        verify = _tls_context(planned, secret) if url.scheme == "https" else True
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        user = None if planned.user is None else reveal(planned.user, secret)
        password = "" if planned.password is None else reveal(planned.password, secret)
        self._tunnel = None
        self._request_options: dict[str, Any] = {}
        if tunnel is not None:
            assert url.hostname is not None
            self._tunnel = Tunnel(tunnel, secret, url.hostname, url.port or (443 if url.scheme == "https" else 80))
            base_url = url._replace(netloc=f"127.0.0.1:{self._tunnel.port}").geturl()
            headers["Host"] = url.netloc.rpartition("@")[2]
            self._request_options = {"extensions": {"sni_hostname": url.hostname}}  # the name in the certificate
        import httpx  # takes 0.1 CPU-s, also in processes that send no request

        self._client = httpx.Client(
            base_url=base_url,
            auth=(user, password) if user is not None else None,
            verify=verify,
            timeout=_PATIENCE_S,
            headers=headers,
        )

    def close(self) -> None:
        """Close all connections."""
        self._client.close()
        if self._tunnel is not None:
            self._tunnel.close()

    def check(self) -> None:
        """Send a request that every registry answers. Raise SQ426x."""
        self._decode(self._get("/subjects"), _SUBJECTS)

    def schema(self, id_: int) -> Schema:
        """Return the schema of an id. Raise UnknownSchemaError or SQ426x."""
        if id_ not in self._schemas:
            response = self._decode(self._get(f"/schemas/ids/{id_}"), _SCHEMA)
            self._schemas[id_] = Schema(id_, response.schemaType, response.schema, self._references(response))
        return self._schemas[id_]

    def latest(self, subject: str) -> Schema:
        """Return the newest schema of a subject. Raise UnknownSchemaError or SQ426x."""
        response = self._version(subject, "latest")
        return Schema(response.id, response.schemaType, response.schema, self._references(response))

    def _version(self, subject: str, version: int | str) -> _SchemaResponse:
        return self._decode(self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}"), _SCHEMA)

    def _references(self, response: _SchemaResponse) -> dict[str, str]:
        """Return the texts of all direct and indirect references by name, each after its own references."""
        texts: dict[str, str] = {}

        def follow(references: list[_Reference], ancestors: tuple[str, ...]) -> None:
            for reference in references:
                if reference.name in texts or reference.name in ancestors:
                    continue
                if len(texts) + len(ancestors) > _MOST_REFERENCES:
                    raise self._failure(f"a schema has more than {_MOST_REFERENCES} references")
                referenced = self._version(reference.subject, reference.version)
                follow(referenced.references, (*ancestors, reference.name))
                texts[reference.name] = referenced.schema

        follow(response.references, ())
        return texts

    def register(self, subject: str, schema: str) -> int:
        """Register an Avro schema under a subject, and return its id. Raise SQ4267 or SQ426x."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        response = self._request("POST", path, {"schema": schema, "schemaType": "AVRO"})
        if response.status_code in (409, 422):
            raise SinkqlError(
                "SQ4267",
                f'the schema registry of connection "{self._name}" rejected the schema of "{subject}"',
                detail=_error_text(response),
                hint="Set another COMPATIBILITY LEVEL, write into a new topic, or use columns that are compatible with "
                "the existing schemas.",
            )
        return self._decode(response, _REGISTERED).id

    def set_compatibility(self, subject: str, level: str) -> None:
        """Set the compatibility level of a subject. Raise SQ426x."""
        self._decode(self._request("PUT", f"/config/{quote(subject, safe='')}", {"compatibility": level}), _ANY)

    def _get(self, path: str) -> httpx.Response:
        return self._request("GET", path, None)

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None) -> httpx.Response:
        """Return the response to a request; lost connections are retried, timeouts are not."""
        import httpx

        for left in reversed(range(_TRIES)):
            try:
                return self._client.request(method, path, json=body, **self._request_options)
            except httpx.InvalidURL as error:
                raise self._no_registry_error(str(error)) from None
            except httpx.TransportError as error:
                if (untrusted := _tls_problem(error)) is not None:
                    raise self._untrusted_error(untrusted) from None
                if left == 0 or isinstance(error, httpx.TimeoutException):
                    raise self._unreachable_error(f"{type(error).__name__}: {error}") from None
        raise AssertionError

    def _decode(self, response: httpx.Response, decoder: msgspec.json.Decoder[_T]) -> _T:
        status, detail = response.status_code, _error_text(response)
        if status == 404 and detail.startswith("4040"):  # other 404 responses mean a wrong address
            raise UnknownSchemaError
        if status in (401, 403):
            raise SinkqlError(
                "SQ4261",
                f'the schema registry of connection "{self._name}" rejected the user name or the password',
                detail=detail,
                hint="Check USER and PASSWORD, or SSL CERTIFICATE and SSL KEY, in CREATE CONNECTION. Check the user's "
                "privileges.",
                option="PASSWORD",
            )
        if status >= 500 or status == 429:
            raise self._failure(detail)
        if status != 200:
            raise self._no_registry_error(detail)
        try:
            return decoder.decode(response.content)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise self._no_registry_error("the server does not answer like a schema registry") from None

    # --- errors ------------------------------------------------------------------------------------------------------

    def _unreachable_error(self, detail: str) -> SinkqlError:
        return SinkqlError(
            "SQ4260",
            f'the schema registry of connection "{self._name}" does not answer',
            detail=detail,
            hint="Check URL in CREATE CONNECTION, and check that the registry is running.",
            option="URL",
        )

    def _no_registry_error(self, detail: str) -> SinkqlError:
        return SinkqlError(
            "SQ4262",
            f'the URL of connection "{self._name}" is not that of a schema registry',
            detail=detail,
            hint="Check URL in CREATE CONNECTION.",
            option="URL",
        )

    def _untrusted_error(self, detail: str) -> SinkqlError:
        return SinkqlError(
            "SQ4263",
            f'the certificate of the schema registry of connection "{self._name}" is not trusted',
            detail=detail,
            hint="Add SSL CERTIFICATE AUTHORITY = SECRET name, or write http:// if the registry does not use TLS.",
            option="URL",
        )

    def _failure(self, detail: str) -> SinkqlError:
        return SinkqlError("SQ4265", f'the schema registry of connection "{self._name}" failed', detail=detail)


def access_of(tuning: ReadTuning, context: Context) -> Access | None:
    """Return the access to the registry of a format; None if the format has none."""
    registry = tuning.registry
    if registry is None:
        return None
    options = {
        name: value if name == "url" else reveal(value, context.secret)
        for name, value in registry.options.items()
        if name != OPTION
    }
    if registry.tunnel is not None:
        keys = {"secret_text": [reveal(registry.tunnel["keys"], context.secret)]}
        options[OPTION] = msgspec.json.encode({**registry.tunnel, "keys": keys}).decode()
    return registry.name, tuple(sorted(options.items()))


def planned_registry(connection: logical.Connection, access: OutsideAccess) -> Registry:
    """Return the client of a connection in the catalog. Raise what `Registry` raises."""
    return Registry(connection.name, connection.options, access.secret, planned_tunnel(connection, access))


@lru_cache(maxsize=16)
def open_registry(registry: Access, process: int) -> Registry:
    """Return the shared client of a registry in the process with this id."""
    name, options = registry
    texts = {key: text if key == "url" else {"secret_text": [text]} for key, text in options if key != OPTION}
    tunnel = dict(options).get(OPTION)
    return Registry(name, texts, str, msgspec.json.decode(tunnel) if tunnel is not None else None)


def _tls_context(planned: RegistryConnection, secret: Callable[[str], str]) -> ssl.SSLContext:
    """Return the SSL context of a connection. Raise SQ4264 for invalid certificates."""
    option = "SSL CERTIFICATE AUTHORITY"
    try:
        context = ssl.create_default_context()
        if planned.ssl_certificate_authority is not None:
            context.load_verify_locations(cadata=reveal(planned.ssl_certificate_authority, secret))
        option = "SSL CERTIFICATE"
        if planned.ssl_key is not None and planned.ssl_certificate is not None:
            identity.load_certificate(context, reveal(planned.ssl_certificate, secret), reveal(planned.ssl_key, secret))
    except (ssl.SSLError, ValueError) as error:
        raise SinkqlError(
            "SQ4264",
            f"{option} of the schema registry connection is invalid",
            detail=getattr(error, "reason", None) or type(error).__name__,
            hint="Store the whole text of the PEM files in the secrets. SSL KEY is the key of SSL CERTIFICATE, without "
            "a password.",
            option=option,
        ) from None
    return context


def _tls_problem(error: httpx.TransportError) -> str | None:
    """Return the text of an error of TLS; None for other errors."""
    text = str(error)
    if _UNTRUSTED in text or any(fragment in text for fragment in _NO_TLS) or "alert" in text:
        return text
    return None


def _error_text(response: httpx.Response) -> str:
    """Return the code and the text of a registry's error, or else the HTTP status."""
    try:
        error = msgspec.json.decode(response.content)
        return f"{error['error_code']}: {str(error['message'])[:200]}"
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, IndexError):
        return f"HTTP status {response.status_code}"
