"""Apache Iceberg: catalog connections and the sinks that write through them.

* `plan`: options of CREATE CONNECTION and CREATE SINK → what is planned of them; no pyiceberg in it.
* `table`: a planned connection → an open catalog; a table → made, or held against what a sink writes; its small files.
* `file`: rows → Parquet data files and position-delete files; the files that a table has.
* `keyindex`: where the live row of each key is: hashed keys in sorted runs, rebuilt from the table when they are lost.
* `commit`: what a snapshot says of its sink; files → manifests; a proposal lands exactly once, or is fenced.
* `compact`: small files and files with dead rows → few of the same rows.
* `write`: the tasks of append and upsert sinks, and the writer that owns a table while a job runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sinkql import ast, logical, physical
from sinkql.connectors.iceberg.plan import connection
from sinkql.connectors.iceberg.plan import sink as plan
from sinkql.connectors.iceberg.plan.connection import plan_connection
from sinkql.connectors.iceberg.plan.sink import check_supported, destination, plan_sink
from sinkql.extension.plan import Access, ConnectionKind, Connector, SinkKind
from sinkql.extension.stream import Context, Writer

if TYPE_CHECKING:
    import pyarrow as pa

# pyiceberg loads only where the outside is reached, not to plan


def _validate(planned: logical.Connection, access: Access) -> None:
    from sinkql.connectors.iceberg.table.catalog import validate

    validate(planned, access)


def _find_facts(statement: ast.CreateSink, sink: logical.Sink, access: Access) -> logical.Facts:
    from sinkql.connectors.iceberg.table.facts import find

    return find(statement, sink, access)


def _open_writer(write: physical.Write, context: Context) -> Writer:
    from sinkql.connectors.iceberg.write.writer import open_writer

    return open_writer(write, context)


def _reading(write: physical.Write, context: Context) -> list[str]:
    from sinkql.connectors.iceberg.table.reading import lines

    return lines(write, context)


def _count_rows(write: physical.Write, context: Context) -> int | None:
    from sinkql.connectors.iceberg.table.reading import count_rows

    return count_rows(write, context)


def _rows(write: physical.Write, context: Context, columns: tuple[physical.Column, ...], limit: int) -> pa.Table:
    from sinkql.connectors.iceberg.table.reading import rows

    return rows(write, context, columns, limit)


connector = Connector(
    "iceberg",
    connections=(
        ConnectionKind(
            "ICEBERG CATALOG",
            plan_connection,
            connection.CatalogOptions,
            connection.OWNER,
            connection.PLACE,
            validate=_validate,
            about="`WITH (VALIDATE = false)` after the options creates a connection without asking the catalog.",
        ),
    ),
    sinks=(
        SinkKind(
            "ICEBERG CATALOG",
            plan_sink,
            _open_writer,
            plan.TableOptions,
            plan.IcebergOptions,
            plan.OWNER,
            plan.AT_CREATION,
            formats=("PARQUET",),
            partitions=True,
            facts=_find_facts,
            check=check_supported,
            reading=_reading,
            count_rows=_count_rows,
            rows=_rows,
            destination=destination,
        ),
    ),
    tasks=("sinkql.connectors.iceberg.write.append", "sinkql.connectors.iceberg.write.upsert"),
)
