"""Connections to Google Cloud: access to Cloud Storage and to BigLake's catalog.

* `store`: Exchange a service account's key for tokens, renew them, and convert errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sinkql import ast, logical
from sinkql.connector_api.options import SecretOnly, bind, option_field, secret_data
from sinkql.connector_api.planning import ConnectionKind, Connector, OutsideAccess, PlanningContext
from sinkql.connectors.gcp.store import open_store

OWNER = "GCP connections"

_ABOUT = """\
The secret holds the JSON key file of a service account: `CREATE SECRET s AS file('key.json')`. SinkQL renews the
account's tokens when half of their time has passed. Requests to BigLake are billed to the key's project. Connections
need `pip install 'sinkql[gcp]'`. `WITH (VALIDATE)` after the options checks the key when the connection is created. The
tests use a server that emulates Google's, not Google's servers."""


@dataclass(frozen=True, slots=True)
class GcpOptions:
    """The options of TO GCP."""

    service_account_key: SecretOnly = option_field("the JSON key of the service account")


def plan(statement: ast.CreateConnection, planning: PlanningContext) -> Mapping[str, Any]:
    """Return the options: a reference to the secret with the key, which is not read yet."""
    options = bind(statement.options, GcpOptions, owner=OWNER, span=statement.kind_span, secret=planning.secret)
    return {"service_account_key": secret_data(options.service_account_key)}


def _validate(connection: logical.Connection, access: OutsideAccess) -> None:
    """Request a token."""
    open_store(connection.options, access.secret).properties()


connector = Connector(
    "gcp",
    connections=(
        ConnectionKind(
            "GCP",
            plan,
            GcpOptions,
            OWNER,
            validate=_validate,
            validates_unasked=False,
            store=open_store,
            about=_ABOUT,
        ),
    ),
)
