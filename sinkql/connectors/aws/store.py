"""Planned options of an AWS connection and its secrets → the properties that open S3, as they are now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sinkql.connector_api.secret import reveal
from sinkql.connectors.aws.session import ANY_REGION, client
from sinkql.object_store.aws_failure import failure
from sinkql.object_store.renewal import Credentials, RenewedCredentials
from sinkql.object_store.store import ObjectStore, Options, RevealSecret

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
