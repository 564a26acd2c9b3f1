"""Find the sinks of one destination and check that a column change fits all of them.

Also collect the comments on a sink's input, which become facts for the schemas that the sink registers.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import MemoryCatalog
from sinkql.connector_api.types import kept_type
from sinkql.physical.evolution import Evolution, InPlaceError
from sinkql.planner.name import short_name


def sinks_of_destination(name: str, catalog: MemoryCatalog) -> Iterator[str]:
    """Yield all further sinks of a sink's destination. Yield none if the connector does not name destinations."""
    identity = place_of(name, catalog)
    if identity is not None:
        yield from (sink for sink in catalog.planned("SINK") if sink != name and place_of(sink, catalog) == identity)


def check_shared_columns(name: str, after: MemoryCatalog, change: Evolution, *, moved: Container[str] = ()) -> None:
    """Raise InPlaceError if a sink changes columns that another sink of its destination does not write `after`.

    Sinks in `moved` are checked separately, as they read another relation next.
    """
    if not (change.added or change.renamed or change.widened):
        return
    for other in sinks_of_destination(name, after):
        if other not in moved and columns_of(other, after) != columns_of(name, after):
            raise InPlaceError(f'sink "{short_name(other, after)}" writes other columns to the same destination')


def destination_of(name: str, catalog: MemoryCatalog) -> logical.Destination | None:
    """Return the destination of a sink, None if its connector names none or the sink no longer plans."""
    sink = catalog.item(name)
    return sink.destination if isinstance(sink, logical.Sink) else None


def place_of(name: str, catalog: MemoryCatalog) -> tuple[object, ...] | None:
    """Return a key of a sink's destination, comparable across catalogs; None as in `destination_of`."""
    sink = catalog.item(name)
    if not isinstance(sink, logical.Sink) or sink.destination is None:
        return None
    connection = logical.get_item(catalog, sink.connection, logical.Connection)
    return json.dumps(connection.options, sort_keys=True), sink.destination.kind, sink.destination.path


def columns_of(name: str, catalog: MemoryCatalog) -> tuple[object, ...]:
    """Return the changelog and columns, which two sinks of one destination must share."""
    sink = logical.get_item(catalog, name, logical.Sink)
    types = sorted((column.name, kept_type(column.type)) for column in sink.shape.columns)
    return sink.changelog, *types


def comments_on_input(statement: ast.Statement | None, catalog: Catalog) -> dict[str, Mapping[str, str]]:
    """Return the fact `comments`: comments by column of a new sink's input, the relation's under the empty name.

    Return no fact if the sink registers no schema.
    """
    if not isinstance(statement, ast.CreateSink):
        return {}
    if all(encoding is None or encoding.schema is None for encoding in (statement.format, statement.key_format)):
        return {}
    name = catalog.plans.resolve(statement.relation)
    entry, item = catalog.plans.entry(name), catalog.plans.item(name)
    if entry is None or not isinstance(item, logical.Source | logical.View):
        return {}
    names = ["", *(column.name for column in item.shape.columns)]
    comments = {names[place]: text for (id_, place), text in catalog.comments().items() if id_ == entry.id}
    return {"comments": comments} if comments else {}
