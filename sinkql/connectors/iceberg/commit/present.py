"""A sink's table → its rows, under the names that its columns have with the sink's next claim."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
from pyiceberg.table import Table

from sinkql import physical
from sinkql.connector_api.stream import Context, PlanChange
from sinkql.connectors.iceberg.commit import checkpoint as markers
from sinkql.connectors.iceberg.commit.proposal import schema_of_claim
from sinkql.connectors.iceberg.file.scan import scanned
from sinkql.connectors.iceberg.table import reader
from sinkql.connectors.iceberg.table.evolve import with_schema
from sinkql.connectors.iceberg.table.table import Expected
from sinkql.errors import SinkqlError


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
