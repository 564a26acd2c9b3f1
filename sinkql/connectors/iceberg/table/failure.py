"""An exception of a catalog or a storage → one coded error with its cause and what to do."""

from __future__ import annotations

import re

import requests
from pydantic import ValidationError
from pyiceberg import exceptions as iceberg
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError, SQLAlchemyError

from sinkql.connectors.iceberg.storage import closed, of_storage, untrusted
from sinkql.errors import SinkqlError, disk_full

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
_NO_WAREHOUSE = re.compile(
    r"(?i)(?:^|[\s:(])warehouse\s(?:[^\s/]+\s)?(?:(?:is|was|does)\s)?(?:not known|unknown|not exist|not found)\b"
)  # the same words may stand beside a path, of which warehouse is a part
_OF_TABLES = ("TableResponse", "CommitTableResponse")
"""What pyiceberg takes replies for that have a table in them: who asks for one has heard from the catalog before."""
_NO_CATALOG = ("Could not decode json payload", "Received unexpected JSON Payload")
_WRONG_CODES = ("unrecognizedclient", "invalidaccesskeyid", "invalidclienttokenid", "expiredtoken", "invalidtoken")
_TOKEN = re.compile(r"(?i)(x-amz-security-token:)[^\s\\\"']+")
"""What AWS repeats of a request whose signature is wrong: its session token."""
_WRONG_KEYS = ("signature", "access key", "security token", *_WRONG_CODES)


def transient(error: Exception) -> bool:
    """Tell whether the same request may succeed a little later."""
    if isinstance(error, requests.exceptions.SSLError):
        return False
    if isinstance(error, requests.RequestException | OperationalError):
        return not isinstance(error, requests.exceptions.InvalidURL | requests.exceptions.MissingSchema)
    if isinstance(error, OSError) and not isinstance(error, PermissionError | FileNotFoundError):
        return not untrusted(error)
    return isinstance(error, _UNREACHABLE) or _torn(error) or _metastore_away(error)


def explain(error: Exception, name: str) -> SinkqlError:
    """Return the error to show for what the catalog of connection `name`, or its storage, raised."""
    if isinstance(error, SinkqlError):
        return error
    cause = _TOKEN.sub(r"\1***", f"{type(error).__name__}: {error}")
    if (full := disk_full(error)) is not None:
        return full
    if type(error).__module__.startswith("botocore"):
        return _of_aws(error, name)
    if _torn(error):
        return SinkqlError(
            "SQ4208",
            f'the Iceberg catalog of connection "{name}" answers with something that is not a table',
            detail=cause,
            hint="Look at the log of the catalog, and at what is between it and SinkQL.",
        )
    if isinstance(error, (*_WRONG_ADDRESS, ValidationError)) or _from_no_catalog(error, cause):
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
            hint="Set REQUESTS_CA_BUNDLE to the certificate of its authority, or write http:// if it speaks no TLS.",
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
        return _forbidden(name, cause)
    if isinstance(error, iceberg.ServerError) and _NO_WAREHOUSE.search(cause):
        return _no_warehouse(name, cause)
    if isinstance(error, OperationalError) and "readonly database" in cause:
        return closed(f'the folder of connection "{name}"', cause)
    if isinstance(error, (*_UNREACHABLE, requests.RequestException)) or _metastore_away(error):
        return SinkqlError(
            "SQ4201",
            f'the Iceberg catalog of connection "{name}" does not answer',
            detail=cause,
            hint="Check URL in CREATE CONNECTION, and that the catalog runs.",
            option="URL",
        )
    if isinstance(error, OSError):
        return of_storage(error, f'the storage behind connection "{name}"', cause)
    if type(error) is iceberg.RESTError and "notfound" in cause.lower() and "warehouse" not in cause.lower():
        return SinkqlError(
            "SQ4206",
            f'the URL of connection "{name}" does not lead to a catalog',
            detail=cause,
            hint="Check the path in URL in CREATE CONNECTION: the catalog adds /v1 to it.",
            option="URL",
        )
    if isinstance(error, iceberg.RESTError | iceberg.NoSuchNamespaceError) or "warehouse" in cause.lower():
        return _no_warehouse(name, cause)
    if isinstance(error, SQLAlchemyError):
        return SinkqlError(
            "SQ4207",
            f'the database of connection "{name}" fails',
            detail=cause,
            hint="Check URL in CREATE CONNECTION.",
            option="URL",
        )
    return SinkqlError("SQ4208", f'the Iceberg catalog of connection "{name}" fails', detail=cause)


def _no_warehouse(name: str, cause: str) -> SinkqlError:
    return SinkqlError(
        "SQ4204",
        f'the Iceberg catalog of connection "{name}" does not know the warehouse, or rejects the request',
        detail=cause,
        hint="Check WAREHOUSE and URL in CREATE CONNECTION, and that the credential, the keys or the role of the "
        "connection may use the warehouse.",
        option="WAREHOUSE",
    )


def _torn(error: Exception) -> bool:
    """Tell whether a catalog has answered with a table that cannot be read: its reply was cut off, or changed."""
    return isinstance(error, ValidationError) and error.title in _OF_TABLES


def _metastore_away(error: Exception) -> bool:
    """Tell whether a Hive metastore does not answer; its client is of an extra, and so known by its name alone."""
    return type(error).__module__.startswith("thrift.transport")


def _from_no_catalog(error: Exception, cause: str) -> bool:
    """Tell whether an answer is not a catalog's; what refuses, or is down for a while, may answer in its own way."""
    if isinstance(error, (*_UNREACHABLE, *_REFUSED)):
        return False
    if isinstance(error, iceberg.ForbiddenError) and "<?xml" not in cause and "<html" not in cause.lower():
        return False  # AWS refuses in JSON of its own
    return any(word in cause for word in _NO_CATALOG)


def _forbidden(name: str, cause: str) -> SinkqlError:
    if any(word in cause.lower() for word in _WRONG_KEYS):
        return SinkqlError(
            "SQ4211",
            f'the Iceberg catalog of connection "{name}" rejects the keys that its requests are signed with',
            detail=cause,
            hint="Check the keys, the role and the region of the AWS connection.",
            option="AWS CONNECTION",
        )
    return SinkqlError(
        "SQ4203",
        f'the Iceberg catalog of connection "{name}" does not allow this operation',
        detail=cause,
        hint="Grant the connection's principal the right to create and write tables.",
        option="CREDENTIAL",
    )


def _of_aws(error: Exception, name: str) -> SinkqlError:
    """Return the error for what boto3 raised. AWS's messages stay out, one of them has a session token in it."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        if any(word in code.lower() for word in (*_WRONG_CODES, "signature", "denied")):
            return _forbidden(name, code)
        return SinkqlError("SQ4208", f'the Iceberg catalog of connection "{name}" fails', detail=code)
    if isinstance(error, exceptions.ConnectionError | exceptions.HTTPClientError):
        return SinkqlError(
            "SQ4201",
            f'the Iceberg catalog of connection "{name}" does not answer',
            detail=type(error).__name__,
            hint="Check URL and the region of the AWS connection, and that the catalog runs.",
            option="URL",
        )
    return SinkqlError("SQ4208", f'the Iceberg catalog of connection "{name}" fails', detail=type(error).__name__)
