"""MySQL and MariaDB: connections, and sources that read tables and their changes from the server's binary log.

* `options`: the words of connections, sources and tables.
* `facts`: what is known of a server and its tables; `type`: a column's declaration ↔ SinkQL's type.
* `scaffold`: an address → a connection and a source, as `sinkql init` writes them.
* `plan`: a statement and the facts → what each table reads.
* `connection`: a connection's options → an open one; what it fails with. `purify`, `purify`, `doctor`: the
  server is asked.
* `gtid`: sets of transactions ↔ positions that sort; `gtid`: MySQL's ids and sets of them, as bytes.
* `binlog_client`, `binlog`, `ddl`: the log as bytes → events → rows events by table, and what statements do to tables.
* `table_map`, `rows_event`, `column`: a table's layout → where values stand → Arrow arrays; `value`, `value`,
  `value`.
* `rows_event`: a row that does not decode → what can be read of it.
* `table`: rows events of a table → its changes. `snapshot`, `snapshot`: parts of tables, as a query prints them.
* `stream`: all of that, as a capture asks for it.
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
from sinkql.connectors.mysql.scaffold import draft_connection, draft_sources, sample, table_options


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
            ("mysql", "mariadb"), draft_connection, draft_sources, table_options, source="MYSQL", sample=sample
        ),
    ),
)
