"""A planned sink → what its catalog says of the target table: the last check before it is created, or altered."""

from __future__ import annotations

from typing import Any

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from sinkql import ast, logical, physical
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connector_api.stream import plan_change_of
from sinkql.connectors.iceberg.commit import checkpoint as markers
from sinkql.connectors.iceberg.commit.proposal import schema_of_claim
from sinkql.connectors.iceberg.storage.access import stores_of
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.schema import Layout
from sinkql.connectors.iceberg.table.table import Expected, check, compare, foreign_rows, rows
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
        columns = tuple(physical.Column(each.name, str(each.type), each.nullable) for each in sink.shape.columns)
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
