"""Postgres: connections, and sources that read a publication's tables and their changes.

* `options`: the words of connections, sources and tables.
* `connection`, `connect`: a connection's options, and an open connection; what keeps it from opening.
* `types`, `publication`: tables, columns and types as the server has them; what is known of a publication.
* `facts`, `typecatalog`: the server is asked → what planning must know.
* `plan`: a statement and the facts → what each table reads.
"""

from __future__ import annotations

from sinkql import logical
from sinkql.capture import open_reader
from sinkql.connectors.postgres.connection import PLACE, plan_connection
from sinkql.connectors.postgres.options import CONNECTION_OWNER, PostgresOptions, PublicationOptions
from sinkql.connectors.postgres.plan import ask, plan, plan_table
from sinkql.extension.keeping import KeepingOptions
from sinkql.extension.plan import Access, ConnectionKind, Connector, SourceKind


def _validate(planned: logical.Connection, access: Access) -> None:
    from sinkql.connectors.postgres.connect import Login  # psycopg, only where a server is asked

    Login.planned(planned, access).connect().close()


connector = Connector(
    "postgres",
    connections=(
        ConnectionKind("POSTGRES", plan_connection, PostgresOptions, CONNECTION_OWNER, PLACE, validate=_validate),
    ),
    sources=(
        SourceKind("POSTGRES", plan, open_reader, PublicationOptions, KeepingOptions, sample=ask, table=plan_table),
    ),
)
