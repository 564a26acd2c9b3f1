"""Sinks that write to one place: which those are, and whether one may change columns there.

Comments on what a sink reads → the facts that a sink is made with, for the schemas that it registers.
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
    """Yield the other sinks that write to a sink's destination, as far as connectors have a name for it."""
    here = place_of(name, catalog)
    if here is not None:
        yield from (each for each in catalog.planned("SINK") if each != name and place_of(each, catalog) == here)


def check_shared_columns(name: str, after: MemoryCatalog, change: Evolution, *, moved: Container[str] = ()) -> None:
    """Raise InPlaceError where a sink changes columns under another one that does not write just those `after`.

    Of sinks in `moved` that is known already: they read something else in a moment.
    """
    if not (change.added or change.renamed or change.widened):
        return
    for other in sinks_of_destination(name, after):
        if other not in moved and columns_of(other, after) != columns_of(name, after):
            raise InPlaceError(f'sink "{short_name(other, after)}" writes other columns to the same place')


def destination_of(name: str, catalog: MemoryCatalog) -> logical.Destination | None:
    """Return what a sink writes to; None where its connector has no name for it, or it can no longer be planned."""
    sink = catalog.item(name)
    return sink.destination if isinstance(sink, logical.Sink) else None


def place_of(name: str, catalog: MemoryCatalog) -> tuple[object, ...] | None:
    """Return what tells the destination of a sink from all others, of another catalog too; None as `destination_of`."""
    sink = catalog.item(name)
    if not isinstance(sink, logical.Sink) or sink.destination is None:
        return None
    connection = catalog.item(sink.connection)
    assert isinstance(connection, logical.Connection)
    return json.dumps(connection.options, sort_keys=True), sink.destination.kind, sink.destination.path


def columns_of(name: str, catalog: MemoryCatalog) -> tuple[object, ...]:
    """Return what must be the same of two sinks that write to one place."""
    sink = catalog.item(name)
    assert isinstance(sink, logical.Sink)
    types = sorted((column.name, kept_type(column.type)) for column in sink.shape.columns)
    return sink.changelog, *types


def comments_on_input(statement: ast.Statement | None, catalog: Catalog) -> dict[str, Mapping[str, str]]:
    """Return the comment on each column of what a new sink reads, under no name that on the relation; as `comments`.

    There are none where the sink registers no schema.
    """
    if not isinstance(statement, ast.CreateSink):
        return {}
    if all(each is None or each.schema is None for each in (statement.format, statement.key_format)):
        return {}
    name = catalog.plans.resolve(statement.relation)
    entry, item = catalog.plans.entry(name), catalog.plans.item(name)
    if entry is None or not isinstance(item, logical.Source | logical.View):
        return {}
    names = ["", *(column.name for column in item.shape.columns)]
    found = {names[place]: text for (id_, place), text in catalog.comments().items() if id_ == entry.id}
    return {"comments": found} if found else {}
