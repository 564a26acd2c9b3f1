"""AWS connections: access to S3, for whoever reads or writes there.

* `plan`: the statement's options → the plan's, checked.
* `store`: the planned options and secrets → an object store's properties.
"""

from sinkql.connector.options import labels
from sinkql.connector.plan import ConnectionKind, Connector
from sinkql.connectors.aws.plan import OWNER, AwsOptions, plan
from sinkql.connectors.aws.store import open_store

connector = Connector(
    "aws",
    connections=(
        ConnectionKind(
            "AWS",
            plan,
            store=open_store,
            owner=OWNER,
            options=labels(AwsOptions),
            fixed=("ENDPOINT",),
            takes=AwsOptions,
        ),
    ),
)
