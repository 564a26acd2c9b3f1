"""A planned connection to a schema registry → the schemas that it keeps, by id and by subject, over HTTP."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from sinkql import codec
from sinkql.connector_api import identity
from sinkql.connector_api.options import reveal
from sinkql.connector_api.stream import Context
from sinkql.connector_api.tunnel import OPTION, Tunnel
from sinkql.errors import SinkqlError

Access = tuple[str, tuple[tuple[str, str], ...]]
"""The name of a connection to a registry, and its options with the values of secrets."""
_T = TypeVar("_T")
_PATIENCE_S = 10.0
_TRIES = 3
_UNTRUSTED = "certificate verify failed"
_NO_TLS = ("WRONG_VERSION_NUMBER", "wrong version number", "record layer failure", "RECORD_LAYER_FAILURE")
_MOST_REFERENCES = 1000


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as a registry keeps it: its text, its kind (AVRO, PROTOBUF or JSON), and the schemas that it names.

    `references` are in the order in which each is after those that it names itself, by the name that stands in texts.
    """

    id: int
    kind: str
    text: str
    references: Mapping[str, str]


class UnknownSchemaError(Exception):
    """The registry has no schema of that id, subject or version."""


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _Found(msgspec.Struct):
    """What a registry says of a schema; the id only where it was asked for by another name."""

    schema: str
    id: int = 0
    schemaType: str = "AVRO"  # noqa: N815  # as the registry spells it
    references: list[_Reference] = []


_FOUND = codec.decoder(_Found)


class _Registered(msgspec.Struct):
    """What a registry says of a schema that it was given."""

    id: int


_REGISTERED = codec.decoder(_Registered)
_ANY = codec.decoder(dict[str, Any])
_SUBJECTS = codec.decoder(list[str])


