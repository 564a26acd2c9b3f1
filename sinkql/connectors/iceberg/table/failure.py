"""Convert exceptions of a catalog or its storage into coded errors."""

from __future__ import annotations

import re
import sys

import requests
from pydantic import ValidationError
from pyiceberg import exceptions as iceberg

from sinkql.connectors.iceberg.storage import is_untrusted, not_writable_error, storage_error
from sinkql.errors import SinkqlError, disk_full

_UNREACHABLE = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    iceberg.ServiceUnavailableError,
    iceberg.CommitStateUnknownException,
    iceberg.ServerError,
    iceberg.TooManyRequestsError,
)
_REFUSED = (iceberg.UnauthorizedError, iceberg.OAuthError, iceberg.AuthorizationExpiredError)
_WRONG_ADDRESS = (requests.exceptions.InvalidURL, requests.exceptions.MissingSchema)
_NO_WAREHOUSE = re.compile(
    r"(?i)(?:^|[\s:(])warehouse\s(?:[^\s/]+\s)?(?:(?:is|was|does)\s)?(?:not known|unknown|not exist|not found)\b"
)  # the same words may follow a path that contains "warehouse"
_OF_TABLES = ("TableResponse", "CommitTableResponse")
"""pyiceberg's names of replies with a table. Requests for them follow a successful request to the catalog."""
_NO_CATALOG = ("Could not decode json payload", "Received unexpected JSON Payload")
_WRONG_CODES = ("unrecognizedclient", "invalidaccesskeyid", "invalidclienttokenid", "expiredtoken", "invalidtoken")
_TOKEN = re.compile(r"(?i)(x-amz-security-token:)[^\s\\\"']+")
"""The session token, which AWS repeats in the answer to a request with a wrong signature."""
_WRONG_KEYS = ("signature", "access key", "security token", *_WRONG_CODES)


def is_transient(error: Exception) -> bool:
    """Return whether the same request may succeed a little later."""
    if isinstance(error, requests.exceptions.SSLError):
        return False
    if isinstance(error, requests.RequestException) or _is_of_sqlalchemy(error, "OperationalError"):
        return not isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.MissingSchema)
    if isinstance(error, OSError) and not isinstance(error, PermissionError | FileNotFoundError):
        return not is_untrusted(error)
    return _is_unreachable(error) or _is_torn(error) or _is_metastore_down(error)


def _is_unreachable(error: Exception) -> bool:
    """Return whether the catalog does not answer."""
    return isinstance(error, _UNREACHABLE) or _is_of_sqlalchemy(error, "OperationalError")


def _is_of_sqlalchemy(error: Exception, *classes: str) -> bool:
    """Return whether an error belongs to classes of SQLAlchemy, which only SQL catalogs import."""
    module = sys.modules.get("sqlalchemy.exc")
    return module is not None and isinstance(error, tuple(getattr(module, name) for name in classes))


