"""A planned sink → what its catalog says of the target table: the last check before it is created, or altered.

A sink's table → its rows, under the names that its columns have with the sink's next claim.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from sinkql import ast, logical, physical
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connector_api.stream import Context, PlanChange, plan_change_of
from sinkql.connectors.iceberg.commit import checkpoint as markers
from sinkql.connectors.iceberg.commit.proposal import schema_of_claim
from sinkql.connectors.iceberg.file.reader import scanned
from sinkql.connectors.iceberg.storage import stores_of
from sinkql.connectors.iceberg.table import reader
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.schema import Layout
from sinkql.connectors.iceberg.table.table import Expected, check, compare, foreign_rows, rows, with_schema
from sinkql.connectors.iceberg.table.target import Patience, TargetTable
from sinkql.errors import SinkqlError

_PATIENCE = Patience(tries=2)  # somebody is waiting at a prompt


def find(
    statement: ast.CreateSink, sink: logical.Sink, access: OutsideAccess, *, job: physical.Job | None = None
) -> logical.Facts:
    """Return `{"table": None}`, or the table's uuid, columns and location; raises as a run of the sink would.

    The job is that of a sink that goes on, whose claim may give the table other columns.
    """
    connection = access.connection(sink.connection)
    try:
        stores = stores_of(connection.options, access.store, access.store(sink.store) if sink.store else None)
        catalog = open_catalog(connection.name, connection.options, access, stores)
        target = TargetTable(
            catalog,
            sink.options["namespace"],
            sink.options["table"],
            connection.name,
            patience=_PATIENCE,
            branch=sink.options.get("branch"),
        )
        try:
            table = target.load()
        except NoSuchTableError:
            return {"table": None}
        columns = tuple(physical.Column(each.name, each.type, each.nullable) for each in sink.shape.columns)
        expected = Expected(
            columns,
            changelog=sink.changelog,
            upsert=sink.mode is logical.SinkMode.UPSERT,
            layout=Layout.of(sink.options),
            version=sink.options.get("format_version", 2),
        )
        check(table, expected, _coming(table, expected, job))
        if sink.options.get("existing_rows") is None and rows(table):
            raise foreign_rows(table)
        return {"table": _described(table)}
    except SinkqlError as error:
        error.span = error.span or statement.connection.span
        raise


def _coming(table: Table, expected: Expected, job: physical.Job | None) -> Schema | None:
    """Return the schema that the table gets with the job's next claim, if it lacks columns that it is to have."""
    if job is None or not compare(table.schema(), expected):
        return None
    return schema_of_claim(
        table, expected, markers.find(table, job.sink_id), sink=job.sink_id, switch=plan_change_of(job)
    )


def _described(table: Table) -> dict[str, Any]:
    return {
        "uuid": str(table.metadata.table_uuid),
        "location": table.location(),
        "columns": {field.name: str(field.field_type) for field in table.schema().fields},
    }


def current_rows(
    write: physical.Write,
    context: Context,
    columns: tuple[physical.Column, ...],
    limit: int,
    *,
    switch: PlanChange | None = None,
) -> pa.Table:
    """Return up to `limit` rows of the table as they are now, in the columns' declared types; none without a table.

    Columns that the table gets with the sink's next claim are NULL. Raises SQ3504 where it has others in their place.
    """
    table = reader.load(write, context)
    if table is not None and switch is not None:
        table = _claimed(table, write, context.sink_id, switch)
    return reader.rows(table, columns, lambda table, names: scanned(table, names, limit))


def _claimed(table: Table, write: physical.Write, sink: str, switch: PlanChange) -> Table:
    """Return the table with the columns that a claim gives it; as it is, where its claim would fail."""
    kept = None
    with suppress(SinkqlError):
        kept = markers.find(table, sink)
    if kept is not None and kept.marker.plan in switch.again:
        return table  # whose columns come with the rows
    expected = Expected(write.columns, write.changelog, write.mode == "upsert")
    return with_schema(table, schema_of_claim(table, expected, kept, sink=sink, switch=switch))
