"""Check the target table of a sink before it is created or altered, and read the table's current rows.

Rows come under the names that the columns have with the sink's next claim.
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
from sinkql.connectors.iceberg.commit import checkpoint as checkpoints
from sinkql.connectors.iceberg.commit.proposal import schema_of_claim
from sinkql.connectors.iceberg.file.reader import scanned
from sinkql.connectors.iceberg.plan.options import IcebergSink
from sinkql.connectors.iceberg.storage import stores_of
from sinkql.connectors.iceberg.table import reader
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.schema import Layout
from sinkql.connectors.iceberg.table.table import (
    Expected,
    check_table,
    column_differences,
    count_rows,
    foreign_rows_error,
    with_schema,
)
from sinkql.connectors.iceberg.table.target import Patience, TargetTable
from sinkql.errors import SinkqlError

_PATIENCE = Patience(tries=2)  # a user waits for the statement


def find(
    statement: ast.CreateSink, sink: logical.Sink, access: OutsideAccess, *, job: physical.Job | None = None
) -> logical.Facts:
    """Return `{"table": None}`, or the table's uuid, columns and location; raise as a run of the sink would.

    `job` is set for an existing sink, whose next claim may give the table other columns.
    """
    connection, options = access.connection(sink.connection), IcebergSink.from_plan(sink.options)
    try:
        stores = stores_of(connection.options, access.store, access.store(sink.store) if sink.store else None)
        catalog = open_catalog(connection.name, connection.options, access, stores)
        target = TargetTable(
            catalog,
            options.namespace,
            options.table,
            connection.name,
            patience=_PATIENCE,
            branch=options.branch,
        )
        try:
            table = target.load()
        except NoSuchTableError:
            return {"table": None}
        columns = tuple(physical.Column(column.name, column.type, column.nullable) for column in sink.shape.columns)
        expected = Expected(
            columns,
            changelog=sink.changelog,
            upsert=sink.mode is logical.SinkMode.UPSERT,
            layout=Layout.from_options(options),
            version=options.format_version,
        )
        check_table(table, expected, _next_schema(table, expected, job))
        if options.existing_rows is None and count_rows(table):
            raise foreign_rows_error(table)
        return {"table": _describe(table)}
    except SinkqlError as error:
        error.span = error.span or statement.connection.span
        raise


def _next_schema(table: Table, expected: Expected, job: physical.Job | None) -> Schema | None:
    """Return the schema that the job's next claim gives the table, if columns are missing in it."""
    if job is None or not column_differences(table.schema(), expected):
        return None
    return schema_of_claim(
        table, expected, checkpoints.find(table, job.sink_id), sink=job.sink_id, switch=plan_change_of(job)
    )


def _describe(table: Table) -> dict[str, Any]:
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
    """Return up to `limit` current rows in the columns' declared types; none if the table does not exist.

    Columns that the sink's next claim adds are NULL. Raises SQ3504 if the table has incompatible columns.
    """
    table = reader.load(write, context)
    if table is not None and switch is not None:
        table = _with_claim(table, write, context.sink_id, switch)
    return reader.rows(table, columns, lambda table, names: scanned(table, names, limit))


def _with_claim(table: Table, write: physical.Write, sink: str, switch: PlanChange) -> Table:
    """Return the table with the columns that a claim gives it; unchanged if the claim would fail."""
    stored = None
    with suppress(SinkqlError):
        stored = checkpoints.find(table, sink)
    if stored is not None and stored.checkpoint.plan in switch.again:
        return table  # the refresh changes columns together with the rows
    expected = Expected(write.columns, write.changelog, write.mode == "upsert")
    return with_schema(table, schema_of_claim(table, expected, stored, sink=sink, switch=switch))