class Registry:
    """Ask one registry. What an id stands for never changes, and is asked for once."""

    def __init__(
        self,
        name: str,
        options: Mapping[str, Any],
        secret: Callable[[str], str],
        tunnel: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the client of the connection `name`, which goes through a tunnel of these options.

        Raises SQ4264 for certificates that cannot be used, SQ442x for the tunnel.
        """
        self._name = name
        self._known: dict[int, Schema] = {}
        given = {key: reveal(value, secret) for key, value in options.items() if key not in ("url", OPTION)}
        user, password = given.get("user"), given.get("password", "")
        url = urlsplit(options["url"])
        verify = _tls(given) if url.scheme == "https" else True
        headers, place = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}, options["url"]
        self._tunnel = None
        self._more: dict[str, Any] = {}
        if tunnel is not None:
            assert url.hostname is not None
            self._tunnel = Tunnel(tunnel, secret, url.hostname, url.port or (443 if url.scheme == "https" else 80))
            place = url._replace(netloc=f"127.0.0.1:{self._tunnel.port}").geturl()
            headers["Host"] = url.netloc.rpartition("@")[2]
            self._more = {"extensions": {"sni_hostname": url.hostname}}  # which its certificate is for
        self._client = httpx.Client(
            base_url=place,
            auth=(user, password) if user is not None else None,
            verify=verify,
            timeout=_PATIENCE_S,
            headers=headers,
        )

    def close(self) -> None:
        """Close the connections that are open."""
        self._client.close()
        if self._tunnel is not None:
            self._tunnel.close()

    def check(self) -> None:
        """Ask for something that every registry has; raises SQ426x."""
        self._decoded(self._get("/subjects"), _SUBJECTS)

    def schema(self, id_: int) -> Schema:
        """Return the schema of an id; raises UnknownSchemaError, and SQ426x."""
        if id_ not in self._known:
            found = self._decoded(self._get(f"/schemas/ids/{id_}"), _FOUND)
            self._known[id_] = Schema(id_, found.schemaType, found.schema, self._references(found))
        return self._known[id_]

    def latest(self, subject: str) -> Schema:
        """Return the newest schema of a subject; raises UnknownSchemaError, and SQ426x."""
        found = self._version(subject, "latest")
        return Schema(found.id, found.schemaType, found.schema, self._references(found))

    def _version(self, subject: str, version: int | str) -> _Found:
        return self._decoded(self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}"), _FOUND)

    def _references(self, found: _Found) -> dict[str, str]:
        """Return the texts of all that a schema names, and that these name, each after those that it names."""
        texts: dict[str, str] = {}

        def follow(references: list[_Reference], within: tuple[str, ...]) -> None:
            for each in references:
                if each.name in texts or each.name in within:
                    continue
                if len(texts) + len(within) > _MOST_REFERENCES:
                    raise self._fails(f"a schema has more than {_MOST_REFERENCES} references")
                inner = self._version(each.subject, each.version)
                follow(inner.references, (*within, each.name))
                texts[each.name] = inner.schema

        follow(found.references, ())
        return texts

    def register(self, subject: str, schema: str) -> int:
        """Return the id of a schema of Avro, which a subject has then; raises SQ4267, and SQ426x."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        answer = self._ask("POST", path, {"schema": schema, "schemaType": "AVRO"})
        if answer.status_code in (409, 422):
            raise SinkqlError(
                "SQ4267",
                f'the schema registry of connection "{self._name}" refuses the schema of "{subject}"',
                detail=_said(answer),
                hint="Set another COMPATIBILITY LEVEL, write into a new topic, or have columns that fit the schemas "
                "that are there.",
            )
        return self._decoded(answer, _REGISTERED).id

    def set_compatibility(self, subject: str, level: str) -> None:
        """Say how the schemas of a subject may change; raises SQ426x."""
        self._decoded(self._ask("PUT", f"/config/{quote(subject, safe='')}", {"compatibility": level}), _ANY)

    def _get(self, path: str) -> httpx.Response:
        return self._ask("GET", path, None)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> httpx.Response:
        """Return the answer to a request, of which some tries may be lost."""
        for left in reversed(range(_TRIES)):
            try:
                return self._client.request(method, path, json=body, **self._more)
            except httpx.InvalidURL as error:
                raise self._no_registry(str(error)) from None
            except httpx.TransportError as error:
                if (untrusted := _of_tls(error)) is not None:
                    raise self._untrusted(untrusted) from None
                if left == 0 or isinstance(error, httpx.TimeoutException):
                    raise self._unreachable(f"{type(error).__name__}: {error}") from None
        raise AssertionError

    def _decoded(self, answer: httpx.Response, decoder: msgspec.json.Decoder[_T]) -> _T:
        status, detail = answer.status_code, _said(answer)
        if status == 404 and detail.startswith("4040"):  # 404 alone is of the address
            raise UnknownSchemaError
        if status in (401, 403):
            raise SinkqlError(
                "SQ4261",
                f'the schema registry of connection "{self._name}" rejects the user or the password',
                detail=detail,
                hint="Check USER and PASSWORD, or SSL CERTIFICATE and SSL KEY, in CREATE CONNECTION, and what the user "
                "may read.",
                option="PASSWORD",
            )
        if status >= 500 or status == 429:
            raise self._fails(detail)
        if status != 200:
            raise self._no_registry(detail)
        try:
            return decoder.decode(answer.content)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise self._no_registry("it does not answer as schema registries do") from None

    # --- errors ------------------------------------------------------------------------------------------------------

    def _unreachable(self, detail: str) -> SinkqlError:
        return SinkqlError(
            "SQ4260",
            f'the schema registry of connection "{self._name}" does not answer',
            detail=detail,
            hint="Check URL in CREATE CONNECTION, and that the registry runs.",
            option="URL",
        )

    def _no_registry(self, detail: str) -> SinkqlError:
        return SinkqlError(
            "SQ4262",
            f'the URL of connection "{self._name}" does not lead to a schema registry',
            detail=detail,
            hint="Check URL in CREATE CONNECTION.",
            option="URL",
        )

    def _untrusted(self, detail: str) -> SinkqlError:
        return SinkqlError(
            "SQ4263",
            f'the certificate of the schema registry of connection "{self._name}" is not trusted',
            detail=detail,
            hint="Add SSL CERTIFICATE AUTHORITY = SECRET name, or write http:// if the registry does not use TLS.",
            option="URL",
        )

    def _fails(self, detail: str) -> SinkqlError:
        return SinkqlError("SQ4265", f'the schema registry of connection "{self._name}" fails', detail=detail)


def access_of(options: Mapping[str, Any], context: Context) -> Access | None:
    """Return what opens the registry of a format's planned options; None where it has none."""
    registry = options.get("tuning", {}).get("registry")
    if registry is None:
        return None
    given = {
        name: value if name == "url" else reveal(value, context.secret)
        for name, value in registry["options"].items()
        if name != OPTION
    }
    if "tunnel" in registry:
        keys = {"secret_text": [reveal(registry["tunnel"]["keys"], context.secret)]}
        given[OPTION] = msgspec.json.encode({**registry["tunnel"], "keys": keys}).decode()
    return registry["name"], tuple(sorted(given.items()))


@lru_cache(maxsize=16)
def opened(registry: Access, process: int) -> Registry:
    """Return the client of a registry; a process, of this id, has one."""
    name, options = registry
    texts = {key: text if key == "url" else {"secret_text": [text]} for key, text in options if key != OPTION}
    tunnel = dict(options).get(OPTION)
    return Registry(name, texts, str, msgspec.json.decode(tunnel) if tunnel is not None else None)


def _tls(given: Mapping[str, str]) -> ssl.SSLContext:
    """Return what a connection trusts and shows; raises SQ4264."""
    option = "SSL CERTIFICATE AUTHORITY"
    try:
        context = ssl.create_default_context()
        if "ssl_certificate_authority" in given:
            context.load_verify_locations(cadata=given["ssl_certificate_authority"])
        option = "SSL CERTIFICATE"
        if "ssl_key" in given:
            identity.load_certificate(context, given["ssl_certificate"], given["ssl_key"])
    except (ssl.SSLError, ValueError) as error:
        raise SinkqlError(
            "SQ4264",
            f"{option} of the schema registry connection cannot be used",
            detail=getattr(error, "reason", None) or type(error).__name__,
            hint="Give the secrets the whole text of the PEM files, and SSL KEY the key of SSL CERTIFICATE, without a "
            "password.",
            option=option,
        ) from None
    return context


def _of_tls(error: httpx.TransportError) -> str | None:
    """Return what is wrong with a certificate, where that is what failed."""
    text = str(error)
    if _UNTRUSTED in text or any(each in text for each in _NO_TLS) or "alert" in text:
        return text
    return None


def _said(answer: httpx.Response) -> str:
    """Return the code and the text of an error, as registries write them, else the status."""
    try:
        found = msgspec.json.decode(answer.content)
        return f"{found['error_code']}: {str(found['message'])[:200]}"
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, IndexError):
        return f"HTTP status {answer.status_code}"
