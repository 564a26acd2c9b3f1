"""An exception of a catalog or a storage → one coded error with its cause and what to do."""

from __future__ import annotations

import requests
from pyiceberg import exceptions as iceberg
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError, SQLAlchemyError

from sinkql.errors import SinkqlError, no_room

_UNREACHABLE = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    iceberg.ServiceUnavailableError,
    iceberg.CommitStateUnknownException,
    iceberg.ServerError,
    iceberg.TooManyRequestsError,
    OperationalError,
)
_REFUSED = (iceberg.UnauthorizedError, iceberg.OAuthError, iceberg.AuthorizationExpiredError)
_WRONG_ADDRESS = (requests.exceptions.InvalidURL, requests.exceptions.MissingSchema, ArgumentError, NoSuchModuleError)
_OTHER_REGION = ("301", "redirect", "region", "authorizationheadermalformed")
_STORAGE_WORDS = ("aws error", "s3", "bucket", "curl")


def transient(error: Exception) -> bool:
    """Tell whether the same request may succeed a little later."""
    if isinstance(error, requests.RequestException | OperationalError):
        return not isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.MissingSchema)
    if isinstance(error, OSError) and not isinstance(error, PermissionError | FileNotFoundError):
        return True
    return isinstance(error, _UNREACHABLE)


def explain(error: Exception, name: str) -> SinkqlError:
    """Return the error to show for what the catalog of connection `name`, or its storage, raised."""
    if isinstance(error, SinkqlError):
        return error
    cause = f"{type(error).__name__}: {error}"
    if (full := no_room(error)) is not None:
        return full
    if isinstance(error, _WRONG_ADDRESS):
        return SinkqlError(
            "SQ4206",
            f'the URL of connection "{name}" does not lead to a catalog',
            detail=cause,
            hint="Check URL in CREATE CONNECTION.",
        )
    if isinstance(error, _REFUSED):
        return SinkqlError(
            "SQ4202",
            f'the Iceberg catalog of connection "{name}" rejects the credential',
            detail=cause,
            hint="Check CREDENTIAL, SCOPE and OAUTH2 SERVER URL in CREATE CONNECTION.",
        )
    if isinstance(error, iceberg.ForbiddenError):
        return SinkqlError(
            "SQ4203",
            f'the Iceberg catalog of connection "{name}" does not allow this operation',
            detail=cause,
            hint="Grant the credential's principal the right to create and write tables.",
        )
    if isinstance(error, OperationalError) and "readonly database" in cause:
        return _closed(name, cause)
    if isinstance(error, (*_UNREACHABLE, requests.RequestException)):
        return SinkqlError(
            "SQ4201",
            f'the Iceberg catalog of connection "{name}" does not answer',
            detail=cause,
            hint="Check URL in CREATE CONNECTION, and that the catalog runs.",
        )
    if isinstance(error, OSError):
        return _storage(error, name, cause)
    if isinstance(error, iceberg.RESTError | iceberg.NoSuchNamespaceError) or "warehouse" in cause.lower():
        return SinkqlError(
            "SQ4204",
            f'the Iceberg catalog of connection "{name}" does not know the warehouse, or rejects the request',
            detail=cause,
            hint="Check WAREHOUSE and URL in CREATE CONNECTION.",
        )
    if isinstance(error, SQLAlchemyError):
        return SinkqlError(
            "SQ4207", f'the database of connection "{name}" fails', detail=cause, hint="Check URL in CREATE CONNECTION."
        )
    return SinkqlError("SQ4208", f'the Iceberg catalog of connection "{name}" fails', detail=cause)


def _storage(error: OSError, name: str, cause: str) -> SinkqlError:
    text = cause.lower()
    remote = any(word in text for word in _STORAGE_WORDS)
    if remote and any(word in text for word in _OTHER_REGION):
        return SinkqlError(
            "SQ4303",
            f'the storage behind connection "{name}" is in another region',
            detail=cause,
            hint="Set REGION, or ENDPOINT, in CREATE CONNECTION … TO AWS.",
        )
    if remote and any(
        word in text for word in ("access_denied", "forbidden", "invalid_access_key", "signature", "403")
    ):
        return SinkqlError(
            "SQ4302",
            f'the storage behind connection "{name}" denies access',
            detail=cause,
            hint="Add USING AWS CONNECTION to CREATE SINK, with a key that may read and write the bucket.",
        )
    if isinstance(error, PermissionError) or error.errno in (13, 30):
        return _closed(name, cause)
    return SinkqlError(
        "SQ4304",
        f'the storage behind connection "{name}" fails',
        detail=cause,
        hint="Check WAREHOUSE, and that the storage answers and has room.",
    )


def _closed(name: str, cause: str) -> SinkqlError:
    return SinkqlError(
        "SQ4301",
        f'the folder of connection "{name}" cannot be written',
        detail=cause,
        hint="Give this user the right to write there. A running sink goes on by itself.",
    )
