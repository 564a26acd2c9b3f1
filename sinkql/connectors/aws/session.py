"""Planned options of an AWS connection → a client of one of AWS's services, which says nothing secret to logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sinkql.object_store.boto import boto3_missing, silence_debug_logs
from sinkql.object_store.store import Options

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
