"""Open Cloud Storage with the tokens of a service account.

Exceptions of google-auth become coded errors at the option that causes them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from sinkql import codec
from sinkql.connector_api.options import reveal
from sinkql.errors import SinkqlError
from sinkql.object_store.store import Credentials, Options, RenewedCredentials, RevealSecret

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_LIFE = timedelta(hours=1)
"""How long a token is valid if the server does not say it."""
_TIMEOUT_S = 20.0
_LOGGERS = ("google", "urllib3")


@dataclass(slots=True)
class ServiceAccount:
    """Access to Google Cloud with the tokens of a service account; `fetch` returns a token and its expiry."""

    project: str | None
    fetch: Callable[[], tuple[str, datetime | None]] = field(repr=False)
    keys: RenewedCredentials = field(init=False)

    def __post_init__(self) -> None:
        self.keys = RenewedCredentials(self._ask)

    def properties(self) -> Mapping[str, str]:
        """Return the properties with a token that is valid now. Raise SQ423x if Google refuses the key."""
        project = {"gcs.project-id": self.project} if self.project else {}
        return {**project, **self.keys.known()}

    def renew(self) -> None:
        self.keys.forget()

    def _ask(self, time: datetime) -> Credentials:
        token, expiry = self.fetch()
        expiry = expiry or time + _LIFE
        properties = {"gcs.oauth2.token": token, "gcs.oauth2.token-expires-at": str(int(expiry.timestamp() * 1000))}
        return Credentials(properties, min(expiry - time, _LIFE))


@dataclass(frozen=True, slots=True)
class GcpConnection:
    """The planned options of a GCP connection."""

    service_account_key: Mapping[str, Any]


def open_store(options: Options, secret: RevealSecret) -> ServiceAccount:
    """Return the store of a planned connection, without a request yet. Raise SQ4230 or SQ4233."""
    account = _account(reveal(codec.convert(options, GcpConnection).service_account_key, secret))
    return ServiceAccount(account.project_id, lambda: _token(account))


def _account(text: str) -> Any:  # google-auth is an extra
    """Return google-auth's credentials for a key. No error shows google-auth's text, which may quote the key."""
    try:
        from google.oauth2 import service_account
    except ModuleNotFoundError:
        raise google_auth_missing() from None
    silence_debug_logs()
    try:
        info = json.loads(text)
    except ValueError:
        raise invalid_key_error("it is not JSON") from None
    if not isinstance(info, dict) or info.get("type") != "service_account":
        raise invalid_key_error('its "type" is not "service_account"')
    absent = [name for name in ("client_email", "private_key", "token_uri") if not isinstance(info.get(name), str)]
    if absent:
        raise invalid_key_error(f'it has no "{absent[0]}"')
    try:
        return service_account.Credentials.from_service_account_info(info, scopes=_SCOPES)
    except Exception:
        raise invalid_key_error('its "private_key" cannot be read') from None


def _token(account: Any) -> tuple[str, datetime | None]:
    import requests
    from google.auth.transport.requests import Request  # installed, since the account was created

    try:
        with requests.Session() as session:
            account.refresh(partial(Request(session), timeout=_TIMEOUT_S))
    except Exception as error:
        raise failure(error) from None
    return account.token, account.expiry and account.expiry.replace(tzinfo=UTC)


def silence_debug_logs() -> None:
    """Suppress google-auth's debug messages: they show requests and responses."""
    for logger in map(logging.getLogger, _LOGGERS):
        logger.setLevel(max(logger.level, logging.INFO))


_OPTION = "SERVICE ACCOUNT KEY"


def google_auth_missing() -> SinkqlError:
    """Return the error for an extra that is not installed."""
    return SinkqlError(
        "SQ4233",
        "GCP connections need the Python package google-auth, which is not installed",
        hint="Run pip install 'sinkql[gcp]'.",
    )


def invalid_key_error(reason: str) -> SinkqlError:
    """Return the error for a secret without a valid key; `reason` does not quote the secret."""
    return SinkqlError(
        "SQ4230",
        f"SERVICE ACCOUNT KEY of the GCP connection is not the key of a service account: {reason}",
        hint="Store the whole JSON file in the secret: ALTER SECRET name AS file('key.json').",
        option=_OPTION,
    )


def failure(error: Exception) -> SinkqlError:
    """Return the coded error for an exception of a token request."""
    from google.auth import exceptions

    if isinstance(error, exceptions.RefreshError) and not error.retryable:
        return SinkqlError(
            "SQ4231",
            "Google rejects the key of the GCP connection",
            detail=str(error.args[0]) if error.args else type(error).__name__,
            hint="Check that the service account exists, is enabled and has this key. Check this machine's clock.",
            option=_OPTION,
        )
    return SinkqlError(
        "SQ4232",
        "the token server of Google does not answer, or returned no token",
        detail=f"{type(error).__name__}: {error}",
        hint="Check the network and token_uri in the key.",
        option=_OPTION,
    )
