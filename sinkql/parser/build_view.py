"""The tree of CREATE VIEW → ast."""

from __future__ import annotations

from sinkql import ast
from sinkql.parser import tree, value
from sinkql.parser.tree import Node, child, span, the_name, the_token


def view(node: Node) -> ast.CreateView:
    """Return the statement of a `create_view` node."""
    columns = child(node, "columns")
    return ast.CreateView(
        name=the_name(node),
        query=tree.query(the_token(node, "QUERY")),
        materialized=child(node, "materialized") is not None,
        columns=tree.idents(columns) if columns is not None else (),
        cluster=tree.cluster(node),
        with_options=value.with_options(node),
        if_not_exists=child(node, "if_not_exists") is not None,
        or_replace=child(node, "replaceable") is not None,
        temporary=child(node, "temporary") is not None,
        span=span(node),
    )
