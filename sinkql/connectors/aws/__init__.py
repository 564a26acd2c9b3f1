"""Connections to AWS: access to S3 and to catalogs of AWS.

The options of PrivateLink and of Glue's schema registry are declared; connections that use them are refused.

* `plan`: Check the options of the statement.
* `store`: Open an object store or a client, assume roles, and check the credentials.
"""

from __future__ import annotations

from dataclasses import dataclass

from sinkql import ast
from sinkql.connector_api.planning import ConnectionKind, Connector, UnsupportedKind
from sinkql.connectors.aws.plan import OWNER, AwsOptions, plan
from sinkql.connectors.aws.store import open_store, validate


@dataclass(frozen=True, slots=True)
class PrivateLinkOptions:
    """The options of TO AWS PRIVATELINK and of USING AWS PRIVATELINK."""

    service_name: str
    availability_zones: tuple[str, ...]
    availability_zone: str | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class GlueOptions:
    """The options of TO AWS GLUE SCHEMA REGISTRY."""

    aws_connection: ast.Name
    registry: str


_ABOUT = """\
A connection has a role or a pair of keys. SinkQL assumes the role with the AWS credentials of the machine that runs
the sink (`AWS_PROFILE`, `AWS_ACCESS_KEY_ID` or the instance). The keys of a role are valid for an hour, and SinkQL
renews them after half an hour. With `ENDPOINT`, requests to STS go to that endpoint too. Roles, `VALIDATE CONNECTION`,
files in S3 and AWS catalogs need boto3: `pip install 'sinkql[aws]'`. `WITH (VALIDATE)` after the options checks the
connection when it is created."""


connector = Connector(
    "aws",
    connections=(
        ConnectionKind(
            "AWS",
            plan,
            AwsOptions,
            OWNER,
            ("ENDPOINT",),
            validate=validate,
            validates_unasked=False,
            store=open_store,
            about=_ABOUT,
        ),
    ),
    later=(
        UnsupportedKind("CONNECTION", "AWS PRIVATELINK", PrivateLinkOptions),
        UnsupportedKind("CONNECTION", "AWS GLUE SCHEMA REGISTRY", GlueOptions),
    ),
)
