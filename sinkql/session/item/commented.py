"""Comments on what a sink reads → the facts that a sink is made with, for the schemas that it registers."""

from __future__ import annotations

from collections.abc import Mapping

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog


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
