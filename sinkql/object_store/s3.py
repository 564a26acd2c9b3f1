"""Create clients and sessions of S3 and AWS from an object store's keys, and convert the errors of requests.

Sessions sign each request with the store's current keys. boto3's loggers are silenced below INFO.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sinkql.errors import SinkqlError
from sinkql.object_store.store import ObjectStore

SCHEME = "s3://"
_REGION = "us-east-1"
_CONNECT_S, _READ_S, _TRIES = 5.0, 30.0, 4
_OTHER_REGION = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException")
_DENIED = ("AccessDenied", "AllAccessDisabled", "403", "Forbidden")


@dataclass(frozen=True, slots=True)
class S3Credentials:
    """The keys of a store at one time, for a task."""

    keys: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_store(cls, store: ObjectStore) -> S3Credentials:
        """Return the current keys of a store."""
        return cls(dict(store.properties()))

    def properties(self) -> Mapping[str, str]:
        return self.keys

    def renew(self) -> None:
        """Do nothing: the task ends, and the next task gets new keys."""


def s3_client(store: ObjectStore, who: str) -> Any:  # boto3 has no types
    """Return a client that tries each request a few times; raise SQ4228, which names `who`, without boto3."""
    properties = store.properties()
    region = properties.get("s3.region") or _REGION
    session = signing_session(store, region, who)
    from botocore.config import Config  # installed, as the session exists

    style = {"addressing_style": "path"} if properties.get("s3.path-style-access") == "true" else {}
    settings = Config(
        connect_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        retries={"mode": "standard", "total_max_attempts": _TRIES},
        s3=style,
        response_checksum_validation="when_required",
    )
    return session.create_client("s3", region, endpoint_url=properties.get("s3.endpoint"), config=settings)


def code_of(error: Exception) -> str:
    """Return the error code of a store's answer; an empty text if it did not answer."""
    response: Mapping[str, Any] = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def s3_failure(error: Exception, bucket: str, store: ObjectStore, *, allow: str, option: str) -> SinkqlError:
    """Return the coded error for a failed request to a bucket; expired keys are renewed.

    `allow` lists the permissions that the keys need, and `option` names the option of the bucket.
    """
    code, what = code_of(error), f"{SCHEME}{bucket}"
    if code == "NoSuchBucket":
        return SinkqlError(
            "SQ3307",
            f'bucket "{bucket}" does not exist',
            hint="Correct the path or ENDPOINT of the AWS connection, or create the bucket.",
            option=option,
        )
    if code in _EXPIRED:
        store.renew()
        return SinkqlError(
            "SQ4308",
            f'the keys to "{what}" have expired',
            detail=code,
            hint="SinkQL renews the keys of a role automatically. Replace a SESSION TOKEN together with its keys.",
            option="SESSION TOKEN",
        )
    if code in _DENIED:
        return SinkqlError(
            "SQ3308",
            f'"{what}" denies access',
            detail=code,
            hint=f"Allow the keys or the role of the AWS connection {allow}.",
            option=option,
        )
    if code in _OTHER_REGION:
        return SinkqlError(
            "SQ4303",
            f'"{what}" is in another region',
            detail=code,
            hint="Set REGION or ENDPOINT in CREATE CONNECTION … TO AWS.",
            option=option,
        )
    return failure(error)


_AWS_FAILURE_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "InvalidToken")
_WRONG_KEYS = (
    "InvalidClientTokenId",
    "InvalidAccessKeyId",
    "UnrecognizedClientException",
    "SignatureDoesNotMatch",
    "AuthFailure",
    "IncompleteSignature",
    "InvalidSignatureException",
)
_AWS_FAILURE_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "NoSuchEntity")


def failure(error: Exception, *, role: str | None = None) -> SinkqlError:
    """Return the coded error for a failed request to AWS; `role` is the role to assume, if any.

    Messages of AWS are left out, because the message about a wrong signature contains the session token of the request.
    """
    if isinstance(error, SinkqlError):
        return error
    from botocore import exceptions

    match error:
        case exceptions.ClientError():
            code: str = error.response.get("Error", {}).get("Code", "")
            return _error_of_code(code, role)
        case (
            exceptions.NoCredentialsError()
            | exceptions.PartialCredentialsError()
            | exceptions.CredentialRetrievalError()
        ):
            return SinkqlError(
                "SQ4224",
                "this machine has no AWS credentials to assume the role with",
                detail=type(error).__name__,
                hint="Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
                option="ASSUME ROLE ARN",
            )
        case exceptions.InvalidRegionError() | exceptions.NoRegionError():
            return SinkqlError(
                "SQ4225",
                "REGION of the AWS connection is not the name of a region",
                detail=type(error).__name__,
                hint="Write the bucket's region, for example REGION = 'us-east-1'.",
                option="REGION",
            )
        case exceptions.SSLError():
            return SinkqlError(
                "SQ4227",
                "the certificate of ENDPOINT of the AWS connection is not trusted",
                detail=type(error).__name__,
                hint="Set AWS_CA_BUNDLE and SSL_CERT_FILE to the certificate of its authority, or write http:// if the "
                "server has no TLS.",
                option="ENDPOINT",
            )
        case exceptions.ConnectionError() | exceptions.HTTPClientError() | exceptions.IncompleteReadError():
            return SinkqlError(
                "SQ4223",
                "AWS does not answer",
                detail=type(error).__name__,
                hint="Check ENDPOINT and REGION of the AWS connection, and the network.",
                option="ENDPOINT",
            )
        case _:
            return _unknown_error(type(error).__name__)


