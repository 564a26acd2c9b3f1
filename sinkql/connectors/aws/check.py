"""VALIDATE CONNECTION of an AWS connection: do its keys, or its role, get in."""

from __future__ import annotations

from collections.abc import Mapping

from sinkql import logical
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connectors.aws.session import client
from sinkql.connectors.aws.store import open_store
from sinkql.errors import SinkqlError
from sinkql.object_store.aws_failure import failure
from sinkql.object_store.store import Options


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