def catalog_error(error: Exception, name: str) -> SinkqlError:
    """Return the coded error for an exception of the catalog of connection `name`, or of its storage."""
    if isinstance(error, SinkqlError):
        return error
    cause = _TOKEN.sub(r"\1***", f"{type(error).__name__}: {error}")
    if (full := disk_full(error)) is not None:
        return full
    if type(error).__module__.startswith("botocore"):
        return _aws_error(error, name)
    if _is_torn(error):
        return SinkqlError(
            "SQ4208",
            f'the Iceberg catalog of connection "{name}" returned an invalid table',
            detail=cause,
            hint="Check the log of the catalog, and proxies between SinkQL and the catalog.",
        )
    if (
        isinstance(error, (*_WRONG_ADDRESS, ValidationError))
        or _is_of_sqlalchemy(error, "ArgumentError", "NoSuchModuleError")
        or _is_not_a_catalog(error, cause)
    ):
        return SinkqlError(
            "SQ4206",
            f'the URL of connection "{name}" does not lead to a catalog',
            detail=cause,
            hint="Check URL in CREATE CONNECTION.",
            option="URL",
        )
    if isinstance(error, requests.exceptions.SSLError):
        return SinkqlError(
            "SQ4209",
            f'the certificate of the Iceberg catalog of connection "{name}" is not trusted',
            detail=cause,
            hint="Set REQUESTS_CA_BUNDLE to the certificate of its authority, or use http:// if it has no TLS.",
            option="URL",
        )
    if isinstance(error, _REFUSED):
        scope = "scope" in cause.lower()
        return SinkqlError(
            "SQ4202",
            f'the Iceberg catalog of connection "{name}" rejects the {"scope" if scope else "credential"}',
            detail=cause,
            hint="Check CREDENTIAL, SCOPE and OAUTH2 SERVER URL, or GCP CONNECTION, in CREATE CONNECTION.",
            option="SCOPE" if scope else "CREDENTIAL",
        )
    if isinstance(error, iceberg.ForbiddenError):
        return _forbidden_error(name, cause)
    if isinstance(error, iceberg.ServerError) and _NO_WAREHOUSE.search(cause):
        return _no_warehouse_error(name, cause)
    if _is_of_sqlalchemy(error, "OperationalError") and "readonly database" in cause:
        return not_writable_error(f'the folder of connection "{name}"', cause)
    if _is_unreachable(error) or isinstance(error, requests.RequestException) or _is_metastore_down(error):
        return SinkqlError(
            "SQ4201",
            f'the Iceberg catalog of connection "{name}" does not answer',
            detail=cause,
            hint="Check URL in CREATE CONNECTION, and whether the catalog is running.",
            option="URL",
        )
    if isinstance(error, OSError):
        return storage_error(error, f'the storage behind connection "{name}"', cause)
    if type(error) is iceberg.RESTError and "notfound" in cause.lower() and "warehouse" not in cause.lower():
        return SinkqlError(
            "SQ4206",
            f'the URL of connection "{name}" does not lead to a catalog',
            detail=cause,
            hint="Check the path in URL in CREATE CONNECTION: the catalog adds /v1 to it.",
            option="URL",
        )
    if isinstance(error, iceberg.RESTError | iceberg.NoSuchNamespaceError) or "warehouse" in cause.lower():
        return _no_warehouse_error(name, cause)
    if _is_of_sqlalchemy(error, "SQLAlchemyError"):
        return SinkqlError(
            "SQ4207",
            f'the database of connection "{name}" returned an error',
            detail=cause,
            hint="Check URL in CREATE CONNECTION.",
            option="URL",
        )
    return SinkqlError("SQ4208", f'the Iceberg catalog of connection "{name}" returned an error', detail=cause)


def _no_warehouse_error(name: str, cause: str) -> SinkqlError:
    return SinkqlError(
        "SQ4204",
        f'the Iceberg catalog of connection "{name}" does not know the warehouse, or rejects the request',
        detail=cause,
        hint="Check WAREHOUSE and URL in CREATE CONNECTION. Check also that the credential, keys or role of the "
        "connection may use the warehouse.",
        option="WAREHOUSE",
    )


def _is_torn(error: Exception) -> bool:
    """Return whether a catalog's reply has an invalid table, because it was cut off or changed."""
    return isinstance(error, ValidationError) and error.title in _OF_TABLES


def _is_metastore_down(error: Exception) -> bool:
    """Return whether a Hive metastore does not answer, by the name of the error's module, which requires an extra."""
    return type(error).__module__.startswith("thrift.transport")


def _is_not_a_catalog(error: Exception, cause: str) -> bool:
    """Return whether another kind of server answered. A catalog's refusal or outage may have any form."""
    if _is_unreachable(error) or isinstance(error, _REFUSED):
        return False
    if isinstance(error, iceberg.ForbiddenError) and "<?xml" not in cause and "<html" not in cause.lower():
        return False  # AWS has a different form of refusal in JSON
    return any(word in cause for word in _NO_CATALOG)


def _forbidden_error(name: str, cause: str) -> SinkqlError:
    if any(word in cause.lower() for word in _WRONG_KEYS):
        return SinkqlError(
            "SQ4211",
            f'the Iceberg catalog of connection "{name}" rejects the keys that sign its requests',
            detail=cause,
            hint="Check the keys, the role and the region of the AWS connection.",
            option="AWS CONNECTION",
        )
    return SinkqlError(
        "SQ4203",
        f'the Iceberg catalog of connection "{name}" does not allow this operation',
        detail=cause,
        hint="Allow the connection's principal to create and write tables.",
        option="CREDENTIAL",
    )


def _aws_error(error: Exception, name: str) -> SinkqlError:
    """Return the coded error for an exception of boto3, without AWS's message, which may contain a session token."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        if any(word in code.lower() for word in (*_WRONG_CODES, "signature", "denied")):
            return _forbidden_error(name, code)
        return SinkqlError("SQ4208", f'the Iceberg catalog of connection "{name}" returned an error', detail=code)
    if isinstance(error, exceptions.ConnectionError | exceptions.HTTPClientError):
        return SinkqlError(
            "SQ4201",
            f'the Iceberg catalog of connection "{name}" does not answer',
            detail=type(error).__name__,
            hint="Check URL and the region of the AWS connection, and whether the catalog is running.",
            option="URL",
        )
    return SinkqlError(
        "SQ4208", f'the Iceberg catalog of connection "{name}" returned an error', detail=type(error).__name__
    )
