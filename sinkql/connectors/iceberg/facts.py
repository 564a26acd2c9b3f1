"""CREATE SINK, planned → what its catalog says of the target table: the last check before a sink is created."""

from __future__ import annotations

from typing import Any

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from sinkql import ast, logical, physical
from sinkql.connector.plan import World
from sinkql.connectors.iceberg.catalog import open_catalog
from sinkql.connectors.iceberg.table import Wanted, check, foreign_rows, rows
from sinkql.connectors.iceberg.target import Patience, Target
from sinkql.errors import SinkqlError

_PATIENCE = Patience(tries=2)  # somebody is waiting at a prompt


def find(statement: ast.CreateSink, sink: logical.Sink, world: World) -> logical.Facts:
    """Return `{"table": None}`, or the table's uuid, columns and location; raises as a run of the new sink would."""
    connection = world.connection(sink.connection)
    store = world.store(sink.aws_connection).properties() if sink.aws_connection else {}
    try:
        catalog = open_catalog(connection.name, connection.options, world.secret, store)
        target = Target(catalog, sink.options["namespace"], sink.options["table"], connection.name, patience=_PATIENCE)
        try:
            table = target.load()
        except NoSuchTableError:
            return {"table": None}
        columns = tuple(physical.Column(each.name, str(each.type), each.nullable) for each in sink.shape.columns)
        check(table, Wanted(columns, changelog=sink.changelog, upsert=sink.mode is logical.SinkMode.UPSERT))
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
