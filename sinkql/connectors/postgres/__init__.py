"""Postgres: connections, and sources that read the tables of a publication and their changes.

* `connection`: The options of connections, sources and tables, and the planning of a connection.
* `scaffold`: Turns the address of a database into the connection and the source that `sinkql init` writes.
* `plan`: Plans a source and its tables from the facts of its publication.
* `facts`: Reads a publication's tables, columns, types, keys and problems from the server's catalog.
* `publication`: The facts of a publication, as stored with the source.
* `type`: Tables, columns and types of the server, and the SQL types of their values.
* `doctor`: Checks a server for problems that would stop its sources.
* `client`: Opens connections and explains why one fails.
* `stream`: Streams the changes of a source's tables from its replication slot.
* `slot`: Replication slots, positions in the server's log, and snapshots.
* `replication`: Receives the messages of a slot, and reports the confirmed place.
* `history_check`: Detects a server that was restored from a backup, by the last transaction that was read.
* `publication_monitor`: Looks at the publication regularly, and reports gaps.
* `gap_detection`: Compares states of the server's catalog to find changes that were not sent.
* `pgoutput`: Decodes blocks of replication messages into capture events.
* `relation`: Matches the layout that the stream describes with the planned table, and reports changed columns.
* `rows`: Decodes the changes of one table, all rows of a block together.
* `chunk`: Reads parts of a table in one transaction, and values that the stream omits.
* `copy`: Decodes the binary format of COPY, and records of it, into rows.
* `adbc`: Reads large tables through ADBC, in the same snapshot.
* `column`: Decodes the values of a column into an Arrow array.
* `value`: Decodes single values exactly, and says why one does not fit.
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
from sinkql.connectors.postgres.scaffold import sample, scaffold_connection, scaffold_sources, table_options

_PASSWORDS = """\
As libpq does, a connection sends the password in the way that the server asks for, even in clear text. With
`SSL MODE = 'verify_full'` only the server itself can ask. In an untrusted network without TLS, set
`PGREQUIREAUTH=scram-sha-256` in the environment of SinkQL: libpq then refuses a server that asks for less."""


def _validate(planned: logical.Connection, access: OutsideAccess) -> None:
    from sinkql.connectors.postgres.client import Login  # psycopg is loaded only to connect

    Login.planned(planned, access).connect().close()


def _examine(planned: logical.Connection, examined: CheckContext, access: OutsideAccess) -> Iterator[HealthCheck]:
    from sinkql.connectors.postgres.doctor import examine

    return examine(planned, examined, access)


def _open_stream(source: CapturedSource, secret: Reveal) -> Stream:
    from sinkql.connectors.postgres.stream import open_stream

    return open_stream(source, secret)


def _forget(source: CapturedSource, secret: Reveal) -> None:
    from sinkql.connectors.postgres.stream import forget_source

    forget_source(source, secret)


def _report_progress(committed: Sequence[Offsets], captured: str | None) -> list[tuple[Decimal]]:
    """Return the position up to which the server's log is read, in bytes as `pg_lsn` counts them."""
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
            progress=Progress((logical.Column("lsn", logical.Type("uint8"), nullable=False),), _report_progress),
        ),
    ),
    addresses=(
        AddressKind(
            ("postgres", "postgresql"),
            scaffold_connection,
            scaffold_sources,
            table_options,
            source="POSTGRES",
            sample=sample,
        ),
    ),
)
