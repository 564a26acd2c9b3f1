"""An object store's keys → a session of botocore that signs with those that hold at each request."""

from __future__ import annotations

from typing import Any

from sinkql.object_store.boto import boto3_missing, silence_debug_logs
from sinkql.object_store.store import ObjectStore

CATALOGS = "catalogs of AWS"


def signing_session(store: ObjectStore, region: str, who: str = CATALOGS) -> Any:  # botocore has no types
    """Return the session; raises SQ4228, which names `who`, without boto3."""
    try:
        from botocore.credentials import CredentialProvider, CredentialResolver, Credentials, ReadOnlyCredentials
        from botocore.session import Session
    except ModuleNotFoundError:
        raise boto3_missing(who) from None
    silence_debug_logs()

    class Asked(Credentials):  # type: ignore[misc]  # it has no types
        def get_frozen_credentials(self) -> Any:
            now = store.properties()
            return ReadOnlyCredentials(
                now["s3.access-key-id"], now["s3.secret-access-key"], now.get("s3.session-token"), None
            )

    class Provider(CredentialProvider):  # type: ignore[misc]  # it has no types
        METHOD = CANONICAL_NAME = "sinkql"

        def load(self) -> Any:
            return Asked("asked", "asked")

    session = Session()
    session.set_config_variable("region", region)
    session.lazy_register_component("credential_provider", lambda: CredentialResolver([Provider()]))
    return session
