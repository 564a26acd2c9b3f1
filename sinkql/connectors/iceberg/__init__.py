"""Apache Iceberg: catalog connections and the sinks that write through them.

* `connection`: options of CREATE CONNECTION … TO ICEBERG CATALOG → the plan's, checked by catalog type.
* `plan`: options and columns of CREATE SINK … INTO ICEBERG CATALOG → the plan's, with the table's column types.
* `catalog`, `failure`: a planned connection → an open catalog; its failures → coded errors.
* `types`, `table`: SQL columns → the table's schema; the table is created, or held against it.
* `facts`: does the catalog answer, and what is in the target table.
* `datafile`: rows → a Parquet file and its manifest entry; `append`: the task of append sinks.
* `keyhash`, `run`, `index`, `deletes`, `upsert`, `rebuild`: the key index, and the task of upsert sinks with it.
* `target`, `folder`: one table of one catalog; small files beside its metadata.
* `marker`, `snapshot`: what a snapshot says of its sink; files → manifests, requirements and updates.
* `claim`, `batch`: what is committed; `commit` lands it exactly once, `conflict` tells what others did meanwhile.
* `mode`, `keyed`: what differs between append and upsert sinks in the life of a batch.
* `expire`: old snapshots go with the files that only they reach.
* `writer`: a job's write → a `Writer` over all of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sinkql import ast, logical, physical
from sinkql.connector.options import labels
from sinkql.connector.plan import ConnectionKind, Connector, SinkKind, World
from sinkql.connector.stream import Context, Writer
from sinkql.connectors.iceberg import connection, plan
from sinkql.connectors.iceberg.connection import SUPPORTED, not_supported, plan_connection
from sinkql.connectors.iceberg.plan import check_supported, plan_sink

if TYPE_CHECKING:
    import pyarrow as pa

# pyiceberg loads only where the outside is reached, not to plan


def _validate(planned: logical.Connection, world: World) -> None:
    from sinkql.connectors.iceberg.catalog import validate

    if planned.options["catalog_type"] not in SUPPORTED:
        raise not_supported(planned, span=None)
    validate(planned, world)


def _find_facts(statement: ast.CreateSink, sink: logical.Sink, world: World) -> logical.Facts:
    from sinkql.connectors.iceberg.facts import find

    return find(statement, sink, world)


def _open_writer(write: physical.Write, context: Context) -> Writer:
    from sinkql.connectors.iceberg.writer import open_writer

    return open_writer(write, context)


def _reading(write: physical.Write, context: Context) -> list[str]:
    from sinkql.connectors.iceberg.reading import lines

    return lines(write, context)


def _count_rows(write: physical.Write, context: Context) -> int | None:
    from sinkql.connectors.iceberg.reading import count_rows

    return count_rows(write, context)


def _rows(write: physical.Write, context: Context, columns: tuple[physical.Column, ...], limit: int) -> pa.Table:
    from sinkql.connectors.iceberg.reading import rows

    return rows(write, context, columns, limit)


connector = Connector(
    "iceberg",
    connections=(
        ConnectionKind(
            "ICEBERG CATALOG",
            plan_connection,
            validate=_validate,
            owner=connection.OWNER,
            options=labels(connection.CatalogOptions),
            fixed=connection.PLACE,
            takes=connection.CatalogOptions,
        ),
    ),
    sinks=(
        SinkKind(
            "ICEBERG CATALOG",
            plan_sink,
            _open_writer,
            facts=_find_facts,
            check=check_supported,
            reading=_reading,
            count_rows=_count_rows,
            rows=_rows,
            owner=plan.OWNER,
            options=labels(plan.IcebergOptions),
            fixed=plan.AT_CREATION,
            takes=plan.TableOptions,
            takes_with=plan.IcebergOptions,
        ),
    ),
)
