"""The tree of CREATE VIEW → ast."""

from __future__ import annotations

from sinkql import ast
from sinkql.parser import tree, value
from sinkql.parser.tree import Node, child, ident, span, the_name, the_token


def view(node: Node) -> ast.CreateView:
    """Return the statement of a `create_view` node."""
    columns, place = child(node, "columns"), child(node, "view_place")
    replica = child(place, "replica") if place is not None else None
    return ast.CreateView(
        name=the_name(node),
        query=tree.query(the_token(node, "QUERY")),
        materialized=child(node, "materialized") is not None,
        columns=tree.idents(columns) if columns is not None else (),
        cluster=tree.cluster(place) if place is not None else None,
        with_options=value.with_options(node),
        if_not_exists=child(node, "if_not_exists") is not None,
        or_replace=child(node, "replaceable") is not None,
        temporary=child(node, "temporary") is not None,
        replacement=child(node, "replacement") is not None,
        replaces=tree.child_name(node, "replaces"),
        replica=ident(the_token(replica, "NAME")) if replica is not None else None,
        span=span(node),
    )
