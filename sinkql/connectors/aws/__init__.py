"""AWS connections: access to S3, for whoever reads or writes there.

* `plan`: the statement's options → the plan's, checked.
* `store`: the planned options and secrets → an object store's properties.

PrivateLink and the schema registry of Glue are declared, and not supported yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from sinkql import ast
from sinkql.connectors.aws.plan import OWNER, AwsOptions, plan
from sinkql.connectors.aws.store import open_store
from sinkql.extension.plan import ConnectionKind, Connector, Later


@dataclass(frozen=True, slots=True)
class PrivateLinkOptions:
    """The options of TO AWS PRIVATELINK, and those of USING AWS PRIVATELINK."""

    service_name: str
    availability_zones: tuple[str, ...]
    availability_zone: str | None = None
    port: int | None = None


@dataclass(frozen=True, slots=True)
class GlueOptions:
    """The options of TO AWS GLUE SCHEMA REGISTRY."""

    aws_connection: ast.Name
    registry: str


connector = Connector(
    "aws",
    connections=(ConnectionKind("AWS", plan, AwsOptions, OWNER, ("ENDPOINT",), store=open_store),),
    later=(
        Later("CONNECTION", "AWS PRIVATELINK", PrivateLinkOptions),
        Later("CONNECTION", "AWS GLUE SCHEMA REGISTRY", GlueOptions),
    ),
)
