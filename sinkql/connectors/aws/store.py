"""Planned options of an AWS connection and its secrets → the properties that open S3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sinkql.extension.secret import reveal
from sinkql.extension.store import ObjectStore, Options, RevealSecret

_ANY_REGION = "us-east-1"
"""What servers other than AWS's own expect where no region is given."""


@dataclass(frozen=True, slots=True)
class S3:
    """Access to S3 by keys that do not change; its text shows none of them."""

    known: Mapping[str, str] = field(repr=False)

    def properties(self) -> Mapping[str, str]:
        return self.known


def open_store(options: Options, secret: RevealSecret) -> ObjectStore:
    """Return the store of a planned connection."""
    endpoint = options.get("endpoint")
    region = options.get("region") or (_ANY_REGION if endpoint else None)
    found = {
        "s3.access-key-id": reveal(options["access_key_id"], secret),
        "s3.secret-access-key": reveal(options["secret_access_key"], secret),
    }
    if "session_token" in options:
        found["s3.session-token"] = reveal(options["session_token"], secret)
    if endpoint:
        found |= {"s3.endpoint": endpoint, "s3.path-style-access": "true"}
    if region:
        found["s3.region"] = region
    return S3(found)
