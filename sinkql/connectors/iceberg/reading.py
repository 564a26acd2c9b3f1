"""A sink's table → lines to read it with in DuckDB and PyIceberg, and its rows."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from sqlalchemy.engine import make_url

from sinkql import physical
from sinkql.connector.stream import Context
from sinkql.connector.types import arrow_type
from sinkql.connectors.iceberg.catalog import CATALOG_NAME, local_folder, open_catalog


def rows(write: physical.Write, context: Context, columns: tuple[physical.Column, ...], limit: int) -> pa.Table:
    """Return up to `limit` rows of the table as they are now, in the columns' declared types; none without a table."""
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in columns])
    table = _table(write, context)
    if table is None:
        return schema.empty_table()
    found = table.scan(selected_fields=tuple(schema.names), limit=limit).to_arrow()
    arrays = [_declared(found.column(field.name), field.type) for field in schema]
    return pa.table(arrays, schema=schema)


def _declared(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Return a column in its declared type; a uuid that the table keeps as bytes becomes its text."""
    if pa.types.is_string(type_) and (pa.types.is_fixed_size_binary(column.type) or column.type == pa.uuid()):
        texts = [None if value is None else str(_uuid(value)) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, type_)])
    return column.cast(type_)


def _uuid(value: bytes | uuid.UUID) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=value)


def count_rows(write: physical.Write, context: Context) -> int | None:
    """Return how many rows the table has by its present snapshot, None without a table or without that number."""
    table = _table(write, context)
    snapshot = table.current_snapshot() if table is not None else None
    if table is None or snapshot is None or snapshot.summary is None:
        return None if table is None else 0
    total, deleted = snapshot.summary["total-records"], snapshot.summary["total-position-deletes"]
    return None if total is None else int(total) - int(deleted or 0)


def lines(write: physical.Write, context: Context) -> list[str]:
    """Return how to read the table: a line of SQL for DuckDB and one of Python for PyIceberg; none without a table.

    No secret is in them.
    """
    options = write.connection.options
    namespace, name = write.options["namespace"], write.options["table"]
    if options["catalog_type"] == "memory":
        return []
    table = _table(write, context)
    if table is None:
        return []
    if options["catalog_type"] == "sql":
        folder = local_folder(table.location())
        url = make_url(table.catalog.properties["uri"]).difference_update_query(["timeout"])
        if url.get_backend_name() == "sqlite" and url.database:
            url = url.set(database=str(Path(url.database).resolve()))
        properties = {"type": "sql", "uri": url.render_as_string(hide_password=True)}
        duckdb = f"SELECT * FROM iceberg_scan('{folder}') LIMIT 10;" if folder is not None else None
    else:
        properties = {"type": "rest", "uri": options["url"], "warehouse": options.get("warehouse") or ""}
        duckdb = (
            f"ATTACH '{properties['warehouse']}' AS lake (TYPE iceberg, ENDPOINT '{options['url']}'); "
            f'SELECT * FROM lake."{namespace}"."{name}" LIMIT 10;'
        )
    arguments = ", ".join(f"{key}={value!r}" for key, value in properties.items() if value)
    python = (
        f"from pyiceberg.catalog import load_catalog; print(load_catalog({CATALOG_NAME!r}, {arguments})"
        f".load_table({f'{namespace}.{name}'!r}).scan(limit=10).to_arrow().to_pylist())"
    )
    return [*([f"DuckDB:    {duckdb}"] if duckdb else []), f"PyIceberg: {python}"]


def _identifier(write: physical.Write) -> tuple[str, ...]:
    return (*write.options["namespace"].split("."), write.options["table"])


def _table(write: physical.Write, context: Context) -> Table | None:
    storage = context.store(write.aws_connection).properties() if write.aws_connection is not None else None
    catalog = open_catalog(write.connection.name, write.connection.options, context.secret, storage)
    try:
        return catalog.load_table(_identifier(write))
    except NoSuchTableError:
        return None
