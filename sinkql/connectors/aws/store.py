"""Planned options of an AWS connection and its secrets → the properties that open S3, as they are now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

from sinkql.connectors.aws.session import ANY_REGION, client
from sinkql.errors import SinkqlError
from sinkql.extension.aws_failure import failure
from sinkql.extension.secret import reveal
from sinkql.extension.store import ObjectStore, Options, RevealSecret

LIFE = timedelta(hours=1)
"""How long a role is assumed for: all roles allow an hour, and those that were assumed by a role no more."""
_LAST = timedelta(minutes=2)
_PAUSE = timedelta(seconds=30)
_SESSION_NAME = "sinkql"


def now() -> datetime:
    """Return the time, with its zone."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class S3:
    """Access to S3 by keys that do not change; its text shows none of them."""

    known: Mapping[str, str] = field(repr=False)

    def properties(self) -> Mapping[str, str]:
        return self.known


@dataclass(frozen=True, slots=True)
class _Held:
    keys: Mapping[str, str] = field(repr=False)
    renew_at: datetime
    expires_at: datetime


@dataclass(slots=True)
class Role:
    """Access to S3 by a role, which is assumed anew once half of its time is over: what gets keys has half an hour.

    While AWS does not answer, the keys that are there go on to their end. `request` is that of AssumeRole.
    """

    request: Mapping[str, Any]
    place: Mapping[str, str]
    connect: Callable[[], Any] = field(repr=False)  # boto3 has no types
    clock: Callable[[], datetime] = now
    _held: _Held | None = field(default=None, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def properties(self) -> Mapping[str, str]:
        """Return the properties with keys that are valid now; raises SQ422x."""
        with self._lock:
            held, time = self._held, self.clock()
            if held is None or time >= held.renew_at:
                try:
                    held = self._assume(time)
                except SinkqlError:
                    if held is None or time >= held.expires_at - _LAST:
                        raise
                    held = _Held(held.keys, time + _PAUSE, held.expires_at)
                self._held = held
            return {**self.place, **held.keys}

    def _assume(self, time: datetime) -> _Held:
        try:
            given = self.connect().assume_role(**self.request)["Credentials"]
        except Exception as error:
            raise failure(error, role=self.request["RoleArn"]) from None
        keys = {
            "s3.access-key-id": given["AccessKeyId"],
            "s3.secret-access-key": given["SecretAccessKey"],
            "s3.session-token": given["SessionToken"],
        }
        life = min(given["Expiration"] - time, LIFE)
        return _Held(keys, time + life / 2, time + life)


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
