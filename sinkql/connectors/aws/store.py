"""Planned options of an AWS connection and its secrets → the properties that open S3, as they are now.

VALIDATE CONNECTION of an AWS connection: do its keys, or its role, get in.

Planned options of an AWS connection → a client of one of AWS's services, which says nothing secret to logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sinkql import logical
from sinkql.connector_api.options import reveal
from sinkql.connector_api.planning import OutsideAccess
from sinkql.errors import SinkqlError
from sinkql.object_store.s3 import boto3_missing, failure, silence_debug_logs
from sinkql.object_store.store import Credentials, ObjectStore, Options, RenewedCredentials, RevealSecret

LIFE = timedelta(hours=1)
"""How long a role is assumed for: all roles allow an hour, and those that were assumed by a role no more."""
_SESSION_NAME = "sinkql"


@dataclass(frozen=True, slots=True)
class S3:
    """Access to S3 by keys that do not change; its text shows none of them."""

    known: Mapping[str, str] = field(repr=False)

    def properties(self) -> Mapping[str, str]:
        return self.known

    def renew(self) -> None:
        """Do nothing: there are no other keys."""


@dataclass(slots=True)
class Role:
    """Access to S3 by a role, which is assumed anew once half of its time is over. `request` is that of AssumeRole."""

    request: Mapping[str, Any]
    place: Mapping[str, str]
    connect: Callable[[], Any] = field(repr=False)  # boto3 has no types
    keys: RenewedCredentials = field(init=False)

    def __post_init__(self) -> None:
        self.keys = RenewedCredentials(self._assume)

    def properties(self) -> Mapping[str, str]:
        """Return the properties with keys that are valid now; raises SQ422x."""
        return {**self.place, **self.keys.known()}

    def renew(self) -> None:
        self.keys.forget()

    def _assume(self, time: datetime) -> Credentials:
        try:
            given = self.connect().assume_role(**self.request)["Credentials"]
        except Exception as error:
            raise failure(error, role=self.request["RoleArn"]) from None
        keys = {
            "s3.access-key-id": given["AccessKeyId"],
            "s3.secret-access-key": given["SecretAccessKey"],
            "s3.session-token": given["SessionToken"],
        }
        return Credentials(keys, min(given["Expiration"] - time, LIFE))


def open_store(options: Options, secret: RevealSecret) -> ObjectStore:
    """Return the store of a planned connection."""
    place = _place(options)
    if "assume_role_arn" in options:
        return Role(_request(options), place, lambda: client("sts", options))
    found = {
        "s3.access-key-id": reveal(options["access_key_id"], secret),
        "s3.secret-access-key": reveal(options["secret_access_key"], secret),
    }
    if "session_token" in options:
        found["s3.session-token"] = reveal(options["session_token"], secret)
    return S3({**found, **place})


def _place(options: Options) -> dict[str, str]:
    endpoint = options.get("endpoint")
    region = options.get("region") or (ANY_REGION if endpoint else None)
    place = {"s3.endpoint": endpoint, "s3.path-style-access": "true"} if endpoint else {}
    return {**place, "s3.region": region} if region else place


def _request(options: Options) -> dict[str, Any]:
    request = {
        "RoleArn": options["assume_role_arn"],
        "RoleSessionName": options.get("assume_role_session_name", _SESSION_NAME),
        "DurationSeconds": int(LIFE.total_seconds()),
    }
    external = options.get("assume_role_external_id")
    return {**request, "ExternalId": external} if external else request


def validate(connection: logical.Connection, access: OutsideAccess) -> None:
    """Ask who the keys belong to; a role is assumed first. Raises SQ422x."""
    options = connection.options
    keys = open_store(options, access.secret).properties()
    try:
        if "endpoint" in options:
            _ask_store(options, keys)
        else:
            client("sts", options, keys).get_caller_identity()
    except Exception as error:
        raise _placed(failure(error), options) from None


def _placed(error: SinkqlError, options: Options) -> SinkqlError:
    """Return the error at the option that it is about: without ENDPOINT, the host comes of REGION."""
    if error.option != "ENDPOINT" or "endpoint" in options:
        return error
    hint = "Check REGION of the AWS connection, and the network."
    return SinkqlError(error.code, error.message, detail=error.detail, hint=hint, option="REGION")


def _ask_store(options: Options, keys: Mapping[str, str]) -> None:
    """List buckets: any S3 has that. Who may not is known all the same."""
    asked = client("s3", options, keys)
    from botocore.exceptions import ClientError  # there, since the client is

    try:
        asked.list_buckets()
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") != "AccessDenied":
            raise


ANY_REGION = "us-east-1"
"""What servers other than AWS's own expect where no region is given, and where AWS's STS always answers."""
_CONNECT_S, _READ_S, _TRIES = 5.0, 20.0, 3


def client(service: str, options: Options, keys: Mapping[str, str] | None = None) -> Any:  # boto3 has no types
    """Return a client with keys as a store's properties have them, or else with this machine's own credentials.

    Raises SQ4228 without boto3.
    """
    try:
        import boto3  # an extra
        from botocore.config import Config
    except ModuleNotFoundError:
        raise boto3_missing("AWS connections") from None
    silence_debug_logs()
    given = keys or {}
    session = boto3.session.Session(
        aws_access_key_id=given.get("s3.access-key-id"),
        aws_secret_access_key=given.get("s3.secret-access-key"),
        aws_session_token=given.get("s3.session-token"),
        region_name=options.get("region") or ANY_REGION,
    )
    retries = {"mode": "standard", "total_max_attempts": _TRIES}
    patience = Config(connect_timeout=_CONNECT_S, read_timeout=_READ_S, retries=retries)
    return session.client(service, endpoint_url=options.get("endpoint"), config=patience)
