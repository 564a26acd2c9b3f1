"""CREATE SINK, planned → what its catalog says of the target table: the last check before a sink is created."""

from __future__ import annotations

from typing import Any

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from sinkql import ast, logical, physical
from sinkql.connectors.iceberg.storage.access import stores_of
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.connectors.iceberg.table.layout import Layout
from sinkql.connectors.iceberg.table.table import Expected, check, foreign_rows, rows
from sinkql.connectors.iceberg.table.target import Patience, TargetTable
from sinkql.errors import SinkqlError
from sinkql.extension.plan import Access

_PATIENCE = Patience(tries=2)  # somebody is waiting at a prompt


def find(statement: ast.CreateSink, sink: logical.Sink, access: Access) -> logical.Facts:
    """Return `{"table": None}`, or the table's uuid, columns and location; raises as a run of the new sink would."""
    connection = access.connection(sink.connection)
    try:
        stores = stores_of(connection.options, access.store, access.store(sink.store) if sink.store else None)
        catalog = open_catalog(connection.name, connection.options, access.secret, stores)
        target = TargetTable(
            catalog, sink.options["namespace"], sink.options["table"], connection.name, patience=_PATIENCE
        )
        try:
            table = target.load()
        except NoSuchTableError:
            return {"table": None}
        columns = tuple(physical.Column(each.name, str(each.type), each.nullable) for each in sink.shape.columns)
        check(
            table,
            Expected(
                columns,
                changelog=sink.changelog,
                upsert=sink.mode is logical.SinkMode.UPSERT,
                layout=Layout.of(sink.options),
            ),
        )
        if sink.options.get("existing_rows") != "keep" and rows(table):
            raise foreign_rows(table)
        return {"table": _described(table)}
    except SinkqlError as error:
        error.span = error.span or statement.connection.span
        raise


def _described(table: Table) -> dict[str, Any]:
    return {
        "uuid": str(table.metadata.table_uuid),
        "location": table.location(),
        "columns": {field.name: str(field.field_type) for field in table.schema().fields},
    }