def _error_of_code(code: str, role: str | None) -> SinkqlError:
    if code in _AWS_FAILURE_EXPIRED and role is not None:
        return SinkqlError(
            "SQ4220",
            "the AWS session of this machine has expired",
            detail=code,
            hint="Log in again, or set a new AWS_SESSION_TOKEN.",
            option="ASSUME ROLE ARN",
        )
    if code in _AWS_FAILURE_EXPIRED:
        return SinkqlError(
            "SQ4221",
            "the session token of the AWS connection has expired or is wrong",
            detail=code,
            hint="Set the secrets to the keys and token of a new session, or use a role, whose keys SinkQL renews.",
            option="SESSION TOKEN",
        )
    if code in _WRONG_KEYS:
        return SinkqlError(
            "SQ4220",
            "AWS rejected the keys of this machine" if role else "AWS rejected the keys of the connection",
            detail=code,
            hint="Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
            if role
            else "Check ACCESS KEY ID and SECRET ACCESS KEY.",
            option="ASSUME ROLE ARN" if role else "ACCESS KEY ID",
        )
    if role is not None and code in _AWS_FAILURE_DENIED:
        return SinkqlError(
            "SQ4222",
            f'role "{role}" cannot be assumed',
            detail=code,
            hint="Allow it in the role's trust policy for the AWS credentials of this machine, "
            "with the same external id.",
            option="ASSUME ROLE ARN",
        )
    if code.isdigit() and code.startswith("4") and code != "403":  # the answer had a status without an AWS code
        return no_s3()
    return _unknown_error(code)


def no_s3() -> SinkqlError:
    """Return the error for a server that answers, but not as S3."""
    return SinkqlError(
        "SQ4223",
        "the server at ENDPOINT of the AWS connection does not answer like S3",
        hint="Check ENDPOINT. The console and the catalog of a server have other ports than its S3.",
        option="ENDPOINT",
    )


def _unknown_error(cause: str) -> SinkqlError:
    return SinkqlError("SQ4226", "AWS returned an error", detail=cause, hint="Try again. The detail names the cause.")


_LOGGERS = ("boto3", "botocore", "urllib3")


def silence_debug_logs() -> None:
    """Suppress botocore's debug messages: they show session tokens, signatures and answers of services."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _LOGGERS]
    for logger in map(logging.getLogger, {*names, *_LOGGERS}):
        logger.setLevel(max(logger.level, logging.INFO))


def boto3_missing(who: str) -> SinkqlError:
    """Return the error for features that need boto3 if it is not installed."""
    return SinkqlError(
        "SQ4228",
        f"{who} need the Python package boto3, which is not installed",
        hint="Run pip install 'sinkql[aws]'.",
    )


CATALOGS = "catalogs of AWS"


def signing_session(store: ObjectStore, region: str, who: str = CATALOGS) -> Any:  # botocore has no types
    """Return a botocore session that signs with the current keys; raise SQ4228, which names `who`, without boto3."""
    try:
        from botocore.credentials import CredentialProvider, CredentialResolver, Credentials, ReadOnlyCredentials
    except ModuleNotFoundError:
        raise boto3_missing(who) from None
    silence_debug_logs()

    class CurrentCredentials(Credentials):  # type: ignore[misc]  # it has no types
        def get_frozen_credentials(self) -> Any:
            now = store.properties()
            return ReadOnlyCredentials(
                now["s3.access-key-id"], now["s3.secret-access-key"], now.get("s3.session-token"), None
            )

    class Provider(CredentialProvider):  # type: ignore[misc]  # it has no types
        METHOD = CANONICAL_NAME = "sinkql"

        def load(self) -> Any:
            return CurrentCredentials("asked", "asked")

    session = new_session()
    session.set_config_variable("region", region)
    session.lazy_register_component("credential_provider", lambda: CredentialResolver([Provider()]))
    return session


def new_session() -> Any:  # botocore has no types
    """Return a botocore session that shares the descriptions of services with this process's other sessions."""
    from botocore.session import Session

    session = Session()
    session.register_component("data_loader", _data_loader())
    return session


@cache
def _data_loader() -> Any:
    """Return botocore's loader of descriptions, which caches them: reading those of S3 takes a tenth of a second."""
    from botocore.session import Session

    return Session().get_component("data_loader")
