"""Postgres: connections, and sources that read a publication's tables and their changes.

* `connection`: the words of connections, sources and tables.
* `connection`, `client`: a connection's options, and an open connection; what keeps it from opening.
* `type`, `publication`: tables, columns and types as the server has them; what is known of a publication.
* `facts`, `type_catalog`: the server is asked → what planning must know.
* `scaffold`: an address → a connection and a source, as `sinkql init` writes them.
* `doctor`: the server is asked → what may keep sources from running.
* `plan`: a statement and the facts → what each table reads.
* `gap_detection`, `gap_detection`: the server's catalog, now and then → the tables of which it has not sent all
  changes.
* `stream`, `slot`: a source's slot → the changes of its tables; positions in the server's log, and snapshots.
* `pgoutput`, `relation`, `rows`, `rows`: what is received, a block at a time → rows, a table and a column at a time.
* `column`, `value`: values of a type → an Arrow column; one value exactly, and why it does not fit.
* `chunk`, `copy`: parts of a table as one transaction sees them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from sinkql import logical
from sinkql.capture import open_reader
from sinkql.connector_api.cdc import CapturedSource, Reveal, Stream
from sinkql.connector_api.health_check import CheckContext, HealthCheck
from sinkql.connector_api.planning import AddressKind, ConnectionKind, Connector, OutsideAccess, Progress, SourceKind
from sinkql.connector_api.source_options import CaptureOptions
from sinkql.connector_api.stream import Offsets
from sinkql.connectors.postgres.connection import (
    CONNECTION_OWNER,
    PLACE,
    PostgresOptions,
    PublicationOptions,
    plan_connection,
)
from sinkql.connectors.postgres.plan import ask, plan, plan_table
from sinkql.connectors.postgres.scaffold import draft_connection, draft_sources, sample, table_options

_PASSWORDS = """\
As libpq does, a connection gives the password in the way that the server asks for, in clear text too if it asks for
that. With `SSL MODE = 'verify_full'` only the server itself can ask. Where the network is not trusted and there is no
TLS, set `PGREQUIREAUTH=scram-sha-256` in the environment of SinkQL: libpq then refuses a server that asks for less."""


def _validate(planned: logical.Connection, access: OutsideAccess) -> None:
    from sinkql.connectors.postgres.client import Login  # psycopg, only where a server is asked

    Login.planned(planned, access).connect().close()


def _examine(planned: logical.Connection, examined: CheckContext, access: OutsideAccess) -> Iterator[HealthCheck]:
    from sinkql.connectors.postgres.doctor import examine

    return examine(planned, examined, access)


def _open_stream(source: CapturedSource, secret: Reveal) -> Stream:
    from sinkql.connectors.postgres.client import Login, failure
    from sinkql.connectors.postgres.stream import PostgresStream

    assert source.connection is not None
    return PostgresStream(Login.of(source.connection, secret), source, failure)


def _forget(source: CapturedSource, secret: Reveal) -> None:
    from sinkql.connectors.postgres.client import Login, failure
    from sinkql.connectors.postgres.stream import forget

    assert source.connection is not None
    forget(Login.of(source.connection, secret), source, failure)


def _progress(committed: Sequence[Offsets], captured: str | None) -> list[tuple[Decimal]]:
    """Return up to where the log of the server is read, in bytes as `pg_lsn` counts them."""
    return [] if not captured else [(Decimal(int(captured[8:], 16)),)]


connector = Connector(
    "postgres",
    connections=(
        ConnectionKind(
            "POSTGRES",
            plan_connection,
            PostgresOptions,
            CONNECTION_OWNER,
            PLACE,
            validate=_validate,
            examine=_examine,
            about=_PASSWORDS,
        ),
    ),
    sources=(
        SourceKind(
            "POSTGRES",
            plan,
            open_reader,
            PublicationOptions,
            CaptureOptions,
            sample=ask,
            table=plan_table,
            stream=_open_stream,
            forget=_forget,
            progress=Progress((logical.Column("lsn", logical.Type("uint8"), nullable=False),), _progress),
        ),
    ),
    addresses=(
        AddressKind(
            ("postgres", "postgresql"), draft_connection, draft_sources, table_options, source="POSTGRES", sample=sample
        ),
    ),
)
