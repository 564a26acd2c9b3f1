"""The key of a service account → the properties that open Cloud Storage, with a token that is valid now.

An exception of google-auth → one coded error with its cause, at the option that causes it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from sinkql.connector_api.options import reveal
from sinkql.errors import SinkqlError
from sinkql.object_store.store import Credentials, Options, RenewedCredentials, RevealSecret

_SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_LIFE = timedelta(hours=1)
"""How long Google's tokens are valid, where their server does not say it."""
_TIMEOUT_S = 20.0
_LOGGERS = ("google", "urllib3")


@dataclass(slots=True)
class ServiceAccount:
    """Access to Google Cloud by the tokens of a service account, of which `fetch` gets one, and its end."""

    project: str | None
    fetch: Callable[[], tuple[str, datetime | None]] = field(repr=False)
    keys: RenewedCredentials = field(init=False)

    def __post_init__(self) -> None:
        self.keys = RenewedCredentials(self._ask)

    def properties(self) -> Mapping[str, str]:
        """Return the properties with a token that is valid now; raises SQ423x."""
        project = {"gcs.project-id": self.project} if self.project else {}
        return {**project, **self.keys.known()}

    def renew(self) -> None:
        self.keys.forget()

    def _ask(self, time: datetime) -> Credentials:
        token, end = self.fetch()
        end = end or time + _LIFE
        known = {"gcs.oauth2.token": token, "gcs.oauth2.token-expires-at": str(int(end.timestamp() * 1000))}
        return Credentials(known, min(end - time, _LIFE))


def open_store(options: Options, secret: RevealSecret) -> ServiceAccount:
    """Return the store of a planned connection; reaches nothing yet. Raises SQ4230 and SQ4233."""
    account = _account(reveal(options["service_account_key"], secret))
    return ServiceAccount(account.project_id, lambda: _token(account))


def _account(text: str) -> Any:  # google-auth is an extra
    """Return google-auth's credentials of a key; what it says of a key that is none may quote it."""
    try:
        from google.oauth2 import service_account
    except ModuleNotFoundError:
        raise no_google_auth() from None
    hush()
    try:
        info = json.loads(text)
    except ValueError:
        raise bad_key("it is not JSON") from None
    if not isinstance(info, dict) or info.get("type") != "service_account":
        raise bad_key('its "type" is not "service_account"')
    absent = [name for name in ("client_email", "private_key", "token_uri") if not isinstance(info.get(name), str)]
    if absent:
        raise bad_key(f'it has no "{absent[0]}"')
    try:
        return service_account.Credentials.from_service_account_info(info, scopes=_SCOPES)
    except Exception:
        raise bad_key('its "private_key" cannot be read') from None


def _token(account: Any) -> tuple[str, datetime | None]:
    import requests
    from google.auth.transport.requests import Request  # there, since the account is

    try:
        with requests.Session() as session:
            account.refresh(partial(Request(session), timeout=_TIMEOUT_S))
    except Exception as error:
        raise failure(error) from None
    return account.token, account.expiry and account.expiry.replace(tzinfo=UTC)


def hush() -> None:
    """Keep google-auth's debug messages back: they show requests and answers."""
    for logger in map(logging.getLogger, _LOGGERS):
        logger.setLevel(max(logger.level, logging.INFO))


_OPTION = "SERVICE ACCOUNT KEY"


def no_google_auth() -> SinkqlError:
    """Return the error where the extra is not installed."""
    return SinkqlError(
        "SQ4233",
        "GCP connections need the Python package google-auth, which is not installed",
        hint="Run pip install 'sinkql[gcp]'.",
    )


def bad_key(why: str) -> SinkqlError:
    """Return the error for a secret that has no key; `why` quotes nothing of it."""
    return SinkqlError(
        "SQ4230",
        f"SERVICE ACCOUNT KEY of the GCP connection is not the key of a service account: {why}",
        hint="Give the secret the whole file of JSON: ALTER SECRET name AS file('key.json').",
        option=_OPTION,
    )


def failure(error: Exception) -> SinkqlError:
    """Return the error to show for what a request for a token raised."""
    from google.auth import exceptions

    if isinstance(error, exceptions.RefreshError) and not error.retryable:
        return SinkqlError(
            "SQ4231",
            "Google rejects the key of the GCP connection",
            detail=str(error.args[0]) if error.args else type(error).__name__,
            hint="Check that the service account exists, is enabled and has this key, and that this machine's clock is "
            "right.",
            option=_OPTION,
        )
    return SinkqlError(
        "SQ4232",
        "the server that gives Google's tokens does not answer, or gives none",
        detail=f"{type(error).__name__}: {error}",
        hint="Check the network, and token_uri in the key.",
        option=_OPTION,
    )
