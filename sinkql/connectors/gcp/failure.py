"""An exception of google-auth → one coded error with its cause, at the option that causes it."""

from __future__ import annotations

from sinkql.errors import SinkqlError

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
