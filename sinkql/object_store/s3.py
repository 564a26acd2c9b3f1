"""An object store's keys → a client of S3; what its requests raise → one coded error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sinkql.errors import SinkqlError
from sinkql.object_store.aws_failure import failure
from sinkql.object_store.signing import signing_session
from sinkql.object_store.store import ObjectStore

SCHEME = "s3://"
_REGION = "us-east-1"
_CONNECT_S, _READ_S, _TRIES = 5.0, 30.0, 4
_OTHER_REGION = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException")
_DENIED = ("AccessDenied", "AllAccessDisabled", "403", "Forbidden")


@dataclass(frozen=True, slots=True)
class S3Credentials:
    """Keys as they were when a task got them."""

    known: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, store: ObjectStore) -> S3Credentials:
        """Return the keys that a store has now."""
        return cls(dict(store.properties()))

    def properties(self) -> Mapping[str, str]:
        return self.known

    def renew(self) -> None:
        """Do nothing: the task ends, and the next one gets new keys."""


def s3_client(store: ObjectStore, who: str) -> Any:  # boto3 has no types
    """Return a client that tries each request a few times; raises SQ4228, which names `who`, without boto3."""
    known = store.properties()
    region = known.get("s3.region") or _REGION
    session = signing_session(store, region, who)
    from botocore.config import Config  # there, since the session is

    style = {"addressing_style": "path"} if known.get("s3.path-style-access") == "true" else {}
    settings = Config(
        connect_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        retries={"mode": "standard", "total_max_attempts": _TRIES},
        s3=style,
        response_checksum_validation="when_required",
    )
    return session.create_client("s3", region, endpoint_url=known.get("s3.endpoint"), config=settings)


def code_of(error: Exception) -> str:
    """Return the code that a store answered with; nothing where it did not answer."""
    response: Mapping[str, Any] = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def s3_failure(error: Exception, bucket: str, store: ObjectStore, *, allow: str, option: str) -> SinkqlError:
    """Return the error to show for what a request to a bucket raised; keys that have expired are renewed.

    `allow` is what its keys must be allowed, and `option` the one that names the bucket.
    """
    code, what = code_of(error), f"{SCHEME}{bucket}"
    if code == "NoSuchBucket":
        return SinkqlError(
            "SQ3307",
            f'bucket "{bucket}" does not exist',
            hint="Correct the path, or ENDPOINT of the AWS connection, or create the bucket.",
            option=option,
        )
    if code in _EXPIRED:
        store.renew()
        return SinkqlError(
            "SQ4308",
            f'the keys to "{what}" have expired',
            detail=code,
            hint="A role is assumed again by itself; a SESSION TOKEN has to be replaced, with its keys.",
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
            hint="Set REGION, or ENDPOINT, in CREATE CONNECTION … TO AWS.",
            option=option,
        )
    return failure(error)
