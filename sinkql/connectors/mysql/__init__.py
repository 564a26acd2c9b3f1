"""MySQL and MariaDB: connections, and sources that read tables and their changes from the server's binary log.

* `options`: The options of connections, sources and tables.
* `scaffold`: Turns the address of a server into the connection and the source that `sinkql init` writes.
* `plan`: Plans a connection, and a source with its tables from the facts of its server.
* `purify`: Reads the settings, tables, columns and keys of a server.
* `facts`: The facts of a server, as stored with the source.
* `type`: Converts column declarations to SQL types.
* `doctor`: Checks a server for problems that would stop its sources.
* `connection`: Opens connections and explains why one fails.
* `login`: Restricts how a password is sent to the server.
* `stream`: Streams the changes of captured tables from the binary log.
* `gtid`: Decodes transaction ids, and converts sets of them to positions.
* `history_check`: Detects a server that was restored from a backup, by the last transaction that was read.
* `binlog_client`: Receives the binary log as raw events.
* `binlog`: Reads events and groups them by transaction.
* `ddl`: Parses logged statements into their effects on tables.
* `binlog_sections`: The rows, ends of transactions and altered tables of a block.
* `table_map`: Decodes the layouts of tables in the log.
* `table_changes`: Matches captured tables with layouts, and decodes their changed rows.
* `rows_event`: Locates the values of row images.
* `column`: Decodes the values of a column into an Arrow array.
* `value`: Decodes single values: binary JSON, texts of a character set, and decimals.
* `snapshot`: Reads chunks of tables in one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sinkql import logical
from sinkql.capture import open_reader
from sinkql.connector_api.cdc import CapturedSource, Reveal, Stream
from sinkql.connector_api.health_check import CheckContext, HealthCheck
from sinkql.connector_api.planning import AddressKind, ConnectionKind, Connector, OutsideAccess, Progress, SourceKind
from sinkql.connector_api.stream import Offsets
from sinkql.connectors.mysql.options import CONNECTION_OWNER, ColumnOptions, MySqlOptions, SourceOptions
from sinkql.connectors.mysql.plan import PLACE, ask, plan, plan_connection, plan_table
from sinkql.connectors.mysql.scaffold import sample, scaffold_connection, scaffold_sources, table_options


def _validate(planned: logical.Connection, access: OutsideAccess) -> None:
    from sinkql.connectors.mysql.purify import validate  # PyMySQL is loaded only to connect

    validate(planned, access)


def _examine(planned: logical.Connection, examined: CheckContext, access: OutsideAccess) -> Iterator[HealthCheck]:
    from sinkql.connectors.mysql.doctor import examine

    return examine(planned, examined, access)


def _open_stream(source: CapturedSource, secret: Reveal) -> Stream:
    from sinkql.connectors.mysql.stream import open_stream  # numpy and pyarrow are loaded only in a capture

    return open_stream(source, secret)


def _progress(committed: Sequence[Offsets], captured: str | None) -> list[tuple[str]]:
    """Return the GTIDs of all transactions that were read."""
    from sinkql.connectors.mysql.gtid import set_text

    return [] if not captured else [(set_text(captured),)]


_ABOUT = """Tables of a MySQL server (8.0 or later) or a MariaDB server (10.5 or later). The binary log must have rows
with all columns and their names: `binlog_format = ROW`, `binlog_row_image = FULL`, `binlog_row_metadata = FULL`, and
on MySQL `gtid_mode = ON`."""

connector = Connector(
    "mysql",
    connections=(
        ConnectionKind(
            "MYSQL", plan_connection, MySqlOptions, CONNECTION_OWNER, PLACE, validate=_validate, examine=_examine
        ),
    ),
    sources=(
        SourceKind(
            "MYSQL",
            plan,
            open_reader,
            ColumnOptions,
            SourceOptions,
            sample=ask,
            table=plan_table,
            stream=_open_stream,
            progress=Progress((logical.Column("position", logical.Type("text"), nullable=False),), _progress),
            about=_ABOUT,
        ),
    ),
    addresses=(
        AddressKind(
            ("mysql", "mariadb"), scaffold_connection, scaffold_sources, table_options, source="MYSQL", sample=sample
        ),
    ),
)
