"""Open S3 and clients of AWS services for a planned AWS connection.

A connection has keys, or a role that is assumed again when half of its time has passed. VALIDATE CONNECTION checks that
the keys or the role are accepted. No log line shows a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sinkql import logical
from sinkql.connector_api.options import reveal
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connectors.aws.plan import AwsConnection
from sinkql.errors import SinkqlError
from sinkql.object_store.s3 import boto3_missing, failure, new_session, silence_debug_logs
from sinkql.object_store.store import Credentials, ObjectStore, Options, RenewedCredentials, RevealSecret

LIFE = timedelta(hours=1)
"""How long an assumed role is valid: every role allows an hour, and role chaining allows no longer time."""
_SESSION_NAME = "sinkql"


@dataclass(frozen=True, slots=True)
class S3:
    """Access to S3 with fixed keys; its `repr` shows none of them."""

    values: Mapping[str, str] = field(repr=False)

    def properties(self) -> Mapping[str, str]:
        return self.values

    def renew(self) -> None:
        """Do nothing: the keys are fixed."""


@dataclass(slots=True)
class Role:
    """Access to S3 with a role, assumed again when half of its time has passed. `request` is that of AssumeRole."""

    request: Mapping[str, Any]
    location: Mapping[str, str]
    connect: Callable[[], Any] = field(repr=False)  # boto3 has no types
    keys: RenewedCredentials = field(init=False)

    def __post_init__(self) -> None:
        self.keys = RenewedCredentials(self._assume)

    def properties(self) -> Mapping[str, str]:
        """Return the properties with keys that are valid now. Raise SQ422x if AWS refuses the role."""
        return {**self.location, **self.keys.current()}

    def renew(self) -> None:
        self.keys.forget()

    def _assume(self, time: datetime) -> Credentials:
        try:
            credentials = self.connect().assume_role(**self.request)["Credentials"]
        except Exception as error:
            raise failure(error, role=self.request["RoleArn"]) from None
        keys = {
            "s3.access-key-id": credentials["AccessKeyId"],
            "s3.secret-access-key": credentials["SecretAccessKey"],
            "s3.session-token": credentials["SessionToken"],
        }
        return Credentials(keys, min(credentials["Expiration"] - time, LIFE))


def open_store(options: Options, secret: RevealSecret) -> ObjectStore:
    """Return the store of a planned connection."""
    return _open(AwsConnection.from_plan(options), secret)


def _open(connection: AwsConnection, secret: RevealSecret) -> ObjectStore:
    location = _location(connection)
    if connection.assume_role_arn is not None:
        return Role(_request(connection), location, lambda: client("sts", connection))
    keys = {
        "s3.access-key-id": connection.access_key_id,
        "s3.secret-access-key": connection.secret_access_key,
        "s3.session-token": connection.session_token,
    }
    return S3({**{name: reveal(key, secret) for name, key in keys.items() if key is not None}, **location})


def _location(connection: AwsConnection) -> dict[str, str]:
    endpoint = connection.endpoint
    region = connection.region or (ANY_REGION if endpoint else None)
    location = {"s3.endpoint": endpoint, "s3.path-style-access": "true"} if endpoint else {}
    return {**location, "s3.region": region} if region else location


def _request(connection: AwsConnection) -> dict[str, Any]:
    request = {
        "RoleArn": connection.assume_role_arn,
        "RoleSessionName": connection.assume_role_session_name or _SESSION_NAME,
        "DurationSeconds": int(LIFE.total_seconds()),
    }
    external = connection.assume_role_external_id
    return {**request, "ExternalId": external} if external else request


def validate(connection: logical.Connection, access: OutsideAccess) -> None:
    """Check that AWS accepts the keys or the role. Raise SQ422x."""
    options = AwsConnection.from_plan(connection.options)
    keys = _open(options, access.secret).properties()
    try:
        if options.endpoint is not None:
            _ask_store(options, keys)
        else:
            client("sts", options, keys).get_caller_identity()
    except Exception as error:
        raise _with_option(failure(error), options) from None


def _with_option(error: SinkqlError, options: AwsConnection) -> SinkqlError:
    """Return the error with the option at fault: without ENDPOINT, REGION determines the host."""
    if error.option != "ENDPOINT" or options.endpoint is not None:
        return error
    hint = "Check REGION of the AWS connection, and the network."
    return SinkqlError(error.code, error.message, detail=error.detail, hint=hint, option="REGION")


def _ask_store(options: AwsConnection, keys: Mapping[str, str]) -> None:
    """List buckets, which every S3 server supports. A user without the permission is authenticated all the same."""
    store = client("s3", options, keys)
    from botocore.exceptions import ClientError  # installed, since the client was created

    try:
        store.list_buckets()
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") != "AccessDenied":
            raise


ANY_REGION = "us-east-1"
"""The region that other servers than AWS expect by default, and in which STS of AWS always answers."""
_CONNECT_S, _READ_S, _TRIES = 5.0, 20.0, 3


def client(service: str, connection: AwsConnection, keys: Mapping[str, str] | None = None) -> Any:  # untyped
    """Return a client with the keys of a store's properties, or else with this machine's credentials.

    Raise SQ4228 if boto3 is not installed.
    """
    try:
        from botocore.config import Config  # an extra
    except ModuleNotFoundError:
        raise boto3_missing("AWS connections") from None
    silence_debug_logs()
    properties = keys or {}
    retries = {"mode": "standard", "total_max_attempts": _TRIES}
    return new_session().create_client(
        service,
        connection.region or ANY_REGION,
        endpoint_url=connection.endpoint,
        aws_access_key_id=properties.get("s3.access-key-id"),
        aws_secret_access_key=properties.get("s3.secret-access-key"),
        aws_session_token=properties.get("s3.session-token"),
        config=Config(connect_timeout=_CONNECT_S, read_timeout=_READ_S, retries=retries),
    )
